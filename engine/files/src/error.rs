//! Why a file was not read.

use std::io;

use thiserror::Error;

/// Why a file was not read; the text goes behind the name of the file.
#[derive(Debug, Error)]
pub enum FileError {
    /// The system says why.
    #[error("{}", io_reason(.0))]
    Io(io::Error),
    /// It is a folder.
    #[error("it is a folder")]
    Folder,
    /// It is neither a file nor the standard input.
    #[error("it is {kind}: give a regular file, or /dev/stdin")]
    Special {
        /// What it is, with its article.
        kind: &'static str,
    },
    /// It holds more than it may.
    #[error("it holds more than {}", amount(*.max_bytes))]
    TooLarge {
        /// The bound.
        max_bytes: u64,
    },
    /// It is no UTF-8.
    #[error("it is no text (no UTF-8)")]
    NoText,
}

/// `EMFILE`: as many files are open as the process may have.
const EMFILE: i32 = 24;
/// `ENFILE`: as many as the whole system may have.
const ENFILE: i32 = 23;

/// What to do where the system gives no more file handles; `None` for other errors.
#[must_use]
pub fn open_files_hint(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error() {
        Some(EMFILE) if cfg!(unix) => {
            Some("too many files are open: raise the limit of this process (ulimit -n 4096)")
        }
        Some(ENFILE) if cfg!(unix) => {
            Some("too many files are open on this machine: raise its limit (sysctl fs.file-max)")
        }
        _ => None,
    }
}

/// Why a file or folder cannot be used: what the system says, and where permissions, a folder or the number of open files
/// are the reason, that they are.
#[must_use]
pub fn io_reason(error: &io::Error) -> String {
    if let Some(hint) = open_files_hint(error) {
        return hint.to_owned();
    }
    // What was made with words of its own knows best.
    if error.get_ref().is_some() {
        return error.to_string();
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "not permitted: check its permissions, and those of the folders above it".to_owned()
        }
        io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        io::ErrorKind::NotADirectory => "what it lies in is no folder".to_owned(),
        io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        io::ErrorKind::AlreadyExists => "something else of that name is there".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full: make room or write elsewhere".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "nothing can be written there: the disk is read-only".to_owned(),
        io::ErrorKind::InvalidData => "it is no text (no UTF-8)".to_owned(),
        _ => error.to_string(),
    }
}

/// A bound in the largest unit that it is a multiple of.
pub(crate) fn amount(bytes: u64) -> String {
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fits = units
        .iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    fits.map_or_else(
        || format!("{bytes} bytes"),
        |(unit, name)| format!("{} {name}", bytes / unit),
    )
}
