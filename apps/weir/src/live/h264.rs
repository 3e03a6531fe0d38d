//! H.264 as cameras send it and as MP4 has it: units after start codes (Annex B of ITU-T H.264) become units after their
//! lengths, and parameter sets an `avcC` record (ISO/IEC 14496-15, 5.3.3.1).

/// Types of units: parameter sets of the sequence and of pictures (ITU-T H.264, table 7-1).
const SPS: u8 = 7;
const PPS: u8 = 8;

/// The units of a byte stream with start codes, without them and without the zeros before them.
pub(super) fn units(stream: &[u8]) -> Vec<&[u8]> {
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

/// The units of a byte stream with the length of each before it.
pub(super) fn with_lengths(stream: &[u8]) -> Vec<u8> {
    add_lengths(units(stream).into_iter())
}

/// Units with the length of each before it, in four bytes.
pub(super) fn add_lengths<'u>(units: impl Iterator<Item = &'u [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for unit in units {
        out.extend_from_slice(&(unit.len() as u32).to_be_bytes());
        out.extend_from_slice(unit);
    }
    out
}

/// The `avcC` record of the parameter sets in a byte stream; `None` where it has none.
pub(super) fn record(stream: &[u8]) -> Option<Vec<u8>> {
    let of = |kind: u8| {
        let units = units(stream).into_iter();
        let mut sets: Vec<&[u8]> = Vec::new();
        for unit in units.filter(|unit| unit[0] & 31 == kind) {
            if !sets.contains(&unit) {
                sets.push(unit);
            }
        }
        sets
    };
    let (sequences, pictures) = (of(SPS), of(PPS));
    let profile = sequences.first()?.get(1..4)?;
    if pictures.is_empty() || sequences.len() > 31 || pictures.len() > 255 {
        return None;
    }
    let mut record = vec![1];
    record.extend_from_slice(profile);
    // Lengths have four bytes; reserved bits are ones.
    record.push(0xff);
    record.push(0xe0 | sequences.len() as u8);
    add(&mut record, &sequences)?;
    record.push(pictures.len() as u8);
    add(&mut record, &pictures)?;
    Some(record)
}

/// True if the record contains all parameter sets of a byte stream, also if the stream has none. A camera
/// repeats its sets in any order, and not always all of them.
pub(super) fn holds(record: &[u8], stream: &[u8]) -> bool {
    has_all(sets(record), stream, |unit| matches!(unit[0] & 31, SPS | PPS))
}

/// True if `held`, of a record that may be cut off, contains all units of a byte stream that are parameter sets.
pub(super) fn has_all(held: Option<Vec<&[u8]>>, stream: &[u8], is_parameter_set: fn(&[u8]) -> bool) -> bool {
    let held = held.unwrap_or_default();
    let mut sent = units(stream).into_iter();
    sent.all(|unit| !is_parameter_set(unit) || held.contains(&unit))
}

/// Takes so many units with their lengths from the beginning of a list; returns the rest, or `None` where it is cut off.
pub(super) fn take_units<'a>(
    count: usize,
    mut list: &'a [u8],
    units: &mut Vec<&'a [u8]>,
) -> Option<&'a [u8]> {
    for _ in 0..count {
        let (length, after) = list.split_at_checked(2)?;
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        let (unit, after) = after.split_at_checked(length)?;
        units.push(unit);
        list = after;
    }
    Some(list)
}

/// The parameter sets of a record; `None` where it is cut off.
fn sets(record: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = record.get(5..)?;
    let mut sets = Vec::new();
    for bits in [31, 255] {
        let (count, list) = rest.split_first()?;
        rest = take_units(usize::from(count & bits), list, &mut sets)?;
    }
    Some(sets)
}

/// Adds units, each after its length; `None` where one is too long.
fn add(record: &mut Vec<u8>, units: &[&[u8]]) -> Option<()> {
    for unit in units {
        record.extend_from_slice(&u16::try_from(unit.len()).ok()?.to_be_bytes());
        record.extend_from_slice(unit);
    }
    Some(())
}

/// Codec string of a record for browsers (RFC 6381, 3.3): `avc1.64001f`.
pub(super) fn codec(record: &[u8]) -> Option<String> {
    let profile = record.get(1..4)?;
    Some(format!(
        "avc1.{:02x}{:02x}{:02x}",
        profile[0], profile[1], profile[2]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: [u8; 23] = [
        0, 0, 0, 1, 0x67, 0x64, 0, 0x1f, 0xac, 0, 0, 0, 1, 0x68, 0xeb, 0, 0, 1, 0x65, 0x88, 0x84, 0, 0,
    ];

    #[test]
    fn a_byte_stream_becomes_units_with_lengths_and_a_record() {
        let sps = [0x67, 0x64, 0, 0x1f, 0xac];
        assert_eq!(units(&STREAM), [&sps[..], &[0x68, 0xeb], &[0x65, 0x88, 0x84]]);
        let lengths = with_lengths(&STREAM);
        assert_eq!(lengths[..9], [0, 0, 0, 5, 0x67, 0x64, 0, 0x1f, 0xac]);
        assert_eq!(lengths.len(), 3 * 4 + 5 + 2 + 3);
        let record = record(&STREAM).unwrap();
        assert_eq!(
            record,
            [
                1, 0x64, 0, 0x1f, 0xff, 0xe1, 0, 5, 0x67, 0x64, 0, 0x1f, 0xac, 1, 0, 2, 0x68, 0xeb
            ]
        );
        assert_eq!(codec(&record).unwrap(), "avc1.64001f");
    }

    #[test]
    fn repeated_parameter_sets_are_known_and_others_are_not() {
        let of = |units: &[&[u8]]| -> Vec<u8> {
            units
                .iter()
                .flat_map(|unit| [&[0, 0, 0, 1], *unit].concat())
                .collect()
        };
        let (sps, pps, other) = (
            &[0x67, 0x64, 0, 0x1f, 0xac][..],
            &[0x68, 0xeb][..],
            &[0x68, 0xee][..],
        );
        let twice = of(&[sps, sps, pps, pps]);
        let record = record(&STREAM).unwrap();
        assert_eq!(super::record(&twice).as_ref(), Some(&record));
        for repeated in [
            twice,
            of(&[pps, sps]),
            of(&[sps]),
            of(&[pps, &[0x65, 0x88]]),
            Vec::new(),
        ] {
            assert!(holds(&record, &repeated), "{repeated:?}");
        }
        for new in [of(&[sps, other]), of(&[other]), of(&[&[0x67, 0x64, 0, 0x28]])] {
            assert!(!holds(&record, &new), "{new:?}");
        }
        assert!(!holds(&record[..8], &STREAM) && !holds(&[], &STREAM));
    }

    #[test]
    fn what_is_no_stream_has_no_units_and_no_record() {
        for bytes in [
            &[][..],
            &[0, 0],
            &[0, 0, 1],
            &[1, 2, 3, 4],
            &[0, 0, 1, 0x67, 0x64],
        ] {
            assert_eq!(record(bytes), None, "{bytes:?}");
        }
        assert!(units(&[0, 0, 1, 0, 0, 1]).is_empty());
    }
}
