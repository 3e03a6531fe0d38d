//! A disk that runs full while a video is written: it is an error, or all of the video is there.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;

use weir_flow::{SinkError, StopFlag};
use weir_operators::media::{Encoding, Rgb, SourceOptions, VideoFile, concatenate, source};

use crate::small_disk::SmallDisk;

const FRAMES: u32 = 20;
const SIZE: (u32, u32) = (96, 64);

fn encoding(live: bool) -> Encoding {
    Encoding {
        gop: 10,
        live,
        ..Encoding::live(23.0)
    }
}

fn write(path: &Path, live: bool) -> Result<(), SinkError> {
    let mut video = VideoFile::create(path, SIZE, encoding(live))?;
    for frame in 0..FRAMES {
        let sample = |at: u32| (at.wrapping_mul(7) + frame * 5) as u8;
        let samples: Vec<u8> = (0..SIZE.0 * SIZE.1 * 3).map(sample).collect();
        let picture = Rgb {
            width: SIZE.0,
            height: SIZE.1,
            samples: &samples,
        };
        let written = video.write(picture, f64::from(frame) * 40.0);
        if let Err(error) = written {
            video.discard();
            return Err(error);
        }
    }
    video.finish().map(drop)
}

fn frames(path: &Path) -> u32 {
    let factory = source(path.to_str().unwrap(), SourceOptions::default());
    let mut video = factory.open(&StopFlag::default()).unwrap();
    let mut count = 0;
    while video.next().unwrap().is_some() {
        count += 1;
    }
    count
}

/// Writes with each amount of room, and gives how often there was too little and enough.
fn with_less_and_less_room(
    (disk, at): (&SmallDisk, &Path),
    write: impl Fn(&Path) -> Result<(), SinkError>,
    whole: u32,
) -> [u32; 2] {
    let [mut refused, mut written] = [0, 0];
    for left in (0..=48).map(|pages: u64| pages << 12) {
        disk.fill(left);
        let path = at.join("video.mp4");
        match write(&path) {
            Ok(()) => {
                assert_eq!(frames(&path), whole, "{left} bytes left");
                written += 1;
            }
            Err(error) => {
                assert!(
                    error.reason.contains("the disk is full"),
                    "{left} bytes left: {error}"
                );
                assert!(!path.exists(), "{left} bytes left");
                refused += 1;
            }
        }
        for file in fs::read_dir(at).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
    [refused, written]
}

#[test]
fn a_video_on_a_full_disk_is_an_error_or_all_of_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path(), "256k") else {
        return;
    };
    let place = (&disk, folder.path());
    for live in [false, true] {
        let [refused, written] = with_less_and_less_room(place, |path| write(path, live), FRAMES);
        assert!(
            refused > 3 && written > 3,
            "live {live}: {refused} refused, {written} written"
        );
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let parts = [("first.mp4", 0.0), ("second.mp4", 800.0)].map(|(name, start_ms)| {
        let part = elsewhere.path().join(name);
        write(&part, true).unwrap();
        (start_ms, part)
    });
    let [refused, written] = with_less_and_less_room(place, |path| concatenate(&parts, path), 2 * FRAMES);
    assert!(
        refused > 3 && written > 3,
        "joined: {refused} refused, {written} written"
    );
}
