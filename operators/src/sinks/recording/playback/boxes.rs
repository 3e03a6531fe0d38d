//! Boxes of MP4 (ISO/IEC 14496-12), read with bounds and written. Files come from a disk that may be damaged: a read beyond the end
//! gives `None`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Type of a box.
pub(super) type Kind = [u8; 4];

/// Numbers at the beginning of bytes, in big-endian order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers<'a>(pub(super) &'a [u8]);

impl<'a> Numbers<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A number of 8 bytes if the version is 1, else of 4.
    pub(super) fn sized(&mut self, version: u8) -> Option<u64> {
        match version {
            1 => self.u64(),
            _ => self.u32().map(u64::from),
        }
    }

    /// Version and flags of a full box.
    pub(super) fn version_and_flags(&mut self) -> Option<(u8, u32)> {
        let word = self.u32()?;
        Some(((word >> 24) as u8, word & 0x00ff_ffff))
    }
}

/// The boxes in the content of a box; it ends before one that is not whole.
pub(super) fn children(content: &[u8]) -> impl Iterator<Item = (Kind, &[u8])> {
    let mut rest = Numbers(content);
    std::iter::from_fn(move || {
        let size = rest.u32()?;
        let kind = rest.array()?;
        let size = match size {
            1 => rest.u64()?.checked_sub(16)?,
            size => u64::from(size).checked_sub(8)?,
        };
        Some((kind, rest.take(usize::try_from(size).ok()?)?))
    })
}

/// The content of the first box of that type.
pub(super) fn child<'a>(content: &'a [u8], kind: &Kind) -> Option<&'a [u8]> {
    children(content).find_map(|(found, content)| (found == *kind).then_some(content))
}

/// Appends a box with the content that `fill` appends.
pub(super) fn put_box(out: &mut Vec<u8>, kind: &Kind, fill: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend([0; 4]);
    out.extend(kind);
    fill(out);
    let size = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&size.to_be_bytes());
}

/// Appends a full box of a version, without flags.
pub(super) fn put_full_box(out: &mut Vec<u8>, kind: &Kind, version: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    put_box(out, kind, |out| {
        out.extend([version, 0, 0, 0]);
        fill(out);
    });
}

/// A box of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileBox {
    pub(super) kind: Kind,
    /// Its first byte, that of its content, and that behind it.
    pub(super) at: u64,
    pub(super) content: u64,
    pub(super) end: u64,
}

impl FileBox {
    /// The box at a place; `None` if no whole one is there.
    pub(super) fn at(file: &File, at: u64, length: u64) -> io::Result<Option<Self>> {
        if at.checked_add(8).is_none_or(|end| end > length) {
            return Ok(None);
        }
        let mut head = [0; 16];
        let there = (length - at).min(16) as usize;
        file.read_exact_at(&mut head[..there], at)?;
        let found = || {
            let mut numbers = Numbers(&head[..there]);
            let (size, kind) = (numbers.u32()?, numbers.array()?);
            let (size, header) = match size {
                1 => (numbers.u64()?, 16),
                // To the end of the file.
                0 => (length - at, 8),
                size => (u64::from(size), 8),
            };
            let end = at.checked_add(size)?;
            (size >= header && end <= length).then_some(Self {
                kind,
                at,
                content: at + header,
                end,
            })
        };
        Ok(found())
    }

    /// Its content; `None` if it is longer than `max` bytes.
    pub(super) fn read(&self, file: &File, max: usize) -> io::Result<Option<Vec<u8>>> {
        let Some(length) = usize::try_from(self.end - self.content)
            .ok()
            .filter(|length| *length <= max)
        else {
            return Ok(None);
        };
        let mut content = vec![0; length];
        file.read_exact_at(&mut content, self.content)?;
        Ok(Some(content))
    }
}
