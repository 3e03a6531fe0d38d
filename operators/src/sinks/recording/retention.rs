//! How long recordings are kept: by age and by bytes of all of them together, the oldest are removed first. Only files whose
//! names are those of recordings, in folders of the sink, are ever looked at.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use weir_flow::{KeyKind, KeySpec, Settings};

use super::names;
use crate::media::{Leftover, settle_leftover};

/// Folders below the base that are looked into.
const MAX_DEPTH: usize = 4;

pub(super) const KEYS: [KeySpec; 2] = [
    KeySpec {
        name: "keep",
        kind: KeyKind::Duration,
        about: "what is older than this is removed (default `\"7d\"`)",
    },
    KeySpec {
        name: "max_bytes",
        kind: KeyKind::Bytes,
        about: "how much the recordings of all streams may take together; beyond it the oldest are removed (default `\"10GiB\"`)",
    },
];

/// Recordings that are on the disk.
#[derive(Debug)]
pub(super) struct Retention {
    keep_ms: u64,
    max_bytes: u64,
    /// By when they begin and their path without extension.
    recordings: BTreeMap<(u64, PathBuf), u64>,
    bytes: u64,
}

/// What was found at the start.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// Files of an interrupted run that play, and have their names now.
    pub(super) completed: u64,
    /// Files of an interrupted run that held nothing to play, and were removed.
    pub(super) removed: u64,
}

impl Retention {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            keep_ms: (settings.number("keep", 7.0 * 86_400.0) * 1e3) as u64,
            max_bytes: settings.number("max_bytes", (10_u64 << 30) as f64) as u64,
            recordings: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Takes in what earlier runs left in a folder: complete recordings, and `.part` files, which are completed or removed.
    pub(super) fn scan(&mut self, base: &Path) -> Found {
        let mut found = Found::default();
        self.scan_folder(base, 0, &mut found);
        found
    }

    fn scan_folder(&mut self, folder: &Path, depth: usize, found: &mut Found) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            // Links are not followed: what they lead to is none of ours.
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else {
                continue;
            };
            if kind.is_dir() && depth < MAX_DEPTH {
                self.scan_folder(&path, depth + 1, found);
            } else if kind.is_file() {
                self.take_in(&path, found);
            }
        }
    }

    fn take_in(&mut self, path: &Path, found: &mut Found) {
        let Some(whole) = names::unfinished(path) else {
            self.add(path);
            return;
        };
        match settle_leftover(path, whole) {
            Leftover::Completed(path) => {
                found.completed += 1;
                self.add(&path);
            }
            Leftover::Removed => found.removed += 1,
            Leftover::Kept => {}
        }
    }

    /// A file is there.
    pub(super) fn add(&mut self, path: &Path) {
        let Some((time_ms, _)) = names::recorded(path) else {
            return;
        };
        let bytes = fs::metadata(path).map_or(0, |found| found.len());
        *self
            .recordings
            .entry((time_ms, path.with_extension("")))
            .or_default() += bytes;
        self.bytes += bytes;
    }

    /// Removes what is too old at `now_ms` after 1970 (UTC), or too much while so many bytes are being written; says how many
    /// files it removed.
    pub(super) fn apply(&mut self, now_ms: u64, open_bytes: u64) -> u64 {
        let mut removed = 0;
        while let Some(entry) = self.recordings.first_entry() {
            let (time_ms, stem) = entry.key();
            let is_old = now_ms.saturating_sub(*time_ms) > self.keep_ms;
            if !is_old && self.bytes + open_bytes <= self.max_bytes {
                break;
            }
            let stem = stem.clone();
            self.bytes = self.bytes.saturating_sub(entry.remove());
            removed += remove(&stem);
        }
        removed
    }
}

/// Removes a recording with what stands beside it; says how many files that were.
fn remove(stem: &Path) -> u64 {
    let mut removed = 0;
    for extension in ["mp4", "jpg", "json"] {
        let mut path = stem.as_os_str().to_owned();
        path.push(format!(".{extension}"));
        match fs::remove_file(&path) {
            Ok(()) => removed += 1,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!("{} cannot be removed: {error}", Path::new(&path).display()),
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use weir_flow::Value;

    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn retention(keep_s: f64, max_bytes: f64) -> Retention {
        let settings = [("keep", keep_s), ("max_bytes", max_bytes)];
        let settings = settings.map(|(name, number)| (name.to_owned(), Value::Number(number)));
        Retention::new(&Settings(settings.into()))
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_oldest_go_first_with_what_stands_beside_them_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let north = folder.path().join("north");
        fs::create_dir(&north).unwrap();
        for day in 1..=4_u64 {
            for extension in ["mp4", "json"] {
                let name = format!("{}.{extension}", super::names::stem(day * DAY_MS, &["gate"]));
                fs::write(north.join(name), [0; 50]).unwrap();
            }
        }
        fs::write(north.join("holiday.mp4"), [0; 500]).unwrap();
        let mut all = retention(7.0 * 86_400.0, 300.0);
        assert_eq!(all.scan(folder.path()), Found::default());
        assert_eq!(all.bytes, 400);
        assert_eq!(all.apply(4 * DAY_MS, 0), 2);
        assert_eq!(all.apply(4 * DAY_MS, 0), 0);
        assert_eq!(all.apply(4 * DAY_MS, 100), 2, "what is being written counts");
        assert_eq!(all.apply(10 * DAY_MS + 1, 0), 2);
        assert_eq!(
            names(&north),
            [
                "19700105T000000.000Z-gate.json",
                "19700105T000000.000Z-gate.mp4",
                "holiday.mp4"
            ]
        );
        // What is left outside is none of the sink's.
        std::os::unix::fs::symlink(&north, folder.path().join("link")).unwrap();
        let mut again = retention(1.0, 1e9);
        again.scan(folder.path());
        assert_eq!(again.bytes, 100);
    }

    #[test]
    fn what_a_killed_run_left_is_completed_or_removed() {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("{}.mp4.part", super::names::stem(DAY_MS, &[]));
        fs::write(folder.path().join(name), b"not a fragment").unwrap();
        fs::write(folder.path().join("video.mp4.part"), b"of another sink").unwrap();
        let found = retention(1.0, 1.0).scan(folder.path());
        assert_eq!(
            found,
            Found {
                completed: 0,
                removed: 1
            }
        );
        assert_eq!(names(folder.path()), ["video.mp4.part"]);
    }
}
