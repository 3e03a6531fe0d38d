//! Sound beside pictures: recorded in step, as it came or as AAC, whatever a source sends.

use std::io::Read;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use weir_flow::{Connection, Phase, Sink, Source, StopFlag, Value};
use weir_operators::media::{SourceOptions, source};
use weir_operators::sinks::{ArchiveReader, SegmentCache};

use crate::common::shipped;
use crate::recording::{BEGAN_MS, Camera, accept, incident, open_sink, videos};
use crate::sound_tracks::{AAC, ALAW, Track, in_step, track, write_with_tone};

/// The shipped clip of twelve seconds, with a tone that `sound` describes: options of its input, and of its encoder.
fn clip(folder: &TempDir, name: &str, sound: (&[&str], &[&str])) -> PathBuf {
    let path = folder.path().join(name);
    write_with_tone(&shipped(), sound, &path);
    path
}

fn open_with_sound(path: &Path) -> Box<dyn Source> {
    let options = SourceOptions {
        connection: Connection {
            sound: true,
            ..Connection::default()
        },
        ..SourceOptions::default()
    };
    let factory = source(path.to_str().unwrap(), options);
    factory.open(&StopFlag::default()).unwrap()
}

const SOUND: (&str, Value) = ("sound", Value::Flag(true));

fn play(path: &Path, sink: &dyn Sink) {
    let observer = sink.packet_observer().unwrap();
    Camera::of_source("north", open_with_sound(path), observer, 0).play(f64::MAX);
}

/// Records a clip into segments of four seconds, each of which is in step.
fn archived(folder: &TempDir, path: &Path) -> Vec<(Track, Track)> {
    let recorded = folder.path().join("archive");
    let mut sink = open_sink("archive", &recorded, &[("segment", Value::Number(3.0)), SOUND]);
    play(path, &*sink);
    sink.finish().unwrap();
    assert_eq!(sink.counts()["packets_lost"], 0);
    let segments = videos(&recorded);
    assert_eq!(segments.len(), 3, "{segments:?}");
    let tracks: Vec<(Track, Track)> = segments.iter().map(|path| in_step(path)).collect();
    let pictures: usize = tracks.iter().map(|(video, _)| video.packets.len()).sum();
    assert_eq!(pictures, 300);
    tracks
}

#[test]
fn aac_is_copied_into_segments_in_step_with_the_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let path = clip(&folder, "aac.mp4", (&[], AAC));
    let segments = archived(&folder, &path);
    let sent = track(&path, "a").unwrap();
    let sizes = |track: &Track| {
        track
            .packets
            .iter()
            .map(|(_, bytes)| *bytes)
            .collect::<Vec<u64>>()
    };
    let recorded: Vec<u64> = segments.iter().flat_map(|(_, sound)| sizes(sound)).collect();
    assert!(segments.iter().all(|(_, sound)| sound.codec == "aac"));
    // Nothing is missing at the borders of segments: packets follow each other as they were sent.
    let sent = sizes(&sent);
    let at = sent
        .windows(8)
        .position(|window| *window == recorded[..8])
        .unwrap();
    let common = recorded.len().min(sent.len() - at);
    assert_eq!(recorded[..common], sent[at..at + common]);
    assert!(recorded.len() >= 185, "{}", recorded.len());
}

#[test]
fn other_codecs_become_aac_and_opus_is_copied() {
    for (name, encoder, expected) in [
        ("alaw.mov", ALAW, "aac"),
        ("g726.mkv", &["-c:a", "g726", "-ar", "8000", "-b:a", "32k"], "aac"),
        ("adts.ts", AAC, "aac"),
        ("opus.mkv", &["-c:a", "libopus"], "opus"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = clip(&folder, name, (&[], encoder));
        for (_, sound) in archived(&folder, &path) {
            assert_eq!(sound.codec, expected, "{name}");
            let heard = sound.tones_s().count();
            assert!(heard * 10 >= sound.packets.len() * 9, "{name}: {sound:?}");
        }
    }
}

#[test]
fn sound_that_begins_late_and_ends_early_is_silent_there_and_in_step() {
    for (name, encoder) in [("late.mp4", AAC), ("late.mov", ALAW)] {
        let folder = tempfile::tempdir().unwrap();
        let path = clip(&folder, name, (&["-itsoffset", "3", "-t", "5"], encoder));
        let segments = archived(&folder, &path);
        let mut heard = Vec::new();
        for (number, (_, sound)) in segments.iter().enumerate() {
            heard.extend(sound.tones_s().map(|at_s| at_s + 4.0 * number as f64));
        }
        let (first_s, last_s) = (heard[0], heard[heard.len() - 1]);
        assert!((first_s - 3.0).abs() <= 0.3, "{name}: it begins at {first_s}");
        assert!((last_s - 8.0).abs() <= 0.4, "{name}: it ends at {last_s}");
    }
}

#[test]
fn a_source_without_sound_is_recorded_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = open_sink("archive", folder.path(), &[SOUND]);
    play(&shipped(), &*sink);
    sink.finish().unwrap();
    let segments = videos(folder.path());
    assert_eq!(segments.len(), 1);
    assert!(track(&segments[0], "a").is_none());
    assert_eq!(track(&segments[0], "v").unwrap().packets.len(), 300);
}

