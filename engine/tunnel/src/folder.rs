//! Private folder for sockets.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempDir};

use crate::error::TunnelError;

const PREFIX: &str = "weir-tunnel-";
/// File that is locked for as long as the process of the folder lives.
const LOCK: &str = "lock";
/// The address of a unix socket has 108 bytes, one of them for its end.
const MAX_PATH_BYTES: usize = 107;
/// Bytes for the name of the folder and that of a socket in it.
const NAMES_BYTES: usize = 40;

/// A folder that only its user can enter. It is removed on drop.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: TempDir,
    _lock: File,
}

impl Folder {
    /// Makes a folder among the temporary files, and removes those of processes that were killed.
    pub(crate) fn make() -> Result<Self, TunnelError> {
        let parent = parent(std::env::temp_dir());
        let failed = |source| TunnelError::Folder {
            path: parent.clone(),
            source,
        };
        let mut builder = Builder::new();
        builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700));
        let folder = builder.tempdir_in(&parent).map_err(failed)?;
        let user = fs::metadata(folder.path()).map_err(failed)?.uid();
        remove_left_over(&parent, user);
        // Locked before it has its name: nobody finds it without the lock.
        let new = folder.path().join("lock.new");
        let lock = File::create_new(&new).map_err(failed)?;
        lock.lock().map_err(failed)?;
        fs::rename(&new, folder.path().join(LOCK)).map_err(failed)?;
        Ok(Self { folder, _lock: lock })
    }

    /// Path of a socket in the folder.
    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The folder of temporary files, unless a socket there has too long a path or one with signs of their own meaning in addresses.
fn parent(temporary: PathBuf) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
    let text = temporary.to_str().unwrap_or_default();
    let fits = text.len() + NAMES_BYTES <= MAX_PATH_BYTES;
    if fits && text.starts_with('/') && text.chars().all(is_plain) {
        temporary
    } else {
        PathBuf::from("/tmp")
    }
}

/// Removes the folders of a user whose processes are gone.
fn remove_left_over(parent: &Path, user: u32) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_named = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX));
        if is_named && is_left_over(&entry.path(), user) {
            // Another process may have removed it by now.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_left_over(folder: &Path, user: u32) -> bool {
    let is_own = |metadata: fs::Metadata| {
        let is_private = metadata.permissions().mode() & 0o077 == 0;
        metadata.is_dir() && metadata.uid() == user && is_private
    };
    // Anybody may put anything among the temporary files: no link is followed, and nothing but a file is opened.
    let lock = folder.join(LOCK);
    let is_folder = fs::symlink_metadata(folder).is_ok_and(is_own);
    let has_lock = is_folder && fs::symlink_metadata(&lock).is_ok_and(|metadata| metadata.is_file());
    // A folder without a lock is being made.
    has_lock && File::open(lock).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

    use super::*;

    #[test]
    fn folder_is_private_and_goes_with_its_owner() {
        let folder = Folder::make().unwrap();
        let path = folder.socket("in").parent().unwrap().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(folder.socket("peer-1023").as_os_str().len() <= MAX_PATH_BYTES);
        // Those of processes that live stay.
        let other = Folder::make().unwrap();
        assert!(path.is_dir());
        drop((folder, other));
        assert!(!path.exists());
    }

    #[test]
    fn private_folders_of_killed_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let user = fs::metadata(parent.path()).unwrap().uid();
        let make = |name: &str, mode: u32| {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            folder
        };
        let (killed, foreign) = (make("weir-tunnel-killed", 0o700), make("other", 0o700));
        let (young, open) = (make("weir-tunnel-young", 0o700), make("weir-tunnel-open", 0o755));
        for folder in [&killed, &foreign, &open] {
            File::create_new(folder.join(LOCK)).unwrap();
        }
        let link = parent.path().join("weir-tunnel-link");
        std::os::unix::fs::symlink(&foreign, &link).unwrap();
        remove_left_over(parent.path(), user + 1);
        assert!(killed.exists());
        remove_left_over(parent.path(), user);
        assert!(!killed.exists());
        assert!(
            [&foreign, &young, &open, &link]
                .into_iter()
                .all(|path| path.exists())
        );
    }

    #[test]
    fn sockets_have_short_and_plain_paths() {
        assert_eq!(parent("/var/tmp".into()), Path::new("/var/tmp"));
        for odd in ["", "tmp", "/a?b", "/a#b", "/a;b"] {
            assert_eq!(parent(odd.into()), Path::new("/tmp"), "{odd}");
        }
        assert_eq!(parent(format!("/{}", "a".repeat(100)).into()), Path::new("/tmp"));
    }
}
