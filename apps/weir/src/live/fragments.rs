//! Packets as fragments of MP4 (ISO/IEC 14496-12), which browsers play as they come: nothing is decoded or encoded.

use weir_flow::{PacketCodec, SoundFormat};

use super::sound;

/// Units of time in a second, of the pictures.
const TIMESCALE: u32 = 90_000;

/// Samples per second of which one lasts if its successor does not say how long.
const USUAL_RATE: i64 = 30;

/// The longest duration of a sample in seconds.
const MAX_DURATION_S: i64 = 10;

/// Numbers of the tracks.
const PICTURES: u32 = 1;
pub(super) const SOUND: u32 = 2;

/// The latest time: differences and sums of such times are numbers, too.
const MAX_TIME: i64 = i64::MAX / 4;

/// A coded picture, or a piece of sound, as MP4 has it.
#[derive(Debug)]
pub(super) struct Sample {
    /// Of a picture, units with their lengths before them.
    pub(super) data: Vec<u8>,
    /// Presentation time in milliseconds.
    pub(super) pts_ms: f64,
    /// Decoding time in milliseconds.
    pub(super) dts_ms: f64,
    /// True if it decodes without others, as a key picture and each piece of sound do.
    pub(super) key: bool,
}

/// A fragment of one sample.
#[derive(Debug)]
pub(super) struct Fragment {
    pub(super) key: bool,
    pub(super) bytes: Vec<u8>,
}

/// Makes fragments of the samples of a track. A sample comes out with the next one, which says how long it lasts.
#[derive(Debug)]
pub(super) struct Fragmenter {
    /// Media time at which the time of the fragments is zero, in milliseconds.
    origin_ms: f64,
    track: u32,
    timescale: u32,
    number: u32,
    /// Its decoding time in units of time.
    waiting: Option<(Sample, i64)>,
}

impl Fragmenter {
    /// Of pictures from that media time on.
    pub(super) fn new(origin_ms: f64) -> Self {
        Self::of(PICTURES, TIMESCALE, origin_ms)
    }

    /// Of sound with so many samples a second, from that media time on.
    pub(super) fn of_sound(rate: u32, origin_ms: f64) -> Self {
        Self::of(SOUND, rate.max(1), origin_ms)
    }

    fn of(track: u32, timescale: u32, origin_ms: f64) -> Self {
        Self {
            origin_ms,
            track,
            timescale,
            number: 0,
            waiting: None,
        }
    }

    /// The sample before this one, if there is one.
    pub(super) fn push(&mut self, sample: Sample) -> Option<Fragment> {
        let mut time = self.units(sample.dts_ms).max(0);
        let Some((before, began)) = self.waiting.take() else {
            self.waiting = Some((sample, time));
            return None;
        };
        let mut duration = time - began;
        let max_duration = MAX_DURATION_S * i64::from(self.timescale);
        if !(1..=max_duration).contains(&duration) {
            duration = (i64::from(self.timescale) / USUAL_RATE).max(1);
            time = began + duration;
        }
        self.waiting = Some((sample, time));
        self.number = self.number.wrapping_add(1);
        let shift = (self.units(before.pts_ms) - began).clamp(-max_duration, max_duration);
        Some(Fragment {
            key: before.key,
            bytes: fragment(
                (self.number, self.track),
                (began as u64, duration as u32, shift as i32),
                &before,
            ),
        })
    }

    fn units(&self, ms: f64) -> i64 {
        let units = ((ms - self.origin_ms) * f64::from(self.timescale) / 1_000.0).round() as i64;
        units.clamp(-MAX_TIME, MAX_TIME)
    }
}

/// Adds a box of that type; `fill` adds what is in it.
pub(super) fn add_box(out: &mut Vec<u8>, kind: &[u8; 4], fill: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(kind);
    fill(out);
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// The same with a version and flags.
pub(super) fn add_full_box(
    out: &mut Vec<u8>,
    kind: &[u8; 4],
    (version, flags): (u8, u32),
    fill: impl FnOnce(&mut Vec<u8>),
) {
    add_box(out, kind, |out| {
        add_u32(out, u32::from(version) << 24 | flags);
        fill(out);
    });
}

pub(super) fn add_u16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_be_bytes());
}

pub(super) fn add_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_be_bytes());
}

pub(super) fn add_zeros(out: &mut Vec<u8>, count: usize) {
    out.resize(out.len() + count, 0);
}

/// Adds the matrix of a picture without rotation.
fn add_matrix(out: &mut Vec<u8>) {
    add_numbers(out, &UPRIGHT);
}

/// Pictures are shown as they are.
pub(super) const UPRIGHT: [i32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];

pub(super) fn add_numbers(out: &mut Vec<u8>, matrix: &[i32; 9]) {
    for number in matrix {
        add_u32(out, number.cast_unsigned());
    }
}

