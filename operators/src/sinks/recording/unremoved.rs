//! Recordings that could not be removed, as on a disk that was read-only for a while or a server that was away: they are tried
//! again.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Time in milliseconds after which removing is tried again.
const RETRY_MS: i64 = 60_000;

/// Recordings that are tried again in one step.
const MAX_TRIES: usize = 64;

/// Maximum number of recordings that wait. Beyond it, the oldest ones stay until the next start.
const MAX_WAITING: usize = 10_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Unremoved {
    /// Paths without extension.
    waiting: VecDeque<PathBuf>,
    /// Monotonic time from which on they are tried again.
    retry_ms: i64,
    /// Recordings in a row that could not be removed.
    failures: usize,
}

impl Unremoved {
    /// Removes a recording with what stands beside it, and says how many files that were. If that fails, it is tried again.
    pub(super) fn remove(&mut self, stem: &Path, now_ms: i64) -> u64 {
        let (files, failure) = self.try_to_remove(stem);
        if let Some((path, error)) = failure {
            if self.waiting.is_empty() {
                tracing::warn!(
                    "{} cannot be removed, which is tried again each minute: {}",
                    path.display(),
                    weir_files::io_reason(&error)
                );
                self.retry_ms = now_ms.saturating_add(RETRY_MS);
            }
            if self.waiting.len() >= MAX_WAITING {
                self.waiting.pop_front();
            }
            self.waiting.push_back(stem.to_owned());
        }
        files
    }

    /// Tries again what is due. Returns how many files it removed, and the recordings of which nothing is left.
    pub(super) fn retry(&mut self, now_ms: i64) -> (u64, Vec<PathBuf>) {
        let (mut files, mut gone) = (0, Vec::new());
        if self.waiting.is_empty() || now_ms < self.retry_ms {
            return (files, gone);
        }
        for _ in 0..self.waiting.len().min(MAX_TRIES) {
            let Some(stem) = self.waiting.pop_front() else {
                break;
            };
            // What was pinned meanwhile stays.
            if is_pinned(&stem) {
                continue;
            }
            let (removed, failure) = self.try_to_remove(&stem);
            files += removed;
            if failure.is_some() {
                self.retry_ms = now_ms.saturating_add(RETRY_MS);
                self.waiting.push_back(stem);
            } else {
                gone.push(stem);
            }
        }
        // One of the others is tried as well: not all may be in the same folder.
        self.failures = self.failures.min(MAX_TRIES - 1);
        if self.waiting.is_empty() {
            self.failures = 0;
            tracing::info!("no recording is left of those that could not be removed");
        }
        (files, gone)
    }

    /// Number of recordings that may be tried now. While none can be removed, as on a disk that is read-only, it is one a minute: all that
    /// waits goes once the disk can be written again.
    pub(super) const fn room(&self) -> usize {
        match self.failures {
            0 => usize::MAX,
            failures => MAX_TRIES.saturating_sub(failures),
        }
    }

    fn try_to_remove(&mut self, stem: &Path) -> (u64, Option<(PathBuf, io::Error)>) {
        let (files, failure) = remove(stem);
        self.failures = if failure.is_some() { self.failures + 1 } else { 0 };
        (files, failure)
    }
}

/// Whether the file that pins a recording is beside it.
pub(super) fn is_pinned(stem: &Path) -> bool {
    let mut pin = stem.as_os_str().to_owned();
    pin.push(".mp4.pinned");
    fs::symlink_metadata(pin).is_ok()
}

/// Removes a recording with what stands beside it. Returns how many files that were, and the last that could not be removed.
fn remove(stem: &Path) -> (u64, Option<(PathBuf, io::Error)>) {
    let (mut removed, mut failure) = (0, None);
    for extension in ["mp4", "jpg", "json", "clip"] {
        let mut path = stem.as_os_str().to_owned();
        path.push(format!(".{extension}"));
        match fs::remove_file(&path) {
            Ok(()) => removed += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => failure = Some((path.into(), error)),
        }
    }
    (removed, failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_removed_is_tried_again_unless_it_was_pinned() {
        for is_pinned in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let stem = folder.path().join("20261123T213005.123Z-gate-7");
            let [video, pin] = ["mp4", "mp4.pinned"].map(|extension| stem.with_added_extension(extension));
            fs::write(stem.with_added_extension("json"), "{}").unwrap();
            // A folder is not removed as a file is.
            fs::create_dir(&video).unwrap();
            let mut unremoved = Unremoved::default();
            assert_eq!(unremoved.remove(&stem, 0), 1);
            for now_ms in [RETRY_MS - 1, RETRY_MS] {
                assert_eq!(unremoved.retry(now_ms), (0, Vec::new()));
            }
            fs::remove_dir(&video).unwrap();
            fs::write(&video, "").unwrap();
            if is_pinned {
                fs::write(&pin, "").unwrap();
            }
            assert_eq!(unremoved.retry(2 * RETRY_MS - 1), (0, Vec::new()), "not yet");
            let expected = if is_pinned {
                (0, Vec::new())
            } else {
                (1, vec![stem])
            };
            assert_eq!(unremoved.retry(2 * RETRY_MS), expected);
            assert_eq!(unremoved.retry(i64::MAX), (0, Vec::new()));
            assert_eq!(video.exists(), is_pinned);
        }
    }

    #[test]
    fn hardly_more_waits_while_nothing_can_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut unremoved = Unremoved::default();
        assert_eq!(unremoved.room(), usize::MAX);
        let videos = (0..MAX_TRIES).map(|number| folder.path().join(format!("{number}.mp4")));
        for video in videos.clone() {
            assert!(unremoved.room() > 0);
            fs::create_dir(&video).unwrap();
            unremoved.remove(&video.with_extension(""), 0);
        }
        assert_eq!(unremoved.room(), 0);
        assert_eq!(unremoved.retry(RETRY_MS), (0, Vec::new()));
        assert_eq!(unremoved.room(), 1, "it may be another folder");
        videos.for_each(|video| fs::remove_dir(video).unwrap());
        assert_eq!(unremoved.retry(2 * RETRY_MS).1.len(), MAX_TRIES);
        assert_eq!(unremoved.room(), usize::MAX);
    }
}
