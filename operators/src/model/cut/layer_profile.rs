//! Times of layers, and the layers that the runtime fuses, as the runtime itself reports them.
//!
//! Times are taken from the runtime's profile with all its optimisations, since fused layers and other layouts are what
//! will run. For that, nodes are renamed after their layer. An event belongs to the layer whose mark its name contains
//! (a fused node has the mark of one of its layers, which is charged for all); after a change of layout, a node has the
//! name of its output, so the layer of that value is charged; what the runtime inserted (a change of layout, say) is
//! charged to the next layer.
//!
//! Layers are fused where the value between them disappears under the optimisations that the runtime makes on any
//! machine: a cut there would undo the fusion, and change results of quantised models.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use prost::bytes::Bytes;
use serde::Deserialize;
use weir_flow::{DeviceKind, Element, Tensor};

use super::error::CutError;
use super::liveness::Liveness;
use super::onnx_layers::OnnxLayers;
use crate::model::onnx::ModelProto;
use crate::model::runtime::{Optimization, OrtSession, SessionOptions};

/// Begins a layer's mark in the name of a node; a full stop ends it.
const MARK: &str = "weir_layer_";
/// Suffix of events that hold the time of a layer.
const KERNEL: &str = "_kernel_time";
/// Suffix of nodes after a change of layout.
pub(super) const BLOCKED: &str = "_nchwc";
/// Name of the event that ends a run.
const RUN: &str = "model_run";

impl OnnxLayers {
    /// Microseconds of each layer for a batch `inputs`: the median of `runs` runs, after one for warm-up.
    pub(crate) fn layer_times_us(
        &self,
        inputs: &[Tensor],
        threads: usize,
        runs: usize,
    ) -> Result<Vec<u64>, CutError> {
        let folder = tempfile::tempdir().map_err(|error| unwritable(&error))?;
        let prefix = folder.path().join("profile");
        let options = SessionOptions {
            threads,
            profile: Some(&prefix),
            ..SessionOptions::default()
        };
        let mut session = OrtSession::open_with(&self.with_layer_marks()?, DeviceKind::Cpu, &options)?;
        for _ in 0..=runs.max(1) {
            run(&mut session, inputs)?;
        }
        let file = session.end_profile().map_err(CutError::Runtime)?;
        let text = std::fs::read(file).map_err(|error| unwritable(&error))?;
        let events: Vec<Event> = serde_json::from_slice(&text)
            .map_err(|error| CutError::Runtime(format!("the runtime's profile cannot be read: {error}")))?;
        let network = self.network()?;
        let mut givers = BTreeMap::new();
        for (index, layer) in network.layers.iter().enumerate() {
            givers.extend(layer.outputs.iter().map(|output| (*output, index)));
        }
        let mut runs = by_layer(&events, &givers, self.layers);
        if runs.len() > 1 {
            runs.remove(0);
        }
        Ok((0..self.layers)
            .map(|layer| {
                let mut times: Vec<u64> = runs.iter().map(|run| run[layer]).collect();
                times.sort_unstable();
                times.get(times.len() / 2).copied().unwrap_or_default()
            })
            .collect())
    }

    /// Whether each boundary can be cut without undoing a fusion: `[i]` is between layers `i` and `i + 1`.
    pub(crate) fn unfused_boundaries(&self) -> Result<Vec<bool>, CutError> {
        let left = values(self.optimized(Optimization::Fused)?);
        let network = self.network()?;
        let liveness = Liveness::of(&network);
        let is_there = |name: &&str| left.contains(*name) || network.has_input(name);
        Ok((1..self.layers)
            .map(|boundary| liveness.crossing(boundary).iter().all(is_there))
            .collect())
    }

    /// The model as the runtime optimises it.
    pub(super) fn optimized(&self, optimization: Optimization) -> Result<ModelProto, CutError> {
        let folder = tempfile::tempdir().map_err(|error| unwritable(&error))?;
        let optimized = folder.path().join("edited.onnx");
        let options = SessionOptions {
            optimization,
            optimized_path: Some(&optimized),
            ..SessionOptions::default()
        };
        OrtSession::open_with(&self.bytes, DeviceKind::Cpu, &options)?;
        let bytes = std::fs::read(&optimized).map_err(|error| unwritable(&error))?;
        ModelProto::decode(Bytes::from(bytes)).map_err(|_| CutError::NoModel)
    }

