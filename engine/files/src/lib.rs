//! Files that are read whole, or line by line, within a bound on the bytes that are read.
//!
//! The size in the metadata is not trusted: a file may grow while it is read, and a device has no size at all. Anything
//! but a regular file or the standard input is refused before it is opened, since opening a FIFO without a writer blocks.
//!
//! It does not interpret what it reads, and it does not read videos: those are streams, which FFmpeg opens.

mod error;
mod limited;

use std::fs::{File, Metadata};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

pub use error::{FileError, has_no_locks, io_reason, open_files_hint};
pub use limited::Limited;

/// Opens a regular file, or the standard input under one of its names, for reading.
///
/// # Errors
/// [`FileError`]: it does not exist, may not be read, or is not a file.
pub fn open(path: &Path) -> Result<File, FileError> {
    let inherited = is_inherited(path);
    check_kind(&std::fs::metadata(path).map_err(FileError::Io)?, inherited)?;
    let file = File::open(path).map_err(FileError::Io)?;
    // The name may refer to something else by now.
    check_kind(&file.metadata().map_err(FileError::Io)?, inherited)?;
    Ok(file)
}

/// All bytes of a file, `max_bytes` at most.
///
/// # Errors
/// [`FileError`], among them [`FileError::TooLarge`].
pub fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileError> {
    let file = open(path)?;
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(FileError::Io)?;
    if bytes.len() as u64 > max_bytes {
        return Err(FileError::TooLarge { max_bytes });
    }
    Ok(bytes)
}

/// The mark that editors on Windows write at the start of UTF-8 files.
pub const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The text of a file of `max_bytes` at most, without a byte order mark.
///
/// # Errors
/// [`FileError`], among them [`FileError::NoText`].
pub fn read_text(path: &Path, max_bytes: u64) -> Result<String, FileError> {
    let mut bytes = read(path, max_bytes)?;
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(FileError::Utf16);
    }
    if bytes.starts_with(BYTE_ORDER_MARK.as_bytes()) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    String::from_utf8(bytes).map_err(|_| FileError::NoText)
}

/// A reader of lines of `max_line_bytes` at most, `max_bytes` in all; beyond either it returns an error of the kind
/// [`std::io::ErrorKind::FileTooLarge`]. A byte order mark at the start is skipped.
///
/// # Errors
/// As [`open`].
pub fn lines(
    path: &Path,
    max_line_bytes: u64,
    max_bytes: u64,
) -> Result<Limited<BufReader<File>>, FileError> {
    let mut reader = BufReader::new(open(path)?);
    let start = reader.fill_buf().map_err(FileError::Io)?;
    if start.starts_with(BYTE_ORDER_MARK.as_bytes()) {
        reader.consume(BYTE_ORDER_MARK.len());
    }
    Ok(Limited::new(reader, max_line_bytes, max_bytes))
}

/// Whether the path names a handle that this process inherited, such as standard input or the pipe of a shell's
/// `<(command)`: the parent process has connected the other end.
fn is_inherited(path: &Path) -> bool {
    path == Path::new("/dev/stdin")
        || [path.parent(), path.parent().and_then(Path::parent)]
            .into_iter()
            .flatten()
            .any(|folder| folder == Path::new("/dev/fd") || folder == Path::new("/proc/self/fd"))
}

fn check_kind(found: &Metadata, inherited: bool) -> Result<(), FileError> {
    if found.is_dir() {
        return Err(FileError::Folder);
    }
    if found.is_file() || inherited {
        return Ok(());
    }
    Err(FileError::Special { kind: kind(found) })
}

#[cfg(unix)]
fn kind(found: &Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let kind = found.file_type();
    if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn kind(_: &Metadata) -> &'static str {
    "a device"
}

#[cfg(test)]
mod tests;
