//! Frames: length, kind, body. And the preamble before the first.

use std::io::{self, BufWriter, ErrorKind, Read, Write};

use super::body::Body;
use super::codes::kind;
use super::error::WireError;
use super::message::Message;
use super::{decode, encode};

/// First bytes of every connection, in both directions.
pub const MAGIC: [u8; 8] = *b"weirpart";
/// Version of the protocol, which follows the magic bytes.
pub const VERSION: u16 = 7;

/// Upper limits of message sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length in bytes of a message with a model or tensors.
    pub max_message_bytes: u32,
    /// Maximum length in bytes of any other message.
    pub max_small_bytes: u32,
}

impl Default for Limits {
    /// A model of 256 MiB is larger than any that video analytics run by the dozen.
    fn default() -> Self {
        Self {
            max_message_bytes: 256 << 20,
            max_small_bytes: 64 << 10,
        }
    }
}

impl Limits {
    fn max_bytes(&self, kind: u8) -> u32 {
        match kind {
            kind::LOAD
            | kind::RUN
            | kind::FEATURE
            | kind::DONE
            | kind::LOAD_GENERATOR
            | kind::STEP
            | kind::STEPPED => self.max_message_bytes,
            _ => self.max_small_bytes.min(self.max_message_bytes),
        }
    }
}

/// Writes magic and version.
///
/// # Errors
/// [`WireError::Io`].
pub fn write_preamble(to: &mut impl Write) -> Result<(), WireError> {
    let [low, high] = VERSION.to_le_bytes();
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&MAGIC);
    (bytes[8], bytes[9]) = (low, high);
    to.write_all(&bytes).map_err(WireError::Io)
}

/// Reads magic and version.
///
/// # Errors
/// [`WireError::Magic`], [`WireError::Version`], or half of them.
pub fn read_preamble(from: &mut impl Read) -> Result<(), WireError> {
    let mut bytes = [0; 10];
    from.read_exact(&mut bytes).map_err(WireError::Broken)?;
    if bytes[..8] != MAGIC {
        return Err(WireError::Magic);
    }
    match u16::from_le_bytes([bytes[8], bytes[9]]) {
        VERSION => Ok(()),
        theirs => Err(WireError::Version {
            theirs,
            ours: VERSION,
        }),
    }
}

/// Length of a message on the wire, in bytes.
#[must_use]
pub fn wire_bytes(message: &Message) -> u64 {
    let mut length = encode::Length::default();
    // Counting fails only for blocks of 4 GiB or more, which exceed every limit.
    if encode::body(&mut length, message).is_err() {
        return u64::MAX;
    }
    length.0 + 5
}

/// Writes one message.
///
/// # Errors
/// [`WireError::TooLong`] before anything is written, [`WireError::Io`] after.
pub fn write_message(to: &mut impl Write, message: &Message, limits: Limits) -> Result<(), WireError> {
    let kind = encode::kind_of(message);
    let (bytes, max) = (wire_bytes(message) - 5, u64::from(limits.max_bytes(kind)));
    if bytes > max {
        return Err(WireError::TooLong { bytes, max });
    }
    let write = |to: &mut dyn Write| -> io::Result<()> {
        let mut gathered = BufWriter::with_capacity(16 << 10, to);
        gathered.write_all(&(bytes as u32).to_le_bytes())?;
        gathered.write_all(&[kind])?;
        encode::body(&mut encode::Written(&mut gathered), message)?;
        gathered.flush()
    };
    write(to).map_err(WireError::Io)
}

/// Reads one message. Buffers grow with the received bytes, so an announced length allocates nothing.
///
/// # Errors
/// [`WireError::Closed`] if the peer closed the connection between messages; any other variant for invalid
/// data.
pub fn read_message(from: &mut impl Read, limits: Limits) -> Result<Message, WireError> {
    let mut first = [0; 1];
    loop {
        match from.read(&mut first) {
            Ok(0) => return Err(WireError::Closed),
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(WireError::Io(error)),
        }
    }
    let mut rest = [0; 4];
    from.read_exact(&mut rest).map_err(WireError::Broken)?;
    let bytes = u32::from_le_bytes([first[0], rest[0], rest[1], rest[2]]);
    let (kind, max) = (rest[3], limits.max_bytes(rest[3]));
    if bytes > max {
        return Err(WireError::TooLong {
            bytes: bytes.into(),
            max: max.into(),
        });
    }
    decode::message(kind, Body::new(kind, from, bytes as usize))
}
