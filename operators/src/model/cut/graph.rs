//! An ONNX file as layers: nodes in topological order that depend on an input.
//!
//! Weights, and nodes computed from weights alone, belong to no layer: each partition includes those that it uses.
//! Nodes that no output depends on are removed.

use std::collections::{BTreeMap, BTreeSet};

use super::error::CutError;
use super::fields as field;
use super::node::Node;
use super::topological;
use crate::model::protobuf::{Field, Message};

/// Operators whose output differs from run to run with equal inputs.
const RANDOM: [&str; 6] = [
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Multinomial",
    "Bernoulli",
];

/// A parsed model.
#[derive(Debug)]
pub(crate) struct Network<'a> {
    /// Fields of the model besides the graph: versions, operator sets, functions.
    pub(super) head: Vec<Field<'a>>,
    /// Layers in topological order.
    pub(crate) layers: Vec<Node<'a>>,
    /// Nodes that depend on weights alone, by the values that they produce.
    pub(super) constants: BTreeMap<&'a str, Node<'a>>,
    /// Weights by name: their field number and message.
    pub(super) weights: BTreeMap<&'a str, (u32, &'a [u8])>,
    /// Inputs as they are declared.
    pub(super) inputs: Vec<(&'a str, &'a [u8])>,
    /// Outputs as they are declared.
    pub(super) outputs: Vec<(&'a str, &'a [u8])>,
}

impl<'a> Network<'a> {
    /// Parses a file.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, CutError> {
        let model = Message::read(bytes).ok_or(CutError::NoModel)?;
        let graph = model
            .fields
            .iter()
            .find(|entry| entry.number == field::MODEL_GRAPH)
            .and_then(Field::borrowed)
            .and_then(Message::read)
            .ok_or(CutError::NoModel)?;
        let weights = weights(&graph)?;
        let mut nodes = Vec::new();
        for bytes in all(&graph, field::GRAPH_NODE) {
            nodes.push(node(bytes)?);
        }
        let inputs = values(&graph, field::GRAPH_INPUT)?
            .into_iter()
            // Old files list weights among the inputs.
            .filter(|(name, _)| !weights.contains_key(name))
            .collect::<Vec<_>>();
        let outputs = values(&graph, field::GRAPH_OUTPUT)?;
        let known = inputs
            .iter()
            .map(|(name, _)| *name)
            .chain(weights.keys().copied());
        let nodes = topological::topological_order(nodes, known)?;
        let (constants, nodes) = constants(nodes, &weights);
        let layers = wanted(nodes, outputs.iter().map(|(name, _)| *name));
        if layers.is_empty() {
            return Err(CutError::NoLayers);
        }
        let head = model.fields.into_iter();
        Ok(Self {
            head: head.filter(|entry| entry.number != field::MODEL_GRAPH).collect(),
            layers,
            constants,
            weights,
            inputs,
            outputs,
        })
    }
}

/// All messages in fields of that number.
fn all<'a>(message: &Message<'a>, number: u32) -> impl Iterator<Item = &'a [u8]> {
    let fields = message.fields.iter();
    fields
        .filter(move |entry| entry.number == number)
        .filter_map(Field::borrowed)
}

fn texts<'a>(message: &Message<'a>, number: u32) -> Vec<&'a str> {
    all(message, number)
        .filter_map(|bytes| std::str::from_utf8(bytes).ok())
        .collect()
}

fn values<'a>(graph: &Message<'a>, number: u32) -> Result<Vec<(&'a str, &'a [u8])>, CutError> {
    let value = |bytes: &'a [u8]| {
        let name = texts(&Message::read(bytes)?, field::VALUE_NAME);
        Some((*name.first()?, bytes))
    };
    all(graph, number)
        .map(|bytes| value(bytes).ok_or(CutError::NoModel))
        .collect()
}

fn weights<'a>(graph: &Message<'a>) -> Result<BTreeMap<&'a str, (u32, &'a [u8])>, CutError> {
    let mut weights = BTreeMap::new();
    for bytes in all(graph, field::GRAPH_INITIALIZER) {
        let tensor = Message::read(bytes).ok_or(CutError::NoModel)?;
        let name = *texts(&tensor, field::TENSOR_NAME)
            .first()
            .ok_or(CutError::NoModel)?;
        let location = tensor.first(field::TENSOR_LOCATION).and_then(Field::as_varint);
        if location == Some(field::EXTERNAL) {
            return Err(CutError::External(name.to_owned()));
        }
        weights.insert(name, (field::GRAPH_INITIALIZER, bytes));
    }
    for bytes in all(graph, field::GRAPH_SPARSE_INITIALIZER) {
        // A sparse tensor has the name of its values, which come first.
        let name = Message::read(bytes)
            .and_then(|sparse| Message::read(all(&sparse, 1).next()?))
            .and_then(|values| texts(&values, field::TENSOR_NAME).first().copied())
            .ok_or(CutError::NoModel)?;
        weights.insert(name, (field::GRAPH_SPARSE_INITIALIZER, bytes));
    }
    Ok(weights)
}

fn node(bytes: &[u8]) -> Result<Node<'_>, CutError> {
    let message = Message::read(bytes).ok_or(CutError::NoModel)?;
    let outputs = texts(&message, field::NODE_OUTPUT);
    let op = texts(&message, field::NODE_OP)
        .first()
        .copied()
        .unwrap_or_default();
    let name = match message.text(field::NODE_NAME).filter(|name| !name.is_empty()) {
        Some(name) => name.to_owned(),
        None => format!("{op} of {}", outputs.first().copied().unwrap_or_default()),
    };
    for attribute in message.all(field::NODE_ATTRIBUTE).filter_map(Message::read) {
        let inner = [field::ATTRIBUTE_GRAPH, field::ATTRIBUTE_GRAPHS];
        if inner.iter().any(|number| attribute.first(*number).is_some()) {
            return Err(CutError::ControlFlow {
                node: name,
                op: op.to_owned(),
            });
        }
    }
    Ok(Node {
        name,
        op,
        inputs: present(texts(&message, field::NODE_INPUT)),
        outputs: present(outputs),
        bytes,
    })
}

/// Omitted optional values have an empty name.
fn present(names: Vec<&str>) -> Vec<&str> {
    names.into_iter().filter(|name| !name.is_empty()).collect()
}

/// Splits sorted nodes into those that depend on weights alone and the others.
fn constants<'a>(
    nodes: Vec<Node<'a>>,
    weights: &BTreeMap<&'a str, (u32, &'a [u8])>,
) -> (BTreeMap<&'a str, Node<'a>>, Vec<Node<'a>>) {
    let mut constants = BTreeMap::new();
    let mut rest = Vec::new();
    for node in nodes {
        let known = |name: &&str| weights.contains_key(name) || constants.contains_key(name);
        if node.inputs.iter().all(known) && !RANDOM.contains(&node.op) {
            for output in &node.outputs {
                constants.insert(*output, node.clone());
            }
        } else {
            rest.push(node);
        }
    }
    (constants, rest)
}

/// The sorted nodes that an output depends on.
fn wanted<'a>(nodes: Vec<Node<'a>>, outputs: impl Iterator<Item = &'a str>) -> Vec<Node<'a>> {
    let mut wanted: BTreeSet<&str> = outputs.collect();
    let mut kept: Vec<Node<'a>> = Vec::new();
    for node in nodes.into_iter().rev() {
        if node.outputs.iter().any(|output| wanted.contains(output)) {
            wanted.extend(&node.inputs);
            kept.push(node);
        }
    }
    kept.reverse();
    kept
}
