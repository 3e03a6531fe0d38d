//! Sinks that record at some times of the day.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_flow::{Incident, Phase, Settings, Value};
use weir_operators::sinks::catalog;

use crate::common::{open, shipped};
use crate::recording::{BEGAN_MS, Camera, accept, frames, incident, open_sink, videos};

fn hours(span: &str) -> (&'static str, Value) {
    ("hours", Value::Text(span.to_owned()))
}

#[test]
fn an_archive_has_the_packets_from_the_first_key_frame_within_its_hours_to_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = open_sink("archive", folder.path(), &[hours("21:31-21:32")]);
    // Each of the 300 packets takes 0.4 s: they are read from 21:30:05 to 21:32:05.
    let observer = archive.packet_observer().unwrap();
    let mut camera = Camera::of_source("north", open(&shipped()), observer, 400);
    camera.play(f64::MAX);
    archive.finish().unwrap();
    let segments = videos(folder.path());
    let [segment] = &segments[..] else {
        panic!("{segments:?}");
    };
    let name = segment.file_name().unwrap().to_string_lossy();
    assert!(name.starts_with("20261123T2131"), "{name}");
    let recorded = frames(segment) as u64;
    // 150 packets are within the minute, and at most a group of pictures begins before it.
    assert!((75..=150).contains(&recorded), "{recorded}");
    let counts = archive.counts();
    assert_eq!((counts["packets"], counts["packets_lost"]), (recorded, 0));
    // All others were left out.
    assert_eq!(counts["outside_hours"], 300 - recorded);
    assert!(archive.packets_lost().is_empty(), "nothing failed: {counts:?}");
}

#[test]
fn hours_of_an_open_archive_are_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = open_sink("archive", folder.path(), &[hours("06:00-07:00")]);
    let mut camera = Camera::new("north", &*archive);
    camera.play(5_000.0);
    archive.set_settings(&Settings([("hours".to_owned(), hours("21:00-22:00").1)].into()));
    camera.play(f64::MAX);
    archive.finish().unwrap();
    let segments = videos(folder.path());
    assert_eq!(segments.len(), 1, "{segments:?}");
    assert!((1..200).contains(&frames(&segments[0])));
}

#[test]
fn clips_are_of_incidents_that_begin_within_the_hours() {
    let folder = tempfile::tempdir().unwrap();
    let after = ("after", Value::Number(1.0));
    let mut clips = open_sink("clips", folder.path(), &[hours("21:30-21:31"), after]);
    let mut camera = Camera::new("north", &*clips);
    camera.play(3_000.0);
    let late = |phase: Phase, pts_ms: f64| Incident {
        began_ms: BEGAN_MS + 60_000,
        ..incident(2, phase, 3_000.0, pts_ms)
    };
    accept(&mut *clips, incident(1, Phase::Began, 3_000.0, 3_000.0));
    accept(&mut *clips, late(Phase::Began, 3_000.0));
    camera.play(5_000.0);
    // The first one ends after the hours.
    let ended = Incident {
        time_ms: BEGAN_MS + 60_000,
        ..incident(1, Phase::Ended, 3_000.0, 5_000.0)
    };
    accept(&mut *clips, ended);
    accept(&mut *clips, late(Phase::Ended, 5_000.0));
    // A crossing has a single event.
    let crossing = Incident {
        began_ms: BEGAN_MS + 60_000,
        time_ms: BEGAN_MS + 60_000,
        ..incident(3, Phase::Ended, 3_000.0, 3_000.0)
    };
    accept(&mut *clips, crossing);
    camera.play(f64::MAX);
    clips.finish().unwrap();
    let counts = clips.counts();
    assert_eq!((counts["incidents"], counts["clips"]), (1, 1), "{counts:?}");
    assert_eq!(counts["outside_hours"], 2, "the second and the third incident");
    let videos = videos(folder.path());
    assert_eq!(videos.len(), 1, "{videos:?}");
    assert!(videos[0].to_string_lossy().ends_with("gate-1.mp4"), "{videos:?}");
}

#[test]
fn sinks_that_record_check_their_hours() {
    for kind in ["archive", "clips"] {
        let sinks = catalog();
        let spec = sinks.iter().find(|spec| spec.name == kind).unwrap();
        let faults = (spec.check.0)(&Settings([("hours".to_owned(), hours("21-22").1)].into()));
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].key, "hours");
    }
}
