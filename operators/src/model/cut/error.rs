//! Why a model cannot be cut.

use thiserror::Error;

use crate::model::runtime::OpenError;

/// Why a model cannot be cut.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CutError {
    /// The bytes are no ONNX file, or a damaged one.
    #[error("it is no ONNX file, or a damaged one")]
    NoModel,
    /// No node depends on an input.
    #[error("no layer of it depends on an input")]
    NoLayers,
    /// The model has control flow.
    #[error("node {node} ({op}) holds a graph of its own: a model with control flow cannot be cut")]
    ControlFlow {
        /// Name of the node.
        node: String,
        /// Operator of the node.
        op: String,
    },
    /// Weights are in another file.
    #[error("weights {0} lie in another file; save the model with its weights inside to cut it")]
    External(String),
    /// A node reads a value that no node produces.
    #[error("node {node} reads {value}, which no node produces")]
    Dangling {
        /// Name of the node.
        node: String,
        /// Name of the value.
        value: String,
    },
    /// The nodes form a cycle.
    #[error("node {0} waits for its own output")]
    Cycle(String),
    /// The type of a value is unknown, or cannot be sent.
    #[error(
        "the content of value {0} is unknown or cannot be sent; the model cannot be cut where this value crosses"
    )]
    Unknown(String),
    /// The range of layers is invalid.
    #[error("there are no layers {from}..{to}: the model has {layers}")]
    Range {
        /// First layer, from 0.
        from: usize,
        /// End of the range, exclusive.
        to: usize,
        /// Number of layers of the model.
        layers: usize,
    },
    /// Two models run on one input.
    #[error("two models that are decoded together cannot be cut")]
    Second,
    /// The size of an input is unknown.
    #[error("input {0} has free sizes besides the batch; set them by a head or a side")]
    Free(String),
    /// An input is too large.
    #[error("input {0} takes more than 1 GiB at once; the file declares it so, or the side is too large")]
    Large(String),
    /// The runtime is missing, or does not open the model.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An error of the runtime.
    #[error("{0}")]
    Runtime(String),
}
