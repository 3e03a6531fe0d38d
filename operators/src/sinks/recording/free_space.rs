//! Free space of the file system that a sink records to, and the order in which sinks of one folder free it: the sink
//! with the oldest recording removes it first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Free bytes for this user, and the size of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) free: u64,
    pub(super) size: u64,
}

/// The space of the file system of a folder; `None` if it cannot be looked at.
pub(super) fn space(folder: &Path) -> Option<Space> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(Space {
        free: found.f_bavail.saturating_mul(found.f_frsize),
        size: found.f_blocks.saturating_mul(found.f_frsize),
    })
}

/// Dates of the oldest recordings that may be removed, by folder and sink.
static OLDEST: Mutex<BTreeMap<PathBuf, BTreeMap<u64, u64>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The place of a sink among those of its folder. It is given up when this is dropped.
#[derive(Debug)]
pub(super) struct OldestOfFolder {
    folder: PathBuf,
    number: u64,
}

impl OldestOfFolder {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.canonicalize().unwrap_or_else(|_| folder.to_owned()),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Publishes the date of the oldest recording of this sink that may be removed, and returns that of the other sinks of the folder.
    pub(super) fn exchange(&self, oldest: Option<u64>) -> Option<u64> {
        let mut folders = lock();
        let sinks = folders.entry(self.folder.clone()).or_default();
        match oldest {
            Some(oldest) => sinks.insert(self.number, oldest),
            None => sinks.remove(&self.number),
        };
        let others = sinks.iter().filter(|(number, _)| **number != self.number);
        others.map(|(_, oldest)| *oldest).min()
    }
}

impl Drop for OldestOfFolder {
    fn drop(&mut self) {
        let mut folders = lock();
        if let Some(sinks) = folders.get_mut(&self.folder) {
            sinks.remove(&self.number);
        }
        folders.retain(|_, sinks| !sinks.is_empty());
    }
}

fn lock() -> MutexGuard<'static, BTreeMap<PathBuf, BTreeMap<u64, u64>>> {
    OLDEST.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinks_of_one_folder_know_the_oldest_of_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = OldestOfFolder::new(Path::new("/elsewhere"));
        assert_eq!(elsewhere.exchange(Some(1)), None);
        let [archive, clips] = [
            OldestOfFolder::new(folder.path()),
            OldestOfFolder::new(&folder.path().join(".")),
        ];
        assert_eq!(archive.exchange(Some(5)), None);
        assert_eq!(clips.exchange(Some(7)), Some(5));
        assert_eq!(archive.exchange(None), Some(7));
        drop(clips);
        assert_eq!(archive.exchange(Some(9)), None);
        assert!(space(folder.path()).is_some_and(|space| space.size > 0));
    }
}
