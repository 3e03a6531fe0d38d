//! The segments of a camera on the disk.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use rustix::fs::FileType;
use weir_flow::Settings;

use super::super::find::{open_below, open_folder};
use super::super::names::{self, Form};
use super::super::places::{self, Places};
use super::fragments::Fragments;

/// Segments that one listing describes: a day of segments of 60 seconds.
pub const MAX_LISTED: usize = 1_500;

/// Names that are read of a folder.
const MAX_NAMES: usize = 500_000;

/// Segments whose descriptions are kept in memory.
const MAX_CACHED: usize = 50_000;

/// Time in milliseconds without video between two segments from which on there is a gap: names have the time at which packets
/// arrived, which varies.
const MIN_GAP_MS: u64 = 3_000;

/// The name of a segment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentName {
    /// Time at which its first packet was read, in milliseconds since 1970 (UTC).
    pub start_ms: u64,
    /// File name without extension.
    pub id: String,
    /// True if it is being written, or was left by an interrupted run.
    pub unfinished: bool,
}

/// A segment as its file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Name of its file, and the time in it.
    pub name: SegmentName,
    /// Time at which it ends, in milliseconds since 1970 (UTC).
    pub end_ms: u64,
    /// Bytes that can be played, from the beginning of the file.
    pub bytes: u64,
    /// MIME type with the codecs.
    pub mime: String,
    /// Mean duration of a picture, in milliseconds.
    pub frame_ms: f64,
}

/// The segments of a range of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// Segments that overlap the range, by time, at most [`MAX_LISTED`].
    pub segments: Vec<Segment>,
    /// Parts of the range without video: begin and end in milliseconds since 1970 (UTC).
    pub gaps: Vec<(u64, u64)>,
    /// Time from which on there are more segments than were listed.
    pub next_ms: Option<u64>,
}

/// The file of a segment, open for reading.
#[derive(Debug)]
pub struct SegmentFile {
    /// The file, at its beginning.
    pub file: File,
    /// Whether it is being written, or was left by an interrupted run.
    pub unfinished: bool,
}

impl SegmentFile {
    /// Returns the bytes from the beginning of a file that can be played; `None` if nothing in it plays. A complete file ends with
    /// an index of its fragments.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn playable(file: &File) -> io::Result<Option<u64>> {
        Ok(describe(file)?.map(|description| description.bytes))
    }
}

/// Descriptions of files that were read, so that they are not read again.
#[derive(Debug, Default)]
pub struct SegmentCache(Mutex<BTreeMap<(PathBuf, u64), Description>>);

/// Segments that cannot be read, as on a damaged part of a disk: they are left out. The first reason counts if no other was read.
#[derive(Debug, Default)]
pub(super) struct Unreadable(Option<io::Error>);

/// Content of a segment.
#[derive(Debug, Clone, PartialEq)]
struct Description {
    duration_ms: u64,
    bytes: u64,
    mime: String,
    frame_ms: f64,
}

/// The archive of one camera.
#[derive(Debug, Clone)]
pub struct ArchiveReader {
    /// Folder of the sink; links are followed up to it.
    base: PathBuf,
    folder: PathBuf,
}

impl ArchiveReader {
    /// Returns the archive of a camera in a sink of type `archive` with these settings. `streams` has the streams that the sink
    /// shows, in their order, and then all further streams: which folder is whose depends on it.
    #[must_use]
    pub fn of_sink(settings: &Settings, streams: &[String], stream: &str) -> Option<Self> {
        let path = places::path(settings, "archive").ok()?;
        Some(Self::of(Places::new(path, streams), stream))
    }

    /// Returns the archive of a camera in a folder that has a folder for each camera.
    #[must_use]
    pub fn of_stream(folder: &Path, stream: &str) -> Self {
        Self {
            base: folder.to_owned(),
            ..Self::of(Places::new(&folder.to_string_lossy(), &[]), stream)
        }
    }

    /// Returns the archive of the only camera in a folder.
    #[must_use]
    pub fn of_folder(folder: &Path) -> Self {
        Self {
            base: folder.to_owned(),
            folder: folder.to_owned(),
        }
    }

    fn of(mut places: Places, stream: &str) -> Self {
        Self {
            folder: places.folder_of(stream),
            base: places.base().to_owned(),
        }
    }

