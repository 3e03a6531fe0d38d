//! Retention of recordings, by age, by the bytes of all recordings together and by the free space of the file system; the
//! oldest are removed first. A recording with a file `NAME.mp4.pinned` beside it stays.
//! Only files that are named like recordings, in folders of the sink, are ever examined.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::descriptions;
use super::free_space::{OldestOfFolder, Space, space};
use super::limits::Limits;
use super::mount::Mount;
use super::names::{self, Form};
use super::pattern;
use super::retention_clock::{RetentionClock, clocks};
use super::unremoved::{Unremoved, is_pinned};
use crate::media::{Leftover, settle_leftover};

/// Folders below the base that are looked into.
const MAX_DEPTH: usize = 4;

/// Recordings that one step removes at most. A step is a second apart from the next, or a new recording.
const MAX_BY_AGE: usize = 64;

/// Recordings that are on the disk.
pub(super) struct Retention {
    limits: Limits,
    form: Form,
    /// Looks at the file system.
    space: fn(&Path) -> Option<Space>,
    /// Its place among the sinks of its folder, while it keeps space free.
    place: Option<OldestOfFolder>,
    /// Bytes of pinned recordings that the last pass would have removed.
    pinned_due: u64,
    /// Whether the log has reported that pins keep it from its limits.
    reports_pins: bool,
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
    /// Pattern of the folders of streams below the base.
    pattern: PathBuf,
    mount: Mount,
    bytes: u64,
    unremoved: Unremoved,
}

#[derive(Debug, Clone)]
struct Recording {
    bytes: u64,
    /// Date in its name, in milliseconds since 1970 (UTC).
    date_ms: u64,
    /// Whether an earlier run recorded it, so that its age is known by its date only.
    is_old: bool,
    /// Class of its incident, where ages differ by class.
    class: Option<Box<str>>,
}

