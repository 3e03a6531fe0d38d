//! What can go wrong with a queue, for the person who can mend it.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a queue cannot be used, or does not take something.
#[derive(Debug, Error)]
pub enum QueueError {
    /// The folder holds no queue.
    #[error("there is no queue in {0}: `weir submit` makes one")]
    Missing(PathBuf),
    /// A file of the queue cannot be read or written.
    #[error("{path}: {}", in_words(.error))]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// Another engine works on it.
    #[error("another engine works on the queue {0}: one at a time may, stop the other one first")]
    InUse(PathBuf),
    /// Another program holds the store for too long.
    #[error("the store of the queue {0} is busy: another program holds its lock, look for one that hangs")]
    Busy(PathBuf),
    /// It was written by another version of Weir.
    #[error(
        "the queue {path} was written by another version of Weir (format {found}, this one reads {expected}): finish it with \
         that version, or name another folder"
    )]
    Version {
        /// The folder.
        path: PathBuf,
        /// The format that it has.
        found: String,
        /// The format that this version reads.
        expected: u32,
    },
    /// Neither the store nor its copy can be read.
    #[error(
        "the store of the queue {path} is damaged, and so is its copy ({reason}): move the folder aside, and submit again"
    )]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// What is wrong with both.
        reason: String,
    },
    /// The store refuses a change.
    #[error("the store of the queue {path}: {reason}")]
    Store {
        /// The folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A row of the store is not what this version writes.
    #[error(
        "the store of the queue holds a row that cannot be read ({0}): move the folder aside, and submit again"
    )]
    Row(#[from] serde_json::Error),
    /// What should be the address of a queue on a server is none. It may hold a password, and is not shown.
    #[error(
        "the address of the queue is not of the form nats://HOST:PORT/NAME, with letters, digits, - and _ in NAME: users and \
         passwords are named by WEIR_NATS_USERNAME and WEIR_NATS_PASSWORD_FILE, or by WEIR_NATS_CREDENTIALS_FILE"
    )]
    Address,
    /// This build has no queues on servers.
    #[error(
        "this build has no queues on servers of NATS, as {0} is: install a release build, or build with `--features nats`"
    )]
    NotBuilt(String),
    /// The connection to a server is not allowed, as it would be.
    #[error("the queue {0}: {1}")]
    Connection(String, String),
    /// A server does not do what it should, however often it is asked.
    #[error("the queue {place}: {reason}")]
    Server {
        /// Its address.
        place: String,
        /// What went wrong.
        reason: String,
    },
    /// There are too many open jobs.
    #[error("the queue has {0} open jobs, and takes no more: wait until some are done, or cancel some")]
    Full(usize),
    /// A job that is submitted cannot be taken.
    #[error("{0}")]
    Refused(String),
    /// There is no such job.
    #[error("the queue has no job {0}")]
    Unknown(u64),
    /// What a commit says does not follow what was committed.
    #[error("segment {segment} of job {job} cannot be committed after {committed} segments")]
    OutOfOrder {
        /// The job.
        job: u64,
        /// The segment.
        segment: u32,
        /// How many are committed.
        committed: u32,
    },
    /// A file that results are appended to is shorter than what was committed.
    #[error(
        "{0} is shorter than what was committed to it: it was changed by another program; submit the job again"
    )]
    OutputChanged(PathBuf),
}

/// What the system says, and what is to be done where the disk is full.
pub(crate) fn in_words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::StorageFull => "the disk is full: make room or write elsewhere".to_owned(),
        _ => error.to_string(),
    }
}

impl QueueError {
    /// Whether it may be over when it is tried again: a server that is away.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Server { .. })
    }

    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File { path, error }
    }
}
