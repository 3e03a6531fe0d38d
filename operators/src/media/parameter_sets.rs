//! Parameter sets of H.264 and H.265 in packets, and the size of pictures that they state. A camera may send others with any key
//! frame; what records or shows its packets has to know. `h264-reader` reads no H.265 and refuses a whole set for errors behind the size;
//! FFmpeg's parsers state a size only with a picture, which extradata do not have.

use weir_flow::{PacketCodec, PacketFormat};

/// Types of units: parameter sets of H.264 (ITU-T H.264, table 7-1) and of H.265 (ITU-T H.265, table 7-1).
const SPS_264: u8 = 7;
const PPS_264: u8 = 8;
const VPS_265: u8 = 32;
const SPS_265: u8 = 33;
const PPS_265: u8 = 34;

/// Bytes of parameter sets that are looked at; those of cameras have tens.
const MAX_BYTES: usize = 4_096;

/// The units of a byte stream with start codes.
fn units(stream: &[u8]) -> Vec<&[u8]> {
    let mut starts = Vec::new();
    let mut at = 0;
    while at + 3 <= stream.len() {
        if stream[at..at + 3] == [0, 0, 1] {
            starts.push(at + 3);
            at += 3;
        } else {
            at += 1;
        }
    }
    let ends = starts.iter().skip(1).map(|start| start - 3).chain([stream.len()]);
    let units = starts.iter().zip(ends).map(|(start, end)| {
        let unit = &stream[*start..end.max(*start)];
        let zeros = unit.iter().rev().take_while(|byte| **byte == 0).count();
        &unit[..unit.len() - zeros]
    });
    units.filter(|unit| !unit.is_empty()).collect()
}

/// The type of a unit.
pub(super) fn kind(codec: PacketCodec, unit: &[u8]) -> Option<u8> {
    let first = *unit.first()?;
    Some(match codec {
        PacketCodec::H264 => first & 31,
        PacketCodec::H265 => first >> 1 & 63,
    })
}

/// The format of what begins with this key frame, where it brings other parameter sets than `format` has. Those
/// beside which units have their lengths before them are sent beside packets.
pub(super) fn new_format(format: &PacketFormat, key_frame: &[u8]) -> Option<PacketFormat> {
    if format.extradata.first() == Some(&1) {
        return None;
    }
    let sets = match format.codec {
        PacketCodec::H264 => [SPS_264, SPS_264, PPS_264],
        PacketCodec::H265 => [VPS_265, SPS_265, PPS_265],
    };
    let found: Vec<&[u8]> = units(&key_frame[..key_frame.len().min(MAX_BYTES)])
        .into_iter()
        .filter(|unit| kind(format.codec, unit).is_some_and(|kind| sets.contains(&kind)))
        .collect();
    let known = units(&format.extradata);
    if found.iter().all(|unit| known.contains(unit)) {
        return None;
    }
    let is = |unit: &[u8], set: u8| kind(format.codec, unit) == Some(set);
    let is_other_sequence = found
        .iter()
        .any(|unit| is(unit, sets[1]) && !known.contains(unit));
    let is_whole = is_other_sequence && found.iter().any(|unit| is(unit, sets[2]));
    // Sets that were not sent again stay in force, unless they belong to the sequence before.
    let name = |unit: &[u8]| set_name(format.codec, unit);
    let kept = known
        .into_iter()
        .filter(|unit| !is_whole && !found.iter().any(|found| name(found) == name(unit)));
    let mut all: Vec<&[u8]> = kept.chain(found.iter().copied()).collect();
    all.sort_by_key(|unit| kind(format.codec, unit));
    let extradata: Vec<u8> = all
        .iter()
        .flat_map(|unit| [&[0, 0, 0, 1], *unit].concat())
        .collect();
    Some(with_extradata(format, &extradata))
}

/// Type of a parameter set, and the number of one of a picture: another set with these takes its place.
fn set_name(codec: PacketCodec, unit: &[u8]) -> (Option<u8>, u32) {
    let kind = kind(codec, unit);
    let number = match (codec, kind) {
        (PacketCodec::H264, Some(PPS_264)) => unit.get(1..),
        (PacketCodec::H265, Some(PPS_265)) => unit.get(2..),
        _ => None,
    };
    // Numbers are at most 255 (H.264) and 63 (H.265).
    let number = number.and_then(|unit| Bits::of(unit).number()).unwrap_or(0);
    (kind, number.min(255))
}