    /// The model with the number of its layer in the name of each node.
    fn with_layer_marks(&self) -> Result<Vec<u8>, CutError> {
        let network = self.network()?;
        let numbers: BTreeMap<&str, usize> = network
            .layers
            .iter()
            .enumerate()
            .filter_map(|(index, layer)| Some((*layer.outputs.first()?, index)))
            .collect();
        let mut model = ModelProto::clone(&self.model);
        for node in model.graph.iter_mut().flat_map(|graph| &mut graph.node) {
            let number = node.output.iter().find_map(|name| numbers.get(name.as_str()));
            node.name = number.map(|number| format!("{MARK}{number}."));
        }
        Ok(model.encode_to_vec())
    }
}

fn run(session: &mut OrtSession, inputs: &[Tensor]) -> Result<(), CutError> {
    let fed: Vec<(&Tensor, Element)> = inputs.iter().map(|tensor| (tensor, tensor.element)).collect();
    session.run_tensors(&fed, false).map_err(CutError::Runtime)?;
    Ok(())
}

fn unwritable(error: &std::io::Error) -> CutError {
    CutError::Runtime(format!("a temporary file cannot be written or read: {error}"))
}

/// All values that nodes of an optimised model produce.
fn values(optimized: ModelProto) -> BTreeSet<String> {
    let nodes = optimized.graph.into_iter().flat_map(|graph| graph.node);
    nodes.flat_map(|node| node.output).collect()
}

/// One event of the runtime's profile.
#[derive(Debug, Deserialize)]
struct Event {
    #[serde(default)]
    name: String,
    /// Duration in microseconds.
    #[serde(default)]
    dur: u64,
}

/// Microseconds of each layer, one list per run. `givers` maps values to the layers that produce them.
fn by_layer(events: &[Event], givers: &BTreeMap<&str, usize>, layers: usize) -> Vec<Vec<u64>> {
    let mut runs = Vec::new();
    let mut times = vec![0; layers];
    // Time of inserted nodes, until the layer that they were inserted for.
    let (mut waiting, mut latest) = (0, 0);
    for event in events {
        if event.name == RUN {
            times[latest] += std::mem::take(&mut waiting);
            runs.push(std::mem::replace(&mut times, vec![0; layers]));
        } else if let Some(node) = event.name.strip_suffix(KERNEL) {
            waiting += event.dur;
            if let Some(layer) = layer(node, givers).filter(|layer| *layer < layers) {
                times[layer] += std::mem::take(&mut waiting);
                latest = layer;
            }
        }
    }
    runs
}

/// The layer of a node in the optimised graph.
fn layer(node: &str, givers: &BTreeMap<&str, usize>) -> Option<usize> {
    if let Some(value) = node.strip_suffix(BLOCKED) {
        return givers.get(value).copied();
    }
    let (_, mark) = node.split_once(MARK)?;
    mark.split_once('.')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_charged_to_their_layers() {
        let event = |(name, dur): (&str, u64)| Event {
            name: name.to_owned(),
            dur,
        };
        let events = [
            ("ReorderInput_kernel_time", 5),
            ("relu_nchwc_kernel_time", 10),
            ("weir_layer_2./QuickGeluFusion/_kernel_time", 7),
            ("weir_layer_99._kernel_time", 1),
            ("model_run", 100),
            ("weir_layer_0._token_3_kernel_time", 3),
            ("ReorderOutput_kernel_time", 2),
            ("model_run", 50),
        ];
        let events: Vec<Event> = events.into_iter().map(event).collect();
        let runs = by_layer(&events, &BTreeMap::from([("relu", 1)]), 3);
        assert_eq!(runs, [[0, 15, 8], [5, 0, 0]]);
    }
}