    /// Returns the segments by time; none if the folder does not exist.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn names(&self) -> io::Result<Vec<SegmentName>> {
        let Some(folder) = open_folder(&self.base, &self.folder)? else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::read_from(&folder)? {
            let entry = entry?;
            // Some file systems do not say it.
            if !matches!(entry.file_type(), FileType::RegularFile | FileType::Unknown) {
                continue;
            }
            let name = OsStr::new(entry.file_name().to_str().unwrap_or_default());
            found.extend(segment_name(Path::new(name)));
            if found.len() >= MAX_NAMES {
                break;
            }
        }
        found.sort();
        // One that was completed while the folder was read.
        found.dedup_by(|later, earlier| later.id == earlier.id);
        Ok(found)
    }

    /// Opens the file of a segment; `None` if there is none of that name.
    ///
    /// # Errors
    /// The file is there and cannot be opened.
    pub fn open(&self, id: &str) -> io::Result<Option<SegmentFile>> {
        for (extension, unfinished) in [("mp4", false), ("mp4.part", true)] {
            let name = format!("{id}.{extension}");
            // Nothing but the name of a segment is part of a path.
            if segment_name(Path::new(&name)).is_none_or(|name| name.id != id) {
                return Ok(None);
            }
            if let Some(file) = open_below(&self.base, &self.folder.join(name))? {
                return Ok(Some(SegmentFile { file, unfinished }));
            }
        }
        Ok(None)
    }

    /// Describes a segment; `None` if there is none of that name, or nothing in it plays.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub fn describe(&self, name: &SegmentName, cache: &SegmentCache) -> io::Result<Option<Segment>> {
        Ok(self.covered(name, cache)?.map(|(segment, _)| segment))
    }

    /// As [`Self::describe`], with its end [by the clock of this machine](covered_until).
    fn covered(&self, name: &SegmentName, cache: &SegmentCache) -> io::Result<Option<(Segment, u64)>> {
        let Some(SegmentFile { file, unfinished }) = self.open(&name.id)? else {
            return Ok(None);
        };
        let key = (self.folder.join(&name.id), file.metadata()?.len());
        let known = (!unfinished).then(|| cache.get(&key)).flatten();
        let description = match known {
            Some(known) => known,
            None => match describe(&file)? {
                Some(new) if unfinished => new,
                Some(new) => cache.put(key, new),
                None => return Ok(None),
            },
        };
        let Description {
            duration_ms,
            bytes,
            mime,
            frame_ms,
        } = description;
        let end_ms = name.start_ms.saturating_add(duration_ms);
        let covered_ms = covered_until(&file, name.start_ms, end_ms)?;
        let segment = Segment {
            end_ms,
            name: SegmentName {
                unfinished,
                ..name.clone()
            },
            bytes,
            mime,
            frame_ms,
        };
        Ok(Some((segment, covered_ms)))
    }

    /// Returns the times of the first and the last picture; `None` if there is nothing to play.
    ///
    /// # Errors
    /// As [`Self::names`] and [`Self::describe`].
    pub fn extent(&self, names: &[SegmentName], cache: &SegmentCache) -> io::Result<Option<(u64, u64)>> {
        let mut unreadable = Unreadable::default();
        // One that was only begun is not the last.
        for last in names.iter().rev().take(2) {
            let last = unreadable.skip(last, self.describe(last, cache))?;
            if let (Some(first), Some(last)) = (names.first(), last) {
                return Ok(Some((first.start_ms, last.end_ms)));
            }
        }
        unreadable.unless_read(None, false)
    }

    /// Describes the segments of a range, in milliseconds since 1970 (UTC). Those that cannot be read are left out.
    ///
    /// # Errors
    /// As [`Self::names`], and as [`Self::describe`] if no segment of the range can be read.
    pub fn list(&self, (from, to): (u64, u64), cache: &SegmentCache) -> io::Result<Listing> {
        let names = self.names()?;
        let mut wanted = names[in_range(&names, from, to)].iter();
        let mut listing = Listing::default();
        let mut covered_ms = from;
        let mut unreadable = Unreadable::default();
        for name in wanted.by_ref().take(MAX_LISTED) {
            let covered = unreadable.skip(name, self.covered(name, cache))?;
            let Some((segment, until_ms)) = covered else {
                continue;
            };
            if segment.end_ms <= from {
                covered_ms = covered_ms.max(until_ms);
                continue;
            }
            if name.start_ms >= covered_ms.saturating_add(MIN_GAP_MS) {
                listing.gaps.push((covered_ms, name.start_ms));
            }
            covered_ms = covered_ms.max(until_ms);
            listing.segments.push(segment);
        }
        listing.next_ms = wanted.next().map(|name| name.start_ms);
        let end_ms = listing.next_ms.unwrap_or(to);
        if end_ms >= covered_ms.saturating_add(MIN_GAP_MS) {
            listing.gaps.push((covered_ms, end_ms));
        }
        let is_read = !listing.segments.is_empty();
        unreadable.unless_read(listing, is_read)
    }
}

