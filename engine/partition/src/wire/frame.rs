//! Frames: length, kind, body. And the preamble before the first.

use std::io::{self, BufWriter, ErrorKind, Read, Write};

use weir_flow::Element;

use super::body::Body;
use super::error::WireError;
use super::message::Message;
use super::{decode, encode};

/// What a connection begins with.
pub const MAGIC: [u8; 8] = *b"weirpart";
/// The version of what follows.
pub const VERSION: u16 = 1;

/// Bytes of a reason.
pub(super) const TEXT_MOST: usize = 4 << 10;
/// Bytes of a name.
pub(super) const NAME_MOST: usize = 1 << 10;
/// Stages of a pipeline; plans have three.
pub(super) const STAGES_MOST: usize = 32;
/// Tensors that cross one boundary.
pub(super) const TENSORS_MOST: usize = 1 << 10;
/// Dimensions of a tensor.
pub(super) const DIMENSIONS_MOST: usize = 16;
/// Shares of a worker, and declared durations.
pub(super) const SHARES_MOST: usize = 1 << 10;
/// Partitions that a worker may hold.
pub(super) const PARTS_MOST: usize = 1 << 12;

/// Elements as they are written.
pub(super) const ELEMENTS: &[(Element, u8)] = &[
    (Element::F32, 1),
    (Element::F16, 2),
    (Element::F64, 3),
    (Element::U8, 4),
    (Element::I8, 5),
    (Element::I32, 6),
    (Element::I64, 7),
    (Element::Bool, 8),
];

/// Kinds as they are written.
pub(super) mod kind {
    pub(crate) const HELLO: u8 = 1;
    pub(crate) const PEER: u8 = 2;
    pub(crate) const WELCOME: u8 = 3;
    pub(crate) const REFUSED: u8 = 4;
    pub(crate) const LOAD: u8 = 5;
    pub(crate) const LOADED: u8 = 6;
    pub(crate) const NOT_LOADED: u8 = 7;
    pub(crate) const UNLOAD: u8 = 8;
    pub(crate) const ACTIVATE: u8 = 9;
    pub(crate) const ACTIVATED: u8 = 10;
    pub(crate) const RUN: u8 = 11;
    pub(crate) const FEATURE: u8 = 12;
    pub(crate) const USED: u8 = 13;
    pub(crate) const DONE: u8 = 14;
    pub(crate) const FAILED: u8 = 15;
    pub(crate) const PING: u8 = 16;
    pub(crate) const PONG: u8 = 17;
}

/// How large messages may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a message that carries a model or tensors.
    pub message_most: u32,
    /// Bytes of any other.
    pub small_most: u32,
}

impl Default for Limits {
    /// A model of 256 MiB is larger than any that video analytics run by the dozen.
    fn default() -> Self {
        Self {
            message_most: 256 << 20,
            small_most: 64 << 10,
        }
    }
}

impl Limits {
    fn of(&self, kind: u8) -> u32 {
        match kind {
            kind::LOAD | kind::RUN | kind::FEATURE | kind::DONE => self.message_most,
            _ => self.small_most.min(self.message_most),
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

/// How many bytes a message is on the wire.
#[must_use]
pub fn wire_bytes(message: &Message) -> u64 {
    let mut length = encode::Length::default();
    // Adding up cannot fail but for blocks of 4 GiB, and those are too long whatever their sum.
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
    let (bytes, most) = (wire_bytes(message) - 5, u64::from(limits.of(kind)));
    if bytes > most {
        return Err(WireError::TooLong { bytes, most });
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

/// Reads one message. A claimed length allocates nothing: buffers grow with what comes.
///
/// # Errors
/// [`WireError::Closed`] where the other side closed between messages; everything else that can be wrong.
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
    let (kind, most) = (rest[3], limits.of(rest[3]));
    if bytes > most {
        return Err(WireError::TooLong {
            bytes: bytes.into(),
            most: most.into(),
        });
    }
    decode::message(kind, Body::new(kind, from, bytes as usize))
}