/// The format with other parameter sets, and the size that these state.
pub(super) fn with_extradata(format: &PacketFormat, extradata: &[u8]) -> PacketFormat {
    let (width, height) = size(format.codec, extradata).unwrap_or((format.width, format.height));
    PacketFormat {
        extradata: extradata.into(),
        width,
        height,
        ..format.clone()
    }
}

/// Width and height that parameter sets state.
pub(super) fn size(codec: PacketCodec, extradata: &[u8]) -> Option<(u32, u32)> {
    let extradata = &extradata[..extradata.len().min(MAX_BYTES)];
    let is_record = extradata.first() == Some(&1);
    match codec {
        PacketCodec::H264 => Some(sequence_264(extradata)?.size),
        PacketCodec::H265 => {
            let sps = if is_record {
                sequence_of_record(extradata)?
            } else {
                sequence(codec, SPS_265, extradata)?
            };
            size_265(sps)
        }
    }
}

/// True if parameter sets say that pictures may be interlaced: lines of two moments, which a player shows as combs where something
/// moves. Of H.265 each moment is a picture of its own.
#[must_use]
pub fn is_interlaced(codec: PacketCodec, extradata: &[u8]) -> bool {
    let extradata = &extradata[..extradata.len().min(MAX_BYTES)];
    codec == PacketCodec::H264 && sequence_264(extradata).is_some_and(|sequence| sequence.is_interlaced)
}

fn sequence(codec: PacketCodec, of: u8, stream: &[u8]) -> Option<&[u8]> {
    units(stream)
        .into_iter()
        .find(|unit| kind(codec, unit) == Some(of))
}

/// The parameter set of the sequence in an `hvcC` record.
fn sequence_of_record(record: &[u8]) -> Option<&[u8]> {
    let mut at = 23;
    for _ in 0..*record.get(22)? {
        let (kind, count) = (
            record.get(at)? & 63,
            u16::from_be_bytes([*record.get(at + 1)?, *record.get(at + 2)?]),
        );
        at += 3;
        for _ in 0..count {
            let length = usize::from(u16::from_be_bytes([*record.get(at)?, *record.get(at + 1)?]));
            let unit = record.get(at + 2..at + 2 + length)?;
            if kind == SPS_265 {
                return Some(unit);
            }
            at += 2 + length;
        }
    }
    None
}

/// Bits of a unit, without the bytes that keep start codes out of it.
struct Bits {
    bytes: Vec<u8>,
    at: usize,
}

impl Bits {
    fn of(unit: &[u8]) -> Self {
        let (mut bytes, mut zeros) = (Vec::with_capacity(unit.len()), 0);
        for byte in unit {
            if *byte == 3 && zeros >= 2 {
                zeros = 0;
                continue;
            }
            zeros = if *byte == 0 { zeros + 1 } else { 0 };
            bytes.push(*byte);
        }
        Self { bytes, at: 0 }
    }

    fn bit(&mut self) -> Option<u32> {
        let byte = *self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Some(u32::from(bit))
    }

    fn bits(&mut self, count: usize) -> Option<u32> {
        let mut value = 0_u32;
        for _ in 0..count {
            value = value << 1 | self.bit()?;
        }
        Some(value)
    }

