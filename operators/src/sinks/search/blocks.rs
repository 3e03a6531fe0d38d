//! Files of segments read in blocks, so that a scan takes the same memory for any number of tracks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::row::{ROW_BYTES, Row};
use super::segment::Parts;

/// Rows that are read at a time.
const BLOCK_ROWS: usize = 2_048;

/// Bytes of texts or vectors that are read at a time.
const BLOCK_BYTES: usize = 256 << 10;

/// A part of a file in memory.
pub(super) struct Window<'a> {
    file: &'a File,
    bytes: Vec<u8>,
    at: u64,
}

impl<'a> Window<'a> {
    pub(super) fn new(file: &'a File) -> Self {
        Self {
            file,
            bytes: Vec::new(),
            at: 0,
        }
    }

    /// The bytes at a position; `None` beyond the end of the file. Positions that grow are read once.
    pub(super) fn get(&mut self, at: u64, length: usize) -> io::Result<Option<&[u8]>> {
        let is_inside = |window: &Self| {
            at >= window.at && at.saturating_add(length as u64) <= window.at + window.bytes.len() as u64
        };
        if !is_inside(self) {
            self.bytes.resize(length.max(BLOCK_BYTES), 0);
            let read = read_at(self.file, &mut self.bytes, at)?;
            self.bytes.truncate(read);
            self.at = at;
        }
        if !is_inside(self) {
            return Ok(None);
        }
        let begin = usize::try_from(at - self.at).unwrap_or(usize::MAX);
        Ok(self.bytes.get(begin..begin + length))
    }
}

/// Fills a buffer as far as the file goes.
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    // A damaged row may name a place that no file has, which the system refuses.
    if at > i64::MAX as u64 - buffer.len() as u64 {
        return Ok(0);
    }
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], at + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// Calls `visit` for each row of a segment with its number, until it returns false. Rows that are not current are among them.
pub(super) fn each_row_as_bytes(
    parts: &Parts,
    mut visit: impl FnMut(u64, &[u8; ROW_BYTES]) -> io::Result<bool>,
) -> io::Result<()> {
    let count = parts.row_count()?;
    let mut block = vec![0; BLOCK_ROWS * ROW_BYTES];
    let mut number = 0;
    while number < count {
        let read = read_at(&parts.rows, &mut block, number * ROW_BYTES as u64)?;
        let (rows, _) = block[..read].as_chunks::<ROW_BYTES>();
        if rows.is_empty() {
            break;
        }
        for bytes in rows {
            if !visit(number, bytes)? {
                return Ok(());
            }
            number += 1;
        }
    }
    Ok(())
}

/// Calls `visit` for each current row of a segment with its number.
pub(super) fn each_row(parts: &Parts, mut visit: impl FnMut(u64, &Row) -> io::Result<()>) -> io::Result<()> {
    each_row_as_bytes(parts, |number, bytes| {
        if let Some(row) = Row::decode(bytes) {
            visit(number, &row)?;
        }
        Ok(true)
    })
}

/// The last current row of a segment for which `is_wanted` holds. The rows before it are read as far as its block.
pub(super) fn last_row(parts: &Parts, is_wanted: impl Fn(&Row) -> bool) -> io::Result<Option<Row>> {
    let mut block = vec![0; BLOCK_ROWS * ROW_BYTES];
    let mut end = parts.row_count()?;
    while end > 0 {
        let begin = end.saturating_sub(BLOCK_ROWS as u64);
        let wanted = (end - begin) as usize * ROW_BYTES;
        let read = read_at(&parts.rows, &mut block[..wanted], begin * ROW_BYTES as u64)?;
        let (rows, _) = block[..read].as_chunks::<ROW_BYTES>();
        let found = rows.iter().rev().filter_map(Row::decode).find(&is_wanted);
        if found.is_some() {
            return Ok(found);
        }
        end = begin;
    }
    Ok(None)
}

/// Bytes of a file; `None` if there are more than `max`, or not so many in the file.
pub(super) fn exact(file: &File, (at, length): (u64, usize), max: usize) -> io::Result<Option<Vec<u8>>> {
    if length > max {
        return Ok(None);
    }
    let mut bytes = vec![0; length];
    let read = read_at(file, &mut bytes, at)?;
    Ok((read == length).then_some(bytes))
}
