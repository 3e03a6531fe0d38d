//! The header of a segment: its tracks, with what it takes to play and to copy them.

use super::boxes::{Numbers, child, children};

/// Fixed part of the description of a video before its boxes (14496-12, 12.1.3).
const VISUAL_ENTRY: usize = 78;

/// Fixed part of the description of a sound before its boxes (14496-12, 12.2.3).
const AUDIO_ENTRY: usize = 28;

/// Tracks that are read of a segment.
const MAX_TRACKS: usize = 4;

/// Values of the samples of a track that say nothing else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Defaults {
    pub(super) duration: u32,
    pub(super) size: u32,
    pub(super) flags: u32,
}

/// A track of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Track {
    pub(super) id: u32,
    /// Ticks per second, at least 1.
    pub(super) timescale: u32,
    pub(super) is_video: bool,
    /// The `codecs` parameter of RFC 6381, such as `avc1.64001f`.
    codec: Option<String>,
    /// Content of its box `trak`.
    pub(super) content: Vec<u8>,
    /// Content of its box `stsd`: codec, size and parameter sets.
    pub(super) description: Vec<u8>,
    pub(super) defaults: Defaults,
}

/// The tracks of a segment, the video first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) tracks: Vec<Track>,
}

impl Header {
    /// Reads the content of a box `moov`; `None` if it has no video.
    pub(super) fn read(moov: &[u8]) -> Option<Self> {
        let extends = child(moov, b"mvex").unwrap_or_default();
        let defaults = |id: u32| {
            let of_track = children(extends).filter(|(kind, _)| kind == b"trex");
            of_track
                .filter_map(|(_, content)| read_defaults(content))
                .find(|(of, _)| *of == id)
        };
        let tracks = children(moov).filter(|(kind, _)| kind == b"trak");
        let mut tracks: Vec<Track> = tracks
            .take(MAX_TRACKS)
            .filter_map(|(_, content)| read_track(content))
            .map(|mut track| {
                track.defaults = defaults(track.id)
                    .map(|(_, defaults)| defaults)
                    .unwrap_or_default();
                track
            })
            .collect();
        tracks.sort_by_key(|track| !track.is_video);
        // One video, and one sound at most.
        tracks.dedup_by_key(|track| track.is_video);
        tracks
            .first()
            .is_some_and(|first| first.is_video)
            .then_some(Self { tracks })
    }

    pub(super) fn video(&self) -> &Track {
        &self.tracks[0]
    }

    /// MIME type with the codecs, for players.
    pub(super) fn mime(&self) -> String {
        let codecs: Vec<&str> = self
            .tracks
            .iter()
            .filter_map(|track| track.codec.as_deref())
            .collect();
        if codecs.len() < self.tracks.len() {
            return "video/mp4".to_owned();
        }
        format!("video/mp4; codecs=\"{}\"", codecs.join(","))
    }
}

fn read_defaults(content: &[u8]) -> Option<(u32, Defaults)> {
    let mut numbers = Numbers(content);
    numbers.version_and_flags()?;
    let id = numbers.u32()?;
    // The index of the description.
    numbers.u32()?;
    let (duration, size, flags) = (numbers.u32()?, numbers.u32()?, numbers.u32()?);
    Some((
        id,
        Defaults {
            duration,
            size,
            flags,
        },
    ))
}

fn read_track(content: &[u8]) -> Option<Track> {
    let mut numbers = Numbers(child(content, b"tkhd")?);
    let (version, _) = numbers.version_and_flags()?;
    // Times of creation and modification.
    numbers.sized(version)?;
    numbers.sized(version)?;
    let id = numbers.u32()?;
    let media = child(content, b"mdia")?;
    let mut numbers = Numbers(child(media, b"mdhd")?);
    let (version, _) = numbers.version_and_flags()?;
    numbers.sized(version)?;
    numbers.sized(version)?;
    let timescale = numbers.u32().filter(|scale| *scale > 0)?;
    let kind = child(media, b"hdlr")?.get(8..12)?;
    let is_video = match kind {
        b"vide" => true,
        b"soun" => false,
        _ => return None,
    };
    let description = child(child(child(media, b"minf")?, b"stbl")?, b"stsd")?;
    let entry = children(description.get(8..)?).next();
    Some(Track {
        id,
        timescale,
        is_video,
        codec: entry.and_then(|(kind, entry)| codec(kind, entry)),
        content: content.to_owned(),
        description: description.to_owned(),
        defaults: Defaults::default(),
    })
}

/// The codec of a sample description as browsers name it (RFC 6381; ISO/IEC 14496-15, annex E).
fn codec(kind: super::boxes::Kind, entry: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(&kind).ok()?;
    match &kind {
        b"avc1" | b"avc3" => match child(entry.get(VISUAL_ENTRY..)?, b"avcC")? {
            [_, profile, constraints, level, ..] => {
                Some(format!("{name}.{profile:02x}{constraints:02x}{level:02x}"))
            }
            _ => None,
        },
        b"hvc1" | b"hev1" => {
            let mut numbers = Numbers(child(entry.get(VISUAL_ENTRY..)?, b"hvcC")?);
            let [_, profile] = *numbers.take(2)? else {
                return None;
            };
            let compatible = numbers.u32()?.reverse_bits();
            let constraints = numbers.take(6)?;
            let level = numbers.u8()?;
            let space = ["", "A", "B", "C"][usize::from(profile >> 6)];
            let tier = if profile & 0x20 == 0 { 'L' } else { 'H' };
            let used = constraints
                .iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |last| last + 1);
            let constraints: String = constraints[..used]
                .iter()
                .map(|byte| format!(".{byte:X}"))
                .collect();
            Some(format!(
                "{name}.{space}{}.{compatible:X}.{tier}{level}{constraints}",
                profile & 0x1f
            ))
        }
        // AAC of low complexity is what cameras send.
        b"mp4a" => entry
            .len()
            .checked_sub(AUDIO_ENTRY)
            .map(|_| "mp4a.40.2".to_owned()),
        b"Opus" => Some("opus".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::boxes::put_box;
    use super::*;

    fn entry(kind: &super::super::boxes::Kind, content: &[u8]) -> Vec<u8> {
        let mut entry = vec![0; VISUAL_ENTRY];
        put_box(&mut entry, kind, |out| out.extend(content));
        entry
    }

    #[test]
    fn codecs_have_the_names_of_browsers() {
        let avc = entry(b"avcC", &[1, 0x64, 0, 0x1f, 0xff]);
        assert_eq!(codec(*b"avc1", &avc).as_deref(), Some("avc1.64001f"));
        // Main profile, level 3.1, as the Apple documentation of HLS has it.
        let hevc = entry(b"hvcC", &[1, 0x01, 0x60, 0, 0, 0, 0xb0, 0, 0, 0, 0, 0, 93, 0]);
        assert_eq!(codec(*b"hvc1", &hevc).as_deref(), Some("hvc1.1.6.L93.B0"));
        assert_eq!(codec(*b"vp09", &avc), None);
        assert_eq!(codec(*b"Opus", &[]).as_deref(), Some("opus"));
        for length in 0..hevc.len() {
            let _ = codec(*b"hvc1", &hevc[..length]);
        }
    }
}