    /// A number of the codes of Exp-Golomb.
    fn number(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.bit()? == 0 {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        ((1_u32 << zeros) - 1).checked_add(self.bits(zeros)?)
    }

    fn signed(&mut self) -> Option<i64> {
        let number = i64::from(self.number()?);
        Some(if number % 2 == 0 {
            -(number / 2)
        } else {
            (number + 1) / 2
        })
    }
}

/// Contents of a parameter set of the sequence of H.264.
struct Sequence264 {
    /// Width and height that are shown.
    size: (u32, u32),
    is_interlaced: bool,
}

/// Reads the parameter set of the sequence in an `avcC` record or a byte stream.
fn sequence_264(extradata: &[u8]) -> Option<Sequence264> {
    if extradata.first() != Some(&1) {
        return read_sequence_264(sequence(PacketCodec::H264, SPS_264, extradata)?);
    }
    let length = usize::from(u16::from_be_bytes([*extradata.get(6)?, *extradata.get(7)?]));
    read_sequence_264(extradata.get(8..8 + length)?)
}

/// Reads a parameter set of the sequence of H.264 (ITU-T H.264, 7.3.2.1.1).
fn read_sequence_264(sps: &[u8]) -> Option<Sequence264> {
    let mut bits = Bits::of(sps.get(1..)?);
    let profile = bits.bits(8)?;
    bits.bits(16)?;
    bits.number()?;
    let mut chroma = 1;
    if [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135].contains(&profile) {
        chroma = bits.number()?;
        if chroma == 3 && bits.bit()? == 1 {
            chroma = 0;
        }
        bits.number()?;
        bits.number()?;
        bits.bit()?;
        if bits.bit()? == 1 {
            let lists = if chroma == 3 { 12 } else { 8 };
            for list in 0..lists {
                if bits.bit()? == 1 {
                    skip_scaling_list(&mut bits, if list < 6 { 16 } else { 64 })?;
                }
            }
        }
    }
    bits.number()?;
    match bits.number()? {
        0 => {
            bits.number()?;
        }
        1 => {
            bits.bit()?;
            bits.signed()?;
            bits.signed()?;
            for _ in 0..bits.number()?.min(255) {
                bits.signed()?;
            }
        }
        _ => {}
    }
    bits.number()?;
    bits.bit()?;
    let columns = bits.number()?.checked_add(1)?;
    let rows = bits.number()?.checked_add(1)?;
    let fields = 2 - bits.bit()?;
    if fields == 2 {
        bits.bit()?;
    }
    bits.bit()?;
    let (width, height) = (
        columns.checked_mul(16)?,
        rows.checked_mul(16)?.checked_mul(fields)?,
    );
    let units = (
        if matches!(chroma, 1 | 2) { 2 } else { 1 },
        if chroma == 1 { 2 } else { 1 } * fields,
    );
    Some(Sequence264 {
        size: cropped((width, height), units, &mut bits)?,
        is_interlaced: fields == 2,
    })
}

fn skip_scaling_list(bits: &mut Bits, count: usize) -> Option<()> {
    let (mut last, mut next) = (8_i64, 8_i64);
    for _ in 0..count {
        if next != 0 {
            next = (last + bits.signed()?).rem_euclid(256);
        }
        last = if next == 0 { last } else { next };
    }
    Some(())
}

/// Contents of a parameter set of the sequence of H.265.
struct Sequence265 {
    /// Width and height that are shown.
    size: (u32, u32),
    /// Profile, flags of compatibility and constraints, and level, as they are written.
    profile: Vec<u8>,
    /// Layers in time, and whether they are nested.
    layers: u8,
    is_nested: bool,
    /// Form of the chroma planes; bits of a sample of luma and chroma, without the first eight.
    chroma: u32,
    depths: (u32, u32),
}

/// Width and height in a parameter set of the sequence of H.265.
fn size_265(sps: &[u8]) -> Option<(u32, u32)> {
    sequence_265(sps).map(|sequence| sequence.size)
}

/// Reads a parameter set of the sequence of H.265 (ITU-T H.265, 7.3.2.2).
fn sequence_265(sps: &[u8]) -> Option<Sequence265> {
    let mut bits = Bits::of(sps.get(2..)?);
    bits.bits(4)?;
    let layers = bits.bits(3)? as usize;
    let is_nested = bits.bit()? == 1;
    let profile = bits.bytes.get(1..13)?.to_vec();
    bits.bits(32)?;
    bits.bits(32)?;
    bits.bits(32)?;
    let mut present = Vec::new();
    for _ in 0..layers {
        present.push((bits.bit()? == 1, bits.bit()? == 1));
    }
    if layers > 0 {
        bits.bits(2 * (8 - layers))?;
    }
    for (profile, level) in present {
        for _ in 0..if profile { 11 } else { 0 } {
            bits.bits(8)?;
        }
        bits.bits(if level { 8 } else { 0 })?;
    }
    bits.number()?;
    let mut chroma = bits.number()?;
    if chroma == 3 && bits.bit()? == 1 {
        chroma = 0;
    }
    let size = (bits.number()?, bits.number()?);
    let size = cropped(
        size,
        (
            if matches!(chroma, 1 | 2) { 2 } else { 1 },
            if chroma == 1 { 2 } else { 1 },
        ),
        &mut bits,
    )?;
    let depths = (bits.number()?, bits.number()?);
    let is_known = depths.0.max(depths.1) <= 7;
    is_known.then_some(Sequence265 {
        size,
        profile,
        layers: layers as u8 + 1,
        is_nested,
        chroma,
        depths,
    })
}

/// The `hvcC` record (ISO/IEC 14496-15, 8.3.3.1) of the parameter sets in a byte stream of H.265; `None` where one is missing.
#[must_use]
pub fn hevc_record(stream: &[u8]) -> Option<Vec<u8>> {
    let units = units(stream);
    let of = |wanted: u8| {
        let mut sets: Vec<&[u8]> = Vec::new();
        for unit in units
            .iter()
            .filter(|unit| kind(PacketCodec::H265, unit) == Some(wanted))
        {
            if !sets.contains(unit) {
                sets.push(unit);
            }
        }
        sets
    };
    let arrays = [VPS_265, SPS_265, PPS_265].map(|kind| (kind, of(kind)));
    if arrays.iter().any(|(_, sets)| sets.is_empty()) {
        return None;
    }
    let sequence = sequence_265(arrays[1].1.first()?)?;
    let mut record = vec![1];
    record.extend_from_slice(&sequence.profile);
    // No segmentation in space and no kind of parallelism is stated. Reserved bits are ones.
    record.extend_from_slice(&[0xf0, 0, 0xfc]);
    record.push(0xfc | sequence.chroma as u8);
    record.push(0xf8 | sequence.depths.0 as u8);
    record.push(0xf8 | sequence.depths.1 as u8);
    // No rate is stated. Lengths of units have four bytes.
    record.extend_from_slice(&[0, 0, sequence.layers << 3 | u8::from(sequence.is_nested) << 2 | 3]);
    record.push(arrays.len() as u8);
    for (kind, sets) in arrays {
        // All sets of this kind are here.
        record.push(0x80 | kind);
        record.extend_from_slice(&u16::try_from(sets.len()).ok()?.to_be_bytes());
        for set in sets {
            record.extend_from_slice(&u16::try_from(set.len()).ok()?.to_be_bytes());
            record.extend_from_slice(set);
        }
    }
    Some(record)
}

/// The size without what is cut off, which comes next, in such units.
fn cropped((width, height): (u32, u32), unit: (u32, u32), bits: &mut Bits) -> Option<(u32, u32)> {
    let (mut cut_width, mut cut_height) = (0_u32, 0_u32);
    if bits.bit()? == 1 {
        cut_width = bits.number()?.checked_add(bits.number()?)?.checked_mul(unit.0)?;
        cut_height = bits.number()?.checked_add(bits.number()?)?.checked_mul(unit.1)?;
    }
    let size = (width.checked_sub(cut_width)?, height.checked_sub(cut_height)?);
    let is_plausible = |side: u32| (1..=32_768).contains(&side);
    (is_plausible(size.0) && is_plausible(size.1)).then_some(size)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Of libx264 and libx265: 1920x1080 in macroblocks and blocks that do not divide it, and 640x360.
    const SPS_1080: [u8; 25] = [
        0x67, 0x64, 0x00, 0x28, 0xac, 0xd9, 0x40, 0x78, 0x02, 0x27, 0xe5, 0xc0, 0x44, 0x00, 0x00, 0x03, 0x00,
        0x04, 0x00, 0x00, 0x03, 0x00, 0xc8, 0x3c, 0x60,
    ];

    /// Of libx264 with `interlaced=1`: 64x48.
    const SPS_INTERLACED: [u8; 25] = [
        0x67, 0x64, 0x00, 0x15, 0xac, 0xd9, 0x44, 0x4f, 0xcb, 0x80, 0x88, 0x00, 0x00, 0x03, 0x00, 0x08, 0x00,
        0x00, 0x03, 0x01, 0x90, 0xf8, 0xa1, 0x4c, 0xb0,
    ];

    fn format(codec: PacketCodec, extradata: &[u8]) -> PacketFormat {
        PacketFormat {
            codec,
            extradata: extradata.into(),
            width: 7,
            height: 7,
            turn: None,
            sample_aspect: None,
            sound: None,
        }
    }

    fn stream(units: &[&[u8]]) -> Vec<u8> {
        units
            .iter()
            .flat_map(|unit| [&[0, 0, 0, 1], *unit].concat())
            .collect()
    }

    #[test]
    fn the_size_is_that_of_the_parameter_set() {
        assert_eq!(size(PacketCodec::H264, &stream(&[&SPS_1080])), Some((1920, 1080)));
        let record = [
            &[1, 0x64, 0, 0x28, 0xff, 0xe1, 0, SPS_1080.len() as u8][..],
            &SPS_1080,
        ]
        .concat();
        assert_eq!(size(PacketCodec::H264, &record), Some((1920, 1080)));
        assert!(!is_interlaced(PacketCodec::H264, &record));
        let interlaced = stream(&[&SPS_INTERLACED]);
        assert_eq!(size(PacketCodec::H264, &interlaced), Some((64, 48)));
        assert!(is_interlaced(PacketCodec::H264, &interlaced));
        assert!(!is_interlaced(PacketCodec::H265, &interlaced));
    }

    #[test]
    fn other_parameter_sets_of_a_picture_make_a_new_format() {
        // Numbers 0 and 1: the first bits are 1 and 010.
        let (sequence, first, second, other) = (
            [0x67, 0x42, 0, 0x1e, 0xab],
            [0x68, 0xce],
            [0x68, 0x4e],
            [0x68, 0xcf],
        );
        let known = format(PacketCodec::H264, &stream(&[&sequence, &first]));
        let more = new_format(&known, &stream(&[&sequence, &second, &[0x65, 0x88]])).unwrap();
        assert_eq!(more.extradata, Arc::from(stream(&[&sequence, &first, &second])));
        assert_eq!(new_format(&more, &stream(&[&first, &[0x65, 0x88]])), None);
        let replaced = new_format(&more, &stream(&[&other, &[0x65, 0x88]])).unwrap();
        assert_eq!(
            replaced.extradata,
            Arc::from(stream(&[&sequence, &second, &other]))
        );
        assert_eq!((replaced.width, replaced.height), (7, 7));
    }

    #[test]
    fn only_other_parameter_sets_make_a_new_format() {
        let (old, picture, slice) = ([0x67, 0x42, 0, 0x1e, 0xab], [0x68, 0xce], [0x65, 0x88]);
        let known = format(PacketCodec::H264, &stream(&[&old, &picture]));
        for key_frame in [
            stream(&[&slice]),
            stream(&[&old, &picture, &slice]),
            stream(&[&picture, &slice]),
            Vec::new(),
        ] {
            assert_eq!(new_format(&known, &key_frame), None);
        }
        let key_frame = stream(&[&[9, 16], &SPS_1080, &picture, &slice]);
        let new = new_format(&known, &key_frame).unwrap();
        assert_eq!((new.width, new.height), (1920, 1080));
        assert_eq!(new.extradata, Arc::from(stream(&[&SPS_1080, &picture])));
        assert_eq!(new_format(&new, &key_frame), None);
        assert_eq!(
            new_format(&format(PacketCodec::H264, &[1, 0, 0]), &key_frame),
            None
        );
    }

    #[test]
    fn damaged_parameter_sets_state_nothing_and_never_panic() {
        let mut state = 1_u64;
        for round in 0..40_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (at, value) = ((state >> 33) as usize % 30, (state >> 20) as u8);
            let mut bytes = match round % 3 {
                0 => stream(&[&SPS_1080]),
                1 => [&[1, 0x64, 0, 0x28, 0xff, 0xe1, 0, 25][..], &SPS_1080].concat(),
                _ => state.to_le_bytes().repeat(6),
            };
            let length = bytes.len();
            bytes[at % length] = value;
            bytes.truncate(length - (state >> 50) as usize % length);
            for codec in [PacketCodec::H264, PacketCodec::H265] {
                let _ = size(codec, &bytes);
                let _ = new_format(&format(codec, &bytes), &bytes);
                let _ = hevc_record(&bytes);
            }
        }
    }
}
