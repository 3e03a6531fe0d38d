//! Sums that the runtime fuses into the preceding convolution: the ends of residual blocks, on a CPU.
//!
//! They are fused where both operands are in the runtime's blocked layout of channels. A tensor received from another
//! partition is not, so a cut that an operand crosses changes the order in which the sum is rounded.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::error::CutError;
use super::fields as field;
use super::graph::Network;
use super::layer_profile::BLOCKED;
use super::onnx_layers::OnnxLayers;
use crate::model::protobuf::{Field, Message};
use crate::model::runtime::Optimization;

/// Inputs of a blocked convolution that adds the last of them.
const WITH_SUM: usize = 4;

impl OnnxLayers {
    /// For each fused sum, the boundaries that one of its operands crosses, each by the layer after it.
    pub(crate) fn fused_sums(&self) -> Result<Vec<Range<usize>>, CutError> {
        let optimized = self.optimized(Optimization::All)?;
        let fused = fused(&optimized)?;
        let network = Network::read(&self.bytes)?;
        let mut defined: BTreeMap<&str, usize> = network.inputs.iter().map(|(name, _)| (*name, 0)).collect();
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
fn fused(optimized: &[u8]) -> Result<BTreeSet<String>, CutError> {
    let model = Message::read(optimized).ok_or(CutError::NoModel)?;
    let graph = model.first(field::MODEL_GRAPH).and_then(Field::as_bytes);
    let graph = graph.and_then(Message::read).ok_or(CutError::NoModel)?;
    let mut values = BTreeSet::new();
    for node in graph.all(field::GRAPH_NODE).filter_map(Message::read) {
        let inputs: Vec<&[u8]> = node.all(field::NODE_INPUT).collect();
        if node.text(field::NODE_OP) != Some("Conv")
            || inputs.get(WITH_SUM - 1).is_none_or(|sum| sum.is_empty())
        {
            continue;
        }
        let name = node.text(field::NODE_NAME).unwrap_or_default();
        values.extend(name.rsplit_once(BLOCKED).map(|(value, _)| value.to_owned()));
    }
    Ok(values)
}
