//! What can be wrong with what comes over a connection.

use std::io;

use thiserror::Error;

/// A connection that cannot be used further.
#[derive(Debug, Error)]
pub enum WireError {
    /// The other side closed between two messages.
    #[error("the connection was closed")]
    Closed,
    /// It ended, or nothing more came, within a message.
    #[error("half a message: {0}")]
    Broken(io::Error),
    /// It could not be read or written.
    #[error("the connection failed: {0}")]
    Io(io::Error),
    /// What carries messages between nodes of a fleet did not take one.
    #[error("{0}")]
    Carrier(String),
    /// A message of a connection between nodes of a fleet did not arrive, or arrived twice.
    #[error("a message was lost on the way")]
    Lost,
    /// No node of that name is seen.
    #[error("no node {0} of the fleet is there")]
    NotThere(String),
    /// Nothing was received for too long.
    #[error("the peer is silent for {0:?}")]
    Silent(std::time::Duration),
    /// Not a Weir peer.
    #[error("the peer does not speak Weir's protocol")]
    Magic,
    /// A Weir peer of another version.
    #[error(
        "the peer speaks version {theirs} of the protocol, this side {ours}; use the same release on both"
    )]
    Version {
        /// Its version.
        theirs: u16,
        /// Ours.
        ours: u16,
    },
    /// A message larger than agreed.
    #[error("a message of {bytes} bytes is more than the {max} that are allowed")]
    TooLong {
        /// Its size.
        bytes: u64,
        /// The bound.
        max: u64,
    },
    /// More is being received over all connections than the worker has room for.
    #[error("messages of more than {max_bytes} bytes are being received at once")]
    OverBudget {
        /// The bound.
        max_bytes: u64,
    },
    /// A message that contradicts itself.
    #[error("a bad message of kind {kind}: {what}")]
    Bad {
        /// Its kind, as on the wire.
        kind: u8,
        /// What does not fit.
        what: &'static str,
    },
    /// A message that has no place here.
    #[error("an unexpected {0} message")]
    Unexpected(&'static str),
    /// The other side refused, with its reason.
    #[error("refused: {0}")]
    Refused(String),
}

impl WireError {
    /// An address of a fleet where this process is in none.
    pub(crate) fn no_fleet() -> Self {
        Self::Carrier("this process is no node of a fleet: give --fleet FLEET.toml --node NAME".to_owned())
    }

    /// Whether the peer broke the protocol, and not just the connection.
    #[must_use]
    pub fn is_protocol_error(&self) -> bool {
        matches!(
            self,
            Self::Magic
                | Self::Broken(_)
                | Self::Version { .. }
                | Self::TooLong { .. }
                | Self::Bad { .. }
                | Self::Unexpected(_)
        )
    }
}
