//! Deliveries, and what is to become of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use weir_flow::{
    BestShot, DeliveredObject, Delivery, Frame, Image, Incident, Object, Phase, Points, Rect, Settings, Sink,
    TrackState, Value,
};
use weir_operators::sinks::sink;

pub(crate) const STREAMS: [&str; 4] = ["north", "south", "east", "west"];

/// Number of events that a test sends: `WEIR_EVENTS`, or 300.
pub(crate) fn events() -> usize {
    let given = std::env::var("WEIR_EVENTS").ok();
    given.map_or(300, |given| given.parse().unwrap())
}

pub(crate) fn open(kind: &str, keys: &[(&str, Value)]) -> Box<dyn Sink> {
    let settings = keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    sink(kind, &Settings(settings.collect())).unwrap().open().unwrap()
}

pub(crate) fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

pub(crate) fn incident(stream: &str, number: usize) -> Incident {
    Incident {
        id: format!("{stream}/gate/{number}").into(),
        transform: "gate".into(),
        kind: "line",
        phase: Phase::Ended,
        track: Some(7),
        class: Some("car".into()),
        score: 0.9,
        rect: Some(Rect::new(1.0, 2.0, 30.0, 40.0)),
        began_ms: 1_000,
        time_ms: 1_000,
        began_pts_ms: 0.0,
        pts_ms: 0.0,
        zones: Vec::new(),
        values: Vec::new(),
        attributes: Vec::new(),
        best: None,
    }
}

/// Monday, 23 November 2026, 12:00 UTC.
pub(crate) const TIME_MS: u64 = 1_795_435_200_000;

pub(crate) const JPEG: &[u8] = b"\xff\xd8 a picture \r\n\xff\xd9";

/// A best picture with these bytes.
pub(crate) fn best(jpeg: &[u8]) -> Option<Arc<BestShot>> {
    Some(Arc::new(BestShot {
        picture: Arc::new(jpeg.to_vec()),
        rect: Rect::new(1.0, 2.0, 30.0, 40.0),
        score: 0.9,
        frame: 3,
        pts_ms: 0.0,
    }))
}

pub(crate) fn person(number: usize, time_ms: u64) -> Incident {
    Incident {
        class: Some("person".into()),
        kind: "loitering",
        phase: Phase::Began,
        began_ms: time_ms,
        time_ms,
        ..incident("north", number)
    }
}

/// A person with a picture.
pub(crate) fn pictured(number: usize) -> Incident {
    Incident {
        best: best(JPEG),
        ..person(number, TIME_MS)
    }
}

/// Gives a sink an incident of the stream `north`.
pub(crate) fn give(sink: &mut dyn Sink, incident: Incident) {
    sink.accept(&delivery("north", Vec::new(), vec![incident]))
        .unwrap();
}

/// A car in a track.
pub(crate) fn car(track: u64) -> DeliveredObject {
    DeliveredObject {
        id: 0,
        object: Object {
            candidate: false,
            class: "car".into(),
            score: 0.8,
            rect: Rect::new(1.0, 2.0, 30.0, 40.0),
            parent: None,
            points: Points::None,
        },
        parent: None,
        attributes: Vec::new(),
        track: Some(TrackState {
            id: track,
            class: "car".into(),
            ..TrackState::default()
        }),
    }
}

pub(crate) fn delivery(stream: &str, objects: Vec<DeliveredObject>, incidents: Vec<Incident>) -> Delivery {
    Delivery {
        time_ms: 1_000,
        latency_ms: 1.0,
        objects,
        incidents,
        ..Delivery::new(stream, Frame::new(0, 0.0, Image::from_rgb(1, 1, vec![0; 3])))
    }
}

/// Sends that many incidents, of all streams in turn.
pub(crate) fn send(sink: &mut dyn Sink, events: usize) {
    for number in 0..events {
        let stream = STREAMS[number % STREAMS.len()];
        let incident = incident(stream, number);
        sink.accept(&delivery(stream, Vec::new(), vec![incident]))
            .unwrap();
    }
}

/// Waits until all events are delivered or given up; `watch` gets how many were delivered.
pub(crate) fn wait(sink: &dyn Sink, mut watch: impl FnMut(u64)) -> BTreeMap<&'static str, u64> {
    loop {
        let counts = sink.counts();
        watch(counts["delivered"]);
        if counts["events"] == counts["delivered"] + counts["dead_letters"] + counts["lost"] {
            return counts;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The same, while the other side is killed and started five times by `kill`, over the whole of the run.
pub(crate) fn wait_killing(
    sink: &dyn Sink,
    events: usize,
    mut kill: impl FnMut(),
) -> BTreeMap<&'static str, u64> {
    let mut killed = 0;
    let counts = wait(sink, |delivered| {
        if killed < 5 && delivered as usize >= events * (killed + 1) / 6 {
            kill();
            killed += 1;
        }
    });
    assert_eq!(killed, 5);
    counts
}

/// Why events are in a file of dead letters.
pub(crate) fn reasons(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty());
    let reason = |line: &str| {
        let letter: Json = serde_json::from_str(line).unwrap();
        letter["reason"].as_str().unwrap().to_owned()
    };
    lines.map(reason).collect()
}

/// Incidents in a file of dead letters, by id.
pub(crate) fn dead_letters(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty());
    let id = |line: &str| {
        let letter: Json = serde_json::from_str(line).unwrap();
        letter["event"]["id"].as_str().unwrap().to_owned()
    };
    lines.map(id).collect()
}

/// Checks that every event was taken at least once or is in the file, and that each stream's came in order.
pub(crate) fn check(events: usize, taken: &[String], given_up: &[String]) {
    let all: BTreeSet<&String> = taken.iter().chain(given_up).collect();
    assert_eq!(
        all.len(),
        events,
        "{} taken, {} given up",
        taken.len(),
        given_up.len()
    );
    for stream in STREAMS {
        let mut seen = BTreeSet::new();
        let numbers = taken
            .iter()
            .filter_map(|id| id.strip_prefix(stream)?.strip_prefix("/gate/"));
        let first = numbers.map(|number| number.parse::<usize>().unwrap());
        let first: Vec<usize> = first.filter(|number| seen.insert(*number)).collect();
        assert!(first.is_sorted(), "{stream}: {first:?}");
    }
}