impl Unreadable {
    /// Content of a segment; `None` if it alone cannot be read.
    ///
    /// # Errors
    /// As many files are open as may be: no other can be read either.
    pub(super) fn skip<T>(
        &mut self,
        name: &SegmentName,
        read: io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        match read {
            Err(error) if weir_files::open_files_hint(&error).is_none() => {
                if self.0.is_none() {
                    tracing::warn!("segment {} cannot be read and is left out: {error}", name.id);
                    self.0 = Some(error);
                }
                Ok(None)
            }
            read => read,
        }
    }

    /// Returns `found`, or why nothing was read.
    pub(super) fn unless_read<T>(self, found: T, is_read: bool) -> io::Result<T> {
        match self.0 {
            Some(error) if !is_read => Err(error),
            _ => Ok(found),
        }
    }
}

impl SegmentCache {
    fn get(&self, key: &(PathBuf, u64)) -> Option<Description> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
    }

    fn put(&self, key: (PathBuf, u64), description: Description) -> Description {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_CACHED {
            // Segments are removed over time, and their descriptions so.
            known.clear();
        }
        known.insert(key, description.clone());
        description
    }
}

/// The segment that a file is by its name; `None` for other files.
fn segment_name(path: &Path) -> Option<SegmentName> {
    let unfinished = names::unfinished(path);
    let whole = unfinished.unwrap_or(path);
    let (start_ms, id) = names::recorded(whole)?;
    let is_video = whole.extension().is_some_and(|extension| extension == "mp4");
    let is_plain = whole.file_name().is_some_and(|name| name == whole.as_os_str());
    (is_video && is_plain && names::form(whole) == Some(Form::Archive)).then(|| SegmentName {
        start_ms,
        id: id.to_owned(),
        unfinished: unfinished.is_some(),
    })
}

/// Segments that may overlap a range: the last one that begins before it, and those that begin in it.
pub(super) fn in_range(names: &[SegmentName], from: u64, to: u64) -> std::ops::Range<usize> {
    let first = names
        .partition_point(|name| name.start_ms <= from)
        .saturating_sub(1);
    let end = names.partition_point(|name| name.start_ms < to);
    first.min(end)..end
}

/// End of a segment by the clock of this machine, in milliseconds since 1970 (UTC): the time of its file, which is when its last packet
/// was read. It is later than the end of the video if the clock of the camera runs slow: some state 25 pictures a second and send 21.
pub(super) fn covered_until(file: &File, start_ms: u64, end_ms: u64) -> io::Result<u64> {
    let modified = file.metadata()?.modified().ok();
    let since = modified.and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
    let modified_ms = since.and_then(|since| u64::try_from(since.as_millis()).ok());
    Ok(believed_end(start_ms, end_ms, modified_ms.unwrap_or(0)))
}

/// The time of a file, if it is that of a recording: a file that was copied may have any.
fn believed_end(start_ms: u64, end_ms: u64, modified_ms: u64) -> u64 {
    let max_ms = end_ms.saturating_add(end_ms.saturating_sub(start_ms) / 2);
    if (end_ms..=max_ms).contains(&modified_ms) {
        modified_ms
    } else {
        end_ms
    }
}

