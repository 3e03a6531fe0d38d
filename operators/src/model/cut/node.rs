//! A node of an ONNX graph, as far as cutting needs it.

use crate::model::onnx::NodeProto;

/// A node of the graph.
#[derive(Debug, Clone)]
pub(crate) struct Node<'a> {
    /// Its name; if empty, its operator and first output.
    pub(crate) name: String,
    pub(crate) op: &'a str,
    /// Names of the values that it reads, without omitted ones.
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) outputs: Vec<&'a str>,
    pub(super) proto: &'a NodeProto,
}
