//! The KServe v2 (Open Inference) protocol over HTTP with its extension for binary tensors: requests and answers as bytes.
//!
//! A body is a header in JSON, and behind it the bytes of the tensors in their order; [`HEADER_LENGTH`] is the name of the HTTP header
//! with the length of the JSON. A peer that does not use the extension has its elements in the JSON. [`client`] writes requests and reads
//! answers, [`server`] does the reverse. Nothing here sends, waits, or has a model.

mod body;
pub mod client;
pub mod server;

use serde::{Deserialize, Serialize};

/// Name of the HTTP header with the length of the JSON of a body in bytes.
pub const HEADER_LENGTH: &str = "Inference-Header-Content-Length";

/// Datatype of 32-bit floats.
pub const FP32: &str = "FP32";

/// Datatype of whole numbers from 0 to 255.
pub const UINT8: &str = "UINT8";

/// Datatype of texts and files: in binary, each element is its length in four bytes, the lowest first, and its bytes.
pub const BYTES: &str = "BYTES";

/// An input or an output of a model, as a server declares it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMetadata {
    /// Name of the tensor.
    pub name: String,
    /// Datatype of its elements, such as [`FP32`].
    pub datatype: String,
    /// Sizes of its dimensions; -1 for a free one.
    pub shape: Vec<i64>,
}

impl TensorMetadata {
    /// Sizes of its dimensions; `None` for a free one.
    #[must_use]
    pub fn sizes(&self) -> Vec<Option<usize>> {
        let size = |size: &i64| usize::try_from(*size).ok().filter(|size| *size > 0);
        self.shape.iter().map(size).collect()
    }
}
