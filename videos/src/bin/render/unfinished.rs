//! Files and folders that have another name until they are complete.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use weir_terminal::UserError;

/// File or folder under a temporary name, deleted unless it is completed.
pub(crate) struct Unfinished {
    path: PathBuf,
    part: PathBuf,
}

impl Unfinished {
    /// A file, with the folders that it lies in.
    pub(crate) fn file(path: &Path) -> anyhow::Result<(Self, fs::File)> {
        let unfinished = Self::beside(path)?;
        if path.is_dir() {
            return Err(unfinished.refused("it is a folder: choose another name"));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let made = fs::create_dir_all(folder).and_then(|()| fs::File::create(&unfinished.part));
        let file = made.map_err(|error| unfinished.failed(&error))?;
        Ok((unfinished, file))
    }

    /// A folder that is not there yet, or is empty.
    pub(crate) fn folder(path: &Path) -> anyhow::Result<Self> {
        let unfinished = Self::beside(path)?;
        match fs::read_dir(path).map(|mut entries| entries.next().is_some()) {
            Ok(true) => {
                return Err(unfinished.refused("it is not empty: name a folder that is not there yet"));
            }
            Err(_) if path.exists() => {
                return Err(unfinished.refused("it is there already, and no folder: choose another name"));
            }
            Ok(false) | Err(_) => {}
        }
        fs::create_dir_all(&unfinished.part).map_err(|error| unfinished.failed(&error))?;
        Ok(unfinished)
    }

    fn beside(path: &Path) -> anyhow::Result<Self> {
        let mut name: OsString = match path.file_name() {
            Some(name) => name.to_owned(),
            None => {
                let path = path.display();
                return Err(UserError::new(format!(
                    "cannot write {path}: it has no name: choose another one"
                ))
                .into());
            }
        };
        name.push(format!(".{}.part", std::process::id()));
        Ok(Self {
            path: path.to_owned(),
            part: path.with_file_name(name),
        })
    }

    /// Temporary path, until the file is complete.
    pub(crate) fn part(&self) -> &Path {
        &self.part
    }

    /// Renames it to its final name.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        fs::rename(&self.part, &self.path).map_err(|error| self.failed(&error))
    }

    /// The error of what the system said.
    pub(crate) fn failed(&self, error: &io::Error) -> anyhow::Error {
        self.refused(&match error.kind() {
            io::ErrorKind::StorageFull => "the disk is full: make room or write elsewhere".to_owned(),
            _ => error.to_string(),
        })
    }

    fn refused(&self, reason: &str) -> anyhow::Error {
        UserError::new(format!("cannot write {}: {reason}", self.path.display())).into()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After a rename it does not exist any more; a failure to delete it does no harm.
        let _ = fs::remove_file(&self.part).or_else(|_| fs::remove_dir_all(&self.part));
    }
}
