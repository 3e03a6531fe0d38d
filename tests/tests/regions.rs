//! Detectors in a cascade that hand on regions: the second is asked crops around what the first is not certain of, and its objects
//! take the place of the old ones.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::{Arc, Mutex};

use weir_flow::{
    Batching, BoxCertainty, Delivery, DeviceKind, Inference, Item, Model, Object, Operator, Points, Rect,
    Region, Session, SessionError, Settings, Sink, SinkError, SinkFactory, Step,
};
use weir_operators::OperatorRequest;
use weir_policy::gears::{emulated_certainty, emulated_regions};
use weir_policy::{Report, StageCounts};
use weir_runtime::{Pace, RunOptions, verify};

use crate::common::{Parts, assemble, catalog_with_sink, graph, run};

const FRAMES: u64 = 40;

fn text(keys: &str, sink: &str) -> String {
    format!(
        r#"
        [app]
        name = "regions"
        slo = "5s"
        [sources.camera]
        uri = "emulated:uniform?rate=1000&frames={FRAMES}&size=640x480"
        mode = "lossless"
        [devices."emulated:a"]
        slots = 1
        [models.small]
        device = "emulated:a"
        profile = {{ "1" = "1ms", "8" = "2ms" }}
        [models.large]
        device = "emulated:a"
        batch = [1]
        profile = {{ "1" = "1ms" }}
        [modules.find]
        operator = "emulate"
        cascade = [{{ model = "small", certainty = 0.5 }}, {{ model = "large" }}]
        inputs = ["camera"]
        escalate = "regions"
        {keys}
        {sink}
        "#
    )
}

const SINK: &str = "[sinks.found]\ntype = \"found\"\ninputs = [\"find\"]";

const SURE: Rect = Rect::new(20.0, 20.0, 60.0, 60.0);
const DOUBTFUL: Rect = Rect::new(300.0, 200.0, 340.0, 240.0);
const FAINT: Rect = Rect::new(500.0, 400.0, 520.0, 420.0);

fn object(class: &str, rect: Rect) -> Object {
    Object {
        class: class.into(),
        score: 0.7,
        rect,
        parent: None,
        points: Points::None,
        candidate: false,
    }
}

/// A car that it is certain of, one that it is not, and something too weak to be an object.
struct Small;

/// A model that finds a bus in whole frames and in crops around the doubtful car, and nothing elsewhere. With
/// `fails`, each of its batches fails.
struct Large {
    seen: Arc<Mutex<Vec<Region>>>,
    fails: bool,
}

fn one_at_a_time() -> Batching {
    Batching {
        max: None,
        remark: None,
    }
}

impl Model for Small {
    fn batching(&self) -> Batching {
        one_at_a_time()
    }

    fn open(&self, _: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(Self))
    }
}

impl Session for Small {
    fn run(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        on_step(Step::Inferred);
        let certain = |rect, certainty| BoxCertainty { rect, certainty };
        let found = Inference {
            objects: vec![object("car", SURE), object("car", DOUBTFUL)],
            certainty: Some(0.1),
            boxes: vec![certain(SURE, 0.9), certain(DOUBTFUL, 0.2), certain(FAINT, 0.1)],
            ..Inference::default()
        };
        Ok(vec![found; items.len()])
    }

    fn warm_up(&mut self, _: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

impl Model for Large {
    fn batching(&self) -> Batching {
        one_at_a_time()
    }

    fn open(&self, _: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(Self {
            seen: Arc::clone(&self.seen),
            fails: self.fails,
        }))
    }
}

impl Session for Large {
    fn run(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        on_step(Step::Inferred);
        let see = |item: &Item| {
            self.seen.lock().unwrap().push(item.region.clone());
            let shows = match &item.region {
                Region::Crop { rect, .. } => rect.contains(DOUBTFUL.centre()),
                Region::Whole => true,
            };
            Inference {
                objects: shows.then(|| object("bus", DOUBTFUL)).into_iter().collect(),
                ..Inference::default()
            }
        };
        let found = items.iter().map(see).collect();
        if self.fails {
            return Err(SessionError::Run {
                model: "large".to_owned(),
                batch: items.len(),
                reason: "it always does".to_owned(),
            });
        }
        Ok(found)
    }

