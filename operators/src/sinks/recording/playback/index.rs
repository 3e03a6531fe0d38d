//! The index of an exported MP4: one table for each track, which comes before all samples (ISO/IEC 14496-12, 8.6 and 8.7).

use super::boxes::{Kind, children, put_box, put_full_box};
use super::fragments::Sample;
use super::header::Track;

/// Ticks per second of the times of the whole file.
const MOVIE_SCALE: u32 = 1_000;

/// Seconds from 1904, from which MP4 counts, to 1970.
const EPOCH_S: u64 = 2_082_844_800;

/// A track of an export with its samples.
#[derive(Debug)]
pub(super) struct ExportTrack {
    pub(super) track: Track,
    /// Decoding time in ticks, bytes, offset of the presentation, and whether it is a key frame.
    samples: Vec<(u64, u32, i32, bool)>,
    /// Place of each chunk behind the index, and its first sample.
    chunks: Vec<(u64, usize)>,
    /// Decoding time at which the last sample ends.
    end: u64,
}

impl ExportTrack {
    pub(super) fn new(track: Track) -> Self {
        Self {
            track,
            samples: Vec::new(),
            chunks: Vec::new(),
            end: 0,
        }
    }

    /// Whether samples of another segment's track continue this one.
    pub(super) fn is_continued_by(&self, track: &Track) -> bool {
        let own = &self.track;
        own.is_video == track.is_video
            && own.description == track.description
            && own.timescale == track.timescale
    }

    /// The samples that follow are at this place behind the index, one after the other.
    pub(super) fn begin_chunk(&mut self, place: u64) {
        self.chunks.push((place, self.samples.len()));
    }

    /// Adds a sample. Times of decoding grow: one that does not is moved.
    pub(super) fn push(&mut self, time: u64, sample: &Sample) {
        let earliest = self
            .samples
            .last()
            .map_or(0, |(before, ..)| before.saturating_add(1));
        let time = time.max(earliest);
        self.samples
            .push((time, sample.size, sample.offset, sample.is_key));
        self.end = time.saturating_add(u64::from(sample.duration.max(1)));
    }

    /// Ticks in milliseconds.
    fn ms(&self, ticks: u64) -> u64 {
        let ms = u128::from(ticks) * 1_000 / u128::from(self.track.timescale);
        u64::try_from(ms).unwrap_or(u64::MAX)
    }

    /// Time from the begin of the export to the end of the track, in milliseconds.
    pub(super) fn length_ms(&self) -> u64 {
        self.ms(self.end)
    }

    /// Decoding time of the first sample.
    fn first(&self) -> u64 {
        self.samples.first().map_or(0, |(time, ..)| *time)
    }

    /// Presentation time of the first picture less its decoding time: pictures are reordered by so much.
    fn delay(&self) -> i64 {
        let first = self.first();
        // A group of pictures is reordered within a few of them.
        let times = self.samples.iter().take(64);
        let times = times.map(|(time, _, offset, _)| (*time as i64).saturating_add(i64::from(*offset)));
        times
            .min()
            .map_or(0, |earliest| earliest.saturating_sub(first as i64))
    }

    fn put(&self, out: &mut Vec<u8>, mdat: u64) {
        put_box(out, b"trak", |out| {
            for (kind, content) in children(&self.track.content) {
                match &kind {
                    b"edts" => {}
                    b"tkhd" => {
                        put_box(out, &kind, |out| {
                            self.put_duration(out, content, 20..24, 28..36, self.length_ms())
                        });
                        self.put_edits(out);
                    }
                    b"mdia" => put_box(out, &kind, |out| self.put_media(out, content, mdat)),
                    _ => put_box(out, &kind, |out| out.extend(content)),
                }
            }
        });
    }

    /// Puts a header with its duration changed, which is at one place in version 0 and at another in version 1.
    fn put_duration(
        &self,
        out: &mut Vec<u8>,
        content: &[u8],
        short: std::ops::Range<usize>,
        long: std::ops::Range<usize>,
        duration: u64,
    ) {
        let at = out.len();
        out.extend(content);
        let content = &mut out[at..];
        let is_long = content.first() == Some(&1);
        if let Some(place) = content.get_mut(if is_long { long } else { short }) {
            let bytes = duration.to_be_bytes();
            place.copy_from_slice(&bytes[bytes.len() - place.len()..]);
        }
    }

    /// Puts the edits by which the first picture is shown at its time.
    fn put_edits(&self, out: &mut Vec<u8>) {
        // The table of durations begins at zero.
        let empty_ms = self.ms(self.first());
        let begin = self.delay().max(0);
        put_box(out, b"edts", |out| {
            put_full_box(out, b"elst", 1, |out| {
                let entries = [(empty_ms, -1_i64), (self.length_ms() - empty_ms, begin)];
                let entries = &entries[usize::from(empty_ms == 0)..];
                out.extend((entries.len() as u32).to_be_bytes());
                for (duration, time) in entries {
                    out.extend(duration.to_be_bytes());
                    out.extend(time.to_be_bytes());
                    // The rate, 1.
                    out.extend([0, 1, 0, 0]);
                }
            });
        });
    }

    fn put_media(&self, out: &mut Vec<u8>, content: &[u8], mdat: u64) {
        for (kind, content) in children(content) {
            match &kind {
                b"mdhd" => put_box(out, &kind, |out| {
                    self.put_duration(out, content, 16..20, 24..32, self.end - self.first())
                }),
                b"minf" => put_box(out, &kind, |out| {
                    for (kind, content) in children(content) {
                        match &kind {
                            b"stbl" => put_box(out, &kind, |out| self.put_tables(out, mdat)),
                            _ => put_box(out, &kind, |out| out.extend(content)),
                        }
                    }
                }),
                _ => put_box(out, &kind, |out| out.extend(content)),
            }
        }
    }

