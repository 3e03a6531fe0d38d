//! Errors of reading files.

use std::io;

use thiserror::Error;

/// Error of reading a file; the message follows the name of the file.
#[derive(Debug, Error)]
pub enum FileError {
    /// An error of the operating system.
    #[error("{}", io_reason(.0))]
    Io(io::Error),
    /// It is a folder.
    #[error("it is a folder")]
    Folder,
    /// It is neither a file nor the standard input.
    #[error("it is {kind}: give a regular file, or /dev/stdin")]
    Special {
        /// Kind of the file with its article, such as "a socket".
        kind: &'static str,
    },
    /// It is larger than allowed.
    #[error("it holds more than {}", amount(*.max_bytes))]
    TooLarge {
        /// The bound in bytes.
        max_bytes: u64,
    },
    /// It is not UTF-8.
    #[error("it is not text (not UTF-8)")]
    NoText,
    /// It is text in UTF-16, by its byte order mark.
    #[error("it is text in UTF-16: save it as UTF-8")]
    Utf16,
}

/// `EMFILE`: as many files are open as the process may have.
const EMFILE: i32 = 24;
/// `ENFILE`: as many files are open as the whole system may have.
const ENFILE: i32 = 23;
/// `ENOLCK` of Linux: an NFS server runs without its lock service.
const ENOLCK: i32 = 37;
/// `EOPNOTSUPP` of Linux.
const EOPNOTSUPP: i32 = 95;

/// Returns a hint if `error` means that no more files can be opened (`EMFILE` or `ENFILE`); `None` for other
/// errors.
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

/// Returns true if a lock failed because the file system has none, as some network file systems. Callers that continue without the
/// lock log it.
#[must_use]
pub fn has_no_locks(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
        || (cfg!(target_os = "linux") && matches!(error.raw_os_error(), Some(ENOLCK | EOPNOTSUPP)))
}

/// Returns the reason for which a file or folder cannot be used: the system's message, or a plainer one for
/// common reasons, such as missing permissions or too many open files.
#[must_use]
pub fn io_reason(error: &io::Error) -> String {
    if let Some(hint) = open_files_hint(error) {
        return hint.to_owned();
    }
    // An error with a message of its own is more precise than its kind.
    if error.get_ref().is_some() {
        return error.to_string();
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "not permitted: check its permissions, and those of the folders above it".to_owned()
        }
        io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        io::ErrorKind::NotADirectory => "the path before it is not a folder".to_owned(),
        io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        io::ErrorKind::AlreadyExists => "something else of that name is there".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full: make room or write elsewhere".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "nothing can be written there: the disk is read-only".to_owned(),
        io::ErrorKind::InvalidData => "it is not text (not UTF-8)".to_owned(),
        _ => without_code(&error.to_string()),
    }
}

/// Message of the system without the number that the standard library adds, as in `Connection refused (os error 111)`.
fn without_code(message: &str) -> String {
    let code = message.rfind(" (os error ").filter(|_| message.ends_with(')'));
    message[..code.unwrap_or(message.len())].to_owned()
}

/// Formats a bound in the largest unit that divides it.
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
