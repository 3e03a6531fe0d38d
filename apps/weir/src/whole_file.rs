//! A file that is written in one piece: it has the old text or the new one, never half of either.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// Writes `text` beside its place and gives it its name when it is complete. A device or a pipe is
/// written to as it is.
///
/// # Errors
/// Those of the disk; nothing is left behind then.
pub(crate) fn write_whole(path: &Path, text: &(impl AsRef<[u8]> + ?Sized)) -> io::Result<()> {
    let text = text.as_ref();
    let path = resolve_dash(path);
    if is_device(path) {
        return fs::write(path, text);
    }
    // A link stays one: what it names is replaced.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = Path::new(&beside);
    let written = fs::write(beside, text).and_then(|()| {
        if let Ok(before) = fs::metadata(&path) {
            fs::set_permissions(beside, before.permissions())?;
        }
        fs::rename(beside, &path)
    });
    if written.is_err() {
        // What is left of it says nothing; that it cannot be taken away does no harm.
        let _ = fs::remove_file(beside);
    }
    written
}

/// As [`write_whole`] for a file that may hold secrets, `path` being no link. A file that is there keeps its owner and its mode, a
/// new one has the mode 0600, and the file beside it has the mode 0600 as well until it is complete. The bytes are on the disk
/// before the file takes its name. `is_still` is asked just before that.
///
/// # Errors
/// Those of the disk, and [`io::ErrorKind::Interrupted`] where `is_still` denies; nothing is changed then.
pub(crate) fn write_private(path: &Path, text: &[u8], is_still: impl FnOnce() -> bool) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = Path::new(&beside);
    // Left by a process of this number that was killed.
    let _ = fs::remove_file(beside);
    let mut options = OpenOptions::new();
    let written = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(beside)
        .and_then(|mut file| {
            file.write_all(text)?;
            if let Ok(before) = fs::metadata(path) {
                let own = file.metadata()?;
                if (own.uid(), own.gid()) != (before.uid(), before.gid()) {
                    fchown(&file, Some(before.uid()), Some(before.gid()))?;
                }
                file.set_permissions(before.permissions())?;
            }
            file.sync_all()?;
            if !is_still() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            fs::rename(beside, path)
        });
    if written.is_err() {
        let _ = fs::remove_file(beside);
    }
    written
}

/// The path to write to: `-` is the standard output.
fn resolve_dash(path: &Path) -> &Path {
    if path.as_os_str() == "-" {
        Path::new("/dev/stdout")
    } else {
        path
    }
}

/// True if a path cannot be replaced by a file, such as `/dev/stdout`, whatever is behind it at the moment.
fn is_device(path: &Path) -> bool {
    path.starts_with("/dev")
        || path.starts_with("/proc")
        || fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// A file that is written at the end of a long run, locked against other runs until then.
#[derive(Debug)]
pub(crate) struct ReservedFile {
    path: PathBuf,
    /// The lock; `None` for a device.
    _held: Option<File>,
    /// True if the file was created by the reservation.
    made: bool,
}

impl ReservedFile {
    /// Looks whether the file can be written, and locks it. What it holds stays until it is written.
    ///
    /// # Errors
    /// Those of the disk, and where another run holds it.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let path = resolve_dash(path);
        let path_owned = path.to_owned();
        if is_device(path) {
            let _opens = OpenOptions::new().append(true).open(path)?;
            return Ok(Self {
                path: path_owned,
                _held: None,
                made: false,
            });
        }
        let made = !path.exists();
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let reason = "another run is to write it: choose another name";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, reason));
            }
            Err(TryLockError::Error(error)) if weir_files::has_no_locks(&error) => tracing::warn!(
                "{} cannot be locked ({error}): another run that writes it is not noticed",
                path.display()
            ),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(Self {
            path: path_owned,
            _held: Some(file),
            made,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the file with `text`.
    ///
    /// # Errors
    /// As [`write_whole`].
    pub(crate) fn write(mut self, text: &str) -> io::Result<()> {
        write_whole(&self.path, text)?;
        self.made = false;
        Ok(())
    }
}

impl Drop for ReservedFile {
    fn drop(&mut self) {
        // Nothing came to be written: an empty file says nothing.
        if self.made && fs::metadata(&self.path).is_ok_and(|file| file.is_file() && file.len() == 0) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_reserved_file_keeps_its_text_until_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        drop(ReservedFile::new(&path).unwrap());
        assert!(!path.exists(), "nothing was written");
        fs::write(&path, "old").unwrap();
        let reserved = ReservedFile::new(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        let other = ReservedFile::new(&path).unwrap_err();
        assert!(other.to_string().contains("another run"), "{other}");
        reserved.write("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(ReservedFile::new(&path).is_ok());
    }

    #[test]
    fn a_private_file_keeps_its_mode_and_a_new_one_is_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("graph.toml");
        let mode = || fs::metadata(&path).unwrap().mode() & 0o777;
        write_private(&path, b"one", || true).unwrap();
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        write_private(&path, b"two", || true).unwrap();
        assert_eq!((mode(), fs::read(&path).unwrap()), (0o664, b"two".to_vec()));
        assert!(write_private(&path, b"three", || false).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("target"), "old").unwrap();
        std::os::unix::fs::symlink("target", at("link")).unwrap();
        write_whole(&at("link"), "new").unwrap();
        assert_eq!(fs::read_to_string(at("target")).unwrap(), "new");
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
    }
}