#[test]
fn a_sink_without_sound_records_pictures_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = clip(&folder, "aac.mp4", (&[], AAC));
    let recorded = folder.path().join("archive");
    let mut sink = open_sink("archive", &recorded, &[]);
    play(&path, &*sink);
    sink.finish().unwrap();
    let segments = videos(&recorded);
    assert!(track(&segments[0], "a").is_none());
    assert_eq!(sink.counts()["packets"], 300);
}

#[test]
fn clips_of_incidents_have_sound_from_before_them_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = clip(&folder, "alaw.mov", (&[], ALAW));
    let recorded = folder.path().join("clips");
    let seconds = |key: &'static str| (key, Value::Number(2.0));
    let mut sink = open_sink("clips", &recorded, &[seconds("before"), seconds("after"), SOUND]);
    let observer = sink.packet_observer().unwrap();
    let mut camera = Camera::of_source("north", open_with_sound(&path), observer, 0);
    camera.play(6_000.0);
    accept(&mut *sink, incident(1, Phase::Began, 4_500.0, 4_500.0));
    camera.play(8_000.0);
    accept(&mut *sink, incident(1, Phase::Ended, 4_500.0, 7_000.0));
    camera.play(f64::MAX);
    sink.finish().unwrap();
    let clips = videos(&recorded);
    assert_eq!(clips.len(), 1, "{clips:?}");
    let (video, sound) = in_step(&clips[0]);
    assert!(video.end_s > 6.0 && sound.codec == "aac", "{}", video.end_s);
}

/// Exports what an archive recorded from `from_ms` after its beginning on, and returns the path of the video.
pub(crate) fn exported(folder: &Path, reader: &ArchiveReader, from_ms: u64) -> PathBuf {
    let mut export = reader.export((BEGAN_MS + from_ms, BEGAN_MS + 60_000)).unwrap();
    let path = folder.join("export.mp4");
    let mut bytes = Vec::new();
    export.read_to_end(&mut bytes).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn exports_and_listings_have_the_sound_of_segments() {
    let folder = tempfile::tempdir().unwrap();
    let path = clip(&folder, "aac.mp4", (&[], AAC));
    archived(&folder, &path);
    let reader = ArchiveReader::of_stream(&folder.path().join("archive"), "north");
    let names = reader.names().unwrap();
    let described = reader.describe(&names[0], &SegmentCache::default()).unwrap();
    assert!(described.unwrap().mime.ends_with(",mp4a.40.2\""));
    let exported = exported(folder.path(), &reader, 1_000);
    let (video, sound) = in_step(&exported);
    assert_eq!(video.packets.len(), 300);
    assert!((sound.end_s - 12.0).abs() < 0.3, "{}", sound.end_s);
}

#[test]
fn an_export_goes_on_where_sound_begins_stops_or_changes() {
    let folder = tempfile::tempdir().unwrap();
    let all = folder.path().join("all/north");
    std::fs::create_dir_all(&all).unwrap();
    let sources = [
        shipped(),
        clip(&folder, "aac.mp4", (&[], AAC)),
        clip(&folder, "alaw.mov", (&[], ALAW)),
    ];
    for (number, path) in sources.iter().enumerate() {
        let recorded = folder.path().join(format!("archive-{number}"));
        let mut sink = open_sink("archive", &recorded, &[SOUND]);
        play(path, &*sink);
        sink.finish().unwrap();
        let name = format!("20261123T2130{:02}.000Z.mp4", 5 + 12 * number);
        std::fs::copy(&videos(&recorded)[0], all.join(name)).unwrap();
    }
    let reader = ArchiveReader::of_stream(&folder.path().join("all"), "north");
    let exported = exported(folder.path(), &reader, 0);
    assert_eq!(track(&exported, "v").unwrap().packets.len(), 900);
    let sound = track(&exported, "a").unwrap();
    assert!((sound.begin_s() - 12.0).abs() < 0.3, "{}", sound.begin_s());
    assert!((sound.end_s - 24.0).abs() < 0.3, "{}", sound.end_s);
}
