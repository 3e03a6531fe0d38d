//! Trackers in the engine: objects of a stream keep their ids from frame to frame, sinks are shown them where they name the
//! tracker, and tracks end with their stream.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use weir_flow::{
    Attribute, Catalog, Delivery, Frame, Inference, Item, ModuleOutput, Notice, ObjectAttribute, Operator,
    Points, Region, RequestResults, Sink, SinkError, SinkFactory, TrackEnd, TrackState,
};
use weir_runtime::RunOptions;

use crate::common::street::Street;
use crate::common::{Parts, assemble, catalog_with_sink, graph, run};

/// Reads a text off each object, and counts how many it reads.
#[derive(Clone, Default)]
struct Reader(Arc<AtomicUsize>);

impl Operator for Reader {
    fn items(&self, frame: &Arc<Frame>, results: &RequestResults) -> Vec<Item> {
        let item = |object, rect| Item {
            frame: Arc::clone(frame),
            region: Region::Crop {
                rect,
                points: Points::None,
            },
            object: Some(object),
            class: None,
        };
        let objects = results.objects();
        objects.map(|(name, object)| item(name, object.rect)).collect()
    }

    fn output(&self, _module: u32, items: &[Item], _inferences: Vec<Inference>) -> ModuleOutput {
        self.0.fetch_add(items.len(), Ordering::Relaxed);
        let attribute = |item: &Item| ObjectAttribute {
            object: item.object.unwrap(),
            name: "label".into(),
            attribute: Attribute::Text {
                text: "A 1".to_owned(),
                score: 0.8,
            },
        };
        ModuleOutput {
            objects: Vec::new(),
            attributes: items.iter().map(attribute).collect(),
        }
    }
}

/// Tracks of the objects of each delivery by stream, and tracks that ended.
#[derive(Clone, Default)]
struct Recording(Arc<Mutex<Recorded>>);

#[derive(Default)]
struct Recorded {
    frames: Vec<(String, Vec<Option<TrackState>>)>,
    /// By deliveries and by notices.
    ended: Vec<(String, TrackEnd)>,
}

