//! Lossless streams in a world: their frames wait at the source and are never dropped, as in the live engine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use weir_graph::parse;
use weir_policy::Report;
use weir_sim::{SimulationResult, WorldSpec, experiment, simulate_streams};
use weir_types::{Span, StreamId, Timestamp};

const SECONDS: u64 = 20;

/// A camera and an archive on one slot, which takes 100 frames per second at best.
fn world(archive: &str) -> WorldSpec {
    let text = format!(
        r#"
        [app]
        name = "lossless"
        slo = "300ms"
        [sources.archive]
        uri = "emulated:uniform?rate=100"
        {archive}
        [sources.camera]
        uri = "emulated:uniform?rate=100"
        [models.find]
        device = "emulated:a"
        batch = [1, 2, 4]
        profile = {{ "1" = "16ms", "2" = "24ms", "4" = "40ms" }}
        [modules.find]
        operator = "emulate"
        model = "find"
        inputs = ["archive", "camera"]
        "#
    );
    let catalog = weir_graph::Catalog::default();
    let graph = parse(&text, Path::new("/graph.toml"), &catalog, &|_| None);
    let graph = graph.unwrap_or_else(|problems| panic!("{problems}"));
    experiment::world_from_graph(&graph).unwrap().0
}

/// Runs with so many frames of the archive and of the camera per second.
fn run(spec: &WorldSpec, rates: [u64; 2]) -> SimulationResult {
    let of_stream = |(stream, rate): (u32, u64)| {
        let at = move |number: u64| Timestamp::from_micros(number * 1_000_000 / rate);
        (0..SECONDS * rate).map(move |number| (at(number), StreamId(stream)))
    };
    let mut arrivals: Vec<_> = (0..).zip(rates).flat_map(of_stream).collect();
    arrivals.sort_unstable();
    simulate_streams(spec, "lossless", &mut arrivals.into_iter(), &mut |_| {})
}

fn counts(report: &Report) -> [weir_policy::Counts; 2] {
    ["stream-0", "stream-1"].map(|name| report.streams[name].requests)
}

const LOSSLESS: &str = "mode = \"lossless\"";

#[test]
fn overloaded_lossless_stream_loses_no_frame_and_camera_does() {
    let [archive, camera] = counts(&run(&world(LOSSLESS), [100, 100]).report);
    assert_eq!((archive.arrived, archive.dropped), (100 * SECONDS, 0));
    assert_eq!(archive.delivered + archive.late, archive.arrived);
    assert_eq!(camera.arrived, 100 * SECONDS);
    assert!(camera.dropped > 0, "{camera:?}");
    // As a live stream it drops frames, too.
    let [archive, _] = counts(&run(&world(""), [100, 100]).report);
    assert!(archive.dropped > 0, "{archive:?}");
}

#[test]
fn frames_in_flight_follow_the_latency_and_others_wait_unsent() {
    let spec = world(LOSSLESS);
    let [archive, _] = counts(&run(&spec, [400, 1]).report);
    // They wait before they are sent, and once sent are mostly in time.
    assert_eq!(archive.delivered + archive.late, 400 * SECONDS);
    assert!(archive.late * 20 < archive.delivered, "{archive:?}");
}

#[test]
fn frames_that_wait_when_sources_stop_are_never_sent() {
    let spec = WorldSpec {
        stops_at: Some(Span::from_secs(SECONDS)),
        ..world(LOSSLESS)
    };
    let [archive, _] = counts(&run(&spec, [400, 1]).report);
    let most = 110 * SECONDS;
    assert!((80 * SECONDS..most).contains(&archive.arrived), "{archive:?}");
    assert_eq!(archive.delivered + archive.late, archive.arrived);
}