/// Decision of a pass about one recording, from the oldest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Remove,
    Keep,
    /// It stays, and so do all that are newer.
    KeepRest,
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
    pub(super) fn new(limits: Limits, form: Form) -> Self {
        #[expect(clippy::disallowed_methods, reason = "ages of files are real time")]
        let start = Instant::now();
        let (wall_ms, now_ms) = clocks(start);
        Self {
            limits,
            form,
            space,
            place: None,
            pinned_due: 0,
            reports_pins: false,
            start,
            clock: RetentionClock::new(wall_ms, now_ms),
            recordings: BTreeMap::new(),
            times: BTreeMap::new(),
            folders: BTreeMap::new(),
            current: BTreeSet::new(),
            base: PathBuf::new(),
            pattern: PathBuf::new(),
            mount: Mount::default(),
            bytes: 0,
            unremoved: Unremoved::default(),
        }
    }

    /// Other limits are in force from the next step on.
    pub(super) fn set_limits(&mut self, limits: Limits) {
        if limits.has_classes() && !self.limits.has_classes() {
            for ((_, stem), recording) in &mut self.recordings {
                recording.class = descriptions::class(&stem.with_added_extension("json"));
            }
        }
        self.limits = limits;
    }

    /// Takes in what earlier runs left in the folders of a pattern below `base`: complete recordings, and `.part` files, which are
    /// completed or removed.
    pub(super) fn scan(&mut self, base: &Path, pattern: &Path) -> Found {
        let mut found = Some(Found::default());
        (self.base, self.pattern) = (base.to_owned(), pattern.to_owned());
        self.mount.has_changed(base);
        self.scan_folder(base, pattern, 0, &mut found);
        found.unwrap_or_default()
    }

    /// Another disk is at the base, such as one of a server that was away at the start: its recordings take the place of those before.
    /// Its `.part` files stay, since they may be those of this run.
    fn look_at_mount(&mut self, now_ms: i64) {
        let Some(found) = self.mount.look_at(&self.base, now_ms) else {
            return;
        };
        self.recordings.clear();
        self.times.clear();
        self.folders.clear();
        (self.bytes, self.unremoved) = (0, Unremoved::default());
        if found.is_locked {
            let (base, pattern) = (self.base.clone(), self.pattern.clone());
            self.scan_folder(&base, &pattern, 0, &mut None);
        }
    }

    /// Without `found`, `.part` files stay.
    fn scan_folder(&mut self, folder: &Path, pattern: &Path, depth: usize, found: &mut Option<Found>) {
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

    fn take_in(&mut self, path: &Path, found: &mut Option<Found>) {
        let Some(whole) = names::unfinished(path) else {
            self.take(path, true);
            return;
        };
        let Some(found) = found.as_mut().filter(|_| names::form(whole) == Some(self.form)) else {
            return;
        };
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
            date_ms,
            is_old,
            class: None,
        });
        recording.bytes += bytes;
        if self.limits.has_classes() && path.extension().is_some_and(|extension| extension == "json") {
            recording.class = descriptions::class(path);
        }
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

    /// Looks at both clocks, then removes as [`Self::apply`] and [`Self::free_up`].
    pub(super) fn step(&mut self, open_bytes: u64) -> u64 {
        let (wall_ms, now_ms) = clocks(self.start);
        self.look_at_mount(now_ms);
        self.pinned_due = 0;
        let removed = self.apply(wall_ms, now_ms, open_bytes);
        let (freed, lacking) = self.free_up();
        let is_over = self.bytes + open_bytes > self.limits.max_bytes || lacking > freed.bytes;
        self.report_pins(is_over);
        removed + freed.files + self.retry(now_ms)
    }

    /// Removes recordings that are too old, or too much while so many bytes are being written; says how many files it removed.
    fn apply(&mut self, wall_ms: i64, now_ms: i64, open_bytes: u64) -> u64 {
        if self.clock.observe(wall_ms, now_ms) {
            self.date_again();
        }
        let is_settled = self.clock.is_settled();
        let limits = self.limits.clone();
        let verdict = |bytes: u64, time_ms: i64, recording: &Recording| {
            let age_ms = now_ms.saturating_sub(time_ms);
            if bytes + open_bytes > limits.max_bytes {
                Verdict::Remove
            } else if age_ms <= limits.min_keep_ms() {
                Verdict::KeepRest
            } else if (!recording.is_old || is_settled) && age_ms > limits.keep_ms(recording.class.as_deref())
            {
                Verdict::Remove
            } else {
                Verdict::Keep
            }
        };
        self.remove_by(MAX_BY_AGE, verdict).files
    }

    /// Removes the oldest recordings while the file system has less free space than it must, and no sink of the folder has an older
    /// one. Returns what it removed, and the bytes that were lacking.
    fn free_up(&mut self) -> (Removed, u64) {
        if !self.limits.has_min_free() {
            self.place = None;
            return (Removed::default(), 0);
        }
        let (oldest, _) = self.due(1, |_, _, _| Verdict::Remove);
        let oldest = oldest.first().and_then(|key| self.recordings.get(key));
        let oldest_ms = oldest.map(|recording| recording.date_ms);
        let place = self.place.get_or_insert_with(|| OldestOfFolder::new(&self.base));
        let others_ms = place.exchange(oldest_ms);
        let lacking = (self.space)(&self.base).map_or(0, |space| self.limits.lacking(space.free, space.size));
        if lacking == 0 {
            return (Removed::default(), 0);
        }
        let goal = self.bytes.saturating_sub(lacking);
        let removed = self.remove_by(MAX_BY_AGE, |left, _, recording| {
            if left > goal && others_ms.is_none_or(|others_ms| recording.date_ms <= others_ms) {
                Verdict::Remove
            } else {
                Verdict::KeepRest
            }
        });
        (removed, lacking)
    }

    /// Logs once that pinned recordings keep it from its limits.
    fn report_pins(&mut self, is_over: bool) {
        let is_due = is_over && self.pinned_due > 0;
        if is_due && !self.reports_pins {
            tracing::warn!(
                "{}: pinned recordings of {} MB stay, and `max_bytes` or `min_free` is exceeded because of them: unpin incidents, or \
                 change the limit",
                self.base.display(),
                self.pinned_due.div_ceil(1_000_000)
            );
        }
        self.reports_pins = is_due;
    }

    /// Removes the oldest recordings until at least `bytes` are free again; says how many files it removed.
    pub(super) fn recycle(&mut self, bytes: u64) -> u64 {
        let goal = self.bytes.saturating_sub(bytes.max(1));
        let verdict = |left, _, _: &Recording| {
            if left > goal {
                Verdict::Remove
            } else {
                Verdict::KeepRest
            }
        };
        self.remove_by(usize::MAX, verdict).files
    }

    /// The recordings to remove, at most `max`, and the bytes of those among them that stay because they are pinned.
    fn due(
        &self,
        max: usize,
        verdict: impl Fn(u64, i64, &Recording) -> Verdict,
    ) -> (Vec<(i64, PathBuf)>, u64) {
        let mut due = Vec::new();
        let (mut left, mut pinned) = (self.bytes, 0);
        let mut in_folder: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for ((time_ms, stem), recording) in &self.recordings {
            if due.len() >= max {
                break;
            }
            match verdict(left, *time_ms, recording) {
                Verdict::KeepRest => break,
                Verdict::Keep => continue,
                Verdict::Remove => {}
            }
            let folder = folder_of(stem);
            let count = in_folder.entry(folder.clone()).or_default();
            let is_newest = self.folders.get(&folder).is_none_or(|all| *count + 1 >= *all);
            if is_newest && self.current.contains(&folder) {
                continue;
            }
            if is_pinned(stem) {
                pinned += recording.bytes;
                continue;
            }
            *count += 1;
            left = left.saturating_sub(recording.bytes);
            due.push((*time_ms, stem.clone()));
        }
        (due, pinned)
    }

    fn remove_by(&mut self, max: usize, verdict: impl Fn(u64, i64, &Recording) -> Verdict) -> Removed {
        let (due, pinned) = self.due(max.min(self.unremoved.room()), verdict);
        self.pinned_due = self.pinned_due.max(pinned);
        let mut removed = Removed::default();
        for key in due {
            if let Some(recording) = self.recordings.remove(&key) {
                self.bytes = self.bytes.saturating_sub(recording.bytes);
                removed.bytes += recording.bytes;
            }
            self.times.remove(&key.1);
            removed.files += self.unremoved.remove(&key.1, self.clock.now_ms());
            let folder = folder_of(&key.1);
            if let Some(count) = self.folders.get_mut(&folder) {
                *count = count.saturating_sub(1);
            }
            self.tidy(&folder);
        }
        removed
    }

    /// Removes what could not be removed before; says how many files that were.
    fn retry(&mut self, now_ms: i64) -> u64 {
        let (files, gone) = self.unremoved.retry(now_ms);
        gone.iter().for_each(|stem| self.tidy(&folder_of(stem)));
        files
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
            let time_ms = if recording.is_old {
                self.clock.monotonic(recording.date_ms)
            } else {
                time_ms
            };
            self.times.insert(stem.clone(), time_ms);
            self.recordings.insert((time_ms, stem), recording);
        }
    }
}

