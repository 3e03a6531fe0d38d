//! The writer of a folder: tracks go into its newest segment, and the oldest segments are removed by age and by size.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use half::f16;
use half::slice::HalfFloatSliceExt;
use weir_flow::SinkError;

use super::super::line_file::is_over;
use super::super::recording::{RetentionClock, clocks, hold_folder, time_of_name};
use super::super::target::io_failed;
use super::row::{MAX_DIMENSIONS, MAX_PICTURE_BYTES, MAX_TEXT_BYTES, Row, TrackRecord, hash};
use super::segment::{self, Parts, RowPlace, VectorModel, Writer};

/// Parts of the bounds on bytes and age that one segment takes: so much may be removed at a time.
const SEGMENTS: u64 = 16;

/// Smallest segment in bytes that is complete by its size.
const MIN_SEGMENT_BYTES: u64 = 64 << 10;

/// Rows of a segment at most, which bounds what is read when it is continued.
const MAX_ROWS: u64 = 1 << 18;

/// Segments of a folder at most: many short runs leave many.
const MAX_SEGMENTS: usize = 2_048;

/// Tracks after which files are put onto the disk.
const SYNC_EVERY: u64 = 64;

/// Bounds of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) max_bytes: u64,
    pub(super) keep_ms: u64,
}

/// A segment that is not written any more.
struct Complete {
    stem: String,
    bytes: u64,
    last_ms: u64,
}

/// See the module.
pub(super) struct Store {
    folder: PathBuf,
    limits: Limits,
    model: Option<VectorModel>,
    complete: Vec<Complete>,
    open: Option<Writer>,
    appended: u64,
    start: Instant,
    clock: RetentionClock,
    /// Holds the lock of the folder.
    _lock: Arc<File>,
}

/// A track to append.
pub(super) struct NewTrack<'a> {
    pub(super) record: TrackRecord,
    /// L2-normalised; `None`: the track has no vector.
    pub(super) vector: Option<&'a [f32]>,
    /// JPEG; empty if there is none.
    pub(super) picture: &'a [u8],
    /// Row that it replaces.
    pub(super) before: Option<RowPlace>,
}

impl Store {
    /// Opens the folder, which is made if there is none. The newest segment is continued if it is of the same model.
    ///
    /// # Errors
    /// [`SinkError`]: another process writes into the folder, or it cannot be written.
    pub(super) fn open(folder: &Path, limits: Limits, model: Option<VectorModel>) -> Result<Self, SinkError> {
        let fail = |error: io::Error| io_failed(folder, &error);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(fail)?;
        let lock = hold_folder(folder)?;
        let mut stems = segment::stems(folder).map_err(fail)?;
        let open = match stems.last() {
            Some(newest) => Writer::resume(folder, newest, model.as_ref()).map_err(fail)?,
            None => None,
        };
        if open.is_some() {
            stems.pop();
        }
        let complete = stems.into_iter().map(|stem| {
            let last_ms = match Parts::open(folder, &stem)? {
                Some(parts) => parts.last_ms()?,
                // Of another version: it is as old as its name.
                None => time_of_name(&stem).unwrap_or(0),
            };
            Ok(Complete {
                bytes: segment::bytes(folder, &stem),
                last_ms,
                stem,
            })
        });
        #[expect(clippy::disallowed_methods, reason = "ages of tracks are real time")]
        let start = Instant::now();
        let (wall_ms, started_ms) = clocks(start);
        Ok(Self {
            folder: folder.to_owned(),
            limits,
            start,
            clock: RetentionClock::new(wall_ms, started_ms),
            model,
            complete: complete.collect::<io::Result<_>>().map_err(fail)?,
            open,
            appended: 0,
            _lock: lock,
        })
    }

    /// Appends a track, and removes what is beyond the bounds.
    ///
    /// # Errors
    /// Those of the disk; the track is not stored then.
    pub(super) fn append(&mut self, track: NewTrack<'_>, now_ms: u64) -> io::Result<RowPlace> {
        self.append_at(track, now_ms, clocks(self.start))
    }

