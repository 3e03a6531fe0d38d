//! Cutting: an ONNX model as a chain of layers, and any range of them as a model of its own (PPipe 5.2).
//!
//! It works on the file's messages. Every value that a later layer or the user wants crosses a boundary, also those
//! that skip a part, which are passed on; weights never cross. Which layers may be separated without undoing what the
//! runtime fuses, and how long each takes, is found by [`layers`].

mod crossing;
mod fields;
mod graph;
mod kinds;
pub(crate) mod layers;
mod order;
mod part;
mod sums;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use thiserror::Error;
use weir_flow::Element;

use crossing::Crossing;
use graph::Network;
use kinds::Kind;
pub(crate) use kinds::Samples;
pub(crate) use part::{LAST, SENDS, read_metadata};

/// Why a model cannot be cut.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CutError {
    /// The bytes are no ONNX file, or a damaged one.
    #[error("it is no ONNX file, or a damaged one")]
    NoModel,
    /// Nothing in it depends on an input.
    #[error("no layer of it depends on an input")]
    NoLayers,
    /// It has control flow.
    #[error("node {node} ({op}) holds a graph of its own: a model with control flow cannot be cut")]
    ControlFlow {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
    },
    /// Weights are in another file.
    #[error("weights {0} lie in another file; save the model with its weights inside to cut it")]
    External(String),
    /// A node reads what nobody gives.
    #[error("node {node} reads {value}, which nothing gives")]
    Dangling {
        /// The node.
        node: String,
        /// The value.
        value: String,
    },
    /// Nodes wait for each other.
    #[error("node {0} waits for its own output")]
    Cycle(String),
    /// A value has no known type.
    #[error(
        "what value {0} holds is not known, or nothing that can be sent; the model cannot be cut where it crosses"
    )]
    Unknown(String),
    /// There are no such layers.
    #[error("there are no layers {from}..{to}: the model has {layers}")]
    Range {
        /// First layer.
        from: usize,
        /// The layer after the last.
        to: usize,
        /// Layers of the model.
        layers: usize,
    },
    /// Two models run on one input.
    #[error("two models that are decoded together cannot be cut")]
    Second,
    /// An input's size is not known.
    #[error("input {0} leaves sizes free besides the batch; say by a head or a side how large it is to be")]
    Free(String),
    /// An input would fill the memory.
    #[error("input {0} takes more than 1 GiB at once; the file declares it so, or the side is too large")]
    Large(String),
    /// What the runtime says.
    #[error("{0}")]
    Runtime(String),
}

/// A model as layers.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    bytes: Arc<[u8]>,
    kinds: BTreeMap<String, Kind>,
    layers: usize,
}

impl Chain {
    /// Whether the bytes are a model that can be cut, before anything is run.
    pub(crate) fn check(bytes: &[u8]) -> Result<(), CutError> {
        Network::read(bytes).map(|_| ())
    }

    /// Reads a model and finds out what its values hold.
    pub(crate) fn read(bytes: Arc<[u8]>, samples: &Samples) -> Result<Self, CutError> {
        let network = Network::read(&bytes)?;
        let crossing = Crossing::of(&network);
        let given = |name: &&str| !network.inputs.iter().any(|(input, _)| input == name);
        let names: Vec<&str> = crossing.all().filter(given).collect();
        let mut kinds = kinds::kinds(&bytes, &names, samples)?;
        for tensor in &samples.one {
            kinds.insert(tensor.name.to_string(), Kind::of_input(tensor, samples.items));
        }
        let layers = network.layers.len();
        Ok(Self { bytes, kinds, layers })
    }

    pub(crate) fn layers(&self) -> usize {
        self.layers
    }

    /// Names and operators of the layers.
    pub(crate) fn names(&self) -> Result<Vec<(String, String)>, CutError> {
        let network = Network::read(&self.bytes)?;
        let name = |layer: graph::Node<'_>| (layer.name, layer.op.to_owned());
        Ok(network.layers.into_iter().map(name).collect())
    }

    /// Bytes of one item that cross each boundary: `[i]` from layer `i` to layer `i + 1`.
    pub(crate) fn bytes(&self, half: bool) -> Result<Vec<u64>, CutError> {
        let network = Network::read(&self.bytes)?;
        let crossing = Crossing::of(&network);
        let sent = |name: &str| {
            let kind = self.kinds.get(name);
            kind.map(|kind| kind.sent(half))
                .ok_or_else(|| CutError::Unknown(name.to_owned()))
        };
        (1..self.layers)
            .map(|boundary| crossing.at(boundary).into_iter().map(sent).sum())
            .collect()
    }

    /// How many numbers one item has in a value of `F32`.
    pub(crate) fn floats(&self, name: &str) -> Option<usize> {
        let kind = self.kinds.get(name).filter(|kind| kind.element == Element::F32)?;
        usize::try_from(kind.bytes)
            .ok()
            .map(|bytes| bytes / Element::F32.bytes())
    }

    /// Layers as an ONNX file of their own.
    pub(crate) fn part(&self, layers: Range<usize>) -> Result<Vec<u8>, CutError> {
        let network = Network::read(&self.bytes)?;
        part::part(&network, &Crossing::of(&network), &self.kinds, layers)
    }
}
