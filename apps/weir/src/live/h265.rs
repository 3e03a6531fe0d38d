//! H.265 as cameras send it and as MP4 has it, beside what [`super::h264`] has for both.

use super::h264::{add_lengths, has_all, take_units, units};

/// Types of units that are parameter sets (ITU-T H.265, table 7-1).
const PARAMETER_SETS: std::ops::RangeInclusive<u8> = 32..=34;

/// Bytes of an `hvcC` record before its lists of parameter sets (ISO/IEC 14496-15, 8.3.3.1).
const RECORD_HEAD: usize = 23;

fn is_parameter_set(unit: &[u8]) -> bool {
    unit.first()
        .is_some_and(|first| PARAMETER_SETS.contains(&(first >> 1 & 63)))
}

/// The units of a byte stream after their lengths, without parameter sets: a track of the type `hvc1` has them in its record alone.
pub(super) fn with_lengths(stream: &[u8]) -> Vec<u8> {
    add_lengths(units(stream).into_iter().filter(|unit| !is_parameter_set(unit)))
}

/// True if the record contains all parameter sets of a byte stream, also if the stream has none.
pub(super) fn holds(record: &[u8], stream: &[u8]) -> bool {
    has_all(sets(record), stream, is_parameter_set)
}

/// The parameter sets of a record; `None` where it is cut off.
fn sets(record: &[u8]) -> Option<Vec<&[u8]>> {
    let (count, mut rest) = record.get(RECORD_HEAD - 1..)?.split_first()?;
    let mut sets = Vec::new();
    for _ in 0..*count {
        let (head, list) = rest.split_at_checked(3)?;
        let units = u16::from_be_bytes([head[1], head[2]]);
        rest = take_units(usize::from(units), list, &mut sets)?;
    }
    Some(sets)
}

/// Codec string of a record for browsers (ISO/IEC 14496-15, E.3): `hvc1.1.6.L93.B0`.
pub(super) fn codec(record: &[u8]) -> Option<String> {
    let head = record.first_chunk::<13>()?;
    let [_, profile, c0, c1, c2, c3, constraints @ .., level] = head;
    let space = ["", "A", "B", "C"][usize::from(profile >> 6)];
    let tier = if profile & 0x20 == 0 { 'L' } else { 'H' };
    let compatible = u32::from_be_bytes([*c0, *c1, *c2, *c3]).reverse_bits();
    let mut codec = format!("hvc1.{space}{}.{compatible:X}.{tier}{level}", profile & 31);
    let used = constraints
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    for byte in &constraints[..used] {
        codec.push_str(&format!(".{byte:X}"));
    }
    Some(codec)
}

#[cfg(test)]
mod tests {
    use weir_operators::media::hevc_record;

    use super::*;

    /// Of libx265: Main profile at level 2.1.
    const VPS: [u8; 24] = [
        0x40, 0x01, 0x0c, 0x01, 0xff, 0xff, 0x01, 0x60, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00,
        0x00, 0x03, 0x00, 0x3f, 0x95, 0x98, 0x09,
    ];
    const SPS: [u8; 42] = [
        0x42, 0x01, 0x01, 0x01, 0x60, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00,
        0x3f, 0xa0, 0x05, 0x02, 0x01, 0x69, 0x65, 0x95, 0x9a, 0x49, 0x32, 0xbc, 0x05, 0xa0, 0x20, 0x00, 0x00,
        0x03, 0x00, 0x20, 0x00, 0x00, 0x03, 0x01, 0x41,
    ];
    const PPS: [u8; 7] = [0x44, 0x01, 0xc1, 0x72, 0xb4, 0x62, 0x40];
    const SLICE: [u8; 4] = [0x26, 0x01, 0xaf, 0x08];

    fn stream(units: &[&[u8]]) -> Vec<u8> {
        units
            .iter()
            .flat_map(|unit| [&[0, 0, 0, 1], *unit].concat())
            .collect()
    }

    #[test]
    fn a_record_names_its_codec_and_knows_its_parameter_sets() {
        let key = stream(&[&VPS, &SPS, &PPS, &SLICE]);
        let record = hevc_record(&key).unwrap();
        // As FFmpeg writes it, with the number of lists.
        let head = [
            1, 1, 0x60, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 0x3f, 0xf0, 0, 0xfc, 0xfd, 0xf8, 0xf8, 0, 0, 0x0f, 3,
        ];
        assert_eq!(record[..RECORD_HEAD], head);
        assert_eq!(codec(&record).unwrap(), "hvc1.1.6.L63.90");
        for repeated in [
            key.clone(),
            stream(&[&PPS, &SLICE]),
            stream(&[&SLICE]),
            Vec::new(),
        ] {
            assert!(holds(&record, &repeated));
        }
        let mut other = SPS;
        other[17] = 0x5d;
        assert!(!holds(&record, &stream(&[&VPS, &other, &PPS, &SLICE])));
        assert!(!holds(&record[..30], &key) && !holds(&[], &key));
        assert_eq!(with_lengths(&key), [&[0, 0, 0, 4][..], &SLICE].concat());
        assert_eq!(hevc_record(&stream(&[&VPS, &SPS, &SLICE])), None);
    }

    #[test]
    fn damaged_records_name_no_codec_and_never_panic() {
        let record = hevc_record(&stream(&[&VPS, &SPS, &PPS])).unwrap();
        for end in 0..record.len() {
            assert_eq!(codec(&record[..end]).is_some(), end >= 13);
            assert!(!holds(&record[..end], &stream(&[&PPS])));
        }
    }
}
