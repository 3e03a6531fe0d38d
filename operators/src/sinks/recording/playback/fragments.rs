//! Fragments of a segment: where their samples are, and when each is decoded.

use std::fs::File;
use std::io;

use super::boxes::{FileBox, Numbers, child, children};
use super::header::{Defaults, Header};

/// The largest index of a fragment, or header of a file.
const MAX_INDEX_BYTES: usize = 4 << 20;

/// The largest index of all fragments at the end of a file.
const MAX_TABLE_BYTES: usize = 16 << 20;

/// Boxes that are read of a file: two for each group of pictures of a day.
const MAX_BOXES: u32 = 1 << 19;

/// Samples that are read of a run.
const MAX_SAMPLES: usize = 1 << 16;

/// A sample that does not decode by itself (14496-12, 8.8.3.1).
const NO_SYNC: u32 = 0x0001_0000;

/// A coded picture, or a piece of sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// Decoding time in ticks of its track.
    pub(super) time: u64,
    pub(super) duration: u32,
    pub(super) size: u32,
    /// Presentation time less the decoding time.
    pub(super) offset: i32,
    pub(super) is_key: bool,
}

/// Samples of one track that follow each other in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    /// Index of the track in the header.
    pub(super) track: usize,
    /// Place of its first byte in the file.
    pub(super) at: u64,
    pub(super) samples: Vec<Sample>,
}

/// A file that is read from its beginning, fragment by fragment.
pub(super) struct Fragments<'a> {
    file: &'a File,
    pub(super) header: Header,
    length: u64,
    at: u64,
    boxes: u32,
    /// Bytes up to the end of the last fragment that was read.
    whole: u64,
}

impl<'a> Fragments<'a> {
    /// Reads the header; `None` if the file is no MP4 that plays.
    pub(super) fn open(file: &'a File) -> io::Result<Option<Self>> {
        let length = file.metadata()?.len();
        let (mut at, mut boxes) = (0, 0);
        while let Some(found) = FileBox::at(file, at, length)? {
            (at, boxes) = (found.end, boxes + 1);
            if &found.kind == b"moov" {
                let content = found.read(file, MAX_INDEX_BYTES)?;
                let header = content.and_then(|content| Header::read(&content));
                return Ok(header.map(|header| Self {
                    file,
                    header,
                    length,
                    at,
                    boxes,
                    whole: 0,
                }));
            }
            // It is among the first boxes of what is recorded.
            if boxes > 8 {
                break;
            }
        }
        Ok(None)
    }

    /// Bytes from the beginning that can be played; 0 if there is no whole fragment. A complete file plays to its end.
    pub(super) fn playable(&self) -> u64 {
        match self.whole {
            0 => 0,
            _ if self.at == self.length => self.length,
            whole => whole,
        }
    }

    /// Continues at the last fragment if the index at the end of the file names it.
    pub(super) fn skip_to_last(&mut self) -> io::Result<()> {
        if let Some(last) = self.last_of_table()?
            && last > self.at
            && FileBox::at(self.file, last, self.length)?.is_some_and(|found| &found.kind == b"moof")
        {
            self.at = last;
        }
        Ok(())
    }

    /// Place of the last fragment of the video by the box `mfra`, which `mfro` at the end leads to.
    fn last_of_table(&self) -> io::Result<Option<u64>> {
        let Some(end) = self.length.checked_sub(16) else {
            return Ok(None);
        };
        let Some(mfro) = FileBox::at(self.file, end, self.length)?.filter(|found| &found.kind == b"mfro")
        else {
            return Ok(None);
        };
        let size = mfro.read(self.file, 8)?.and_then(|content| {
            let mut numbers = Numbers(&content);
            numbers.version_and_flags()?;
            numbers.u32()
        });
        let Some(at) = size.and_then(|size| self.length.checked_sub(u64::from(size))) else {
            return Ok(None);
        };
        let table = FileBox::at(self.file, at, self.length)?.filter(|found| &found.kind == b"mfra");
        let Some(table) = table else { return Ok(None) };
        let content = table.read(self.file, MAX_TABLE_BYTES)?;
        let video = self.header.video().id;
        Ok(content.and_then(|content| {
            let tables = children(&content).filter(|(kind, _)| kind == b"tfra");
            tables
                .filter_map(|(_, content)| last_entry(content, video))
                .next()
        }))
    }

