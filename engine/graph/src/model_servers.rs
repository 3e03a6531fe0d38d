//! Models on other people's model servers.

use std::path::PathBuf;

use weir_types::Span;

/// The model servers of a model, all of which have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelServers {
    /// How they are spoken to.
    pub protocol: ServerProtocol,
    /// Their addresses, `http://HOST:PORT` or `https://HOST:PORT`; at least one.
    pub urls: Vec<String>,
    /// Name of the model there.
    pub name: String,
    /// Its version there; `None`: the server's choice.
    pub version: Option<String>,
    /// File with a token that is sent along.
    pub token_file: Option<PathBuf>,
    /// The longest that a call may take.
    pub timeout: Span,
}

/// The protocol of a model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerProtocol {
    /// KServe v2 over HTTP, with binary tensors.
    KServe,
}
