//! Names of files to write, and errors about them.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use weir_flow::SinkError;

const STANDARD_OUTPUT: &str = "-";

const STREAM: &str = "{stream}";

/// A path that may hold `{stream}`.
#[derive(Debug, Clone)]
pub(super) struct Target(String);

impl Target {
    pub(super) fn new(path: &str) -> Self {
        Self(path.to_owned())
    }

    /// Whether it names another file for each stream.
    pub(super) fn is_template(&self) -> bool {
        self.0.contains(STREAM)
    }

    /// Whether it is standard output.
    pub(super) fn is_standard_output(&self) -> bool {
        self.0 == STANDARD_OUTPUT
    }

    /// The path itself; only where it is no template.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(&self.0)
    }

    /// The file of `stream`.
    pub(super) fn of(&self, stream: &str) -> PathBuf {
        PathBuf::from(self.0.replace(STREAM, &plain(stream)))
    }

    /// The file of `stream` where the path itself is taken by another one: `-stream` before the extension.
    pub(super) fn beside(&self, stream: &str) -> PathBuf {
        let path = self.path();
        let stem = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default();
        let extension = path
            .extension()
            .map(|end| format!(".{}", end.to_string_lossy()))
            .unwrap_or_default();
        path.with_file_name(format!("{stem}-{}{extension}", plain(stream)))
    }
}

/// A stream's name as part of a file's name: no separators, no leading dots.
fn plain(stream: &str) -> String {
    let plain: String = stream
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    plain.trim_start_matches('.').to_owned()
}

/// Makes the folder that `path` lies in.
pub(super) fn make_folder(path: &Path) -> Result<(), SinkError> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => {
            std::fs::create_dir_all(folder).map_err(|error| io_failed(path, &error))
        }
        _ => Ok(()),
    }
}

/// Looks whether `path` can become a file, by way of `part` beside it; leaves nothing behind.
pub(crate) fn look_whether_file(path: &Path, part: &Path) -> Result<(), SinkError> {
    make_folder(path)?;
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(failed(
            path,
            "it is there already, and no file: choose another name",
        ));
    }
    if part.exists() {
        return Ok(());
    }
    let made = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(part);
    made.and_then(|_| std::fs::remove_file(part))
        .map_err(|error| io_failed(path, &error))
}

/// The error of a file that cannot be written.
pub(crate) fn failed(path: &Path, reason: impl Display) -> SinkError {
    SinkError {
        target: if path.as_os_str() == STANDARD_OUTPUT {
            "to standard output".to_owned()
        } else {
            path.display().to_string()
        },
        reason: reason.to_string(),
    }
}

/// The same for what the system said.
pub(super) fn io_failed(path: &Path, error: &io::Error) -> SinkError {
    match error.kind() {
        io::ErrorKind::StorageFull => failed(path, "the disk is full: make room or write elsewhere"),
        io::ErrorKind::PermissionDenied => {
            failed(path, "not permitted: choose a folder that can be written to")
        }
        io::ErrorKind::BrokenPipe => failed(path, "nobody reads it any more"),
        _ => failed(path, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_a_file_of_its_own() {
        let check =
            |target: &str, stream: &str, of: &str| assert_eq!(Target::new(target).of(stream), Path::new(of));
        check("out/{stream}.mp4", "north", "out/north.mp4");
        check("out/{stream}/{stream}.jsonl", "a/../b", "out/a_.._b/a_.._b.jsonl");
        check("out/x{stream}", "../etc", "out/x_etc");
        assert_eq!(Target::new("out/a.mp4").beside("two"), Path::new("out/a-two.mp4"));
        assert_eq!(Target::new("a").beside("two"), Path::new("a-two"));
    }
}
