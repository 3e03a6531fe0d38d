//! The server's side: requests for the outputs of a model, and the answers to them.
//!
//! A client may send anything, so a request takes at most a small multiple of the bytes of its body, shapes are multiplied without
//! overflow, and an element is read at most once. Elements of [`UINT8`](crate::UINT8) and [`BYTES`](crate::BYTES) are
//! read; of other datatypes the name and the shape are.

mod data;
mod request;
mod response;

#[cfg(test)]
mod tests;

pub use request::{InferRequest, InputData, InputTensor, RequestedOutput, read_request};
pub use response::{InferResponse, OutputData, OutputTensor, write_response};

use serde::Serialize;

use crate::TensorMetadata;

/// Metadata of a server, the answer to `GET /v2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerMetadata {
    /// Name of the program.
    pub name: &'static str,
    /// Version of the program.
    pub version: &'static str,
    /// Extensions of the protocol that it has.
    pub extensions: &'static [&'static str],
}

/// Metadata of a model, the answer to `GET /v2/models/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelMetadata {
    /// Name of the model.
    pub name: String,
    /// Versions that a client may name.
    pub versions: Vec<String>,
    /// Program that runs it.
    pub platform: &'static str,
    /// Inputs of the model.
    pub inputs: Vec<TensorMetadata>,
    /// Outputs of the model.
    pub outputs: Vec<TensorMetadata>,
}
