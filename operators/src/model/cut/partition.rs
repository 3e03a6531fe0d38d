//! Writes a range of layers as a model of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::error::CutError;
use super::fields as field;
use super::graph::Network;
use super::liveness::Liveness;
use super::node::Node;
use super::value_info::ValueInfo;
use crate::model::protobuf::{Field, Message};

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
        network.outputs.iter().map(|(name, _)| *name).collect()
    } else {
        liveness.crossing(layers.end)
    };
    let mut graph = Message::default();
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
    graph
        .fields
        .extend(nodes.map(|node| Field::bytes(field::GRAPH_NODE, node.bytes)));
    graph.fields.push(Field::bytes(field::GRAPH_NAME, &b"part"[..]));
    for (number, bytes) in dependencies.weights.values() {
        graph.fields.push(Field::bytes(*number, *bytes));
    }
    let received = dependencies.received.iter().filter(|name| {
        // An output of the model that an earlier partition computed is passed through without the runtime.
        inside.iter().any(|layer| layer.inputs.contains(name))
    });
    for name in received {
        let value = declared(&network.inputs, value_infos, name)?;
        graph.fields.push(Field::bytes(field::GRAPH_INPUT, value));
    }
    let constant = |name: &str| network.constants.contains_key(name) || network.weights.contains_key(name);
    for name in sends.iter().filter(|name| made.contains(*name) || constant(name)) {
        let value = declared(&network.outputs, value_infos, name)?;
        graph.fields.push(Field::bytes(field::GRAPH_OUTPUT, value));
    }
    let mut model = Message {
        fields: network.head.clone(),
    };
    model.fields.push(Field::bytes(field::MODEL_GRAPH, graph.write()));
    model.fields.push(metadata(SENDS, &sends.join("\n")));
    if last {
        model.fields.push(metadata(LAST, "1"));
    }
    Ok(model.write())
}

/// Weights and nodes that a partition includes, and values that it receives.
#[derive(Default)]
struct Dependencies<'a> {
    weights: BTreeMap<&'a str, (u32, &'a [u8])>,
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
fn declared(
    values: &[(&str, &[u8])],
    value_infos: &BTreeMap<String, ValueInfo>,
    name: &str,
) -> Result<Vec<u8>, CutError> {
    match values.iter().find(|(declared, _)| *declared == name) {
        Some((_, bytes)) => Ok(bytes.to_vec()),
        None => value_infos
            .get(name)
            .map(|info| info.value(name))
            .ok_or_else(|| CutError::Unknown(name.to_owned())),
    }
}

fn metadata(key: &str, value: &str) -> Field<'static> {
    let entry = Message {
        fields: vec![
            Field::bytes(field::METADATA_KEY, key.as_bytes()),
            Field::bytes(field::METADATA_VALUE, value.as_bytes()),
        ],
    };
    Field::bytes(field::MODEL_METADATA, entry.write())
}

/// A value of a model's metadata.
pub(crate) fn read_metadata(model: &[u8], key: &str) -> Option<String> {
    let model = Message::read(model)?;
    model
        .all(field::MODEL_METADATA)
        .filter_map(Message::read)
        .find(|entry| entry.text(field::METADATA_KEY) == Some(key))
        .and_then(|entry| entry.text(field::METADATA_VALUE).map(str::to_owned))
}
