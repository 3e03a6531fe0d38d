//! Retention of recordings, by age and by the bytes of all recordings together; the oldest are removed first.
//! Only files that are named like recordings, in folders of the sink, are ever examined.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use weir_flow::{KeyKind, KeySpec, Settings};

use super::names::{self, Form};
use super::pattern;
use super::retention_clock::{RetentionClock, clocks};
use crate::media::{Leftover, settle_leftover};

/// Folders below the base that are looked into.
const MAX_DEPTH: usize = 4;

/// Recordings that one step removes at most. A step is a second apart from the next, or a new recording.
const MAX_BY_AGE: usize = 64;

pub(super) const KEYS: [KeySpec; 2] = [
    KeySpec {
        name: "keep",
        kind: KeyKind::Duration,
        about: "recordings older than this are removed (default `\"7d\"`)",
    },
    KeySpec {
        name: "max_bytes",
        kind: KeyKind::Bytes,
        about: "maximum size of the recordings of all streams together; beyond it the oldest are removed (default `\"10GiB\"`)",
    },
];

/// Recordings that are on the disk.
#[derive(Debug)]
pub(super) struct Retention {
    keep_ms: u64,
    max_bytes: u64,
    form: Form,
    start: Instant,
    clock: RetentionClock,
    /// By their monotonic time and their path without extension.
    recordings: BTreeMap<(i64, PathBuf), Recording>,
    /// Monotonic times of recordings by path without extension.
    times: BTreeMap<PathBuf, i64>,
    /// Recordings in each folder.
    folders: BTreeMap<PathBuf, usize>,
    /// Folders of streams that the sink has: the newest recording in each stays.
    current: BTreeSet<PathBuf>,
    base: PathBuf,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Recording {
    bytes: u64,
    /// Date in the name of a recording of an earlier run, in milliseconds since 1970 (UTC).
    date_ms: Option<u64>,
}

/// Files of interrupted runs that were settled at the start.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// Files of an interrupted run that play, and have their names now.
    pub(super) completed: u64,
    /// Files of an interrupted run that held nothing to play, and were removed.
    pub(super) removed: u64,
}

impl Retention {
    pub(super) fn new(settings: &Settings, form: Form) -> Self {
        #[expect(clippy::disallowed_methods, reason = "ages of files are real time")]
        let start = Instant::now();
        let (wall_ms, now_ms) = clocks(start);
        Self {
            keep_ms: (settings.number("keep", 7.0 * 86_400.0) * 1e3) as u64,
            max_bytes: settings.number("max_bytes", (10_u64 << 30) as f64) as u64,
            form,
            start,
            clock: RetentionClock::new(wall_ms, now_ms),
            recordings: BTreeMap::new(),
            times: BTreeMap::new(),
            folders: BTreeMap::new(),
            current: BTreeSet::new(),
            base: PathBuf::new(),
            bytes: 0,
        }
    }

    /// Takes in what earlier runs left in the folders of a pattern below `base`: complete recordings, and `.part` files, which are
    /// completed or removed.
    pub(super) fn scan(&mut self, base: &Path, pattern: &Path) -> Found {
        let mut found = Found::default();
        self.base = base.to_owned();
        self.scan_folder(base, pattern, 0, &mut found);
        found
    }

