//! Errors of a connection.

use std::io;

use thiserror::Error;

/// Error after which a connection cannot be used any more.
#[derive(Debug, Error)]
pub enum WireError {
    /// The peer closed the connection between two messages.
    #[error("the connection was closed")]
    Closed,
    /// The connection ended, or stalled, within a message.
    #[error("half a message: {0}")]
    Broken(io::Error),
    /// Reading or writing failed.
    #[error("the connection failed: {0}")]
    Io(io::Error),
    /// The carrier of the fleet rejected a message.
    #[error("{0}")]
    Carrier(String),
    /// A message between nodes of a fleet was lost or arrived twice.
    #[error("a message was lost on the way")]
    Lost,
    /// No node of that name is present in the fleet.
    #[error("node {0} of the fleet is not connected")]
    NotThere(String),
    /// Nothing was received for this long.
    #[error("the peer is silent: it sent nothing for {0:?}")]
    Silent(std::time::Duration),
    /// The peer does not speak this protocol.
    #[error("the peer does not speak Weir's protocol")]
    Magic,
    /// The peer speaks another version of the protocol.
    #[error(
        "the peer speaks version {theirs} of the protocol, this side {ours}; use the same release on both"
    )]
    Version {
        /// Protocol version of the peer.
        theirs: u16,
        /// Protocol version of this process.
        ours: u16,
    },
    /// A message is larger than the limit.
    #[error("a message of {bytes} bytes is more than the {max} that are allowed")]
    TooLong {
        /// Size of the message in bytes.
        bytes: u64,
        /// Limit in bytes.
        max: u64,
    },
    /// Messages that are being received over all connections exceed the worker's budget.
    #[error("messages of more than {max_bytes} bytes are being received at once")]
    OverBudget {
        /// Budget in bytes.
        max_bytes: u64,
    },
    /// A message contradicts itself.
    #[error("a bad message of kind {kind}: {what}")]
    Bad {
        /// Code of its kind on the wire.
        kind: u8,
        /// Field or rule that is violated.
        what: &'static str,
    },
    /// The message is not allowed in this state of the connection.
    #[error("an unexpected {0} message")]
    Unexpected(&'static str),
    /// The peer refused the connection; the text is its reason.
    #[error("refused: {0}")]
    Refused(String),
}

impl WireError {
    /// Error for an address of a fleet in a process that is in no fleet.
    pub(crate) fn no_fleet() -> Self {
        Self::Carrier("this process is no node of a fleet: give --fleet FLEET.toml --node NAME".to_owned())
    }

    /// True if the peer violated the protocol, and not just the connection failed.
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
