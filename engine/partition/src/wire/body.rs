//! Reader of a frame's body. It never reads beyond the frame's length, and allocates only for bytes that were
//! received.

use std::io::{self, Read};

use super::error::WireError;

/// Most memory that is allocated in advance for a block whose length was announced but not received yet.
const MAX_PREALLOCATED_BYTES: usize = 1 << 20;

/// Body of a frame, with the number of bytes that are left to read.
pub(super) struct Body<R> {
    kind: u8,
    from: R,
    left: usize,
}

impl<R: Read> Body<R> {
    pub(super) fn new(kind: u8, from: R, length: usize) -> Self {
        Self {
            kind,
            from,
            left: length,
        }
    }

    pub(super) fn bad(&self, what: &'static str) -> WireError {
        WireError::Bad {
            kind: self.kind,
            what,
        }
    }

    fn claim(&mut self, bytes: usize) -> Result<(), WireError> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| self.bad("it holds more than its length says"))?;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        self.claim(N)?;
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes).map_err(WireError::Broken)?;
        Ok(bytes)
    }

    pub(super) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn flag(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.bad("a flag is neither 0 nor 1")),
        }
    }

    /// A count that may be `max` at most.
    pub(super) fn count(&mut self, max: usize, what: &'static str) -> Result<usize, WireError> {
        let count = self.u32()? as usize;
        if count > max {
            return Err(self.bad(what));
        }
        Ok(count)
    }

    /// Reads a block with its length in front.
    pub(super) fn block(&mut self) -> Result<Vec<u8>, WireError> {
        let length = self.u32()? as usize;
        self.claim(length)?;
        let mut bytes = Vec::with_capacity(length.min(MAX_PREALLOCATED_BYTES));
        let read = (&mut self.from).take(length as u64).read_to_end(&mut bytes);
        if read.map_err(WireError::Broken)? < length {
            return Err(WireError::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(bytes)
    }

    pub(super) fn text(&mut self, max: usize) -> Result<String, WireError> {
        let length = self.u32()? as usize;
        if length > max {
            return Err(self.bad("a text is too long"));
        }
        self.claim(length)?;
        let mut bytes = vec![0; length];
        self.from.read_exact(&mut bytes).map_err(WireError::Broken)?;
        String::from_utf8(bytes).map_err(|_| self.bad("a text is not UTF-8"))
    }

    /// Checks that the body was read completely; must be called last.
    pub(super) fn finish(self) -> Result<(), WireError> {
        if self.left > 0 {
            return Err(self.bad("it is longer than what it holds"));
        }
        Ok(())
    }
}