    fn scan_folder(&mut self, folder: &Path, pattern: &Path, depth: usize, found: &mut Found) {
        let is_own = pattern::has(pattern, folder) || self.current.contains(folder);
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            // Links are not followed: what they lead to is none of ours.
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else {
                continue;
            };
            if kind.is_dir() && depth < MAX_DEPTH {
                self.scan_folder(&path, pattern, depth + 1, found);
            } else if kind.is_file() && is_own {
                self.take_in(&path, found);
            }
        }
    }

    fn take_in(&mut self, path: &Path, found: &mut Found) {
        let Some(whole) = names::unfinished(path) else {
            self.take(path, true);
            return;
        };
        if names::form(whole) != Some(self.form) {
            return;
        }
        match settle_leftover(path, whole) {
            Leftover::Completed(path) => {
                found.completed += 1;
                self.take(&path, true);
            }
            Leftover::Removed => found.removed += 1,
            Leftover::Kept => {}
        }
    }

    /// A file was recorded.
    pub(super) fn add(&mut self, path: &Path) {
        self.take(path, false);
    }

    fn take(&mut self, path: &Path, is_old: bool) {
        let Some((date_ms, _)) = names::recorded(path).filter(|_| names::form(path) == Some(self.form))
        else {
            return;
        };
        let bytes = fs::metadata(path).map_or(0, |found| found.len());
        let stem = path.with_extension("");
        let now_ms = self.clock.now_ms();
        let new_ms = if is_old {
            self.clock.monotonic(date_ms)
        } else {
            now_ms
        };
        let time_ms = *self.times.entry(stem.clone()).or_insert(new_ms);
        if !self.recordings.contains_key(&(time_ms, stem.clone())) {
            *self.folders.entry(folder_of(&stem)).or_default() += 1;
        }
        let recording = self.recordings.entry((time_ms, stem)).or_insert(Recording {
            bytes: 0,
            date_ms: is_old.then_some(date_ms),
        });
        recording.bytes += bytes;
        self.bytes += bytes;
    }

    /// The sink has a stream with this folder: the newest recording in it is not removed.
    pub(super) fn keep_newest(&mut self, folder: PathBuf) {
        self.current.insert(folder);
    }

    /// The stream with this folder was removed.
    pub(super) fn release(&mut self, folder: &Path) {
        self.current.remove(folder);
        self.tidy(folder);
    }

    /// Looks at both clocks, then removes as [`Self::apply`].
    pub(super) fn step(&mut self, open_bytes: u64) -> u64 {
        let (wall_ms, now_ms) = clocks(self.start);
        self.apply(wall_ms, now_ms, open_bytes)
    }

    /// Removes recordings that are too old, or too much while so many bytes are being written; says how many files it removed.
    fn apply(&mut self, wall_ms: i64, now_ms: i64, open_bytes: u64) -> u64 {
        if self.clock.observe(wall_ms, now_ms) {
            self.date_again();
        }
        let keep_ms = i64::try_from(self.keep_ms).unwrap_or(i64::MAX);
        let is_settled = self.clock.is_settled();
        let max_bytes = self.max_bytes;
        self.remove_while(MAX_BY_AGE, |bytes, time_ms, recording| {
            let is_known = recording.date_ms.is_none() || is_settled;
            bytes + open_bytes > max_bytes || (is_known && now_ms.saturating_sub(time_ms) > keep_ms)
        })
    }

    /// Removes the oldest recordings until at least `bytes` are free again; says how many files it removed.
    pub(super) fn recycle(&mut self, bytes: u64) -> u64 {
        let goal = self.bytes.saturating_sub(bytes.max(1));
        self.remove_while(usize::MAX, |left, _, _| left > goal)
    }

    fn remove_while(&mut self, max: usize, is_due: impl Fn(u64, i64, &Recording) -> bool) -> u64 {
        let mut removed = 0;
        let mut due = Vec::new();
        let mut left = self.bytes;
        let mut in_folder: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for ((time_ms, stem), recording) in &self.recordings {
            if due.len() >= max || !is_due(left, *time_ms, recording) {
                break;
            }
            let folder = folder_of(stem);
            let count = in_folder.entry(folder.clone()).or_default();
            let is_newest = self.folders.get(&folder).is_none_or(|all| *count + 1 >= *all);
            if is_newest && self.current.contains(&folder) {
                continue;
            }
            *count += 1;
            left = left.saturating_sub(recording.bytes);
            due.push((*time_ms, stem.clone()));
        }
        for key in due {
            if let Some(recording) = self.recordings.remove(&key) {
                self.bytes = self.bytes.saturating_sub(recording.bytes);
            }
            self.times.remove(&key.1);
            removed += remove(&key.1);
            let folder = folder_of(&key.1);
            if let Some(count) = self.folders.get_mut(&folder) {
                *count = count.saturating_sub(1);
            }
            self.tidy(&folder);
        }
        removed
    }

    /// Removes the folder of a stream that is no more, and empty folders above it, up to the base.
    fn tidy(&mut self, folder: &Path) {
        if self.current.contains(folder) || self.folders.get(folder).is_some_and(|count| *count > 0) {
            return;
        }
        self.folders.remove(folder);
        let below = folder.ancestors().take_while(|above| *above != self.base);
        for above in below.filter(|above| above.starts_with(&self.base)) {
            if fs::remove_dir(above).is_err() {
                break;
            }
        }
    }

    /// The wall clock is believed anew.
    fn date_again(&mut self) {
        for ((time_ms, stem), recording) in std::mem::take(&mut self.recordings) {
            let time_ms = recording
                .date_ms
                .map_or(time_ms, |date| self.clock.monotonic(date));
            self.times.insert(stem.clone(), time_ms);
            self.recordings.insert((time_ms, stem), recording);
        }
    }
}

