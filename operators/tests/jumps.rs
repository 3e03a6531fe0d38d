//! Recordings of cameras whose clock jumps, and of single wild time stamps.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;

use weir_flow::DecodeLevel;

use crate::common::{open, shipped};
use crate::packets::observe;
use crate::recording::{Camera, frames, open_sink, videos};
use crate::recordings::shipped_as;

/// Ticks of the time stamps of a transport stream: 90 for a millisecond, in 33 bits.
const TICKS_PER_MS: i64 = 90;
const STAMP_BITS: u32 = 33;

const TS_PACKET: usize = 188;

const HOUR_MS: i64 = 3_600_000;

/// The time stamp in five bytes of a PES packet (ISO/IEC 13818-1, 2.4.3.7).
fn move_stamp(bytes: &mut [u8], by_ms: i64) {
    let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|at| i64::from(bytes[at]));
    let stamp = (a >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1;
    let moved = (stamp + by_ms * TICKS_PER_MS).rem_euclid(1 << STAMP_BITS);
    let parts = [
        a & 0xF0 | moved >> 30 << 1 | 1,
        moved >> 22 & 0xFF,
        (moved >> 15 & 0x7F) << 1 | 1,
        moved >> 7 & 0xFF,
        (moved & 0x7F) << 1 | 1,
    ];
    for (byte, part) in bytes.iter_mut().zip(parts) {
        *byte = part as u8;
    }
}

/// Sets the time stamps of each picture of a transport stream forward by the milliseconds that `offset_ms` returns for its number.
fn move_stamps(stream: &mut [u8], offset_ms: impl Fn(usize) -> i64) {
    let mut number = 0;
    for packet in stream.chunks_mut(TS_PACKET) {
        let begins_unit = packet[1] & 0x40 != 0;
        let has_adaptation = packet[3] & 0x20 != 0;
        let payload = 4 + if has_adaptation {
            1 + usize::from(packet[4])
        } else {
            0
        };
        let Some(header) = packet.get_mut(payload..).filter(|_| begins_unit) else {
            continue;
        };
        let is_video = header.len() > 18 && header.starts_with(&[0, 0, 1]) && header[3] & 0xF0 == 0xE0;
        if !is_video {
            continue;
        }
        let has_dts = header[7] & 0x40 != 0;
        move_stamp(&mut header[9..14], offset_ms(number));
        if has_dts {
            move_stamp(&mut header[14..19], offset_ms(number));
        }
        number += 1;
    }
    assert_eq!(number, 300);
}

/// Frames of each segment of an archive, for a camera whose time stamps are set forward by `offset_ms` of the number of the picture.
fn archived(offset_ms: impl Fn(usize) -> i64) -> Vec<usize> {
    let folder = tempfile::tempdir().unwrap();
    let clip = shipped_as(folder.path(), "clip.ts");
    let mut stream = fs::read(&clip).unwrap();
    move_stamps(&mut stream, |number| 2 * HOUR_MS + offset_ms(number));
    fs::write(&clip, stream).unwrap();
    let recorded = folder.path().join("recorded");
    let mut archive = open_sink("archive", &recorded, &[]);
    let mut camera = Camera::of_source("north", open(&clip), archive.packet_observer().unwrap(), 40);
    camera.play(f64::MAX);
    drop(camera);
    archive.finish().unwrap();
    let counts = archive.counts();
    assert_eq!(counts["packets"], 300, "{counts:?}");
    videos(&recorded).iter().map(|path| frames(path)).collect()
}

#[test]
fn a_jump_begins_a_file_with_its_packet_or_the_next_key_frame_and_no_picture_is_lost() {
    let (observed, _) = observe(&shipped(), DecodeLevel::ALL);
    let keys: Vec<usize> = (0..300).filter(|at| observed.packets[*at].key).collect();
    let (second, third) = (keys[1], keys[2]);
    assert!(third > second + 5, "{keys:?}");
    let jump = |first: usize, by_ms: i64| archived(|at| if at < first { 0 } else { by_ms });
    for by_ms in [HOUR_MS, -HOUR_MS] {
        assert_eq!(
            jump(second, by_ms),
            [second, 300 - second],
            "at a key frame, by {by_ms} ms"
        );
        assert_eq!(
            jump(second + 3, by_ms),
            [third, 300 - third],
            "between two, by {by_ms} ms"
        );
    }
}

#[test]
fn single_wild_time_stamps_end_no_file() {
    for wild_ms in [5 * HOUR_MS, -HOUR_MS, 15_000] {
        let wild = |at: usize| if matches!(at, 40 | 140 | 250) { wild_ms } else { 0 };
        assert_eq!(archived(wild), [300], "by {wild_ms} ms");
    }
}
