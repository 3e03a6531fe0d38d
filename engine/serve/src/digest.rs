//! SHA-256 digests of secrets. Tokens and sessions are kept and compared as digests only.

use std::fmt::{self, Write};
use std::hint::black_box;

use sha2::{Digest as _, Sha256};

/// Digest of a secret. It is shown to no client and in no log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    /// Digest of the bytes of a secret.
    pub(crate) fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }

    /// Digest written as 64 hexadecimal digits; `None` if the text is not that.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 64 {
            return None;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
        }
        Some(Self(bytes))
    }

    /// Compares two digests. The time that this takes does not depend on the position of the first difference.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        let differs = pairs.fold(0, |differs, (own, other)| differs | black_box(own ^ other));
        black_box(differs) == 0
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(***)")
    }
}

/// Returns the bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_read_as_sha256sum_writes_it() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let digest = Digest::of(b"");
        assert!(Digest::parse(empty).is_some_and(|read| read.is(&digest)));
        assert!(Digest::parse(&empty.to_uppercase()).is_some_and(|read| read.is(&digest)));
        assert_eq!(hex(&digest.0), empty);
        assert!(!digest.is(&Digest::of(b"a")));
        for wrong in [
            "",
            "e3",
            &empty[1..],
            &empty.replace('e', "g"),
            &"\u{e9}".repeat(32),
        ] {
            assert!(Digest::parse(wrong).is_none(), "{wrong}");
        }
    }
}
