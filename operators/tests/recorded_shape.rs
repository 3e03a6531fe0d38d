//! Pictures that are turned, squeezed or interlaced: those of recordings and exports are those of the camera.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

use weir_flow::Frame;
use weir_operators::sinks::ArchiveReader;

use crate::common::{open, samples_hash};
use crate::recording::{Camera, open_sink, videos};
use crate::recordings::{quarters, turn};
use crate::sound::exported;

/// Writes a clip of the outputs of FFmpeg's filters; `false` where FFmpeg is missing.
fn write(path: &Path, filter: &str, encoder: &[&str]) -> bool {
    let written = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i", filter])
        .args(["-t", "1", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-bf", "0"])
        .args(encoder)
        .arg(path)
        .status();
    let Ok(status) = written else { return false };
    assert!(status.success(), "{}", path.display());
    true
}

fn frames(path: &Path) -> Vec<Frame> {
    let mut source = open(path);
    std::iter::from_fn(|| source.next().unwrap()).collect()
}

/// Size and contents of each picture.
fn pictures(path: &Path) -> Vec<(u32, u32, u64)> {
    let of = |frame: &Frame| (frame.image.width, frame.image.height, samples_hash(frame));
    frames(path).iter().map(of).collect()
}

/// The segment of an archive of a clip, and an export of all of it.
fn recorded(clip: &Path, folder: &Path) -> [PathBuf; 2] {
    let mut archive = open_sink("archive", folder, &[]);
    let mut camera = Camera::of_source("north", open(clip), archive.packet_observer().unwrap(), 0);
    camera.play(f64::MAX);
    drop(camera);
    archive.finish().unwrap();
    let segments = videos(folder);
    assert_eq!(segments.len(), 1, "{segments:?}");
    let reader = ArchiveReader::of_stream(folder, "north");
    [segments[0].clone(), exported(folder, &reader, 0)]
}

fn assert_kept(clip: &Path, size: (u32, u32)) {
    let folder = tempfile::tempdir().unwrap();
    let shown = pictures(clip);
    assert!(!shown.is_empty() && shown.iter().all(|(width, height, _)| (*width, *height) == size));
    for path in recorded(clip, folder.path()) {
        assert_eq!(pictures(&path), shown, "{}", path.display());
    }
}

#[test]
fn turned_pictures_are_turned_in_recordings_and_exports() {
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("turned.mp4");
    quarters(&clip, 25);
    turn(&clip, [0, 1, -1, 0]);
    assert_kept(&clip, (64, 96));
}

#[test]
fn squeezed_pictures_have_their_width_in_recordings_and_exports() {
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("squeezed.mp4");
    if write(&clip, "testsrc2=size=96x96:rate=25,setsar=2/1", &[]) {
        assert_kept(&clip, (192, 96));
    }
}

#[test]
fn interlaced_pictures_have_no_combs_in_recordings_and_exports() {
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("interlaced.mp4");
    // A bar that moves by six pixels from field to field.
    let bar = "color=black:s=320x96:r=50[wall];color=white:s=20x96:r=50[bar];\
               [wall][bar]overlay=x='t*300':shortest=1,interlace=scan=tff:lowpass=0";
    if !write(&clip, bar, &["-flags", "+ilme+ildct", "-top", "1"]) {
        return;
    }
    let woven = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-i", clip.to_str().unwrap()])
        .args(["-f", "rawvideo", "-pix_fmt", "gray", "-"])
        .output()
        .unwrap();
    let woven = woven.stdout.chunks_exact(320 * 96);
    let combs = |samples: &[u8], stride: usize| {
        let rows: Vec<&[u8]> = samples.chunks(stride).take(96).map(|row| &row[..320]).collect();
        let differ = |pair: &[&[u8]]| {
            let samples = pair[0].iter().zip(pair[1]);
            samples
                .filter(|(above, below)| above.abs_diff(**below) > 100)
                .count()
        };
        rows.windows(2).map(differ).sum::<usize>()
    };
    let most_woven = woven.map(|picture| combs(picture, 320)).max();
    assert!(most_woven > Some(900), "the clip is interlaced: {most_woven:?}");
    for frame in frames(&clip) {
        let (samples, stride) = frame.image.planes.plane(0);
        let combs = combs(samples, stride);
        assert!(combs < 96, "picture {}: {combs}", frame.index);
    }
    assert_kept(&clip, (320, 96));
}