    fn warm_up(&mut self, _: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

/// Classes and boxes of a frame.
type Shown = Vec<(String, Rect)>;

#[derive(Clone, Default)]
struct Found(Arc<Mutex<Vec<Shown>>>);

impl SinkFactory for Found {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Found {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let objects = delivery.objects.iter();
        let objects = objects.map(|found| (found.object.class.to_string(), found.object.rect));
        self.0.lock().unwrap().push(objects.collect());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

fn detect() -> Arc<dyn Operator> {
    let settings = Settings::default();
    let request = OperatorRequest {
        operator: "detect",
        regions: &[],
        settings: &settings,
        model: None,
    };
    weir_operators::operator(&request).unwrap()
}

fn stages(report: &Report) -> [StageCounts; 2] {
    ["find/1", "find/2"].map(|name| report.modules[name].stage.unwrap_or_default())
}

fn fast() -> RunOptions {
    RunOptions {
        pace: Pace::Max,
        ..RunOptions::default()
    }
}

/// Runs both stages. Returns the objects of each frame, the regions that the second stage saw, and the
/// report.
fn detected(fails: bool) -> (Vec<Shown>, Vec<Region>, Report) {
    let (sink, seen) = (Found::default(), Arc::<Mutex<Vec<Region>>>::default());
    let large = Large {
        seen: Arc::clone(&seen),
        fails,
    };
    let parts = Parts {
        models: vec![("small", Arc::new(Small)), ("large", Arc::new(large))],
        operators: vec![("find/1", detect()), ("find/2", detect())],
        sinks: vec![("found", Box::new(sink.clone()))],
        ..Parts::default()
    };
    let graph = graph(&text("", SINK), &catalog_with_sink("found"));
    let report = run(assemble(graph, parts), &fast());
    let found = sink.0.lock().unwrap().clone();
    let seen = seen.lock().unwrap().clone();
    (found, seen, report)
}

#[test]
fn the_second_is_asked_what_the_first_doubts_and_its_objects_take_the_place() {
    let (found, seen, report) = detected(false);
    let expected = [("car".to_owned(), SURE), ("bus".to_owned(), DOUBTFUL)];
    assert_eq!(found.len() as u64, FRAMES);
    assert!(found.iter().all(|objects| *objects == expected), "{:?}", found[0]);
    // The faint one has the least side, of 64 pixels, and the doubtful one as much again around it.
    let crops = [
        Rect::new(478.0, 378.0, 542.0, 442.0),
        Rect::new(280.0, 180.0, 360.0, 260.0),
    ];
    let crops = crops.map(|rect| Region::Crop {
        rect,
        points: Points::None,
    });
    assert!(seen.iter().all(|region| crops.contains(region)), "{:?}", seen[0]);
    assert_eq!(seen.len() as u64, 2 * FRAMES);
    let [first, second] = stages(&report);
    assert_eq!(
        (first.handed_on, second.accepted, second.failed),
        (FRAMES, 2 * FRAMES, 0)
    );
    assert_eq!(report.modules["find/2"].items, 2 * FRAMES);
    assert_eq!(report.requests.dropped, 0);
}

#[test]
fn where_the_second_fails_what_the_first_found_stays() {
    let (found, _, report) = detected(true);
    let expected = [("car".to_owned(), SURE), ("car".to_owned(), DOUBTFUL)];
    assert!(found.iter().all(|objects| *objects == expected), "{:?}", found[0]);
    let [_, second] = stages(&report);
    assert_eq!((second.accepted, second.failed), (0, 2 * FRAMES));
    assert_eq!(report.requests.dropped, 0);
}

#[test]
fn emulated_detectors_hand_on_as_many_regions_as_the_simulator_has() {
    let folder = tempfile::tempdir().unwrap();
    let options = RunOptions {
        record: Some(folder.path().join("record")),
        ..fast()
    };
    let graph = graph(&text("", ""), &weir_flow::Catalog::default());
    let report = run(assemble(graph, Parts::default()), &options);
    let uncertain: Vec<u64> = (0..FRAMES)
        .filter(|frame| emulated_certainty(*frame, 0) < 0.5)
        .collect();
    let regions: u64 = (uncertain.iter())
        .map(|frame| u64::from(emulated_regions(*frame)))
        .sum();
    let [first, second] = stages(&report);
    assert_eq!(first.handed_on, uncertain.len() as u64);
    assert_eq!((second.accepted, second.handed_on), (regions, 0));
    assert!(verify(&folder.path().join("record")).unwrap().steps > 0);
}
