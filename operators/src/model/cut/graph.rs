//! An ONNX file as layers: nodes in topological order that depend on an input.
//!
//! Weights, and nodes computed from weights alone, belong to no layer: each partition includes those that it uses.
//! Nodes that no output depends on are removed.

use std::collections::{BTreeMap, BTreeSet};

use super::error::CutError;
use super::node::Node;
use super::topological;
use crate::model::onnx::{
    EXTERNAL, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, ValueInfoProto,
};

/// Operators whose output differs from run to run with equal inputs.
const RANDOM: [&str; 6] = [
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Multinomial",
    "Bernoulli",
];

/// Weights, dense or sparse.
#[derive(Debug, Clone, Copy)]
pub(super) enum Weight<'a> {
    Dense(&'a TensorProto),
    Sparse(&'a SparseTensorProto),
}

/// A model as layers.
#[derive(Debug)]
pub(crate) struct Network<'a> {
    pub(super) model: &'a ModelProto,
    /// Layers in topological order.
    pub(crate) layers: Vec<Node<'a>>,
    /// Nodes that depend on weights alone, by the values that they produce.
    pub(super) constants: BTreeMap<&'a str, Node<'a>>,
    pub(super) weights: BTreeMap<&'a str, Weight<'a>>,
    /// Inputs as they are declared, without weights.
    pub(super) inputs: Vec<&'a ValueInfoProto>,
    /// Outputs as they are declared.
    pub(super) outputs: &'a [ValueInfoProto],
}

impl<'a> Network<'a> {
    /// Finds the layers of a model.
    pub(crate) fn of(model: &'a ModelProto) -> Result<Self, CutError> {
        let graph = model.graph.as_ref().ok_or(CutError::NoModel)?;
        let weights = weights(graph)?;
        let nodes = graph.node.iter().map(node).collect::<Result<_, _>>()?;
        if graph
            .input
            .iter()
            .chain(&graph.output)
            .any(|value| value.name.is_none())
        {
            return Err(CutError::NoModel);
        }
        // Old files list weights among the inputs.
        let is_given = |input: &&ValueInfoProto| !weights.contains_key(input.name());
        let inputs: Vec<&ValueInfoProto> = graph.input.iter().filter(is_given).collect();
        let known = inputs.iter().map(|input| input.name());
        let nodes = topological::topological_order(nodes, known.chain(weights.keys().copied()))?;
        let (constants, nodes) = constants(nodes, &weights);
        let layers = wanted(nodes, graph.output.iter().map(ValueInfoProto::name));
        if layers.is_empty() {
            return Err(CutError::NoLayers);
        }
        Ok(Self {
            model,
            layers,
            constants,
            weights,
            inputs,
            outputs: &graph.output,
        })
    }

    /// Whether an input has that name.
    pub(super) fn has_input(&self, name: &str) -> bool {
        self.inputs.iter().any(|input| input.name() == name)
    }
}

fn weights(graph: &GraphProto) -> Result<BTreeMap<&str, Weight<'_>>, CutError> {
    let mut weights = BTreeMap::new();
    for tensor in &graph.initializer {
        let name = tensor.name.as_deref().ok_or(CutError::NoModel)?;
        if tensor.data_location() == EXTERNAL {
            return Err(CutError::External(name.to_owned()));
        }
        weights.insert(name, Weight::Dense(tensor));
    }
    for sparse in &graph.sparse_initializer {
        // A sparse tensor has the name of its values.
        let values = sparse.values.as_ref();
        let name = values
            .and_then(|values| values.name.as_deref())
            .ok_or(CutError::NoModel)?;
        weights.insert(name, Weight::Sparse(sparse));
    }
    Ok(weights)
}

fn node(proto: &NodeProto) -> Result<Node<'_>, CutError> {
    let op = proto.op_type();
    let name = match proto.name() {
        "" => format!("{op} of {}", proto.output.first().map_or("", String::as_str)),
        name => name.to_owned(),
    };
    let mut attributes = proto.attribute.iter();
    if attributes.any(|attribute| attribute.g.is_some() || !attribute.graphs.is_empty()) {
        let op = op.to_owned();
        return Err(CutError::ControlFlow { node: name, op });
    }
    Ok(Node {
        name,
        op,
        inputs: present(&proto.input),
        outputs: present(&proto.output),
        proto,
    })
}

/// Omitted optional values have an empty name.
fn present(names: &[String]) -> Vec<&str> {
    names
        .iter()
        .map(String::as_str)
        .filter(|name| !name.is_empty())
        .collect()
}

/// Splits sorted nodes into those that depend on weights alone and the others.
fn constants<'a>(
    nodes: Vec<Node<'a>>,
    weights: &BTreeMap<&'a str, Weight<'a>>,
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
