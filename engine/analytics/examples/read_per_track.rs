//! Compares modules that run per track with modules that read in every frame: the number of plates that the
//! tracks of vehicles have right when the vehicles are seen last, and the number of readings.
//!
//! `read_per_track TRUTH.jsonl EVENTS.jsonl [KEY=VALUE ...]`. EVENTS are those of a run in which plates and faces were read in every
//! frame, nothing dropped (`weir replay --speed max`). Of its frames, `rate` a second (4), at random, are detected; a module
//! is asked `asked_ms` (150) after a frame was taken, and the frame is delivered after `latency_ms` (300), or of `late` (0.2)
//! never. `draws` (100) are added up; `every_ms` (1000) and `until` (0.9) are the rule of plates, and `faces_every_ms` (1000)
//! that of faces. An answer of a module costs one reading, whether its frame is delivered or not.

#![allow(clippy::print_stdout, reason = "it is a program whose output is the table")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use serde_json::Value;
use weir_analytics::{
    AnalyticsPlan, Parts, PerTrack, StreamAnalytics, TrackIds, TrackerPlan, TrackerSettings,
};
use weir_flow::{
    Attribute, Frame, Image, ModuleOutput, Object, ObjectAttribute, ObjectRef, Points, Rect, RequestResults,
    StreamNames,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Number of the detector, and of the modules that read plates and faces.
const OBJECTS: u32 = 0;
const PLATES: u32 = 1;
const FACES: u32 = 2;
/// Least overlap of a vehicle and its track.
const MIN_OVERLAP: f32 = 0.5;

/// A plate that is to be read: its number, its text, and the box of its vehicle.
struct Plate {
    id: u64,
    text: String,
    vehicle: Rect,
}

/// Detections of a frame, each with its reading, and the ground truth of its plates.
struct Seen {
    pts_ms: f64,
    objects: Vec<(Object, Option<Attribute>)>,
    plates: Vec<Plate>,
}

struct Arguments {
    rate: f64,
    asked_ms: f64,
    latency_ms: f64,
    late: f64,
    draws: u64,
    plates: PerTrack,
    faces: PerTrack,
}

/// Numbers that look random, the same each time (splitmix64).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Sums over all draws: readings of plates and faces, and plates that came, that were read, and that were
/// read right.
#[derive(Default)]
struct Sums {
    plates: u64,
    faces: u64,
    came: usize,
    read: usize,
    right: usize,
}

fn main() -> Outcome<()> {
    let mut files = Vec::new();
    let rule = PerTrack {
        tracker: 0,
        every_ms: 1000.0,
        until: 0.9,
        once: false,
    };
    let mut arguments = Arguments {
        rate: 4.0,
        asked_ms: 150.0,
        latency_ms: 300.0,
        late: 0.2,
        draws: 100,
        plates: rule,
        faces: PerTrack {
            until: f32::INFINITY,
            ..rule
        },
    };
    for argument in std::env::args().skip(1) {
        let Some((key, value)) = argument.split_once('=') else {
            files.push(argument);
            continue;
        };
        match key {
            "rate" => arguments.rate = value.parse()?,
            "asked_ms" => arguments.asked_ms = value.parse()?,
            "latency_ms" => arguments.latency_ms = value.parse()?,
            "late" => arguments.late = value.parse()?,
            "draws" => arguments.draws = value.parse()?,
            "every_ms" => arguments.plates.every_ms = value.parse()?,
            "until" => arguments.plates.until = value.parse()?,
            "faces_every_ms" => arguments.faces.every_ms = value.parse()?,
            other => return Err(format!("there is no {other}").into()),
        }
    }
    let [truth, events] = files.as_slice() else {
        return Err("name a file of truth and one of events".into());
    };
    let seen = read(truth, events)?;
    println!("| modules read | plates came | read | right | readings of plates | of faces |");
    println!("|---|---|---|---|---|---|");
    for (name, per_track) in [("every frame", false), ("per track", true)] {
        let mut sums = Sums::default();
        for seed in 0..arguments.draws {
            run(&seen, &arguments, per_track, seed, &mut sums)?;
        }
        let Sums {
            plates,
            faces,
            came,
            read,
            right,
        } = sums;
        let part = 100.0 * right as f64 / came.max(1) as f64;
        println!("| {name} | {came} | {read} | {right} ({part:.1} %) | {plates} | {faces} |");
    }
    Ok(())
}

/// One pass through the clip.
fn run(seen: &[Seen], arguments: &Arguments, per_track: bool, seed: u64, sums: &mut Sums) -> Outcome<()> {
    let plan = Arc::new(AnalyticsPlan {
        trackers: vec![TrackerPlan {
            streams: StreamNames::default(),
            modules: [OBJECTS].into(),
            classes: Vec::new(),
            appearance: None,
            settings: TrackerSettings::default(),
            parts: Parts::read(&["plate of car, van, bus".to_owned(), "face of person".to_owned()])?,
            confirmed: Vec::new(),
        }],
        ..AnalyticsPlan::default()
    });
    let (mut analytics, mut ids) = (StreamAnalytics::new(&plan, "camera"), TrackIds::default());
    let mut draw = Draw(seed);
    let fps = 1e3 / (seen.get(1).ok_or("a clip of one frame")?.pts_ms - seen[0].pts_ms);
    let mut detected: Vec<(usize, bool)> = Vec::new();
    for index in 0..seen.len() {
        let (is_detected, is_late) = (draw.next() < arguments.rate / fps, draw.next() < arguments.late);
        if is_detected {
            detected.push((index, is_late));
        }
    }
    // By time: a module is asked, or the frame ends.
    let mut moments: Vec<(f64, bool, usize, bool)> = Vec::new();
    for (index, is_late) in detected {
        let pts_ms = seen[index].pts_ms;
        moments.push((pts_ms + arguments.asked_ms, false, index, is_late));
        moments.push((pts_ms + arguments.latency_ms, true, index, is_late));
    }
    moments.sort_by(|one, other| one.0.total_cmp(&other.0));
    let came: BTreeSet<u64> = seen
        .iter()
        .flat_map(|frame| &frame.plates)
        .map(|it| it.id)
        .collect();
    let mut last: BTreeMap<u64, bool> = BTreeMap::new();
    let mut asked: BTreeMap<usize, RequestResults> = BTreeMap::new();
    for (_, has_ended, index, is_late) in moments {
        let frame = &seen[index];
        if !has_ended {
            let results = ask(frame, index as u64, arguments, per_track, &mut analytics, sums);
            asked.insert(index, results);
            continue;
        }
        let results = asked.remove(&index).unwrap_or_default();
        if is_late {
            analytics.on_dropped(index as u64);
            continue;
        }
        let picture = Image::from_rgb(2, 2, vec![0; 12]);
        let picture = Frame::new(index as u64, frame.pts_ms, picture);
        let found = analytics.on_frame(&picture, frame.pts_ms as u64, &results, &mut ids);
        for plate in &frame.plates {
            let near = results
                .objects()
                .map(|(name, object)| (name, object.rect.iou(&plate.vehicle)));
            let near = near.filter(|(name, overlap)| {
                *overlap > MIN_OVERLAP && found.track(*name, &[0].into()).is_some()
            });
            let Some((name, _)) = near.max_by(|one, other| one.1.total_cmp(&other.1)) else {
                continue;
            };
            let state = found.track(name, &[0].into());
            let attributes = state.map(|state| &*state.attributes).unwrap_or_default();
            if let Some((_, Attribute::Text { text, .. })) =
                attributes.iter().find(|(it, _)| **it == *"plate")
            {
                last.insert(plate.id, *text == plate.text);
            }
        }
    }
    sums.came += came.len();
    sums.read += last.len();
    sums.right += last.values().filter(|right| **right).count();
    Ok(())
}

/// Returns the results of the modules for a frame. If `per_track` is set, readers skip objects that their
/// rule does not want.
fn ask(
    frame: &Seen,
    request: u64,
    arguments: &Arguments,
    per_track: bool,
    analytics: &mut StreamAnalytics,
    sums: &mut Sums,
) -> RequestResults {
    let mut results = RequestResults::default();
    let objects = frame.objects.iter().map(|(object, _)| object.clone()).collect();
    results.add(
        OBJECTS,
        ModuleOutput {
            objects,
            attributes: Vec::new(),
        },
    );
    let (mut plates, mut faces) = (Vec::new(), Vec::new());
    for (index, (object, attribute)) in (0..).zip(&frame.objects) {
        let Some(attribute) = attribute else { continue };
        let object_ref = ObjectRef {
            module: OBJECTS,
            index,
        };
        let is_plate = &*object.class == "plate";
        let (rule, module, name, into, count) = if is_plate {
            (&arguments.plates, PLATES, "plate", &mut plates, &mut sums.plates)
        } else {
            (&arguments.faces, FACES, "identity", &mut faces, &mut sums.faces)
        };
        let of = (&results, object_ref);
        if per_track && !analytics.wants(rule, module, of, (frame.pts_ms, request)) {
            continue;
        }
        *count += 1;
        into.push(ObjectAttribute {
            object: object_ref,
            name: name.into(),
            attribute: attribute.clone(),
        });
    }
    for (module, attributes) in [(PLATES, plates), (FACES, faces)] {
        results.add(
            module,
            ModuleOutput {
                objects: Vec::new(),
                attributes,
            },
        );
    }
    results
}

fn read(truth: &str, events: &str) -> Outcome<Vec<Seen>> {
    let mut detected: BTreeMap<u64, Value> = BTreeMap::new();
    for line in BufReader::new(File::open(events)?).lines() {
        let event: Value = serde_json::from_str(&line?)?;
        if let Some(frame) = event["frame"].as_u64() {
            detected.insert(frame, event);
        }
    }
    let mut frames = Vec::new();
    for line in BufReader::new(File::open(truth)?).lines().skip(1) {
        let known: Value = serde_json::from_str(&line?)?;
        let number = known["frame"].as_u64().ok_or("a frame without its number")?;
        let true_objects = known["objects"].as_array().ok_or("a frame without objects")?;
        let plates = true_objects
            .iter()
            .filter(|it| it["class"] == "plate" && it["ignore"] != true);
        let plates = plates.filter_map(|it| {
            Some(Plate {
                id: it["id"].as_u64()?,
                text: it["attributes"]["plate"]["text"].as_str()?.to_owned(),
                vehicle: rect(true_objects.iter().find(|other| other["id"] == it["parent"])?)?,
            })
        });
        let objects = detected
            .get(&number)
            .and_then(|event| event["objects"].as_array());
        let objects = objects.into_iter().flatten().filter_map(object);
        frames.push(Seen {
            pts_ms: known["pts_ms"].as_f64().ok_or("a frame without its time")?,
            objects: objects.collect(),
            plates: plates.collect(),
        });
    }
    Ok(frames)
}

fn rect(object: &Value) -> Option<Rect> {
    let side = |index: usize| Some(object["box"].get(index)?.as_f64()? as f32);
    Some(Rect::new(side(0)?, side(1)?, side(2)?, side(3)?))
}

fn object(value: &Value) -> Option<(Object, Option<Attribute>)> {
    let object = Object {
        class: value["class"].as_str()?.into(),
        score: value["score"].as_f64()? as f32,
        rect: rect(value)?,
        parent: None,
        points: Points::None,
        candidate: value["candidate"] == true,
    };
    let (plate, identity) = (&value["attributes"]["plate"], &value["attributes"]["identity"]);
    let text = plate["text"].as_str().map(|text| Attribute::Text {
        text: text.to_owned(),
        score: plate["score"].as_f64().unwrap_or_default() as f32,
    });
    let identity = identity["cosine"].as_f64().map(|cosine| Attribute::Match {
        r#match: identity["match"].as_str().map(Into::into),
        cosine: Some(cosine as f32),
        vector: None,
    });
    Some((object, text.or(identity)))
}
