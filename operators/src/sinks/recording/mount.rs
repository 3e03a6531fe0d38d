//! Looks for another disk at the folder of a sink, such as one of a server that was away at the start. Its recordings are only looked at
//! once this process has its lock: another one may record onto it.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use super::folder_lock;

/// Time in milliseconds after which a disk that could not be locked is tried again.
const RETRY_MS: i64 = 60_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Mount {
    /// Looks at the device of a folder.
    pub(super) look: fn(&Path) -> Option<u64>,
    device: Option<u64>,
    /// Keeps the disk of now locked, if it was mounted while the engine runs.
    _lock: Option<Arc<File>>,
    /// Monotonic time from which on a disk without a lock is tried again.
    retry_ms: Option<i64>,
}

/// A disk that was mounted in place of another while the engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mounted {
    /// Whether this process alone records onto it.
    pub(super) is_locked: bool,
}

impl Default for Mount {
    fn default() -> Self {
        Self {
            look: |folder| fs::metadata(folder).ok().map(|found| found.dev()),
            device: None,
            _lock: None,
            retry_ms: None,
        }
    }
}

impl Mount {
    /// Looks at the folder; true if it is on another file system than the last time.
    pub(super) fn has_changed(&mut self, folder: &Path) -> bool {
        let Some(device) = (self.look)(folder) else {
            return false;
        };
        self.device.replace(device).is_some_and(|before| before != device)
    }

    /// Looks at the folder, and locks it if another disk is there; `None` if nothing is new.
    pub(super) fn look_at(&mut self, folder: &Path, now_ms: i64) -> Option<Mounted> {
        let has_changed = self.has_changed(folder);
        let is_due = self.retry_ms.is_some_and(|retry_ms| now_ms >= retry_ms);
        if !has_changed && !is_due {
            return None;
        }
        if has_changed {
            tracing::warn!("{}: another disk is mounted there", folder.display());
        }
        match folder_lock::hold(folder) {
            Ok(lock) => {
                (self._lock, self.retry_ms) = (Some(lock), None);
                Some(Mounted { is_locked: true })
            }
            Err(error) => {
                if has_changed {
                    tracing::warn!("{error}; what is recorded there already stays");
                }
                (self._lock, self.retry_ms) = (None, Some(now_ms.saturating_add(RETRY_MS)));
                has_changed.then_some(Mounted { is_locked: false })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::lock;

    #[test]
    fn disk_that_another_process_records_onto_is_taken_once_it_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Mount {
            look: |_| Some(1),
            ..Mount::default()
        };
        assert_eq!(mount.look_at(folder.path(), 0), None);
        // As another process has it: locks belong to the open file.
        let theirs = File::create(folder.path().join(folder_lock::NAME)).unwrap();
        assert!(lock(&theirs).unwrap());
        mount.look = |_| Some(2);
        let unlocked = Some(Mounted { is_locked: false });
        assert_eq!(mount.look_at(folder.path(), 1_000), unlocked);
        assert_eq!(mount.look_at(folder.path(), 1_000 + RETRY_MS), None);
        drop(theirs);
        assert_eq!(mount.look_at(folder.path(), 2_000 + RETRY_MS), None, "not yet");
        let locked = Some(Mounted { is_locked: true });
        assert_eq!(mount.look_at(folder.path(), 1_000 + 2 * RETRY_MS), locked);
        assert_eq!(mount.look_at(folder.path(), i64::MAX), None);
    }
}
