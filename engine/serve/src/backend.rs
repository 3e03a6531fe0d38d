//! What the API controls.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ApiError;

/// A stream as a client describes it, by some of the keys of `[sources.NAME]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRequest {
    /// Its name.
    pub name: String,
    /// Where its frames come from.
    pub uri: String,
    /// `live` or `lossless`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Frames a second of a source that does not carry its rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fps: Option<f64>,
    /// Frames a second that are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<f64>,
    /// Whether a recording begins again at its end.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub repeat: Option<bool>,
    /// The source of the graph whose inputs it shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
}

/// What keeps an engine from being ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotReady {
    /// What is not ready: the engine, or a stream.
    pub what: String,
    /// Why.
    pub why: String,
}

/// What answers requests. Its methods may block: they are called on threads of their own.
pub trait Backend: Send + Sync + 'static {
    /// What is not ready; nothing where all is.
    fn not_ready(&self) -> Vec<NotReady>;
    /// The state of the engine.
    ///
    /// # Errors
    /// Where the engine does not run.
    fn state(&self) -> Result<Value, ApiError>;
    /// The streams, a list of objects.
    ///
    /// # Errors
    /// As [`Backend::state`].
    fn streams(&self) -> Result<Value, ApiError>;
    /// Drops by module and reason, a list of objects.
    ///
    /// # Errors
    /// As [`Backend::state`].
    fn drops(&self) -> Result<Value, ApiError>;
    /// Adds a stream.
    ///
    /// # Errors
    /// Why it was not added.
    fn add_stream(&self, stream: StreamRequest) -> Result<(), ApiError>;
    /// Removes a stream; gives what it came to.
    ///
    /// # Errors
    /// Why it was not removed.
    fn remove_stream(&self, name: &str) -> Result<Value, ApiError>;
    /// Pauses a stream.
    ///
    /// # Errors
    /// Why it was not paused.
    fn pause_stream(&self, name: &str) -> Result<(), ApiError>;
    /// Resumes a stream.
    ///
    /// # Errors
    /// Why it was not resumed.
    fn resume_stream(&self, name: &str) -> Result<(), ApiError>;
    /// Metrics in the text format of Prometheus.
    fn metrics(&self) -> String;
}
