//! A range of an archive as one MP4: samples are copied, not encoded. It is planned by the indexes of the segments; then its
//! length is known, and its bytes are read as they are wanted, without a file of its own.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use super::fragments::{Fragments, Run};
use super::header::Header;
use super::index::{ExportTrack, head};
use super::segments::{ArchiveReader, SegmentCache, SegmentName, Unreadable, covered_until, in_range};

/// Longest range of an export in milliseconds: six hours.
pub const MAX_EXPORT_MS: u64 = 6 * 3_600_000;

/// Samples of an export, 48 bytes each while it is planned: six hours of 60 pictures a second with sound.
const MAX_SAMPLES: usize = 2_500_000;

/// Time in milliseconds by which a segment may begin after the end of the one before it without a gap between them: names
/// have the time at which packets arrived, which varies.
const MAX_JITTER_MS: u64 = 1_000;

/// Why a range is not exported.
#[derive(Debug)]
pub enum ExportError {
    /// Nothing was recorded in the range.
    Empty {
        /// Begin and end of the recording that is nearest to it, in milliseconds since 1970 (UTC).
        nearest: Option<(u64, u64)>,
    },
    /// The range is too long, or has too many pictures.
    TooLong,
    /// The camera sends another size, codec or other parameter sets from that time on, in milliseconds since 1970 (UTC).
    Changed {
        /// Time of the first picture with them.
        at_ms: u64,
    },
    /// A file or the folder cannot be read.
    Unreadable(io::Error),
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

/// Bytes of a segment that are copied.
#[derive(Debug)]
struct Piece {
    /// Index of its segment.
    segment: usize,
    at: u64,
    bytes: u64,
}

/// An MP4 of a range of an archive, as a reader of its bytes.
#[derive(Debug)]
pub struct Export {
    reader: ArchiveReader,
    /// Files of the segments by their names; opened one after the other.
    segments: Vec<String>,
    open: Option<(usize, File)>,
    head: io::Cursor<Vec<u8>>,
    pieces: VecDeque<Piece>,
    /// Length of the file.
    bytes: u64,
    /// Time of the first picture and of the end, in milliseconds since 1970 (UTC).
    extent: (u64, u64),
}

/// A planned export.
#[derive(Default)]
struct Plan {
    from: u64,
    to: u64,
    tracks: Vec<ExportTrack>,
    segments: Vec<String>,
    pieces: Vec<Piece>,
    /// Bytes of the pieces.
    length: u64,
    samples: usize,
    /// Time of the first sample, in milliseconds since 1970.
    origin_ms: Option<u64>,
    /// End of the last segment by the clock of this machine, in milliseconds since 1970.
    covered_ms: u64,
}

/// Place of a segment in an export.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Index of the segment.
    segment: usize,
    /// Ticks of its video before the first picture that is taken, and their number in a second.
    skipped: u64,
    scale: u64,
    /// Time of that picture in the export, in milliseconds.
    shift_ms: u64,
}

impl ArchiveReader {
    /// Plans an MP4 of the range, in milliseconds since 1970 (UTC). It begins with the key frame at or before `from`, or with the
    /// first one after it.
    ///
    /// # Errors
    /// [`ExportError`].
    pub fn export(&self, (from, to): (u64, u64)) -> Result<Export, ExportError> {
        if to.saturating_sub(from) > MAX_EXPORT_MS {
            return Err(ExportError::TooLong);
        }
        let names = self.names()?;
        let mut plan = Plan {
            from,
            to,
            ..Plan::default()
        };
        for name in &names[in_range(&names, from, to)] {
            if let Some(segment) = self.open(&name.id)? {
                plan.add(name, &segment.file)?;
            }
        }
        let Some(origin_ms) = plan.origin_ms else {
            return Err(ExportError::Empty {
                nearest: self.nearest(&names, from)?,
            });
        };
        let head = head(&plan.tracks, origin_ms, plan.length);
        let length_ms = plan.tracks.first().map_or(0, ExportTrack::length_ms);
        Ok(Export {
            reader: self.clone(),
            segments: plan.segments,
            open: None,
            bytes: head.len() as u64 + plan.length,
            head: io::Cursor::new(head),
            pieces: plan.pieces.into(),
            extent: (origin_ms, origin_ms.saturating_add(length_ms)),
        })
    }

