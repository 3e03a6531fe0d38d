//! Elements of message bodies: numbers, texts, blocks and lists.

use std::io;

/// Consumer of the elements of a body: one implementation adds up the length, the other writes the bytes.
pub(super) trait Pieces {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()>;
}

pub(super) fn u8<P: Pieces>(to: &mut P, value: u8) -> io::Result<()> {
    to.put(&[value])
}

pub(super) fn u32<P: Pieces>(to: &mut P, value: u32) -> io::Result<()> {
    to.put(&value.to_le_bytes())
}

pub(super) fn u64<P: Pieces>(to: &mut P, value: u64) -> io::Result<()> {
    to.put(&value.to_le_bytes())
}

fn length<P: Pieces>(to: &mut P, length: usize) -> io::Result<()> {
    u32(
        to,
        u32::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?,
    )
}

pub(super) fn each<P: Pieces, T>(
    to: &mut P,
    all: &[T],
    one: impl Fn(&mut P, &T) -> io::Result<()>,
) -> io::Result<()> {
    length(to, all.len())?;
    all.iter().try_for_each(|value| one(to, value))
}

pub(super) fn block<P: Pieces>(to: &mut P, bytes: &[u8]) -> io::Result<()> {
    length(to, bytes.len())?;
    to.put(bytes)
}

/// Writes a text, truncated if it is too long, since reasons come from many sources.
pub(super) fn text<P: Pieces>(to: &mut P, text: &str, max: usize) -> io::Result<()> {
    block(to, &text.as_bytes()[..text.floor_char_boundary(max)])
}