    /// Samples of the next fragment that is whole, a run for each of its tracks; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<Run>>> {
        while self.boxes < MAX_BOXES {
            let Some(index) = FileBox::at(self.file, self.at, self.length)? else {
                break;
            };
            self.boxes += 1;
            if &index.kind != b"moof" {
                self.at = index.end;
                continue;
            }
            let Some(content) = index.read(self.file, MAX_INDEX_BYTES)? else {
                break;
            };
            let Some(runs) = read_index(&content, index.at, &self.header) else {
                break;
            };
            let end = |run: &Run| {
                let bytes: u64 = run.samples.iter().map(|sample| u64::from(sample.size)).sum();
                run.at.checked_add(bytes)
            };
            let is_there = |run: &Run| end(run).is_some_and(|end| end <= self.length) && run.at >= index.end;
            if !runs.iter().all(is_there) {
                break;
            }
            self.at = index.end;
            self.whole = runs.iter().filter_map(end).fold(self.at, u64::max);
            return Ok(Some(runs));
        }
        Ok(None)
    }
}

/// Place of the last entry of a box `tfra` of that track.
fn last_entry(content: &[u8], track: u32) -> Option<u64> {
    let mut numbers = Numbers(content);
    let (version, _) = numbers.version_and_flags()?;
    if numbers.u32()? != track {
        return None;
    }
    let lengths = numbers.u32()?;
    let count = numbers.u32()?;
    let numbers_length = (0..3).map(|part| (lengths >> (2 * part) & 3) + 1).sum::<u32>();
    let length = (if version == 1 { 16 } else { 8 }) + numbers_length;
    let before = u64::from(count.checked_sub(1)?) * u64::from(length);
    numbers.take(usize::try_from(before).ok()?)?;
    // Its time.
    numbers.sized(version)?;
    numbers.sized(version)
}

/// Reads the content of a box `moof` at a place of the file.
fn read_index(content: &[u8], at: u64, header: &Header) -> Option<Vec<Run>> {
    let mut runs = Vec::new();
    for (_, track) in children(content).filter(|(kind, _)| kind == b"traf") {
        let mut numbers = Numbers(child(track, b"tfhd")?);
        let (_, flags) = numbers.version_and_flags()?;
        let id = numbers.u32()?;
        let Some(index) = header.tracks.iter().position(|known| known.id == id) else {
            continue;
        };
        let mut base = at;
        if flags & 0x1 != 0 {
            base = numbers.u64()?;
        }
        if flags & 0x2 != 0 {
            numbers.u32()?;
        }
        let mut defaults = header.tracks[index].defaults;
        let fields = [
            (0x8, &mut defaults.duration),
            (0x10, &mut defaults.size),
            (0x20, &mut defaults.flags),
        ];
        for (flag, field) in fields {
            if flags & flag != 0 {
                *field = numbers.u32()?;
            }
        }
        let mut time = child(track, b"tfdt").map_or(Some(0), |content| {
            let mut numbers = Numbers(content);
            let (version, _) = numbers.version_and_flags()?;
            numbers.sized(version)
        })?;
        let mut place = base;
        for (_, content) in children(track).filter(|(kind, _)| kind == b"trun") {
            let run = read_run(content, (base, &mut place), &mut time, defaults)?;
            runs.push(Run { track: index, ..run });
        }
    }
    runs.sort_by_key(|run| run.at);
    Some(runs)
}

/// Reads the content of a box `trun`. `place` is the begin of its samples if it has no offset of its own.
fn read_run(
    content: &[u8],
    (base, place): (u64, &mut u64),
    time: &mut u64,
    defaults: Defaults,
) -> Option<Run> {
    let mut numbers = Numbers(content);
    let (_, flags) = numbers.version_and_flags()?;
    let count = numbers.u32()?;
    if flags & 0x1 != 0 {
        *place = base.checked_add_signed(i64::from(numbers.u32()?.cast_signed()))?;
    }
    let first_flags = match flags & 0x4 {
        0 => None,
        _ => Some(numbers.u32()?),
    };
    let at = *place;
    let mut samples = Vec::new();
    for number in 0..count {
        let mut field = |flag: u32, default: u32| {
            if flags & flag == 0 {
                Some(default)
            } else {
                numbers.u32()
            }
        };
        let duration = field(0x100, defaults.duration)?;
        let size = field(0x200, defaults.size)?;
        let own = field(0x400, defaults.flags)?;
        let offset = field(0x800, 0)?.cast_signed();
        let own = first_flags.filter(|_| number == 0).unwrap_or(own);
        // Without any field of its own, a sample takes no byte of the index.
        if samples.len() >= MAX_SAMPLES {
            return None;
        }
        samples.push(Sample {
            time: *time,
            duration,
            size,
            offset,
            is_key: own & NO_SYNC == 0,
        });
        *time = time.checked_add(u64::from(duration))?;
        *place = place.checked_add(u64::from(size))?;
    }
    Some(Run {
        track: 0,
        at,
        samples,
    })
}