    /// Returns begin and end of the segment that is nearest to a time.
    ///
    /// # Errors
    /// None of the files can be read.
    pub fn nearest(&self, names: &[SegmentName], at_ms: u64) -> io::Result<Option<(u64, u64)>> {
        let next = names.partition_point(|name| name.start_ms <= at_ms);
        let cache = SegmentCache::default();
        let distance = |(start, end): (u64, u64)| start.saturating_sub(at_ms).max(at_ms.saturating_sub(end));
        let (mut nearest, mut unreadable) = (None::<(u64, u64)>, Unreadable::default());
        for name in &names[next.saturating_sub(2)..names.len().min(next + 1)] {
            if let Some(segment) = unreadable.skip(name, self.describe(name, &cache))? {
                let found = (segment.name.start_ms, segment.end_ms);
                if nearest.is_none_or(|nearest| distance(found) <= distance(nearest)) {
                    nearest = Some(found);
                }
            }
        }
        unreadable.unless_read(nearest, nearest.is_some())
    }
}

/// Time of a tick of a segment, in milliseconds since 1970 (UTC). Damaged files have any ticks.
fn wall_ms(segment_ms: u64, ticks: u64, scale: u64) -> u64 {
    let since = u128::from(ticks) * 1_000 / u128::from(scale);
    segment_ms.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
}

impl Plan {
    /// Adds the part of a segment that is in the range.
    fn add(&mut self, name: &SegmentName, file: &File) -> Result<(), ExportError> {
        let Some(mut fragments) = Fragments::open(file)? else {
            return Ok(());
        };
        let scale = u64::from(fragments.header.video().timescale);
        let (mut all, mut count, mut end_ms) = (Vec::new(), self.samples, 0);
        while let Some(runs) = fragments.next()? {
            let video = || {
                runs.iter()
                    .filter(|run| run.track == 0)
                    .flat_map(|run| &run.samples)
            };
            if video()
                .next()
                .is_some_and(|first| wall_ms(name.start_ms, first.time, scale) >= self.to)
            {
                break;
            }
            if let Some(last) = video().last() {
                end_ms = wall_ms(name.start_ms, last.time + u64::from(last.duration), scale);
            }
            // A long segment: what is before the group of pictures with the begin is not kept.
            if video()
                .next()
                .is_some_and(|first| first.is_key && wall_ms(name.start_ms, first.time, scale) <= self.from)
            {
                all.clear();
                count = self.samples;
            }
            count += runs.iter().map(|run| run.samples.len()).sum::<usize>();
            if count > MAX_SAMPLES {
                return Err(ExportError::TooLong);
            }
            all.extend(runs);
        }
        let Some(skipped) = self
            .first_key(name.start_ms, scale, &all)
            .filter(|_| end_ms > self.from)
        else {
            return Ok(());
        };
        let start_ms = wall_ms(name.start_ms, skipped, scale);
        self.match_tracks(&fragments.header, start_ms)?;
        let since_ms = start_ms.saturating_sub(*self.origin_ms.get_or_insert(start_ms));
        let length_ms = self.tracks[0].length_ms();
        // The clock of the camera may run slow.
        let continued_ms = self.covered_ms.saturating_add(MAX_JITTER_MS);
        let is_continued = since_ms <= length_ms.saturating_add(MAX_JITTER_MS) || start_ms <= continued_ms;
        self.covered_ms = covered_until(file, name.start_ms, end_ms)?;
        let entry = Entry {
            segment: self.segments.len(),
            skipped,
            scale,
            // It continues the segment before it, unless there is a gap between them.
            shift_ms: if is_continued { length_ms } else { since_ms },
        };
        self.segments.push(name.id.clone());
        for run in all {
            self.add_run(name.start_ms, entry, &fragments.header, run);
        }
        Ok(())
    }

