//! A node of an ONNX graph, as far as cutting needs it.

/// A node.
#[derive(Debug, Clone)]
pub(crate) struct Node<'a> {
    /// Its name; made of its operator and first output where it has none.
    pub(crate) name: String,
    pub(crate) op: &'a str,
    /// Names of the values that it reads; those left out are left out here.
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) outputs: Vec<&'a str>,
    /// The message.
    pub(super) bytes: &'a [u8],
}
