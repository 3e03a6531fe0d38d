//! Sound of cameras: asked for where it is used, and recorded in step with the pictures.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;
use weir_flow::{Connection, PacketTap, Settings, StopFlag, Value};
use weir_operators::media::{SourceOptions, source};
use weir_operators::sinks::sink;

use super::camera::{Camera, ClipSpec, are_available, write_clip};
use crate::sound_tracks::{in_step, track};

/// Media time that is recorded, in milliseconds.
const RECORDED_MS: f64 = 9_000.0;

/// A clip with sound in a folder of its own; `None` if no cameras can be started.
fn clip_with_sound() -> Option<(TempDir, PathBuf)> {
    if !are_available() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let spec = ClipSpec {
        name: "clip",
        fps: 25,
        size: (320, 180),
        sound: true,
    };
    let clip = write_clip(folder.path(), spec);
    Some((folder, clip))
}

/// Records a camera into an archive of segments of three seconds, with its sound if that is wanted.
fn record(camera: &Camera, folder: &Path, wants_sound: bool) -> Vec<PathBuf> {
    let options = SourceOptions {
        connection: Connection {
            sound: wants_sound,
            ..Connection::default()
        },
        ..SourceOptions::default()
    };
    let settings = [
        ("path", Value::Text(folder.display().to_string())),
        ("segment", Value::Number(3.0)),
        ("sound", Value::Flag(true)),
    ];
    let settings = settings.map(|(key, value)| (key.to_owned(), value));
    let mut archive = sink("archive", &Settings(settings.into()))
        .unwrap()
        .open()
        .unwrap();
    // Names of segments grow with it.
    let clock = AtomicU64::new(1_795_469_405_000);
    let tap = PacketTap::new("camera", move || clock.fetch_add(1, Ordering::Relaxed));
    let recorded = tap.observe(archive.packet_observer().unwrap());
    let uri = format!("rtsp://127.0.0.1:{}/live", camera.port);
    let mut opened = source(&uri, options).open(&StopFlag::default()).unwrap();
    opened.tap_packets(Arc::clone(&tap));
    let mut first_ms = None;
    while let Some(frame) = opened.next().unwrap() {
        // Some pictures before the first time stamp have none.
        if let Some(stamp_ms) = frame.stamp_ms {
            tap.on_frame(stamp_ms, frame.pts_ms);
        }
        if frame.pts_ms - *first_ms.get_or_insert(frame.pts_ms) >= RECORDED_MS {
            break;
        }
    }
    drop(opened);
    drop(recorded);
    archive.finish().unwrap();
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder.join("camera"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    found.sort();
    found
}

/// Begins of the packets with a tone, in seconds from the first picture on.
fn tones(segments: &[PathBuf]) -> Vec<f64> {
    let (mut begin_s, mut found) = (0.0, Vec::new());
    for path in segments {
        // The recording ends with the picture that would begin one more segment, before its sound came.
        if track(path, "v").unwrap().packets.len() < 3 {
            continue;
        }
        let (video, sound) = in_step(path);
        assert_eq!(sound.codec, "aac", "{}", path.display());
        found.extend(sound.tones_s().map(|at_s| begin_s + at_s));
        begin_s += video.end_s;
    }
    found
}

#[test]
fn sound_is_recorded_in_step_whatever_a_camera_sends() {
    let Some((folder, clip)) = clip_with_sound() else {
        return;
    };
    // Time in seconds at which the sound begins and ends.
    for (words, expected) in [
        (&["sound"][..], (0.0, 9.0)),
        (&["alaw"], (0.0, 9.0)),
        (&["mulaw"], (0.0, 9.0)),
        (&["alaw", "late=4"], (4.0, 9.0)),
        (&["alaw", "stops=4"], (0.0, 4.0)),
    ] {
        let camera = Camera::start(&clip, words);
        let at = folder.path().join(words.concat());
        let segments = record(&camera, &at, true);
        assert!(segments.len() >= 3, "{words:?}: {segments:?}");
        let heard = tones(&segments);
        let (first_s, last_s) = (heard[0], heard[heard.len() - 1]);
        assert!(
            (first_s - expected.0).abs() <= 1.0,
            "{words:?}: it begins at {first_s} s"
        );
        assert!(
            (last_s - expected.1).abs() <= 1.5,
            "{words:?}: it ends at {last_s} s"
        );
        let between = ((last_s - first_s) / 0.13) as usize;
        assert!(
            heard.len() * 10 >= between * 9,
            "{words:?}: {} of {between}",
            heard.len()
        );
    }
}

#[test]
fn a_camera_is_not_asked_for_sound_that_is_not_used() {
    let Some((folder, clip)) = clip_with_sound() else {
        return;
    };
    let camera = Camera::start(&clip, &["sound"]);
    let segments = record(&camera, &folder.path().join("archive"), false);
    assert!(segments.iter().all(|path| track(path, "a").is_none()));
}
