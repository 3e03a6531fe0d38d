//! Edited streams on what makes MP4 of them, and the MP4 that comes out.

use weir_flow::PacketCodec;
use weir_operators::media::hevc_record;

use super::fragments::{Fragmenter, Sample, Track, header};
use super::h264::{codec, holds, record, units, with_lengths};
use super::h265;
use crate::edited::{MemoryBound, fuzz};

/// A unit is a place in a list, and many units are one byte long.
const UNITS: MemoryBound = MemoryBound {
    base: 1 << 20,
    per_byte: 400,
};

const STREAM: [u8; 23] = [
    0, 0, 0, 1, 0x67, 0x64, 0, 0x1f, 0xac, 0, 0, 0, 1, 0x68, 0xeb, 0, 0, 1, 0x65, 0x88, 0x84, 0, 0,
];

/// Boxes of an MP4, which have to fill it.
fn boxes(mut bytes: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut found = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (content, after) = rest.split_at(length - 4);
        found.push(content.split_at(4));
        bytes = after;
    }
    assert!(bytes.is_empty());
    found
}

#[test]
fn fuzz_live_parameter_sets() {
    let made = record(&STREAM).expect("a record");
    let seeds = vec![STREAM.to_vec(), made, STREAM.repeat(3)];
    let words: [&[u8]; 4] = [&[0, 0, 1], &[0, 0, 0, 1], &[0, 0, 1, 0x67], &[0, 0, 1, 0x68]];
    fuzz("live-parameter-sets", 3_000, UNITS, seeds, &words, |bytes| {
        let found = units(bytes);
        assert!(
            found
                .iter()
                .all(|unit| !unit.is_empty() && unit.last() != Some(&0))
        );
        let mut rest = &*with_lengths(bytes);
        for unit in &found {
            let (length, after) = rest.split_first_chunk::<4>().expect("a length");
            assert_eq!(u32::from_be_bytes(*length) as usize, unit.len());
            rest = after.strip_prefix(*unit).expect("the unit");
        }
        assert!(rest.is_empty());
        let _ = (holds(bytes, &STREAM), codec(bytes));
        let _ = (
            h265::holds(bytes, &STREAM),
            h265::codec(bytes),
            hevc_record(bytes),
        );
        if let Some(record) = record(bytes) {
            assert!(
                holds(&record, bytes),
                "a record holds the parameter sets that it was made of"
            );
            assert!(codec(&record).is_some());
            let track = Track {
                codec: PacketCodec::H264,
                record: &record,
                size: (640, 360),
                turn: None,
                aspect: Some((4, 3)),
            };
            let header = header(&track, None);
            let kinds: Vec<&[u8]> = boxes(&header).into_iter().map(|(kind, _)| kind).collect();
            assert_eq!(kinds, [&b"ftyp"[..], b"moov"]);
        }
    });
}

#[test]
fn fuzz_live_times() {
    let times = |ms: &[f64]| ms.iter().flat_map(|ms| ms.to_le_bytes()).collect::<Vec<u8>>();
    let seeds = vec![
        times(&[0.0, 40.0, 80.0, 120.0, 160.0]),
        times(&[1e300, -1.0, f64::NAN, f64::INFINITY, 5e-324, 1e12]),
    ];
    fuzz("live-times", 2_000, UNITS, seeds, &[], |bytes| {
        let mut numbers = bytes
            .chunks_exact(8)
            .filter_map(|bytes| Some(f64::from_le_bytes(bytes.try_into().ok()?)));
        let mut fragmenter = Fragmenter::new(numbers.next().unwrap_or(0.0));
        let mut end = None;
        while let (Some(dts_ms), Some(pts_ms)) = (numbers.next(), numbers.next()) {
            let sample = Sample {
                data: vec![7; 5],
                pts_ms,
                dts_ms,
                key: true,
            };
            let Some(fragment) = fragmenter.push(sample) else {
                continue;
            };
            let kinds: Vec<&[u8]> = boxes(&fragment.bytes).into_iter().map(|(kind, _)| kind).collect();
            assert_eq!(kinds, [&b"moof"[..], b"mdat"]);
            let at = |kind: &[u8]| {
                fragment
                    .bytes
                    .windows(4)
                    .position(|found| found == kind)
                    .expect("a box")
            };
            let number = |at: usize| u32::from_be_bytes(fragment.bytes[at..at + 4].try_into().expect("four"));
            let tfdt = at(b"tfdt");
            let began = u64::from(number(tfdt + 8)) << 32 | u64::from(number(tfdt + 12));
            let duration = number(at(b"trun") + 16);
            assert!(
                duration > 0 && end.is_none_or(|end| end == began),
                "times grow without gaps"
            );
            end = Some(began + u64::from(duration));
        }
    });
}