/// Files and bytes that a pass removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Removed {
    files: u64,
    bytes: u64,
}

fn folder_of(stem: &Path) -> PathBuf {
    stem.parent().unwrap_or(Path::new("")).to_owned()
}

#[cfg(test)]
mod tests {
    use weir_flow::{Settings, Value};

    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn limits<const N: usize>(keys: [(&str, Value); N]) -> Limits {
        Limits::new(&Settings(
            keys.map(|(name, value)| (name.to_owned(), value)).into(),
        ))
    }

    fn retention(keep_s: f64, max_bytes: f64) -> Retention {
        let limits = limits([
            ("keep", Value::Number(keep_s)),
            ("max_bytes", Value::Number(max_bytes)),
        ]);
        Retention::new(limits, Form::Clips)
    }

    /// A clip of 50 bytes of each day, with a description that names the class.
    fn clips(folder: &Path, days: std::ops::RangeInclusive<u64>, class: &str) {
        fs::create_dir_all(folder).unwrap();
        for day in days {
            let stem = folder.join(super::names::stem(day * DAY_MS, &["gate"]));
            fs::write(stem.with_added_extension("mp4"), [0; 50]).unwrap();
            let description = format!("{{\"class\": \"{class}\"}}");
            fs::write(stem.with_added_extension("json"), description).unwrap();
        }
    }

    /// Videos in a folder, which goes once it is empty.
    fn videos(folder: &Path) -> usize {
        let is_video = |name: &&String| name.ends_with(".mp4");
        if !folder.exists() {
            return 0;
        }
        names(folder).iter().filter(is_video).count()
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
        // Its description could not be written beside it: the disk was full.
        let early = format!("{}.clip", super::names::stem(2 * DAY_MS, &["gate"]));
        fs::write(north.join(early), [0; 50]).unwrap();
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
        assert_eq!(all.apply(wall, 2, 100), 3, "what is being written counts");
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

    #[test]
    fn what_could_not_be_removed_goes_later_with_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let north = folder.path().join("north");
        clips(&north, 1..=1, "person");
        let mut all = retention(1.0, 1e9);
        all.scan(folder.path(), &folder.path().join("{stream}"));
        // A folder is not removed as a file is.
        let video = north.join(format!("{}.mp4", super::names::stem(DAY_MS, &["gate"])));
        fs::remove_file(&video).unwrap();
        fs::create_dir(&video).unwrap();
        assert_eq!(all.recycle(1), 1, "its description");
        assert_eq!((all.retry(0), north.exists()), (0, true));
        fs::remove_dir(&video).unwrap();
        assert_eq!((all.retry(i64::MAX), north.exists()), (0, false));
    }