/// Description of the track of a video.
#[derive(Debug)]
pub(super) struct Track<'r> {
    /// H.264 has its parameter sets in an `avcC` record, H.265 in an `hvcC` record.
    pub(super) codec: PacketCodec,
    pub(super) record: &'r [u8],
    /// Width and height in pixels.
    pub(super) size: (u16, u16),
    /// Matrix by which pictures are turned when they are shown.
    pub(super) turn: Option<[i32; 9]>,
    /// Width and height of a pixel.
    pub(super) aspect: Option<(u32, u32)>,
}

/// Header before all fragments, which have a track of pictures, and one of sound where there is sound.
pub(super) fn header(track: &Track<'_>, sound: Option<&SoundFormat>) -> Vec<u8> {
    let mut out = Vec::with_capacity(1_024);
    add_box(&mut out, b"ftyp", |out| {
        out.extend_from_slice(b"iso5");
        add_u32(out, 512);
        out.extend_from_slice(b"iso5iso6mp41");
    });
    add_box(&mut out, b"moov", |out| {
        add_full_box(out, b"mvhd", (0, 0), |out| {
            add_zeros(out, 8);
            add_u32(out, TIMESCALE);
            add_u32(out, 0);
            add_u32(out, 0x1_0000);
            add_u16(out, 0x100);
            add_zeros(out, 10);
            add_matrix(out);
            add_zeros(out, 24);
            add_u32(out, SOUND + 1);
        });
        add_box(out, b"trak", |out| add_track(out, track));
        if let Some(sound) = sound {
            add_box(out, b"trak", |out| sound::add_track(out, sound));
        }
        add_box(out, b"mvex", |out| {
            for track in [PICTURES, SOUND]
                .into_iter()
                .take(1 + usize::from(sound.is_some()))
            {
                add_full_box(out, b"trex", (0, 0), |out| {
                    add_u32(out, track);
                    add_u32(out, 1);
                    add_zeros(out, 12);
                });
            }
        });
    });
    out
}

fn add_track(out: &mut Vec<u8>, track: &Track<'_>) {
    let (width, height) = track.size;
    // Enabled, and part of the presentation.
    add_full_box(out, b"tkhd", (0, 3), |out| {
        add_zeros(out, 8);
        add_u32(out, PICTURES);
        add_zeros(out, 24);
        add_numbers(out, &track.turn.unwrap_or(UPRIGHT));
        add_u32(out, u32::from(width) << 16);
        add_u32(out, u32::from(height) << 16);
    });
    let (entry, record) = match track.codec {
        PacketCodec::H264 => (b"avc1", b"avcC"),
        PacketCodec::H265 => (b"hvc1", b"hvcC"),
    };
    add_media(
        out,
        (TIMESCALE, b"vide", b"video\0"),
        |out| add_full_box(out, b"vmhd", (0, 1), |out| add_zeros(out, 8)),
        |out| add_box(out, entry, |out| add_description(out, track, record)),
    );
}

/// Adds the media of a track with that timescale, and type and name of its handler: `head` adds the header of its type, and
/// `describe` the description of its samples.
pub(super) fn add_media(
    out: &mut Vec<u8>,
    (timescale, handler, name): (u32, &[u8; 4], &[u8; 6]),
    head: impl FnOnce(&mut Vec<u8>),
    describe: impl FnOnce(&mut Vec<u8>),
) {
    add_box(out, b"mdia", |out| {
        add_full_box(out, b"mdhd", (0, 0), |out| {
            add_zeros(out, 8);
            add_u32(out, timescale);
            add_u32(out, 0);
            // No language: "und".
            add_u16(out, 0x55c4);
            add_u16(out, 0);
        });
        add_full_box(out, b"hdlr", (0, 0), |out| {
            add_u32(out, 0);
            out.extend_from_slice(handler);
            add_zeros(out, 12);
            out.extend_from_slice(name);
        });
        add_box(out, b"minf", |out| {
            head(out);
            add_box(out, b"dinf", |out| {
                add_full_box(out, b"dref", (0, 0), |out| {
                    add_u32(out, 1);
                    // In this file.
                    add_full_box(out, b"url ", (0, 1), |_| {});
                });
            });
            add_box(out, b"stbl", |out| {
                add_full_box(out, b"stsd", (0, 0), |out| {
                    add_u32(out, 1);
                    describe(out);
                });
                for kind in [b"stts", b"stsc", b"stco"] {
                    add_full_box(out, kind, (0, 0), |out| add_u32(out, 0));
                }
                add_full_box(out, b"stsz", (0, 0), |out| add_zeros(out, 8));
            });
        });
    });
}

fn add_description(out: &mut Vec<u8>, track: &Track<'_>, record: &[u8; 4]) {
    let (width, height) = track.size;
    add_zeros(out, 6);
    add_u16(out, 1);
    add_zeros(out, 16);
    add_u16(out, width);
    add_u16(out, height);
    // 72 dots an inch.
    add_u32(out, 0x48_0000);
    add_u32(out, 0x48_0000);
    add_u32(out, 0);
    add_u16(out, 1);
    add_zeros(out, 32);
    add_u16(out, 24);
    add_u16(out, 0xffff);
    add_box(out, record, |out| out.extend_from_slice(track.record));
    if let Some((width, height)) = track.aspect.filter(|(width, height)| width != height) {
        add_box(out, b"pasp", |out| {
            add_u32(out, width);
            add_u32(out, height);
        });
    }
}

