//! What can go wrong at the edges. Each text is for the person who can mend it.

use std::io;

use thiserror::Error;

/// A source cannot go on.
#[derive(Debug, Error)]
pub enum SourceError {
    /// It could not be opened.
    #[error("cannot open {uri}: {reason}")]
    Open {
        /// What was to be opened.
        uri: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// It broke off; what came before is good.
    #[error("{uri} broke off after {frames} frames: {reason}")]
    Broken {
        /// What was being read.
        uri: String,
        /// Frames that came out before.
        frames: u64,
        /// What happened.
        reason: String,
    },
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

/// Why a file or folder cannot be used, in words for the person who named it: permissions where they are the reason, and
/// what the system says where there are no better words.
#[must_use]
pub fn io_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "not permitted: check its permissions, and those of the folders above it".to_owned()
        }
        io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        io::ErrorKind::NotADirectory => "what it lies in is no folder".to_owned(),
        io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        io::ErrorKind::AlreadyExists => "something else of that name is there".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full: make room or write elsewhere".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "nothing can be written there: the disk is read-only".to_owned(),
        io::ErrorKind::InvalidData => "it is no text (no UTF-8)".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_permissions_forbid_is_named_so() {
        let check = |kind: io::ErrorKind, part: &str| {
            let reason = io_reason(&kind.into());
            assert!(reason.contains(part), "{reason}");
        };
        check(io::ErrorKind::PermissionDenied, "not permitted");
        check(io::ErrorKind::IsADirectory, "it is a folder");
        check(io::ErrorKind::NotFound, "there is no such file");
    }
}
