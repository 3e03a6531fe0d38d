//! What can go wrong at the edges. Each text is for the person who can mend it.

use std::fmt;

use thiserror::Error;

use crate::uri::mask_credentials;

/// A source cannot go on. Its texts show no user, password or token of the address, in whatever way it was made.
#[derive(Error)]
pub enum SourceError {
    /// It could not be opened.
    #[error("cannot open {}: {}", mask_credentials(uri), without(uri, reason))]
    Open {
        /// What was to be opened.
        uri: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// It broke off; what came before is good.
    #[error(
        "{} broke off after {frames} frames: {}",
        mask_credentials(uri),
        without(uri, reason)
    )]
    Broken {
        /// What was being read.
        uri: String,
        /// Frames that came out before.
        frames: u64,
        /// What happened.
        reason: String,
    },
    /// It was read to its end, but parts of it could not be.
    #[error("{} is not whole: {}", mask_credentials(uri), without(uri, reason))]
    Incomplete {
        /// What was being read.
        uri: String,
        /// What is missing.
        reason: String,
    },
}

impl fmt::Debug for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceError({self})")
    }
}

/// A reason that may name the address.
fn without(uri: &str, reason: &str) -> String {
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
        /// Which.
        model: String,
        /// Why, and what to do.
        reason: String,
    },
    /// One batch failed; the session may be used or rebuilt.
    #[error("model {model} failed on a batch of {batch}: {reason}")]
    Run {
        /// Which.
        model: String,
        /// Items in the batch.
        batch: usize,
        /// What the runtime said.
        reason: String,
    },
}

/// A sink cannot take a delivery.
#[derive(Debug, Error)]
#[error("cannot write {target}: {reason}")]
pub struct SinkError {
    /// File or address.
    pub target: String,
    /// What happened, and what to do.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_sources_show_no_credentials() {
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
