//! Names of nodes of a fleet, by which workers are reached that others know by their certificates.

use std::fmt;

/// Bytes of a name: a certificate has no more.
const MAX_BYTES: usize = 64;

/// The name of a node of a fleet: 1 to 64 letters, digits, `-`, `_` and `.`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName {
    /// Zeros behind the name.
    bytes: [u8; MAX_BYTES],
}

impl NodeName {
    /// Checks a name; `None` if it is empty, too long or has characters that names may not have.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_allowed = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
        let fits = (1..=MAX_BYTES).contains(&text.len());
        (fits && text.bytes().all(is_allowed)).then(|| {
            let mut bytes = [0; MAX_BYTES];
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            Self { bytes }
        })
    }

    /// Name as text, without the padding.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let length = self.bytes.iter().take_while(|&&byte| byte != 0).count();
        std::str::from_utf8(&self.bytes[..length]).unwrap_or_default()
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeName").field(&self.as_str()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_and_others_refused() {
        let longest = "n".repeat(MAX_BYTES);
        for name in ["a", "gpu_0.rack-2", longest.as_str()] {
            assert_eq!(
                NodeName::new(name).map(|name| name.to_string()).as_deref(),
                Some(name)
            );
        }
        for bad in ["", "a b", "a/b", "*", "\0", &"n".repeat(MAX_BYTES + 1)] {
            assert_eq!(NodeName::new(bad), None, "{bad}");
        }
    }
}
