//! Errors of opening a tunnel.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Reason why a tunnel cannot be opened.
#[derive(Debug, Error)]
pub enum TunnelError {
    /// A file of certificates that cannot be used.
    #[error("{}: {reason}", .path.display())]
    Certificate {
        /// File that was read.
        path: PathBuf,
        /// Problem with it.
        reason: String,
    },
    /// An address that cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Address that was given.
        address: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A folder for sockets that cannot be made.
    #[error("cannot make a folder for sockets in {}: {source}; name another one with TMPDIR", .path.display())]
    Folder {
        /// The folder of temporary files.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Threads that cannot be started.
    #[error("cannot start the threads of the tunnel: {0}")]
    Threads(io::Error),
}
