//! Event lines are what `docs/events.schema.json` says: headers, frames, drops and states, of real runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use weir_flow::{
    Attribute, BestShot, DeliveredObject, Delivery, Frame, Image, Incident, IncidentValue, Mask, Notice,
    Object, Phase, Point, Points, Rect, RotatedRect, RunHeader, Settings, StreamState, TrackEnd, TrackState,
    Value as Setting,
};
use weir_operators::sinks::sink;

use crate::common::json_schema::{check, undescribed};
use crate::common::{self, stderr};

/// More than one slot can do within the SLO, so that frames are delivered, dropped at the module, and refused.
const GRAPH: &str = r#"
[app]
name = "contract"
slo = "60ms"

[sources.north]
uri = "emulated:uniform?rate=200&frames=120&size=32x16"

[sources.south]
uri = "emulated:uniform?rate=200&frames=120"

[models.any]
device = "emulated:any"
profile = { "1" = "10ms" }

[modules.look]
operator = "emulate"
model = "any"
inputs = ["north", "south"]

[sinks.all]
type = "jsonl"
path = "out/{stream}.jsonl"
inputs = ["look"]
drops = true

[sinks.frames]
type = "jsonl"
path = "out/frames.jsonl"
inputs = ["look"]
"#;

fn run(folder: &Path) -> Value {
    std::fs::write(folder.join("graph.toml"), GRAPH).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args("run graph.toml --report report.json".split(' '))
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    common::report(&folder.join("report.json"))
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn of_type<'a>(lines: &'a [Value], name: &'a str) -> impl Iterator<Item = &'a Value> {
    lines.iter().filter(move |line| line["type"] == name)
}

#[test]
fn every_frame_has_one_line_and_every_line_is_as_the_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    let report = run(folder.path());
    let schema = schema();
    let mut dropped = 0;
    for (stream, size) in [("north", (32, 16)), ("south", (64, 48))] {
        let lines = lines(&folder.path().join(format!("out/{stream}.jsonl")));
        lines.iter().for_each(|line| valid(&schema, line));
        let header = &lines[0];
        assert_eq!(header["schema"], weir_operators::sinks::SCHEMA);
        assert_eq!(header["graph"], "contract");
        let source = header["streams"][0]["source"].as_str().unwrap();
        assert!(source.starts_with("emulated:uniform"), "{source}");
        let named = (
            header["streams"].as_array().unwrap().len(),
            &header["streams"][0]["stream"],
        );
        assert_eq!(named, (1, &Value::from(stream)), "its own stream alone");

        // Each frame once, delivered or dropped.
        let mut frames: BTreeMap<u64, &str> = BTreeMap::new();
        for line in of_type(&lines, "frame").chain(of_type(&lines, "dropped")) {
            assert_eq!(line["stream"], stream);
            let kind = line["type"].as_str().unwrap();
            let before = frames.insert(line["frame"].as_u64().unwrap(), kind);
            assert_eq!(before, None, "{line}");
        }
        assert!(frames.keys().copied().eq(0..120), "{frames:?}");
        let requests = &report["streams"][stream]["requests"];
        let delivered = of_type(&lines, "frame").count() as u64;
        assert_eq!(requests["delivered"], delivered);
        assert!(delivered > 0);
        dropped += 120 - delivered;
        for line in of_type(&lines, "frame") {
            let side = |name: &str| line[name].as_u64().unwrap();
            assert_eq!((side("width"), side("height")), size);
        }
        let states: Vec<&str> = of_type(&lines, "state")
            .map(|line| line["state"].as_str().unwrap())
            .collect();
        assert_eq!(states, ["running", "ended"]);
    }
    assert!(dropped > 0, "the graph is overloaded");
    // Reasons and places are those of the report, and late frames beside them.
    let mut reasons: BTreeMap<(String, String), u64> = BTreeMap::new();
    for stream in ["north", "south"] {
        for line in of_type(
            &lines(&folder.path().join(format!("out/{stream}.jsonl"))),
            "dropped",
        ) {
            let text = |name: &str| line[name].as_str().unwrap_or("source").to_owned();
            *reasons.entry((text("module"), text("reason"))).or_default() += 1;
        }
    }
    for drop in report["drops"].as_array().unwrap() {
        let text = |name: &str| drop[name].as_str().unwrap().to_owned();
        let counted = reasons.remove(&(text("module"), text("reason")));
        assert_eq!(Some(drop["count"].as_u64().unwrap()), counted, "{drop}");
    }
    let late = reasons
        .remove(&("source".to_owned(), "late".to_owned()))
        .unwrap_or(0);
    assert_eq!(report["requests"]["late"], late);
    assert!(reasons.is_empty(), "{reasons:?}");

    // A sink that does not ask for them gets none.
    let frames = lines(&folder.path().join("out/frames.jsonl"));
    frames.iter().for_each(|line| valid(&schema, line));
    assert_eq!(frames[0]["streams"].as_array().unwrap().len(), 2);
    assert!(frames[1..].iter().all(|line| line["type"] == "frame"));
    assert_eq!(
        frames.len() as u64 - 1,
        report["requests"]["delivered"].as_u64().unwrap()
    );
}

