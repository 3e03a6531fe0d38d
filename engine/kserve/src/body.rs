//! A body as bytes: its JSON, the tensors behind it, and texts of it in messages.

/// Longest text of a peer in a message.
const MAX_SHOWN: usize = 300;

/// Bytes behind the JSON of a body that no tensor has taken yet.
pub(crate) struct Tail<'a>(&'a [u8]);

impl<'a> Tail<'a> {
    /// The bytes of the next tensor; `None` where fewer are left.
    pub(crate) fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (own, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(own)
    }

    /// Number of bytes that are left.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Splits a body into its JSON, of `header` bytes, and the bytes behind it. Without a length all of it is JSON.
///
/// # Errors
/// The body is shorter than its header.
pub(crate) fn split(body: &[u8], header: Option<usize>) -> Result<(&[u8], Tail<'_>), String> {
    let header = header.unwrap_or(body.len());
    let (json, bytes) = body
        .split_at_checked(header)
        .ok_or_else(|| format!("has {} bytes, its header alone {header}", body.len()))?;
    Ok((json, Tail(bytes)))
}

/// Number of elements of a tensor; `None` where it exceeds any memory.
pub(crate) fn element_count(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1_u64, |all, size| all.checked_mul(*size))
}

/// A text of a peer as messages show it: its first line without control characters, shortened.
pub(crate) fn shown(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim();
    let printable = line.chars().filter(|letter| !letter.is_control());
    printable.take(MAX_SHOWN).collect()
}
