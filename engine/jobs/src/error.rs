//! Errors of a queue, worded for users who can fix them.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Error of a queue.
#[derive(Debug, Error)]
pub enum QueueError {
    /// The folder contains no queue.
    #[error("there is no queue in {0}: `weir submit` makes one")]
    Missing(PathBuf),
    /// A file of the queue cannot be read or written.
    #[error("{path}: {}", in_words(.error))]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// Another engine has opened the queue.
    #[error("another engine works on the queue {0}: one at a time may, stop the other one first")]
    InUse(PathBuf),
    /// Another program holds the lock of the store for too long.
    #[error("the store of the queue {0} is busy: another program holds its lock, look for one that hangs")]
    Busy(PathBuf),
    /// Another version of Weir wrote the queue.
    #[error(
        "the queue {path} was written by another version of Weir (format {found}, this one reads {expected}): finish it with \
         that version, or name another folder"
    )]
    Version {
        /// Folder of the queue.
        path: PathBuf,
        /// Format version that was found.
        found: String,
        /// Format version that this build reads.
        expected: u32,
    },
    /// Neither the store nor its copy can be read.
    #[error(
        "the store of the queue {path} is damaged, and so is its copy ({reason}): move the folder aside, and submit again"
    )]
    Damaged {
        /// Folder of the queue.
        path: PathBuf,
        /// Problems of both files.
        reason: String,
    },
    /// The store rejected a change.
    #[error("the store of the queue {path}: {reason}")]
    Store {
        /// Folder of the queue.
        path: PathBuf,
        /// Error of the store.
        reason: String,
    },
    /// A row of the store does not have the format of this version.
    #[error(
        "the store of the queue holds a row that cannot be read ({0}): move the folder aside, and submit again"
    )]
    Row(#[from] serde_json::Error),
    /// The address of a queue on a server is invalid. It may contain a password, so the message does not show
    /// it.
    #[error(
        "the address of the queue is not of the form nats://HOST:PORT/NAME, with letters, digits, - and _ in NAME: users and \
         passwords are named by WEIR_NATS_USERNAME and WEIR_NATS_PASSWORD_FILE, or by WEIR_NATS_CREDENTIALS_FILE"
    )]
    Address,
    /// This build does not support queues on servers.
    #[error(
        "this build has no queues on servers of NATS, as {0} is: install a release build, or build with `--features nats`"
    )]
    NotBuilt(String),
    /// The connection to a server is not allowed with these settings.
    #[error("the queue {0}: {1}")]
    Connection(String, String),
    /// A server keeps failing, although requests were repeated.
    #[error("the queue {place}: {reason}")]
    Server {
        /// Address of the queue.
        place: String,
        /// Error of the last attempt.
        reason: String,
    },
    /// The queue has its maximum number of open jobs.
    #[error("the queue has {0} open jobs, and takes no more: wait until some are done, or cancel some")]
    Full(usize),
    /// The submitted job is invalid; the text is the reason.
    #[error("{0}")]
    Refused(String),
    /// The queue has no job with that number.
    #[error("the queue has no job {0}")]
    Unknown(u64),
    /// A commit does not follow the segments that were committed before.
    #[error("segment {segment} of job {job} cannot be committed after {committed} segments")]
    OutOfOrder {
        /// Number of the job.
        job: u64,
        /// Segment that was to be committed.
        segment: u32,
        /// Number of segments that are committed.
        committed: u32,
    },
    /// An output file is shorter than the results that were committed to it.
    #[error(
        "{0} is shorter than what was committed to it: it was changed by another program; submit the job again"
    )]
    OutputChanged(PathBuf),
}

/// Message of the operating system; for a full disk, with advice.
pub(crate) fn in_words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::StorageFull => "the disk is full: make room or write elsewhere".to_owned(),
        _ => error.to_string(),
    }
}

impl QueueError {
    /// True for a temporary error, such as a server that is unavailable.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Server { .. })
    }

    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File { path, error }
    }
}
