//! Models on other people's model servers (Triton, OpenVINO Model Server, KServe), by the KServe v2 inference protocol.
//!
//! Such a model is what an ONNX file is elsewhere: its input is prepared and its outputs are decoded here, by the same heads. What
//! the server says of it is checked when it is loaded, and a blank item and noise show the shapes of its outputs and
//! which batches it takes. Sessions are opened without a call: a server that is away makes batches fail, and takes those that come
//! after it is back.

mod client;
mod load;
mod session;

use std::sync::Arc;
use std::time::Duration;

use weir_flow::{Batching, DeviceKind, Model, Session, SessionError};
use weir_kserve::client::ReceivedTensor;

use super::loaded::Loaded;
use super::session::row_shape;
use crate::heads::OutputSpec;
use client::Client;
pub(super) use load::load;
use session::ServerSession;

/// A model on one or several servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerModel {
    /// Addresses of the servers, `http://HOST:PORT`; each has the same model.
    pub urls: Vec<String>,
    /// Its name there.
    pub name: String,
    /// Its version there; the server's choice by default.
    pub version: Option<String>,
    /// Sent as a bearer token.
    pub token: Option<String>,
    /// The longest that a call may take.
    pub timeout: Duration,
}

/// A model that servers run.
pub(super) struct KServeModel {
    server: ServerModel,
    loaded: Arc<Loaded>,
    shapes: Arc<OutputShapes>,
    batching: Batching,
}

impl Model for KServeModel {
    fn batching(&self) -> Batching {
        self.batching.clone()
    }

    fn classes(&self) -> &[Arc<str>] {
        self.loaded.head.classes()
    }

    fn alphabet(&self) -> &[String] {
        self.loaded.head.alphabet()
    }

    fn open(&self, device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        let server = match device {
            DeviceKind::Server(server) => server as usize,
            DeviceKind::Cpu | DeviceKind::Cuda(_) => 0,
        };
        let url = self.server.urls.get(server).ok_or_else(|| SessionError::Device {
            model: self.loaded.name.clone(),
            reason: format!("it has no server {server}"),
        })?;
        let client = Client::new(&self.server, url);
        Ok(Box::new(ServerSession::new(
            Arc::clone(&self.loaded),
            Arc::clone(&self.shapes),
            client,
        )))
    }
}

/// The outputs that a model gave when it was loaded: every answer must be like them.
struct OutputShapes {
    names: Vec<String>,
    /// Sizes of one row of each; `None` where they follow the width of the input.
    rows: Vec<Option<Vec<usize>>>,
}

impl OutputShapes {
    fn new(specs: &[OutputSpec], varies: bool) -> Self {
        Self {
            names: specs.iter().map(|spec| spec.name.clone()).collect(),
            rows: specs
                .iter()
                .map(|spec| (!varies).then(|| spec.shape.clone()))
                .collect(),
        }
    }

    fn names(&self) -> &[String] {
        &self.names
    }

    /// Heads read as many numbers as the model was loaded with: an answer of another shape is refused.
    fn check(&self, outputs: &[ReceivedTensor], rows: usize) -> Result<(), String> {
        for ((output, name), expected) in outputs.iter().zip(&self.names).zip(&self.rows) {
            let whole = rows > 0 && !output.data.is_empty() && output.data.len() % rows == 0;
            let found = row_shape(&output.shape, rows);
            let fits = expected.as_ref().is_none_or(|expected| *expected == found);
            if !whole || !fits {
                let wanted = expected
                    .as_ref()
                    .map_or_else(String::new, |expected| format!(", not of {expected:?} each"));
                return Err(format!(
                    "output {name} has shape {:?} for {rows} items{wanted}",
                    output.shape
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
