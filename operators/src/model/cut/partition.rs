//! Writes a range of layers as a model of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use prost::Message;

use super::error::CutError;
use super::graph::{Network, Weight};
use super::liveness::Liveness;
use super::node::Node;
use super::value_info::ValueInfo;
use crate::model::onnx::{GraphProto, ModelProto, StringStringEntryProto, ValueInfoProto};

/// Metadata key of a partition: names of the values that it sends, in order, one per line. Values that it does not
/// compute itself are passed through.
pub(crate) const SENDS: &str = "weir.sends";
/// Metadata key that only the last partition has: it sends the outputs of the whole model.
pub(crate) const LAST: &str = "weir.last";

/// The layers of that range as an ONNX file. `value_infos` describe all values that cross.
pub(crate) fn partition(
    network: &Network<'_>,
    liveness: &Liveness<'_>,
    value_infos: &BTreeMap<String, ValueInfo>,
    layers: Range<usize>,
) -> Result<Vec<u8>, CutError> {
    let count = network.layers.len();
    if layers.is_empty() || layers.end > count {
        return Err(CutError::Range {
            from: layers.start,
            to: layers.end,
            layers: count,
        });
    }
    let last = layers.end == count;
    let sends: Vec<&str> = if last {
        network.outputs.iter().map(ValueInfoProto::name).collect()
    } else {
        liveness.crossing(layers.end)
    };
    let mut dependencies = Dependencies::default();
    let inside = &network.layers[layers];
    let made: BTreeSet<&str> = inside.iter().flat_map(|layer| &layer.outputs).copied().collect();
    let read = inside.iter().flat_map(|layer| &layer.inputs);
    for name in read.chain(sends.iter().filter(|_| last)) {
        if !made.contains(name) {
            dependencies.add(network, name);
        }
    }
    let nodes = dependencies.nodes.iter().chain(inside);
    let mut graph = GraphProto {
        node: nodes.map(|node| node.proto.clone()).collect(),
        name: Some("part".to_owned()),
        ..GraphProto::default()
    };
    for weight in dependencies.weights.values() {
        match *weight {
            Weight::Dense(tensor) => graph.initializer.push(tensor.clone()),
            Weight::Sparse(sparse) => graph.sparse_initializer.push(sparse.clone()),
        }
    }
    let received = dependencies.received.iter().filter(|name| {
        // An output of the model that an earlier partition computed is passed through without the runtime.
        inside.iter().any(|layer| layer.inputs.contains(name))
    });
    for name in received {
        let inputs = network.inputs.iter().copied();
        graph.input.push(declared(inputs, value_infos, name)?);
    }
    let constant = |name: &str| network.constants.contains_key(name) || network.weights.contains_key(name);
    for name in sends.iter().filter(|name| made.contains(*name) || constant(name)) {
        let outputs = network.outputs.iter();
        graph.output.push(declared(outputs, value_infos, name)?);
    }
    let whole = network.model;
    let mut metadata_props = whole.metadata_props.clone();
    metadata_props.push(StringStringEntryProto::new(SENDS, sends.join("\n")));
    if last {
        metadata_props.push(StringStringEntryProto::new(LAST, "1"));
    }
    let model = ModelProto {
        graph: Some(graph),
        metadata_props,
        ir_version: whole.ir_version,
        producer_name: whole.producer_name.clone(),
        producer_version: whole.producer_version.clone(),
        domain: whole.domain.clone(),
        model_version: whole.model_version,
        doc_string: whole.doc_string.clone(),
        opset_import: whole.opset_import.clone(),
        training_info: whole.training_info.clone(),
        functions: whole.functions.clone(),
        configuration: whole.configuration.clone(),
    };
    Ok(model.encode_to_vec())
}

/// Weights and nodes that a partition includes, and values that it receives.
#[derive(Default)]
struct Dependencies<'a> {
    weights: BTreeMap<&'a str, Weight<'a>>,
    nodes: Vec<Node<'a>>,
    given: BTreeSet<&'a str>,
    received: Vec<&'a str>,
}

impl<'a> Dependencies<'a> {
    /// Adds a value: weights, and what is computed from them alone, are included; anything else is received.
    fn add(&mut self, network: &Network<'a>, name: &'a str) {
        // An explicit stack instead of recursion, so that no file can exhaust the thread's stack. A node is added once
        // all its inputs are present.
        let mut open = vec![(name, false)];
        while let Some((name, ready)) = open.pop() {
            if let Some(node) = network.constants.get(name) {
                if ready {
                    self.nodes.push(node.clone());
                } else if !self.given.contains(name) {
                    self.given.extend(&node.outputs);
                    open.push((name, true));
                    open.extend(node.inputs.iter().map(|input| (*input, false)));
                }
            } else if let Some(weight) = network.weights.get(name) {
                self.weights.insert(name, *weight);
            } else if !self.received.contains(&name) {
                self.received.push(name);
            }
        }
    }
}

/// The value as the model declares it, else from its measured info.
fn declared<'a>(
    mut values: impl Iterator<Item = &'a ValueInfoProto>,
    value_infos: &BTreeMap<String, ValueInfo>,
    name: &str,
) -> Result<ValueInfoProto, CutError> {
    let measured = || value_infos.get(name).map(|info| info.value(name));
    let declared = values.find(|value| value.name() == name);
    declared
        .cloned()
        .or_else(measured)
        .ok_or_else(|| CutError::Unknown(name.to_owned()))
}
