//! Packets that are observed while a source decodes: all of them, on the time base of its frames.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use weir_flow::{
    DecodeLevel, FrameSkip, Packet, PacketCodec, PacketFormat, PacketObserver, PacketTap, StopFlag,
};
use weir_operators::media::{Encoding, Rgb, SourceOptions, VideoCodec, VideoFile, source, source_with_main};

use crate::common::shipped;

#[derive(Default)]
pub(crate) struct Observed {
    pub(crate) formats: Vec<Arc<PacketFormat>>,
    refused: Vec<String>,
    pub(crate) packets: Vec<Packet>,
}

#[derive(Default)]
struct Observer(Mutex<Observed>);

impl PacketObserver for Observer {
    fn on_format(&self, _stream: &Arc<str>, format: &Arc<PacketFormat>) {
        self.0.lock().unwrap().formats.push(Arc::clone(format));
    }

    fn on_packet(&self, _stream: &Arc<str>, packet: &Packet) {
        self.0.lock().unwrap().packets.push(packet.clone());
    }

    fn on_refused(&self, _stream: &Arc<str>, reason: &str) {
        self.0.lock().unwrap().refused.push(reason.to_owned());
    }
}

/// Reads a source to its end and observes it; gives its frames' times, too.
pub(crate) fn observe(path: &Path, level: DecodeLevel) -> (Observed, Vec<f64>) {
    let observer = Arc::<Observer>::default();
    let tap = PacketTap::new("camera", || 7);
    let observed = tap.observe(Arc::clone(&observer) as _);
    let factory = source(path.to_str().unwrap(), SourceOptions::default());
    let mut source = factory.open(&StopFlag::default()).unwrap();
    source.tap_packets(Arc::clone(&tap));
    source.set_decode_level(level);
    let mut times = Vec::new();
    while let Some(frame) = source.next().unwrap() {
        if let Some(stamp_ms) = frame.stamp_ms {
            tap.on_frame(stamp_ms, frame.pts_ms);
        }
        times.push(frame.pts_ms);
    }
    drop((source, observed, tap));
    let observer = Arc::into_inner(observer).unwrap();
    (observer.0.into_inner().unwrap(), times)
}

/// Presentation times, in tenths of a millisecond.
fn times(packets: &[Packet]) -> Vec<i64> {
    let mut times: Vec<i64> = packets.iter().map(|packet| tenths(packet.pts_ms)).collect();
    times.sort_unstable();
    times
}

fn tenths(ms: f64) -> i64 {
    (ms * 10.0).round() as i64
}

#[test]
fn every_packet_has_the_time_of_its_frame_also_where_it_is_not_decoded() {
    let (all, frames) = observe(&shipped(), DecodeLevel::ALL);
    assert_eq!(all.packets.len(), 300);
    assert_eq!(
        times(&all.packets),
        frames.iter().map(|ms| tenths(*ms)).collect::<Vec<_>>()
    );
    assert!(all.packets[0].key && all.packets[0].time_ms == 7);
    assert_eq!(all.formats.len(), 1);
    let format = &all.formats[0];
    assert_eq!((format.codec, format.extradata[0]), (PacketCodec::H264, 1));
    assert!(format.width > 0 && format.height > 0);

    let keys_alone = DecodeLevel {
        skip: FrameSkip::NonReference,
        prefix: Some(1),
        ..DecodeLevel::ALL
    };
    let (thinned, decoded) = observe(&shipped(), keys_alone);
    assert!(decoded.len() < 30, "{}", decoded.len());
    assert_eq!(thinned.packets, all.packets);
}

#[test]
fn packets_that_are_decoded_in_another_order_keep_their_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.mp4");
    let encoding = Encoding {
        codec: VideoCodec::H264,
        crf: 30.0,
        gop: 25,
        b_frames: 2,
        fps: 25.0,
        live: false,
        drop_every: None,
    };
    let mut video = VideoFile::create(&path, (64, 48), encoding).unwrap();
    for index in 0..60_u64 {
        let level = (index * 37 % 200) as u8;
        let samples: Vec<u8> = (0..64 * 48 * 3)
            .map(|at| level.wrapping_add((at % 97) as u8))
            .collect();
        let picture = Rgb {
            width: 64,
            height: 48,
            samples: &samples,
        };
        video.write(picture, index as f64 * 40.0).unwrap();
    }
    video.finish().unwrap();
    let (observed, frames) = observe(&path, DecodeLevel::ALL);
    assert_eq!(
        times(&observed.packets),
        frames.iter().map(|ms| tenths(*ms)).collect::<Vec<_>>()
    );
    let reordered = observed
        .packets
        .windows(2)
        .any(|pair| pair[0].pts_ms > pair[1].pts_ms);
    assert!(reordered, "the clip has bidirectional frames");
    assert!(
        observed
            .packets
            .iter()
            .all(|packet| packet.dts_ms <= packet.pts_ms)
    );
}

#[test]
fn what_has_no_packets_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.png");
    image::save_buffer(file, &[90; 32 * 32 * 3], 32, 32, image::ExtendedColorType::Rgb8).unwrap();
    let (observed, frames) = observe(folder.path(), DecodeLevel::ALL);
    assert_eq!((observed.packets.len(), frames.len()), (0, 1));
    assert_eq!(observed.refused, ["its source reads no video packets"]);
}

#[test]
fn packets_are_those_of_the_larger_stream_where_frames_are_of_a_smaller_one() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small.mp4");
    let encoding = Encoding {
        codec: VideoCodec::H264,
        crf: 30.0,
        gop: 25,
        b_frames: 0,
        fps: 25.0,
        live: false,
        drop_every: None,
    };
    let mut video = VideoFile::create(&small, (64, 48), encoding).unwrap();
    for index in 0..200_u8 {
        let samples = vec![index; 64 * 48 * 3];
        let picture = Rgb {
            width: 64,
            height: 48,
            samples: &samples,
        };
        video.write(picture, f64::from(index) * 40.0).unwrap();
    }
    video.finish().unwrap();

    let observer = Arc::<Observer>::default();
    let tap = PacketTap::new("camera", || 7);
    let observed = tap.observe(Arc::clone(&observer) as _);
    let (small, large) = (small.to_str().unwrap(), shipped());
    let factory = source_with_main(small, large.to_str().unwrap(), SourceOptions::default());
    let mut source = factory.open(&StopFlag::default()).unwrap();
    source.tap_packets(Arc::clone(&tap));
    let mut times = Vec::new();
    while let Some(frame) = source.next().unwrap() {
        assert_eq!((frame.image.width, frame.image.height), (64, 48));
        if let Some(stamp_ms) = frame.stamp_ms {
            tap.on_frame(stamp_ms, frame.pts_ms);
        }
        times.push(frame.pts_ms);
    }
    drop((source, observed, tap));
    let seen = Arc::into_inner(observer).unwrap().0.into_inner().unwrap();
    assert_eq!(times.len(), 200);
    assert_eq!((seen.formats[0].width, seen.formats[0].height), (960, 540));
    // As far as the frames are, and half a second: 8 s of the 12 s that it has.
    let last = seen.packets.last().unwrap();
    assert!(
        (200..=214).contains(&seen.packets.len()),
        "{}",
        seen.packets.len()
    );
    assert!(seen.packets[0].key && seen.packets[0].pts_ms.abs() < 1.0 && last.pts_ms < 8500.0);
}