    #[test]
    fn recordings_of_a_disk_that_is_mounted_later_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let mut all = retention(1e9, 60.0);
        all.mount.look = |_| Some(1);
        all.scan(folder.path(), &folder.path().join("{stream}"));
        let north = folder.path().join("north");
        clips(&north, 1..=3, "person");
        assert_eq!((all.step(0), videos(&north)), (0, 3), "nothing is known of them");
        all.mount.look = |_| Some(2);
        assert_eq!((all.step(0), videos(&north)), (6, 0));
    }

    #[test]
    fn clips_are_removed_at_the_age_of_their_class() {
        let folder = tempfile::tempdir().unwrap();
        let [people, cars] = ["people", "cars"].map(|name| folder.path().join(name));
        clips(&people, 1..=4, "person");
        clips(&cars, 1..=4, "car");
        let by_class = |days: f64| {
            let ages =
                [("person", 30.0), ("default", days)].map(|(of, days)| (of.to_owned(), days * 86_400.0));
            limits([("keep_by", Value::Durations(ages.into()))])
        };
        let mut all = retention(100.0 * 86_400.0, 1e9);
        all.scan(folder.path(), &folder.path().join("{stream}"));
        let wall = 5 * DAY_MS as i64;
        all.clock = RetentionClock::new(wall, 0);
        all.apply(wall, 0, 0);
        assert_eq!(all.apply(wall + 10_000, 10_000, 0), 0);
        all.set_limits(by_class(2.5));
        assert_eq!(all.apply(wall + 11_000, 11_000, 0), 4);
        assert_eq!((videos(&people), videos(&cars)), (4, 2));
        all.set_limits(by_class(0.5));
        assert_eq!(
            all.apply(wall + 12_000, 12_000, 0),
            4,
            "other limits of the same sink"
        );
        assert_eq!((videos(&people), videos(&cars)), (4, 0));
    }

    #[test]
    fn pinned_clips_stay_and_count() {
        let folder = tempfile::tempdir().unwrap();
        let north = folder.path().join("north");
        clips(&north, 1..=4, "person");
        let oldest = north.join(super::names::stem(DAY_MS, &["gate"]));
        let pin = oldest.with_added_extension("mp4.pinned");
        fs::write(&pin, "").unwrap();
        let mut all = retention(1e9, 100.0);
        all.scan(folder.path(), &folder.path().join("{stream}"));
        all.step(0);
        assert_eq!(videos(&north), 1, "only the pinned one fits");
        assert!(oldest.with_added_extension("mp4").exists());
        all.step(1_000);
        assert!(all.reports_pins && all.pinned_due > 0);
        assert_eq!(all.recycle(1), 0);
        fs::remove_file(pin).unwrap();
        all.step(1_000);
        assert_eq!((videos(&north), all.reports_pins), (0, false));
    }

    #[test]
    fn free_space_is_kept_by_the_oldest_of_all_sinks_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        clips(&base.join("north/a"), 1..=4, "person");
        clips(&base.join("north/b"), 3..=6, "person");
        let open = |name: &str| {
            let min_free = limits([("min_free", Value::Number(0.5)), ("keep", Value::Number(1e9))]);
            let mut sink = Retention::new(min_free, Form::Clips);
            sink.scan(base, &base.join("{stream}").join(name));
            sink.space = |_| {
                Some(Space {
                    free: 500,
                    size: 1_000,
                })
            };
            sink
        };
        let (mut a, mut b) = (open("a"), open("b"));
        assert_eq!((a.step(0), b.step(0)), (0, 0), "there is enough");
        for sink in [&mut a, &mut b] {
            sink.space = |_| {
                Some(Space {
                    free: 100,
                    size: 1_000,
                })
            };
        }
        let left = || (videos(&base.join("north/a")), videos(&base.join("north/b")));
        assert_eq!(b.step(0), 0, "the other sink has older ones");
        a.step(0);
        assert_eq!(left(), (1, 4), "down to the oldest of the other");
        a.step(0);
        b.step(0);
        assert_eq!(left(), (1, 2));
        a.set_limits(limits([]));
        a.step(0);
        b.step(0);
        assert_eq!(left(), (1, 0), "a sink without the key waits for none");
    }
}
