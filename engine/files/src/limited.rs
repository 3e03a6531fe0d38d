//! A reader with a bound on the bytes of one line and on the bytes in all.

use std::io::{self, BufRead, ErrorKind, Read};

use crate::error::amount;

/// Lines end with `\n`. The bound on a line holds for every way of reading, `read_until` included.
#[derive(Debug)]
pub struct Limited<R> {
    inner: R,
    max_line_bytes: u64,
    /// Bytes that may still be read of this line.
    line_left: u64,
    /// Bytes that may still be read in all.
    left: u64,
}

impl<R: BufRead> Limited<R> {
    /// Reads `inner` within these bounds.
    pub fn new(inner: R, max_line_bytes: u64, max_bytes: u64) -> Self {
        Self {
            inner,
            max_line_bytes,
            line_left: max_line_bytes,
            left: max_bytes,
        }
    }
}

impl<R: BufRead> BufRead for Limited<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let (line_left, left, max_line_bytes) = (self.line_left, self.left, self.max_line_bytes);
        let bytes = self.inner.fill_buf()?;
        if bytes.is_empty() {
            return Ok(bytes);
        }
        let beyond = |what: String| Err(io::Error::new(ErrorKind::FileTooLarge, what));
        if left == 0 {
            return beyond("it holds more than is read of such a file".to_owned());
        }
        let max = left.min(line_left.saturating_add(1));
        let window = &bytes[..bytes.len().min(usize::try_from(max).unwrap_or(usize::MAX))];
        // No further than the end of the line: the next line has a bound of its own.
        if let Some(end) = window.iter().position(|byte| *byte == b'\n') {
            return Ok(&window[..=end]);
        }
        if line_left == 0 {
            return beyond(format!("a line is longer than {}", amount(max_line_bytes)));
        }
        let max = usize::try_from(line_left).unwrap_or(usize::MAX);
        Ok(&window[..window.len().min(max)])
    }

    fn consume(&mut self, count: usize) {
        let ended = count > 0
            && self
                .inner
                .fill_buf()
                .is_ok_and(|bytes| bytes.get(count - 1) == Some(&b'\n'));
        self.inner.consume(count);
        self.left = self.left.saturating_sub(count as u64);
        self.line_left = if ended {
            self.max_line_bytes
        } else {
            self.line_left.saturating_sub(count as u64)
        };
    }
}

impl<R: BufRead> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}
