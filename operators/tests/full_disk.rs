//! A disk that runs full while a video is written: it is an error, or all of the video is there.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "what is skipped is said")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_flow::{SinkError, StopFlag};
use weir_operators::media::{Encoding, Rgb, SourceOptions, VideoFile, concatenate, source};

const FRAMES: u32 = 20;
const SIZE: (u32, u32) = (96, 64);

/// A small disk, until it is dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    /// `None` where the system lets a test mount none.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
            .arg(folder.path())
            .output();
        let is_mounted = mounted.is_ok_and(|mounted| mounted.status.success());
        is_mounted.then(|| Self(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Removes everything, and takes all room but for `left` bytes.
    fn fill(&self, left: u64) {
        for file in fs::read_dir(self.0.path()).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        let mut filler = File::create(self.path("filler")).unwrap();
        while filler.write_all(&[0; 4_096]).is_ok() {}
        let length = filler.metadata().unwrap().len();
        filler.set_len(length.saturating_sub(left)).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

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
    disk: &Disk,
    write: impl Fn(&Path) -> Result<(), SinkError>,
    whole: u32,
) -> [u32; 2] {
    let [mut refused, mut written] = [0, 0];
    for left in (0..=48).map(|pages: u64| pages << 12) {
        disk.fill(left);
        let path = disk.path("video.mp4");
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
    }
    [refused, written]
}

#[test]
fn a_video_on_a_full_disk_is_an_error_or_all_of_it_is_there() {
    let Some(disk) = Disk::mount() else {
        println!("skipped: this system mounts no disk for a test");
        return;
    };
    for live in [false, true] {
        let [refused, written] = with_less_and_less_room(&disk, |path| write(path, live), FRAMES);
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
    let [refused, written] = with_less_and_less_room(&disk, |path| concatenate(&parts, path), 2 * FRAMES);
    assert!(
        refused > 3 && written > 3,
        "joined: {refused} refused, {written} written"
    );
}
