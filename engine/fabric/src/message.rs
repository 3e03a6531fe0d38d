//! A message, and how urgent it is.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read};

use zenoh::bytes::ZBytes;
use zenoh::qos::Priority;

use crate::identity::Member;

/// Priority of messages. Messages of one priority do not wait for those of lower ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Membership and state of nodes: small messages, sent before all others.
    Control,
    /// Features on their way from one partition to the next.
    Features,
    /// Messages without a deadline, such as recordings.
    Archive,
}

impl Urgency {
    pub(crate) fn priority(self) -> Priority {
        match self {
            Self::Control => Priority::RealTime,
            Self::Features => Priority::DataHigh,
            Self::Archive => Priority::Background,
        }
    }
}

/// A message that arrived.
pub struct Message {
    /// Sender, by the key of the message, to which only that node may write.
    pub from: Member,
    /// Header that was sent before the payload; empty if there was none.
    pub header: Vec<u8>,
    payload: ZBytes,
}

impl Message {
    pub(crate) fn new(from: Member, header: Vec<u8>, payload: ZBytes) -> Self {
        Self {
            from,
            header,
            payload,
        }
    }

    /// Payload; copied only if it arrived in several pieces.
    #[must_use]
    pub fn payload(&self) -> Cow<'_, [u8]> {
        self.payload.to_bytes()
    }

    /// Pieces of the payload, as they arrived.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.payload.slices()
    }

    /// Reader of the payload, without a copy.
    #[must_use]
    pub fn into_reader(self) -> PayloadReader {
        PayloadReader {
            payload: self.payload,
            piece: 0,
            taken: 0,
        }
    }

    /// Bytes of header and payload.
    pub(crate) fn bytes(&self) -> usize {
        self.header.len() + self.payload.len()
    }

    /// Bytes of the payload.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.payload.len()
    }
}

/// Reads a payload piece by piece.
#[derive(Debug)]
pub struct PayloadReader {
    payload: ZBytes,
    /// The piece that is read, and how much of it has been.
    piece: usize,
    taken: usize,
}

impl Read for PayloadReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(piece) = self.payload.slices().nth(self.piece) {
            let rest = &piece[self.taken..];
            if rest.is_empty() {
                (self.piece, self.taken) = (self.piece + 1, 0);
                continue;
            }
            let read = rest.len().min(buffer.len());
            buffer[..read].copy_from_slice(&rest[..read]);
            self.taken += read;
            return Ok(read);
        }
        Ok(0)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("from", &self.from)
            .field("header", &self.header.len())
            .field("payload", &self.payload.len())
            .finish()
    }
}