fn car() -> Object {
    Object {
        class: "car".into(),
        score: 0.5,
        rect: Rect::new(0.0, 0.0, 2.0, 2.0),
        parent: None,
        points: Points::None,
        candidate: false,
    }
}

fn plate() -> (Arc<str>, Attribute) {
    let text = Attribute::Text {
        text: "WR 123".to_owned(),
        score: 0.5,
    };
    ("plate".into(), text)
}

/// A car with an angle, and within it one with a mask and a track.
fn delivered_cars() -> Vec<DeliveredObject> {
    let object = car();
    let turned = RotatedRect::new(Point::new(1.0, 1.0), 2.0, 1.0, 2.0);
    let mask = Mask::sample(&object.rect, |x, y| x > y).unwrap();
    let points = [Points::Rotated(turned), Points::Mask(mask.into())];
    let labelled = |id: u32| DeliveredObject {
        id,
        object: Object {
            points: points[id as usize].clone(),
            ..object.clone()
        },
        parent: id.checked_sub(1),
        attributes: vec![plate()],
        track: (id == 1).then_some(TrackState {
            id: 1_849_551_190_130_691,
            age_ms: 1200.04,
            stationary_ms: Some(11_000.04),
            velocity: Point::new(-3.04, 100.0),
            class: "van".into(),
            attributes: vec![plate()].into(),
        }),
    };
    vec![labelled(0), labelled(1)]
}

fn ended_track() -> TrackEnd {
    TrackEnd {
        id: 7,
        class: "car".into(),
        began_ms: 1_763_859_720_000,
        last_seen_ms: 1_763_859_723_000,
        began_pts_ms: 0.0,
        last_pts_ms: 3000.0,
        attributes: vec![plate()],
    }
}

/// An incident of a track, with its best picture.
fn crossing() -> Incident {
    let rect = car().rect;
    Incident {
        id: "north/gate/1".into(),
        transform: "gate".into(),
        kind: "line",
        phase: Phase::Ended,
        track: Some(7),
        class: Some("car".into()),
        score: 0.5,
        rect: Some(rect),
        began_ms: 1_763_859_723_000,
        time_ms: 1_763_859_723_000,
        began_pts_ms: 100.0,
        pts_ms: 100.0,
        zones: vec!["yard".into()],
        values: vec![
            ("direction", IncidentValue::Text("in".into())),
            ("speed_kmh", IncidentValue::Number(48.126)),
        ],
        attributes: vec![plate()],
        best: Some(Arc::new(BestShot {
            picture: Arc::new(vec![0; 9]),
            rect,
            score: 0.5,
            frame: 2,
            pts_ms: 80.0,
        })),
    }
}

/// Writes a frame with objects, a track and an incident, states of its stream, and a track and an incident between frames.
fn write_every_kind(path: &Path) {
    let text = Setting::Text(path.display().to_string());
    let keys = [
        ("path".to_owned(), text),
        ("drops".to_owned(), Setting::Flag(true)),
    ];
    let mut sink = sink("jsonl", &Settings(keys.into())).unwrap().open().unwrap();
    sink.begin(&RunHeader::default()).unwrap();
    let mut frame = Frame::new(3, 120.0, Image::from_rgb(4, 2, vec![0; 24]));
    (frame.file, frame.concealed) = (Some("a.png".into()), true);
    sink.accept(&Delivery {
        time_ms: 1_763_859_723_456,
        latency_ms: 31.0,
        late: true,
        objects: delivered_cars(),
        ended_tracks: vec![ended_track()],
        incidents: vec![crossing()],
        ..Delivery::new("north", frame)
    })
    .unwrap();
    let reason = "the camera closed the connection".to_owned();
    let error = Some("no more data".to_owned());
    for state in [
        StreamState::Waiting { reason },
        StreamState::Gone { reason: error },
        StreamState::Paused,
    ] {
        let (stream, time_ms) = ("north".into(), u64::MAX);
        sink.on_notice(&Notice::State {
            stream,
            state,
            time_ms,
        })
        .unwrap();
    }
    let crowd = Incident {
        phase: Phase::Began,
        track: None,
        class: None,
        rect: None,
        best: None,
        ..crossing()
    };
    sink.on_notice(&Notice::Analytics {
        stream: "north".into(),
        ended_tracks: vec![ended_track()],
        incidents: vec![crowd],
    })
    .unwrap();
    sink.finish().unwrap();
}

