//! The results of segments become those of a video: a file that has all of them takes the place of the one before, at once. Done
//! again, it comes out the same.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::QueueError;
use crate::output::sync;

/// Segments that are appended to the first `base` bytes of a file.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) target: PathBuf,
    pub(super) base: u64,
    /// Staged files and their lengths in bytes.
    pub(super) parts: Vec<(PathBuf, u64)>,
}

impl Lines {
    /// Joins the parts at their target; `unique` makes the name of the temporary file unique.
    pub(super) fn join(&self, unique: &str) -> Result<(), QueueError> {
        if self.parts.is_empty() {
            return Ok(());
        }
        if let Some(folder) = self.target.parent() {
            fs::create_dir_all(folder).map_err(QueueError::file(folder))?;
        }
        let there = fs::metadata(&self.target).map_or(0, |target| target.len());
        if there < self.base {
            return Err(QueueError::OutputChanged(self.target.clone()));
        }
        let written = beside(&self.target, unique);
        let joined = self.write(&written).and_then(|()| {
            fs::rename(&written, &self.target).map_err(QueueError::file(&self.target))?;
            sync(&self.target).map(drop)
        });
        if joined.is_err() {
            let _ = fs::remove_file(&written);
        }
        joined
    }

    fn write(&self, path: &Path) -> Result<(), QueueError> {
        let mut file = File::create(path).map_err(QueueError::file(path))?;
        if self.base > 0 {
            self.copy(&self.target, self.base, &mut file, path)?;
        }
        for (part, bytes) in &self.parts {
            self.copy(part, *bytes, &mut file, path)?;
        }
        file.sync_all().map_err(QueueError::file(path))
    }

    fn copy(&self, from: &Path, bytes: u64, to: &mut File, path: &Path) -> Result<(), QueueError> {
        let source = File::open(from).map_err(QueueError::file(from))?;
        let copied = std::io::copy(&mut source.take(bytes), to).map_err(QueueError::file(path))?;
        if copied == bytes {
            Ok(())
        } else {
            Err(QueueError::OutputChanged(from.to_owned()))
        }
    }
}

/// Name of the temporary file beside its target.
pub(super) fn beside(target: &Path, unique: &str) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{unique}.joining"))
}

/// Removes what engines left that ended while they wrote.
pub(super) fn remove_left(target: &Path) {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let start = format!(".{name}.");
    let entries = target.parent().map(fs::read_dir);
    for entry in entries.into_iter().flatten().flatten().flatten() {
        let found = entry.file_name().to_string_lossy().into_owned();
        if found.starts_with(&start) && (found.ends_with(".joining") || found.ends_with(".joining.part")) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_follow_what_was_there_however_often_they_are_joined() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("out"), "before\n").expect("written");
        fs::write(path("a"), "one\n").expect("written");
        fs::write(path("b"), "two\n").expect("written");
        let lines = Lines {
            target: path("out"),
            base: 7,
            parts: vec![(path("a"), 4), (path("b"), 4)],
        };
        fs::write(beside(&path("out"), "killed"), "half").expect("written");
        for unique in ["x", "y"] {
            lines.join(unique).expect("joined");
            assert_eq!(
                fs::read_to_string(path("out")).expect("read"),
                "before\none\ntwo\n"
            );
        }
        remove_left(&path("out"));
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 3);
        // What is shorter than it was is the work of another program.
        fs::write(path("b"), "t").expect("written");
        assert!(matches!(lines.join("z"), Err(QueueError::OutputChanged(_))));
        fs::write(path("out"), "bef").expect("written");
        assert!(matches!(lines.join("z"), Err(QueueError::OutputChanged(_))));
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 3);
    }
}