    /// Puts the tables of samples; `mdat` is the place of the first one in the file.
    fn put_tables(&self, out: &mut Vec<u8>, mdat: u64) {
        put_box(out, b"stsd", |out| out.extend(&self.track.description));
        let next = self
            .samples
            .iter()
            .skip(1)
            .map(|(time, ..)| *time)
            .chain([self.end]);
        let durations = self.samples.iter().zip(next);
        let durations =
            durations.map(|((time, ..), next)| u32::try_from(next.saturating_sub(*time)).unwrap_or(u32::MAX));
        put_runs(out, b"stts", 0, durations);
        let offsets = || self.samples.iter().map(|(_, _, offset, _)| *offset);
        if offsets().any(|offset| offset != 0) {
            let version = u8::from(offsets().any(|offset| offset < 0));
            put_runs(out, b"ctts", version, offsets().map(i32::cast_unsigned));
        }
        if self.samples.iter().any(|(.., is_key)| !is_key) {
            let keys = self
                .samples
                .iter()
                .zip(1_u32..)
                .filter(|((.., is_key), _)| *is_key);
            put_table(
                out,
                b"stss",
                keys.map(|(_, number)| number.to_be_bytes().to_vec()),
            );
        }
        let ends = self
            .chunks
            .iter()
            .skip(1)
            .map(|(_, first)| *first)
            .chain([self.samples.len()]);
        let counts = self
            .chunks
            .iter()
            .zip(ends)
            .map(|((_, first), end)| (end - first) as u32);
        let mut before = None;
        let changes = counts
            .zip(1_u32..)
            .filter(|(count, _)| before.replace(*count) != Some(*count));
        let changes: Vec<Vec<u8>> = changes
            .map(|(count, chunk)| [chunk, count, 1].map(u32::to_be_bytes).concat())
            .collect();
        put_table(out, b"stsc", changes.into_iter());
        put_full_box(out, b"stsz", 0, |out| {
            // Each has a size of its own.
            out.extend([0; 4]);
            out.extend((self.samples.len() as u32).to_be_bytes());
            self.samples
                .iter()
                .for_each(|(_, size, ..)| out.extend(size.to_be_bytes()));
        });
        put_table(
            out,
            b"co64",
            self.chunks
                .iter()
                .map(|(place, _)| (mdat + place).to_be_bytes().to_vec()),
        );
    }
}

/// Puts a table of entries after their number.
fn put_table(out: &mut Vec<u8>, kind: &Kind, entries: impl Iterator<Item = Vec<u8>>) {
    put_full_box(out, kind, 0, |out| {
        let at = out.len();
        out.extend([0; 4]);
        let mut count = 0_u32;
        for entry in entries {
            out.extend(entry);
            count += 1;
        }
        out[at..at + 4].copy_from_slice(&count.to_be_bytes());
    });
}

/// Puts a table of values, each with how many samples in a row have it.
fn put_runs(out: &mut Vec<u8>, kind: &Kind, version: u8, values: impl Iterator<Item = u32>) {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((count, same)) if *same == value => *count += 1,
            _ => runs.push((1, value)),
        }
    }
    put_full_box(out, kind, version, |out| {
        out.extend((runs.len() as u32).to_be_bytes());
        for (count, value) in runs {
            out.extend(count.to_be_bytes());
            out.extend(value.to_be_bytes());
        }
    });
}

/// All of an MP4 that is before the bytes of its samples. `origin_ms` is the time of the first picture, in milliseconds since
/// 1970, and `length` the bytes of the samples.
pub(super) fn head(tracks: &[ExportTrack], origin_ms: u64, length: u64) -> Vec<u8> {
    let tracks: Vec<&ExportTrack> = tracks.iter().filter(|track| !track.samples.is_empty()).collect();
    let write = |mdat: u64| {
        let mut out = Vec::new();
        put_box(&mut out, b"ftyp", |out| out.extend(b"isom\0\0\x02\0isomiso2mp41"));
        put_box(&mut out, b"moov", |out| {
            put_movie(out, &tracks, origin_ms);
            tracks.iter().for_each(|track| track.put(out, mdat));
        });
        // A length of 8 bytes: exports may be long.
        out.extend([0, 0, 0, 1]);
        out.extend(b"mdat");
        out.extend((length + 16).to_be_bytes());
        out
    };
    // Its length does not depend on the places in it.
    let mdat = write(0).len() as u64;
    write(mdat)
}

fn put_movie(out: &mut Vec<u8>, tracks: &[&ExportTrack], origin_ms: u64) {
    let length_ms = tracks.iter().map(|track| track.length_ms()).max().unwrap_or(0);
    let next_id = tracks.iter().map(|track| track.track.id).max().unwrap_or(0) + 1;
    put_full_box(out, b"mvhd", 1, |out| {
        let created = origin_ms / 1_000 + EPOCH_S;
        out.extend(created.to_be_bytes());
        out.extend(created.to_be_bytes());
        out.extend(MOVIE_SCALE.to_be_bytes());
        out.extend(length_ms.to_be_bytes());
        // Rate 1, volume 1.
        out.extend([0, 1, 0, 0, 1, 0]);
        out.extend([0; 10]);
        let (one, last) = (0x0001_0000_u32, 0x4000_0000_u32);
        for number in [one, 0, 0, 0, one, 0, 0, 0, last] {
            out.extend(number.to_be_bytes());
        }
        out.extend([0; 24]);
        out.extend(next_id.to_be_bytes());
    });
}
