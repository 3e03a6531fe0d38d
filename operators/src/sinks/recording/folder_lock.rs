//! One process records into a folder at a time: a lock of the system, which a killed process releases.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use weir_flow::SinkError;

use super::super::target::{failed, io_failed};
use crate::files::lock;

pub(super) const NAME: &str = ".weir-recording.lock";

/// Locked folders of this process with their devices: its sinks share them, such as an old and a new one during a reload. Another disk
/// that is mounted at a folder has a lock of its own.
static HELD: Mutex<BTreeMap<(PathBuf, u64), Weak<File>>> = Mutex::new(BTreeMap::new());

/// Locks a folder that is there for as long as the result is kept.
pub(in super::super) fn hold(folder: &Path) -> Result<Arc<File>, SinkError> {
    let fail = |error: std::io::Error| io_failed(folder, &error);
    let path = folder.canonicalize().map_err(fail)?;
    let device = path.metadata().map_err(fail)?.dev();
    let key = (path, device);
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = held.get(&key).and_then(Weak::upgrade) {
        return Ok(file);
    }
    let mut options = OpenOptions::new();
    let file = options
        .create(true)
        .truncate(false)
        .write(true)
        .open(key.0.join(NAME));
    let file = file.map_err(fail)?;
    if !lock(&file).map_err(fail)? {
        let reason = "another process records into this folder: stop it, or name another folder";
        return Err(failed(folder, reason));
    }
    let file = Arc::new(file);
    held.retain(|_, file| file.strong_count() > 0);
    held.insert(key, Arc::downgrade(&file));
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_records_into_a_folder_and_its_sinks_share_it() {
        let folder = tempfile::tempdir().unwrap();
        // As another process has it: locks belong to the open file.
        let theirs = File::create(folder.path().join(NAME)).unwrap();
        assert!(lock(&theirs).unwrap());
        let refused = hold(folder.path()).unwrap_err().to_string();
        assert!(
            refused.contains("another process records into this folder"),
            "{refused}"
        );
        drop(theirs);
        let first = hold(folder.path()).unwrap();
        let second = hold(&folder.path().join(".")).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        let theirs = File::open(folder.path().join(NAME)).unwrap();
        assert!(!lock(&theirs).unwrap());
        drop((first, second));
        assert!(lock(&theirs).unwrap());
    }
}