fn fragment(
    (number, track): (u32, u32),
    (time, duration, shift): (u64, u32, i32),
    sample: &Sample,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(sample.data.len() + 128);
    let mut offset_at = 0;
    add_box(&mut out, b"moof", |out| {
        add_full_box(out, b"mfhd", (0, 0), |out| add_u32(out, number));
        add_box(out, b"traf", |out| {
            // Offsets are from the beginning of the fragment.
            add_full_box(out, b"tfhd", (0, 0x02_0000), |out| add_u32(out, track));
            add_full_box(out, b"tfdt", (1, 0), |out| {
                out.extend_from_slice(&time.to_be_bytes());
            });
            // With an offset, and of the sample its duration, size, flags and shift from decoding to presentation.
            add_full_box(out, b"trun", (1, 0xf01), |out| {
                add_u32(out, 1);
                offset_at = out.len();
                add_u32(out, 0);
                add_u32(out, duration);
                add_u32(out, sample.data.len() as u32);
                add_u32(out, if sample.key { 0x0200_0000 } else { 0x0101_0000 });
                add_u32(out, shift as u32);
            });
        });
    });
    let offset = (out.len() + 8) as u32;
    out[offset_at..offset_at + 4].copy_from_slice(&offset.to_be_bytes());
    add_box(&mut out, b"mdat", |out| out.extend_from_slice(&sample.data));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(dts_ms: f64, pts_ms: f64, key: bool) -> Sample {
        Sample {
            data: vec![7; 5],
            pts_ms,
            dts_ms,
            key,
        }
    }

    fn number(bytes: &[u8], at: usize) -> i64 {
        i64::from(i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()))
    }

    /// Decoding time, duration and shift of a fragment, which is checked to be as long as its boxes say.
    fn times(fragment: &Fragment) -> (i64, i64, i64) {
        let bytes = &fragment.bytes;
        let moof = number(bytes, 0) as usize;
        assert_eq!(&bytes[4..8], b"moof");
        assert_eq!(&bytes[moof + 4..moof + 8], b"mdat");
        assert_eq!(number(bytes, moof) as usize, bytes.len() - moof);
        let tfdt = bytes.windows(4).position(|kind| kind == b"tfdt").unwrap();
        let trun = bytes.windows(4).position(|kind| kind == b"trun").unwrap();
        assert_eq!(number(bytes, trun + 12) as usize, moof + 8);
        (
            number(bytes, tfdt + 12),
            number(bytes, trun + 16),
            number(bytes, trun + 28),
        )
    }

    #[test]
    fn a_sample_lasts_until_the_next_and_is_shown_when_it_is_to_be() {
        let mut fragmenter = Fragmenter::new(1_000.0);
        assert!(fragmenter.push(sample(1_000.0, 1_080.0, true)).is_none());
        let first = fragmenter.push(sample(1_040.0, 1_040.0, false)).unwrap();
        assert!(first.key);
        assert_eq!(times(&first), (0, 3_600, 7_200));
        let second = fragmenter.push(sample(1_060.0, 1_060.0, false)).unwrap();
        assert!(!second.key);
        assert_eq!(times(&second), (3_600, 1_800, 0));
    }

    #[test]
    fn decoding_times_grow_whatever_a_camera_sends() {
        let mut fragmenter = Fragmenter::new(0.0);
        let mut end = 0;
        for ms in [
            0.0,
            40.0,
            40.0,
            20.0,
            -5.0,
            1e12,
            50.0,
            f64::NAN,
            1e300,
            -1e300,
            60.0,
        ] {
            let Some(fragment) = fragmenter.push(sample(ms, -ms, false)) else {
                continue;
            };
            let (began, duration, _) = times(&fragment);
            assert!(duration > 0 && began == end, "{ms}: {began} after {end}");
            end = began + duration;
        }
    }

    #[test]
    fn the_header_is_as_long_as_its_boxes_say() {
        let track = Track {
            codec: PacketCodec::H264,
            record: &[1, 0x64, 0, 0x1f],
            size: (640, 360),
            turn: None,
            aspect: None,
        };
        let made = header(&track, None);
        let ftyp = number(&made, 0) as usize;
        assert_eq!(&made[ftyp + 4..ftyp + 8], b"moov");
        assert_eq!(ftyp + number(&made, ftyp) as usize, made.len());
        let has = |made: &[u8], part: &[u8]| made.windows(part.len()).any(|bytes| bytes == part);
        assert!(has(&made, b"\0\0\0\x0cavcC\x01d\0\x1f") && !has(&made, b"pasp"));
        let track = Track {
            codec: PacketCodec::H265,
            aspect: Some((4, 3)),
            ..track
        };
        let made = header(&track, None);
        let end = b"hvcC\x01d\0\x1f\0\0\0\x10pasp\0\0\0\x04\0\0\0\x03";
        assert!(has(&made, b"hvc1") && has(&made, end));
    }
}
