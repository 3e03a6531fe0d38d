//! Errors of joining a fleet and of sending messages.

use std::path::PathBuf;

use thiserror::Error;

/// Error of joining a fleet, or of sending a message.
#[derive(Debug, Error)]
pub enum FabricError {
    /// The text cannot be part of keys and certificates.
    #[error(
        "\"{name}\" cannot name a {what}: take up to 64 letters, digits, \"-\", \"_\" and \".\", with a letter or digit first"
    )]
    Name {
        /// Kind of name, such as a node or a fleet.
        what: &'static str,
        /// Text that was given.
        name: String,
    },
    /// The text is not an address.
    #[error("\"{0}\" is not an address: write HOST:PORT, such as 10.0.0.1:7447")]
    Address(String),
    /// Other machines can reach the address, but there are no certificates.
    #[error(
        "{0} can be reached by other machines, so it needs certificates: make them with weir fleet keys, and set their folder \
         as `certificates`"
    )]
    NotLoopback(String),
    /// A certificate or key file cannot be used.
    #[error("{}: {reason}; weir fleet keys makes certificates and keys", .path.display())]
    Certificate {
        /// Path of the file.
        path: PathBuf,
        /// Problem with the file.
        reason: String,
    },
    /// The fleet has no node with that name.
    #[error("the fleet has no node {0}: add it to its nodes")]
    NotOfFleet(String),
    /// The transport failed to open.
    #[error("the fleet cannot be joined: {0}")]
    Open(String),
    /// The message exceeds the size limit.
    #[error("a message of {bytes} bytes is larger than {max_bytes}: it is not sent")]
    TooLarge {
        /// Length of the message in bytes.
        bytes: usize,
        /// Limit in bytes.
        max_bytes: usize,
    },
    /// The transport did not accept a message.
    #[error("a message could not be sent: {0}")]
    Send(String),
    /// The file already exists.
    #[error("{} is there already: choose another folder, or remove it", .0.display())]
    Exists(PathBuf),
    /// The file cannot be written.
    #[error("{} cannot be written: {reason}", .path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        reason: String,
    },
    /// The certificate cannot be created.
    #[error("a certificate for {name} cannot be made: {reason}")]
    Make {
        /// Name of the node.
        name: String,
        /// Error of the library.
        reason: String,
    },
}
