//! Sums that the runtime fuses into the preceding convolution: the ends of residual blocks, on a CPU.
//!
//! They are fused where both operands are in the runtime's blocked layout of channels. A tensor received from another
//! partition is not, so a cut that an operand crosses changes the order in which the sum is rounded.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::error::CutError;
use super::layer_profile::BLOCKED;
use super::onnx_layers::OnnxLayers;
use crate::model::onnx::ModelProto;
use crate::model::runtime::Optimization;

/// Inputs of a blocked convolution that adds the last of them.
const WITH_SUM: usize = 4;

impl OnnxLayers {
    /// For each fused sum, the boundaries that one of its operands crosses, each by the layer after it.
    pub(crate) fn fused_sums(&self) -> Result<Vec<Range<usize>>, CutError> {
        let fused = fused(&self.optimized(Optimization::All)?);
        let network = self.network()?;
        let mut defined: BTreeMap<&str, usize> =
            network.inputs.iter().map(|input| (input.name(), 0)).collect();
        let mut spans = Vec::new();
        for (index, layer) in network.layers.iter().enumerate() {
            if layer.inputs.iter().any(|input| fused.contains(*input)) {
                let operands = layer.inputs.iter().filter_map(|input| defined.get(input));
                spans.push(operands.min().copied().unwrap_or(index)..index + 1);
            }
            defined.extend(layer.outputs.iter().map(|output| (*output, index + 1)));
        }
        Ok(spans)
    }
}

/// Outputs of convolutions into which the runtime fused a sum.
fn fused(optimized: &ModelProto) -> BTreeSet<String> {
    let nodes = optimized.graph.iter().flat_map(|graph| &graph.node);
    let convolutions = nodes.filter(|node| {
        let sum = node.input.get(WITH_SUM - 1);
        node.op_type() == "Conv" && sum.is_some_and(|sum| !sum.is_empty())
    });
    convolutions
        .filter_map(|node| node.name().rsplit_once(BLOCKED))
        .map(|(value, _)| value.to_owned())
        .collect()
}
