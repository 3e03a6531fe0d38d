//! Why a model cannot be cut.

use thiserror::Error;

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