    /// Decoding time in ticks of the first picture that is taken of a segment. At the begin of an export it is the last key
    /// frame at or before the range, else the first key frame.
    fn first_key(&self, segment_ms: u64, scale: u64, runs: &[Run]) -> Option<u64> {
        let pictures = runs
            .iter()
            .filter(|run| run.track == 0)
            .flat_map(|run| &run.samples);
        let keys = pictures.filter(|sample| sample.is_key).map(|sample| sample.time);
        let mut keys = keys.take_while(|key| wall_ms(segment_ms, *key, scale) < self.to);
        let first = keys.next()?;
        if self.origin_ms.is_some() {
            return Some(first);
        }
        let before = keys.take_while(|key| wall_ms(segment_ms, *key, scale) <= self.from);
        Some(before.last().unwrap_or(first))
    }

    /// Checks that a segment continues the video of the export, or begins it. Sound may begin in a later segment.
    fn match_tracks(&mut self, header: &Header, at_ms: u64) -> Result<(), ExportError> {
        for track in &header.tracks {
            let known = self
                .tracks
                .iter()
                .find(|known| known.track.is_video == track.is_video);
            match known {
                None => self.tracks.push(ExportTrack::new(track.clone())),
                Some(known) if track.is_video && !known.is_continued_by(track) => {
                    return Err(ExportError::Changed { at_ms });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Adds the samples of a run that are in the range.
    fn add_run(&mut self, segment_ms: u64, entry: Entry, header: &Header, run: Run) {
        let of = &header.tracks[run.track];
        // Sound of another format than the first is left out: a track has one.
        let known = self.tracks.iter_mut().find(|known| known.is_continued_by(of));
        let Some(track) = known else { return };
        let scale = u64::from(of.timescale);
        let skipped = (u128::from(entry.skipped) * u128::from(scale) / u128::from(entry.scale)) as u64;
        let shift = entry.shift_ms.saturating_mul(scale) / 1_000;
        let mut piece = Piece {
            segment: entry.segment,
            at: run.at,
            bytes: 0,
        };
        let mut is_begun = false;
        for sample in run.samples {
            let is_before = sample.time < skipped;
            if is_before {
                piece.at += u64::from(sample.size);
                continue;
            }
            if wall_ms(segment_ms, sample.time, scale) >= self.to {
                break;
            }
            if !std::mem::replace(&mut is_begun, true) {
                track.begin_chunk(self.length);
            }
            piece.bytes += u64::from(sample.size);
            track.push(shift.saturating_add(sample.time - skipped), &sample);
            self.samples += 1;
        }
        if is_begun {
            self.length += piece.bytes;
            self.pieces.push(piece);
        }
    }
}

impl Export {
    /// Returns the length of the file in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.bytes
    }

    /// Returns the time of its first picture and its end, in milliseconds since 1970 (UTC).
    #[must_use]
    pub fn extent(&self) -> (u64, u64) {
        self.extent
    }

    /// The file of a segment, opened again: it is renamed once it is complete.
    fn file(&mut self, segment: usize) -> io::Result<&File> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != segment) {
            let gone = || {
                let why = "a segment was removed while it was exported: export a later range";
                io::Error::new(io::ErrorKind::NotFound, why)
            };
            let id = self.segments.get(segment).ok_or_else(gone)?;
            let file = self.reader.open(id)?.ok_or_else(gone)?.file;
            self.open = Some((segment, file));
        }
        let open = self.open.as_ref().map(|(_, file)| file);
        open.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Read for Export {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.head.read(buffer)?;
        if read > 0 || buffer.is_empty() {
            return Ok(read);
        }
        while self.pieces.front().is_some_and(|piece| piece.bytes == 0) {
            self.pieces.pop_front();
        }
        let Some(piece) = self.pieces.front() else {
            return Ok(0);
        };
        let (segment, at) = (piece.segment, piece.at);
        let wanted = usize::try_from(piece.bytes)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = self.file(segment)?.read_at(&mut buffer[..wanted], at)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(piece) = self.pieces.front_mut() {
            piece.at += read as u64;
            piece.bytes -= read as u64;
        }
        Ok(read)
    }
}
