//! A node of an ONNX graph, as far as cutting needs it.

/// A node of the graph.
#[derive(Debug, Clone)]
pub(crate) struct Node<'a> {
    /// Its name; if empty, its operator and first output.
    pub(crate) name: String,
    pub(crate) op: &'a str,
    /// Names of the values that it reads, without omitted ones.
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) outputs: Vec<&'a str>,
    /// Its encoded message.
    pub(super) bytes: &'a [u8],
}
