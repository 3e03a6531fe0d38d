//! What keeps a node from its fleet.

use std::path::PathBuf;

use thiserror::Error;

/// What keeps a node from its fleet, or a message from being sent.
#[derive(Debug, Error)]
pub enum FabricError {
    /// A text that cannot stand in keys and certificates.
    #[error(
        "\"{name}\" cannot name a {what}: take up to 64 letters, digits, \"-\", \"_\" and \".\", with a letter or digit first"
    )]
    Name {
        /// What it was to name.
        what: &'static str,
        /// The text.
        name: String,
    },
    /// A text that is no address.
    #[error("\"{0}\" is not an address: write HOST:PORT, such as 10.0.0.1:7447")]
    Address(String),
    /// An address that other machines reach, without certificates.
    #[error(
        "{0} is reached by other machines, which takes certificates: make them by weir fleet keys, and name their folder \
         as `certificates`"
    )]
    NotLoopback(String),
    /// A file of certificates that cannot be used.
    #[error("{}: {reason}; weir fleet keys makes certificates and keys", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A node whose name the fleet does not have.
    #[error("the fleet has no node {0}: add it to its nodes")]
    NotOfFleet(String),
    /// The transport refuses.
    #[error("the fleet cannot be joined: {0}")]
    Open(String),
    /// A message beyond the bound.
    #[error("a message of {bytes} bytes is larger than {max_bytes}: it is not sent")]
    TooLarge {
        /// What it has.
        bytes: usize,
        /// What it may have.
        max_bytes: usize,
    },
    /// The transport does not take a message.
    #[error("a message could not be sent: {0}")]
    Send(String),
    /// A file that is there already.
    #[error("{} is there already: choose another folder, or remove it", .0.display())]
    Exists(PathBuf),
    /// A file that cannot be written.
    #[error("{} cannot be written: {reason}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A certificate that cannot be made.
    #[error("a certificate for {name} cannot be made: {reason}")]
    Make {
        /// For whom.
        name: String,
        /// Why.
        reason: String,
    },
}