impl SinkFactory for Recording {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Recording {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let tracks = delivery
            .objects
            .iter()
            .map(|object| object.track.clone())
            .collect();
        let recorded = &mut *self.0.lock().unwrap();
        recorded.frames.push((delivery.stream.to_string(), tracks));
        let ended = delivery.ended_tracks.iter();
        recorded
            .ended
            .extend(ended.map(|end| (delivery.stream.to_string(), end.clone())));
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        let Notice::Analytics {
            stream, ended_tracks, ..
        } = notice
        else {
            panic!("it asks for no notices: {notice:?}");
        };
        let ended = ended_tracks.iter().map(|end| (stream.to_string(), end.clone()));
        self.0.lock().unwrap().ended.extend(ended);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

const GRAPH: &str = r#"
[app]
name = "tracks"
slo = "5s"
[sources.north]
uri = "emulated:uniform?rate=100&frames=40"
mode = "lossless"
[sources.south]
uri = "emulated:uniform?rate=100&frames=40"
mode = "lossless"
[devices."emulated:a"]
slots = 2
[models.any]
device = "emulated:a"
profile = { "1" = "1ms" }
[modules.find]
operator = "emulate"
model = "any"
inputs = ["north", "south"]
[modules.tracks]
operator = "track"
inputs = ["find"]
[sinks.tracked]
type = "record"
inputs = ["tracks"]
[sinks.plain]
type = "record"
inputs = ["find"]
"#;

fn catalog() -> Catalog {
    Catalog {
        tracker_keys: weir_analytics::TRACKER_KEYS,
        ..catalog_with_sink("record")
    }
}

#[test]
fn a_module_that_runs_per_track_is_asked_for_few_objects_and_all_that_follow_have_what_it_read() {
    let text = GRAPH.replace("frames=40", "frames=200").replace(
        "inputs = [\"tracks\"]",
        r#"inputs = ["read"]
[modules.read]
operator = "emulate"
model = "any"
inputs = ["tracks"]
per_track = { every = "1s", until = 0.9 }"#,
    );
    let (reader, tracked) = (Reader::default(), Recording::default());
    let parts = Parts {
        operators: vec![("find", Arc::new(Street)), ("read", Arc::new(reader.clone()))],
        sinks: vec![
            ("tracked", Box::new(tracked.clone())),
            ("plain", Box::new(Recording::default())),
        ],
        ..Parts::default()
    };
    let report = run(assemble(graph(&text, &catalog()), parts), &RunOptions::default());
    assert_eq!(report.requests.delivered, 400);
    // Four objects for two seconds: each is read until two readings agree.
    let read = reader.0.load(Ordering::Relaxed);
    assert!((8..400).contains(&read), "{read} of 800 objects were read");
    let recorded = tracked.0.lock().unwrap();
    for (_, tracks) in &recorded.frames[300..] {
        for track in tracks {
            let attributes = &track.as_ref().unwrap().attributes;
            assert_eq!(&*attributes[0].0, "label");
        }
    }
    assert!(recorded.ended.iter().all(|(_, end)| end.attributes.len() == 1));
}

#[test]
fn a_module_that_runs_once_per_track_is_asked_one_time_for_what_was_not_there_before() {
    let text = GRAPH.replace("frames=40", "frames=200").replace(
        "inputs = [\"tracks\"]",
        r#"inputs = ["read"]
[modules.read]
operator = "emulate"
model = "any"
inputs = ["tracks"]
per_track = { once = true }"#,
    );
    let (reader, tracked) = (Reader::default(), Recording::default());
    let parts = Parts {
        operators: vec![("find", Arc::new(Street)), ("read", Arc::new(reader.clone()))],
        sinks: vec![
            ("tracked", Box::new(tracked.clone())),
            ("plain", Box::new(Recording::default())),
        ],
        ..Parts::default()
    };
    let report = run(assemble(graph(&text, &catalog()), parts), &RunOptions::default());
    assert_eq!(report.requests.delivered, 400);
    assert_eq!(
        reader.0.load(Ordering::Relaxed),
        4,
        "two objects in each of two streams"
    );
}

#[test]
fn objects_keep_their_ids_and_tracks_end_with_their_stream() {
    let (tracked, plain) = (Recording::default(), Recording::default());
    let parts = Parts {
        operators: vec![("find", Arc::new(Street))],
        sinks: vec![
            ("tracked", Box::new(tracked.clone())),
            ("plain", Box::new(plain.clone())),
        ],
        ..Parts::default()
    };
    run(assemble(graph(GRAPH, &catalog()), parts), &RunOptions::default());

    let tracked = tracked.0.lock().unwrap();
    for stream in ["north", "south"] {
        let frames = tracked.frames.iter().filter(|(name, _)| name == stream);
        let frames: Vec<&Vec<Option<TrackState>>> = frames.map(|(_, tracks)| tracks).collect();
        assert_eq!(frames.len(), 40);
        assert_eq!(*frames[0], [None, None], "tentative in the first frame");
        for place in 0..2 {
            let states: Vec<&TrackState> = frames[1..]
                .iter()
                .map(|tracks| tracks[place].as_ref().unwrap())
                .collect();
            let ids: BTreeSet<u64> = states.iter().map(|state| state.id).collect();
            assert_eq!(ids.len(), 1, "one object, one track");
            assert!(states.is_sorted_by(|one, next| one.age_ms < next.age_ms));
            let last = states[states.len() - 1];
            let (class, speed) = [("car", 100.0), ("person", 0.0)][place];
            assert_eq!(&*last.class, class);
            assert!((last.velocity.x - speed).abs() < 5.0, "{:?}", last.velocity);
        }
        let ended = tracked.ended.iter().filter(|(name, _)| name == stream);
        let mut ended: Vec<&TrackEnd> = ended.map(|(_, end)| end).collect();
        ended.sort_by(|one, other| one.class.cmp(&other.class));
        let classes: Vec<&str> = ended.iter().map(|end| &*end.class).collect();
        assert_eq!(classes, ["car", "person"], "each ends once");
        assert!(
            ended
                .iter()
                .all(|end| end.began_pts_ms == 0.0 && end.last_pts_ms > 380.0)
        );
    }
    let plain = plain.0.lock().unwrap();
    assert_eq!(plain.frames.len(), 80);
    assert!(plain.frames.iter().all(|(_, tracks)| *tracks == [None, None]));
    assert!(plain.ended.is_empty(), "it does not name the tracker");
}