fn folder_of(stem: &Path) -> PathBuf {
    stem.parent().unwrap_or(Path::new("")).to_owned()
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
            Err(error) => tracing::warn!(
                "{} cannot be removed: {}",
                Path::new(&path).display(),
                weir_files::io_reason(&error)
            ),
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
        Retention::new(&Settings(settings.into()), Form::Clips)
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
        assert_eq!(
            all.scan(folder.path(), &folder.path().join("{stream}")),
            Found::default()
        );
        assert_eq!(all.bytes, 400);
        let wall = 5 * DAY_MS as i64;
        all.clock = RetentionClock::new(wall, 0);
        all.date_again();
        assert_eq!(all.apply(wall, 0, 0), 2);
        assert_eq!(all.apply(wall, 1, 0), 0);
        assert_eq!(all.apply(wall, 2, 100), 2, "what is being written counts");
        let later = 5 * DAY_MS as i64 + 1;
        assert_eq!(all.apply(wall + 10_000, 10_000, 0), 0);
        assert_eq!(all.apply(wall + 30 * DAY_MS as i64, 11_000, 0), 0, "a spike");
        all.keep_newest(north.clone());
        assert_eq!(all.apply(wall + later, later, 0), 2);
        assert_eq!(
            all.apply(wall + 99 * later, 99 * later, u64::MAX >> 1),
            0,
            "the newest stays"
        );
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
        again.scan(folder.path(), &folder.path().join("{stream}"));
        assert_eq!(again.bytes, 100);
    }

    #[test]
    fn what_a_killed_run_left_is_completed_or_removed() {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("{}.mp4.part", super::names::stem(DAY_MS, &["gate"]));
        let north = folder.path().join("north");
        fs::create_dir(&north).unwrap();
        fs::write(north.join(name), b"not a fragment").unwrap();
        fs::write(north.join("video.mp4.part"), b"of another sink").unwrap();
        let found = retention(1.0, 1.0).scan(folder.path(), &folder.path().join("{stream}"));
        assert_eq!(
            found,
            Found {
                completed: 0,
                removed: 1
            }
        );
        assert_eq!(names(&north), ["video.mp4.part"]);
    }

    #[test]
    fn sinks_of_one_kind_in_one_folder_keep_to_their_streams_folders() {
        let folder = tempfile::tempdir().unwrap();
        let clip = format!("{}.mp4", super::names::stem(DAY_MS, &["gate"]));
        for name in ["north-a", "north-b"] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join(&clip), [0; 50]).unwrap();
        }
        let mut all = retention(1.0, 10.0);
        all.scan(folder.path(), &folder.path().join("{stream}-a"));
        assert_eq!(all.bytes, 50);
        assert_eq!(all.recycle(50), 1);
        assert!(names(folder.path()).contains(&"north-b".to_owned()));
        assert_eq!(names(&folder.path().join("north-b")), [clip]);
    }

    #[test]
    fn folders_of_removed_streams_go_once_they_are_empty() {
        let folder = tempfile::tempdir().unwrap();
        let [north, south] = ["north", "south"].map(|name| folder.path().join(name));
        for (stream, days) in [(&north, 1..=2_u64), (&south, 1..=1)] {
            fs::create_dir(stream).unwrap();
            for day in days {
                let name = format!("{}.mp4", super::names::stem(day * DAY_MS, &["gate"]));
                fs::write(stream.join(name), [0; 50]).unwrap();
            }
        }
        fs::create_dir(folder.path().join("other")).unwrap();
        let mut all = retention(1.0, 1e9);
        all.keep_newest(north.clone());
        all.keep_newest(south.clone());
        all.scan(folder.path(), &folder.path().join("{stream}"));
        assert_eq!(all.recycle(150), 1, "the newest of each stream stay");
        all.release(&south);
        assert!(south.exists(), "a recording is in it");
        assert_eq!(all.recycle(50), 1);
        assert_eq!(names(folder.path()), ["north", "other"]);
    }
}
