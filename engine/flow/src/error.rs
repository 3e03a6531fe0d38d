//! Errors of sources, sessions and sinks. The messages address the user who can fix the cause.

use std::fmt;

use thiserror::Error;

use crate::uri::mask_credentials;

/// A source cannot continue. Its messages never show the user, password or token of the address.
#[derive(Error)]
pub enum SourceError {
    /// The source could not be opened.
    #[error("cannot open {}: {}", mask_credentials(uri), masked(uri, reason))]
    Open {
        /// Address of the source.
        uri: String,
        /// Cause and remedy.
        reason: String,
    },
    /// The source failed in operation; frames before the failure are valid.
    #[error(
        "{} broke off after {frames} frames: {}",
        mask_credentials(uri),
        masked(uri, reason)
    )]
    Broken {
        /// Address of the source.
        uri: String,
        /// Frames delivered before it broke off.
        frames: u64,
        /// Cause of the failure, for users.
        reason: String,
    },
    /// The source was read to its end, but some of its data could not be read.
    #[error("{} is not whole: {}", mask_credentials(uri), masked(uri, reason))]
    Incomplete {
        /// Address of the source.
        uri: String,
        /// Description of the missing data.
        reason: String,
    },
}

impl fmt::Debug for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceError({self})")
    }
}

/// The reason, with the address masked wherever it occurs.
fn masked(uri: &str, reason: &str) -> String {
    if uri.is_empty() {
        return reason.to_owned();
    }
    reason.replace(uri, &mask_credentials(uri))
}

/// A model could not be loaded or a batch could not be run.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The file cannot be loaded as a model, or does not fit the head.
    #[error("cannot load model {model}: {reason}")]
    Load {
        /// Name of the model.
        model: String,
        /// Cause and remedy.
        reason: String,
    },
    /// The model is sound, but there is no device or no library to open it with.
    #[error("cannot load model {model}: {reason}")]
    Device {
        /// Name of the model.
        model: String,
        /// Cause and remedy.
        reason: String,
    },
    /// The session's device or worker is lost, with everything that it held. Nothing was computed; the device
    /// may return.
    #[error("model {model} is gone from where it ran: {reason}")]
    Gone {
        /// Name of the model.
        model: String,
        /// Cause of the failure, for users.
        reason: String,
    },
    /// A batch failed; the session may be used further or rebuilt.
    #[error("model {model} failed on a batch of {batch}: {reason}")]
    Run {
        /// Name of the model.
        model: String,
        /// Items in the batch.
        batch: usize,
        /// Message of the runtime.
        reason: String,
    },
}

/// A sink cannot write.
#[derive(Debug, Error)]
#[error("cannot write {target}: {reason}")]
pub struct SinkError {
    /// File or address.
    pub target: String,
    /// Cause and remedy.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_errors_mask_credentials() {
        let uri = "rtsp://admin:secret@camera/1?token=abc".to_owned();
        let reason = format!("no answer from {uri}");
        let errors = [
            SourceError::Open {
                uri: uri.clone(),
                reason: reason.clone(),
            },
            SourceError::Broken {
                uri: uri.clone(),
                frames: 3,
                reason: reason.clone(),
            },
            SourceError::Incomplete { uri, reason },
        ];
        for error in errors {
            let texts = format!("{error} {error:?}");
            assert!(!texts.contains("secret") && !texts.contains("abc"), "{texts}");
            assert_eq!(
                texts.matches("rtsp://***@camera/1?token=***").count(),
                4,
                "{texts}"
            );
        }
    }
}