/// Reads the header and the last fragments of a file; `None` if nothing in it plays.
fn describe(file: &File) -> io::Result<Option<Description>> {
    let Some(mut fragments) = Fragments::open(file)? else {
        return Ok(None);
    };
    fragments.skip_to_last()?;
    let scale = f64::from(fragments.header.video().timescale);
    let (mut end, mut ticks, mut pictures) = (0, 0_u64, 0_u64);
    while let Some(runs) = fragments.next()? {
        let video = runs
            .iter()
            .filter(|run| run.track == 0)
            .flat_map(|run| &run.samples);
        for sample in video {
            end = end.max(sample.time.saturating_add(u64::from(sample.duration)));
            ticks += u64::from(sample.duration);
            pictures += 1;
        }
    }
    Ok((fragments.playable() > 0).then(|| Description {
        duration_ms: (end as f64 / scale * 1e3).round() as u64,
        bytes: fragments.playable(),
        mime: fragments.header.mime(),
        frame_ms: ticks as f64 / scale * 1e3 / pictures.max(1) as f64,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_segments_are_opened() {
        let check = |name: &str, expected: Option<(&str, bool)>| {
            let found = segment_name(Path::new(name));
            let found = found.as_ref().map(|found| (found.id.as_str(), found.unfinished));
            assert_eq!(found, expected, "{name}");
        };
        check("20261123T213005.123Z.mp4", Some(("20261123T213005.123Z", false)));
        check(
            "20261123T213005.123Z-2.mp4",
            Some(("20261123T213005.123Z-2", false)),
        );
        check(
            "20261123T213005.123Z.mp4.part",
            Some(("20261123T213005.123Z", true)),
        );
        for other in [
            "20261123T213005.123Z-gate-7.mp4",
            "20261123T213005.123Z.json",
            "20261123T213005.123Z.jpg.part",
            "a/20261123T213005.123Z.mp4",
            "../20261123T213005.123Z.mp4",
            "/20261123T213005.123Z.mp4",
            "holiday.mp4",
            "",
        ] {
            check(other, None);
        }
    }

    #[test]
    fn the_time_of_a_file_is_believed_if_it_is_near_the_end_of_its_video() {
        for (modified_ms, expected) in [(72, 72), (90, 90), (91, 60), (59, 60), (0, 60), (u64::MAX, 60)] {
            let found = believed_end(1_000, 1_060, modified_ms.saturating_add(1_000));
            assert_eq!(found, 1_000 + expected, "{modified_ms}");
        }
    }

    #[test]
    fn segments_that_cannot_be_read_are_left_out_unless_no_other_is_read() {
        let name = SegmentName {
            start_ms: 0,
            id: "20261123T213005.123Z".to_owned(),
            unfinished: false,
        };
        let failed = |errno| Err::<Option<u8>, _>(io::Error::from_raw_os_error(errno));
        for is_read in [true, false] {
            let mut unreadable = Unreadable::default();
            assert_eq!(unreadable.skip(&name, Ok(Some(1))).unwrap(), Some(1));
            for errno in [libc::EIO, libc::EACCES] {
                assert_eq!(unreadable.skip(&name, failed(errno)).unwrap(), None);
            }
            assert!(unreadable.skip(&name, failed(libc::EMFILE)).is_err());
            let found = unreadable.unless_read(1, is_read);
            let found = found.map_err(|error| error.raw_os_error());
            assert_eq!(found, if is_read { Ok(1) } else { Err(Some(libc::EIO)) });
        }
        assert_eq!(Unreadable::default().unless_read(1, false).unwrap(), 1);
    }

    #[test]
    fn a_range_has_the_segment_that_began_before_it() {
        let names: Vec<SegmentName> = [10, 20, 30]
            .map(|start_ms| SegmentName {
                start_ms,
                id: start_ms.to_string(),
                unfinished: false,
            })
            .into();
        for ((from, to), expected) in [
            ((0, 5), 0..0),
            ((0, 10), 0..0),
            ((0, 11), 0..1),
            ((12, 15), 0..1),
            ((15, 25), 0..2),
            ((20, 30), 1..2),
            ((35, 99), 2..3),
        ] {
            assert_eq!(in_range(&names, from, to), expected, "{from} to {to}");
        }
        assert_eq!(in_range(&[], 1, 2), 0..0);
    }
}