#[test]
fn lines_of_every_kind_are_as_the_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    write_every_kind(&path);
    let (schema, lines) = (schema(), lines(&path));
    lines.iter().for_each(|line| valid(&schema, line));
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    let analytics = ["track", "incident"];
    let expected = [
        &["header", "frame"],
        &analytics,
        &["state"; 3] as &[_],
        &analytics,
    ]
    .concat();
    assert_eq!(kinds, expected);
    let track = &lines[1]["objects"][1]["track"];
    assert_eq!(track["id"], 1_849_551_190_130_691_u64);
    assert_eq!(
        (&track["class"], &track["attributes"]["plate"]["text"]),
        (&"van".into(), &"WR 123".into())
    );
    assert_eq!(track["velocity"], serde_json::json!([-3.0, 100.0]));
    let [turned, masked] = [0, 1].map(|id| &lines[1]["objects"][id]);
    assert_eq!(
        (&turned["rotated"]["angle"], turned.get("mask")),
        (&114.6.into(), None)
    );
    assert_eq!(
        (&masked["mask"]["size"], masked.get("rotated")),
        (&vec![2, 4].into(), None)
    );
    assert_eq!(
        lines[1]["objects"][0].get("track"),
        None,
        "without a tracker there is no key"
    );
    assert_eq!(
        (&lines[2]["track"], &lines[2]["last_pts_ms"]),
        (&7.into(), &3000.0.into())
    );
    let (crossing, crowd) = (&lines[3], &lines[8]);
    assert_eq!(
        crossing["values"],
        serde_json::json!({"direction": "in", "speed_kmh": 48.13})
    );
    assert_eq!(crossing["best"]["frame"], 2);
    assert_eq!((&crowd["phase"], &crowd["box"]), (&"began".into(), &Value::Null));
    assert_eq!(
        (&lines[1]["file"], &lines[1]["concealed"]),
        (&"a.png".into(), &true.into())
    );
    assert_eq!(
        (&lines[4]["state"], &lines[5]["reason"]),
        (&"down".into(), &"no more data".into())
    );
    assert_eq!(lines[6]["state"], "paused");
}

#[test]
fn lines_that_break_the_contract_are_recognised() {
    let schema = schema();
    let good = serde_json::json!({"type": "dropped", "stream": "a", "frame": 1, "time": "2025-11-23T01:02:03.456Z",
        "pts_ms": 40.0, "module": null, "reason": "late"});
    valid(&schema, &good);
    let mut longer = good.clone();
    longer["new"] = 1.into();
    assert!(
        check(&schema, &schema, &longer).is_ok(),
        "within a version keys may be added"
    );
    assert_eq!(undescribed(&schema, &schema, &longer), ["new"]);
    for (key, value) in [
        ("type", Value::from("lost")),
        ("frame", Value::from(-1)),
        ("frame", Value::from("1")),
        ("time", Value::from("2025-11-23 01:02:03")),
        ("module", Value::from(3)),
    ] {
        let mut bad = good.clone();
        bad[key] = value;
        assert!(check(&schema, &schema, &bad).is_err(), "{bad}");
    }
    let mut short = good;
    short.as_object_mut().unwrap().remove("reason");
    assert!(check(&schema, &schema, &short).is_err());
}

/// A line must fit, and the schema must describe all that it holds.
fn valid(schema: &Value, line: &Value) {
    if let Err(reason) = check(schema, schema, line) {
        panic!("{reason}: {line}");
    }
    let undescribed = undescribed(schema, schema, line);
    assert!(undescribed.is_empty(), "{undescribed:?}: {line}");
}
