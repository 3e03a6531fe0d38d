//! Models on external model servers.

use std::path::PathBuf;

use weir_types::Span;

/// The model servers of a model, all of which have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelServers {
    /// Protocol of the requests to the servers.
    pub protocol: ServerProtocol,
    /// Addresses of the servers, `http://HOST:PORT` or `https://HOST:PORT`; at least one.
    pub urls: Vec<String>,
    /// Name of the model on the servers.
    pub name: String,
    /// Version of the model on the servers; `None`: the version that a server chooses.
    pub version: Option<String>,
    /// File with the bearer token that requests carry.
    pub token_file: Option<PathBuf>,
    /// Timeout of a request.
    pub timeout: Span,
}

/// The protocol of a model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerProtocol {
    /// KServe v2 over HTTP, with binary tensors.
    KServe,
}