    /// As [`Store::append`], at these times of the wall clock and of the monotonic one, in milliseconds.
    pub(super) fn append_at(
        &mut self,
        track: NewTrack<'_>,
        now_ms: u64,
        clocks: (i64, i64),
    ) -> io::Result<RowPlace> {
        let is_full = |open: &Writer| {
            open.rows() >= MAX_ROWS
                || open.bytes() >= (self.limits.max_bytes / SEGMENTS).max(MIN_SEGMENT_BYTES)
                || is_over(open.began_ms, now_ms, self.limits.keep_ms / SEGMENTS)
        };
        if self.open.as_ref().is_some_and(is_full) {
            self.complete_segment()?;
        }
        self.tidy(clocks)?;
        let record = track.record.bounded();
        let text = serde_json::to_vec(&record)?;
        let vector = track.vector.filter(|vector| vector.len() <= MAX_DIMENSIONS);
        let vector = vector.unwrap_or_default();
        let has_room = |bytes: &[u8], max: u32| bytes.len() <= max as usize;
        let picture = Some(track.picture).filter(|picture| has_room(picture, MAX_PICTURE_BYTES));
        if !has_room(&text, MAX_TEXT_BYTES) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "its attributes are too long",
            ));
        }
        let row = Row {
            began_ms: record.began_ms,
            time_ms: record.time_ms,
            stream: hash(&record.stream),
            class: hash(&record.class),
            track: record.track,
            dimensions: u32::try_from(vector.len()).unwrap_or(0),
            ..Row::default()
        };
        let open = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(Writer::create(&self.folder, now_ms, self.model.as_ref())?),
        };
        let place = open.append(row, &text, &halves(vector), picture.unwrap_or_default())?;
        if let Some(before) = &track.before {
            open.replace(before)?;
        }
        self.appended += 1;
        if self.appended.is_multiple_of(SYNC_EVERY) {
            open.sync()?;
        }
        Ok(place)
    }

    fn complete_segment(&mut self) -> io::Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        self.complete.push(Complete {
            bytes: open.bytes(),
            stem: open.stem.clone(),
            last_ms: open.last_ms,
        });
        open.sync()
    }

    /// Removes the oldest segments until the bounds hold. A wall clock that jumps removes none before the jump has held.
    fn tidy(&mut self, (wall_ms, now_ms): (i64, i64)) -> io::Result<()> {
        self.clock.observe(wall_ms, now_ms);
        loop {
            let is_old = |segment: &Complete| {
                let age_ms = now_ms.saturating_sub(self.clock.monotonic(segment.last_ms));
                self.clock.is_settled()
                    && u64::try_from(age_ms).is_ok_and(|age_ms| age_ms > self.limits.keep_ms)
            };
            let is_beyond = self.bytes() > self.limits.max_bytes || self.complete.len() >= MAX_SEGMENTS;
            // A segment that was written while the clock was ahead is old later than those after it.
            let due = self.complete.iter().position(is_old);
            let due = due.or_else(|| (is_beyond && !self.complete.is_empty()).then_some(0));
            let Some(due) = due else { return Ok(()) };
            segment::remove(&self.folder, &self.complete[due].stem)?;
            self.complete.remove(due);
        }
    }

    /// Bytes of all segments.
    pub(super) fn bytes(&self) -> u64 {
        let complete: u64 = self.complete.iter().map(|segment| segment.bytes).sum();
        complete + self.open.as_ref().map_or(0, Writer::bytes)
    }

    /// Puts everything onto the disk.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.open.as_ref().map_or(Ok(()), Writer::sync)
    }
}

/// A vector in half precision, as files have it.
fn halves(vector: &[f32]) -> Vec<u8> {
    let mut halves = vec![f16::ZERO; vector.len()];
    halves.convert_from_f32_slice(vector);
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}
