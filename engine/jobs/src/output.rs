//! Committed results get to their place: they are appended to what was committed before, however often that is tried. What a
//! torn try left is cut off first.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::path::Path;

use crate::error::QueueError;
use crate::job::Pending;

impl Pending {
    /// Appends the results and removes the staged file. Without effect if this was done before.
    pub(crate) fn publish(&self) -> Result<(), QueueError> {
        let there = std::fs::metadata(&self.target).map_or(0, |target| target.len());
        if there < self.base {
            return Err(QueueError::OutputChanged(self.target.clone()));
        }
        let staged = match File::open(&self.file) {
            Ok(staged) => staged,
            Err(_) if there >= self.base + self.bytes => return Ok(()),
            Err(error) => return Err(QueueError::file(&self.file)(error)),
        };
        self.append(staged).map_err(QueueError::file(&self.target))?;
        std::fs::remove_file(&self.file).map_err(QueueError::file(&self.file))
    }

    fn append(&self, mut staged: File) -> std::io::Result<()> {
        if let Some(folder) = self.target.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let options = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .to_owned();
        let mut target = options.open(&self.target)?;
        target.set_len(self.base)?;
        target.seek(SeekFrom::Start(self.base))?;
        let appended = std::io::copy(&mut staged, &mut target).and_then(|_| target.sync_all());
        if appended.is_err() {
            // A reader of the file finds no part of a line.
            let _ = target.set_len(self.base);
        }
        appended?;
        sync_folder(&self.target)
    }
}

/// Makes sure that the file is on the disk under its name.
pub(crate) fn sync(path: &Path) -> Result<u64, QueueError> {
    let sync = || {
        let file = File::open(path)?;
        file.sync_all()?;
        sync_folder(path)?;
        Ok(file.metadata()?.len())
    };
    sync().map_err(QueueError::file(path))
}

fn sync_folder(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}
