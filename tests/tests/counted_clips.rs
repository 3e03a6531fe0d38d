//! The streets that ship, whose truth says what crosses a line: counted over tracks, as the demo of traffic monitoring counts them, it
//! is as many but one at most, with all frames and with half of them missing. `make bench NAME=counts` measures the same over long
//! streets.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use weir_analytics::transforms::{
    SceneFrame, SceneObject, StreamTransform, StreamTransforms, read_transform,
};
use weir_analytics::{
    AnalyticsPlan, FrameTime, Parts, StreamAnalytics, TrackIds, TrackerPlan, TrackerSettings,
    close_transforms, run_transforms,
};
use weir_flow::{
    Frame, Image, Incident, IncidentValue, ModuleOutput, Object, Points, Rect, RequestResults, Settings,
    StreamNames, Value,
};
use weir_truth::{FrameTruth, Truth, TruthObject};

use crate::common::half;

/// That of the demo.
const LINE: [[f64; 2]; 2] = [[0.34, 0.70], [0.97, 0.38]];
const COUNTED: [&str; 4] = ["car", "van", "bus", "bicycle"];

fn transforms() -> StreamTransforms {
    let value = |texts: &[&str]| Value::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
    let keys = [
        ("points".to_owned(), Value::Points(LINE.to_vec())),
        ("classes".to_owned(), value(&COUNTED)),
        ("directions".to_owned(), value(&["coming", "leaving"])),
    ];
    let line = StreamTransform {
        streams: StreamNames::default(),
        name: "gate".into(),
        spec: read_transform("line", &Settings(keys.into())).unwrap(),
        modules: [].into(),
        trackers: [0].into(),
    };
    StreamTransforms::new("street".into(), vec![line], 0)
}

fn rect(object: &TruthObject) -> Rect {
    let [x0, y0, x1, y1] = object.r#box;
    Rect::new(x0, y0, x1, y1)
}

fn time(frame: &FrameTruth) -> FrameTime {
    FrameTime {
        pts_ms: frame.pts_ms,
        time_ms: frame.pts_ms as u64,
    }
}

/// Crossings by direction.
fn by_direction(incidents: &[Incident]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for incident in incidents {
        if let ("direction", IncidentValue::Text(direction)) = &incident.values[0] {
            *counts.entry(direction.to_string()).or_default() += 1;
        }
    }
    counts
}

/// Crossings by direction in the ground truth: whole boxes, hidden or not, by identity.
fn known(truth: &Truth) -> BTreeMap<String, usize> {
    let mut line = transforms();
    let mut incidents = Vec::new();
    for frame in &truth.frames {
        let objects = frame.objects.iter();
        let objects: Vec<(&TruthObject, Arc<str>)> = objects
            .map(|object| (object, object.class.as_str().into()))
            .collect();
        let objects = objects.iter().map(|(object, class)| SceneObject {
            module: 0,
            track: Some((0, object.id)),
            first: None,
            class,
            score: 1.0,
            rect: rect(object),
            is_stationary: false,
            attributes: &[],
        });
        incidents.extend(line.on_frame(&SceneFrame {
            width: truth.clip.width,
            height: truth.clip.height,
            at: time(frame),
            objects: &objects.collect::<Vec<_>>(),
            ended: &[],
            pixels: None,
        }));
    }
    incidents.extend(line.close(&[]));
    by_direction(&incidents)
}

/// Crossings by direction of tracks over the visible objects, in frames for which `kept` is true.
fn counted(truth: &Truth, kept: impl Fn(u64) -> bool) -> BTreeMap<String, usize> {
    let plan = AnalyticsPlan {
        trackers: vec![TrackerPlan {
            streams: StreamNames::default(),
            modules: [0].into(),
            appearance: None,
            classes: Vec::new(),
            settings: TrackerSettings::default(),
            parts: Parts::read(&["plate of car, van, bus".to_owned(), "face of person".to_owned()]).unwrap(),
            confirmed: Vec::new(),
        }],
        ..AnalyticsPlan::default()
    };
    let (mut analytics, mut ids) = (
        StreamAnalytics::new(&Arc::new(plan), "camera"),
        TrackIds::default(),
    );
    let (mut line, mut incidents) = (transforms(), Vec::new());
    let size = (truth.clip.width, truth.clip.height);
    for frame in truth.frames.iter().filter(|frame| kept(frame.frame)) {
        let objects = frame.objects.iter().filter(|object| !object.ignore);
        let objects = objects.map(|object| Object {
            class: object.class.as_str().into(),
            score: 0.9,
            rect: rect(object),
            parent: None,
            points: Points::None,
            candidate: false,
        });
        let output = ModuleOutput {
            objects: objects.collect(),
            attributes: Vec::new(),
        };
        let mut results = RequestResults::default();
        results.add(0, output);
        let at = time(frame);
        let image = Image::from_rgb(2, 2, vec![0; 12]);
        let picture = Frame::new(frame.frame, frame.pts_ms, image);
        let mut found = analytics.on_frame(&picture, at.time_ms, &results, &mut ids);
        run_transforms(&mut line, size, at, None, &results, &mut found);
        incidents.append(&mut found.incidents);
    }
    let mut closed = analytics.close();
    close_transforms(&mut line, &mut closed);
    incidents.append(&mut closed.incidents);
    by_direction(&incidents)
}

#[test]
fn what_crosses_the_line_is_counted_but_one_at_most() {
    for clip in ["street-day", "street-dusk"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../videos/{clip}.truth.jsonl"));
        let truth = Truth::read(BufReader::new(File::open(path).unwrap())).unwrap();
        let known = known(&truth);
        let sum = |counts: &BTreeMap<String, usize>| counts.values().sum::<usize>();
        assert!(sum(&known) >= 7, "{clip}: {known:?}");
        for kept in [(|_| true) as fn(u64) -> bool, half] {
            let counted = counted(&truth, kept);
            let too_many = counted.iter().any(|(direction, count)| *count > known[direction]);
            let missed = sum(&known).abs_diff(sum(&counted));
            assert!(!too_many && missed <= 1, "{clip}: {counted:?} of {known:?}");
        }
    }
}
