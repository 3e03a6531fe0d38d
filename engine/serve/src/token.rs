//! The token that clients show where others than this machine can connect, and files with secrets.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::digest::Digest;

/// The shortest token: 16 characters of a random text cannot be tried out.
pub const MIN_TOKEN_BYTES: usize = 16;

/// The longest; a header is bounded, too.
const MAX_TOKEN_BYTES: usize = 1_024;

/// Bits of the mode of a file by which others than its owner can read or write it.
const OTHERS: u32 = 0o077;

/// Error of reading a token.
#[derive(Debug, Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("cannot read the token file {path}: {reason}")]
    Read {
        /// Path of the token file.
        path: PathBuf,
        /// Reason, from the operating system.
        reason: String,
    },
    /// Others can read it, or change it.
    #[error("the token file {path} is open to others than its owner (mode {mode:o}): chmod 600 {path}")]
    Open {
        /// Path of the token file.
        path: PathBuf,
        /// Permission bits of the file, such as `0o644`.
        mode: u32,
    },
    /// The file has an entry that cannot be used.
    #[error("{path}: {reason}")]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// The entry, and what is wrong with it.
        reason: String,
    },
    /// It is too short, too long, or no plain text.
    #[error(
        "{origin} holds no token: {MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES} plain characters without a blank are needed, such \
         as those of: head -c 24 /dev/urandom | base64"
    )]
    Unusable {
        /// The file or the variable.
        origin: String,
    },
}

/// A secret that clients show.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The token that a text holds, with blanks around it, and perhaps behind a byte order mark; `origin` says in errors where it is from.
    ///
    /// # Errors
    /// [`TokenError::Unusable`].
    pub fn parse(text: &str, origin: &str) -> Result<Self, TokenError> {
        let text = text.trim_start_matches('\u{feff}').trim();
        let is_usable = (MIN_TOKEN_BYTES..=MAX_TOKEN_BYTES).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_usable {
            Ok(Self(text.to_owned()))
        } else {
            Err(TokenError::Unusable {
                origin: origin.to_owned(),
            })
        }
    }

    /// The token of a file that only its owner can read.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let bytes = read_private(path, 2 * MAX_TOKEN_BYTES as u64)?;
        Self::parse(&String::from_utf8_lossy(&bytes), &path.display().to_string())
    }

    /// Returns the text that clients send.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the digest by which the token is compared with what clients send.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

/// Reads a file that only its owner may read, up to `max_bytes`.
///
/// # Errors
/// [`TokenError::Read`] or [`TokenError::Open`].
pub(crate) fn read_private(path: &Path, max_bytes: u64) -> Result<Vec<u8>, TokenError> {
    let unreadable = |error: std::io::Error| TokenError::Read {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let file = File::open(path).map_err(unreadable)?;
    // Of the open file: the path may name another one by now.
    let mode = file.metadata().map_err(unreadable)?.mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(TokenError::Open {
            path: path.to_owned(),
            mode,
        });
    }
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_same_token_is_accepted() {
        let token = Token::parse(" 0123456789abcdef\n", "a test").unwrap();
        assert!(token.digest().is(&Digest::of(b"0123456789abcdef")));
        let marked = Token::parse("\u{feff}0123456789abcdef\r\n", "a file of Windows").unwrap();
        assert_eq!(marked.as_str(), "0123456789abcdef");
        for other in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeg"] {
            assert!(!token.digest().is(&Digest::of(other.as_bytes())), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token(***)");
        for unusable in ["short", "0123456789 abcdef", "0123456789abcdé"] {
            assert!(Token::parse(unusable, "a test").is_err(), "{unusable}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_holds_no_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        let read_with = |mode: u32| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Token::read(&path)
        };
        assert!(read_with(0o600).is_ok() && read_with(0o400).is_ok());
        for mode in [0o644, 0o640, 0o604] {
            let error = read_with(mode).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{mode:o}")) && error.contains("chmod 600"),
                "{error}"
            );
        }
        assert!(Token::read(&folder.path().join("none")).is_err());
    }
}
