//! Modules that read frames in tiles: each tile is an item, objects of all tiles are those of the frame, load decides how many
//! tiles there are, and behind a motion gate only those that change are read.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use weir_flow::{
    Batching, Catalog, Delivery, DeviceKind, Inference, Item, Model, Object, Operator, Points, Rect, Region,
    Session, SessionError, Settings, Sink, SinkError, SinkFactory, Step, Value,
};
use weir_graph::Graph;
use weir_operators::OperatorRequest;
use weir_runtime::{RunOptions, verify};
use weir_sim::experiment::world_from_graph;
use weir_sim::simulate;
use weir_types::Timestamp;

use crate::common::box_camera::BoxCamera;
use crate::common::{Parts, as_fast_as_it_goes, assemble, at_own_pace, graph, graph_in, run, whole_catalog};

const SIZE: (usize, usize) = (640, 360);
const FRAMES: u64 = 300;

/// A box that stands in the left half, and one in the right half that moves from frame 100 to 150.
fn boxes(frame: u64) -> [Rect; 2] {
    let x = 400.0 + (frame.clamp(100, 150) - 100) as f32 * 2.0;
    [
        Rect::new(100.0, 100.0, 140.0, 180.0),
        Rect::new(x, 100.0, x + 60.0, 180.0),
    ]
}

const CAMERA: BoxCamera = BoxCamera {
    size: SIZE,
    frames: FRAMES,
    boxes: |frame| boxes(frame).to_vec(),
};

/// Frames and parts of them that a model was shown.
type Shown = Vec<(u64, Region)>;

/// Index and boxes of each frame.
type Found = Vec<(u64, Vec<Rect>)>;

/// A model that finds the boxes in what it is shown, cut at the edges of the item, and remembers what that was.
#[derive(Clone, Default)]
struct Finder(Arc<Mutex<Shown>>);

impl Model for Finder {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(self.clone()))
    }
}

impl Session for Finder {
    fn run(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        on_step(Step::Inferred);
        let find = |item: &Item| {
            let frame = item.frame.index;
            self.0.lock().unwrap().push((frame, item.region.clone()));
            let seen = boxes(frame).map(|rect| rect.intersection(&item.bounds()));
            let object = |rect| Object {
                class: "car".into(),
                score: 0.9,
                rect,
                parent: None,
                points: Points::None,
                candidate: false,
            };
            Inference {
                objects: seen
                    .into_iter()
                    .filter(|rect| rect.area() > 0.0)
                    .map(object)
                    .collect(),
                ..Inference::default()
            }
        };
        Ok(items.iter().map(find).collect())
    }

    fn warm_up(&mut self, _: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Found>>);

impl SinkFactory for Kept {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Kept {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let objects = delivery.objects.iter().map(|found| found.object.rect);
        self.0
            .lock()
            .unwrap()
            .push((delivery.frame.index, objects.collect()));
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

fn text(gate: &str) -> String {
    format!(
        r#"
        [app]
        name = "tiles"
        slo = "60s"
        [sources.camera]
        uri = "http://127.0.0.1/camera"
        mode = "lossless"
        {gate}
        [devices."emulated:a"]
        slots = 1
        [models.detector]
        device = "emulated:a"
        profile = {{ "1" = "1ms", "8" = "2ms" }}
        [modules.look]
        operator = "detect"
        model = "detector"
        inputs = ["camera"]
        tiles = [2, 1]
        [sinks.found]
        type = "keep"
        inputs = ["look"]
        "#
    )
}

fn detect() -> Arc<dyn Operator> {
    let settings = Settings([("tiles".to_owned(), Value::Pair([2, 1]))].into());
    let request = OperatorRequest {
        operator: "detect",
        regions: &[],
        settings: &settings,
        model: None,
    };
    weir_operators::operator(&request).unwrap()
}

/// Runs the graph; gives the items of its model, the boxes of its frames and the number of items in the report.
fn ran(gate: &str, options: &RunOptions) -> (Shown, Found, u64) {
    let (finder, kept) = (Finder::default(), Kept::default());
    let parts = Parts {
        sources: vec![("camera", Box::new(CAMERA))],
        models: vec![("detector", Arc::new(finder.clone()))],
        operators: vec![("look", detect())],
        sinks: vec![("found", Box::new(kept.clone()))],
    };
    let report = run(assemble(graph(&text(gate), &whole_catalog()), parts), options);
    assert_eq!(report.requests.delivered + report.requests.still, FRAMES);
    let items = finder.0.lock().unwrap().clone();
    let found = kept.0.lock().unwrap().clone();
    (items, found, report.modules["look"].items)
}

#[test]
fn every_tile_is_an_item_and_each_object_is_there_once() {
    let (items, found, counted) = ran("", &as_fast_as_it_goes());
    assert_eq!((items.len() as u64, counted), (3 * FRAMES, 3 * FRAMES));
    assert_eq!(found.len() as u64, FRAMES);
    for (frame, mut rects) in found {
        rects.sort_by(|a, b| a.x0.total_cmp(&b.x0));
        assert_eq!(rects, boxes(frame), "frame {frame}");
    }
}

#[test]
fn gate_reads_only_tiles_that_change_and_keeps_what_is_in_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.jsonl");
    let options = RunOptions {
        record: Some(log.clone()),
        ..as_fast_as_it_goes()
    };
    let (items, found, _) = ran("gate = \"motion\"", &options);
    // The left tile, which ends at 356, is not read while only the right one changes.
    let of = |left: bool, frames: std::ops::Range<u64>| {
        let is_half =
            |region: &Region| matches!(region, Region::Crop { rect, .. } if (rect.x0 < 1.0) == left);
        let within = items
            .iter()
            .filter(|(frame, region)| frames.contains(frame) && is_half(region));
        within.count()
    };
    assert!(of(true, 0..25) > 0, "it is read at first");
    assert_eq!(of(true, 100..150), 0, "{items:?}");
    assert!(of(false, 100..152) >= 40, "{items:?}");
    assert_eq!(found.len() as u64, FRAMES);
    for (frame, mut rects) in found {
        rects.sort_by(|a, b| a.x0.total_cmp(&b.x0));
        let [stands, moves] = boxes(frame);
        let [left, right] = rects[..] else {
            panic!("frame {frame}: {rects:?}")
        };
        assert_eq!(left, stands, "frame {frame}");
        assert!((right.x0 - moves.x0).abs() <= 4.0, "frame {frame}: {right:?}");
    }
    verify(&log).unwrap();
}

/// 4 frames a second, then 40, then 4 again, for two seconds each.
const LOAD: &str = "t_s,rate_rps\n0,4\n2,40\n4,4\n";

const GEARS: &str = r#"
    graph = "tiles"
    number = 1
    shift = { window = "500ms", waiting = 4 }
    [[gears]]
    up_to = 10
    [gears.cascades]
    look = [{ model = "detector", tiles = [3, 2] }]
    [[gears]]
    up_to = 400
    [gears.cascades]
    look = [{ model = "detector", tiles = [1, 1] }]
"#;

fn geared(folder: &Path, catalog: &Catalog) -> Graph {
    std::fs::write(folder.join("gears.toml"), GEARS).unwrap();
    std::fs::write(folder.join("load.csv"), LOAD).unwrap();
    let text = r#"
        [app]
        name = "tiles"
        slo = "1s"
        gears = "gears.toml"
        [sources.camera]
        uri = "emulated:trace?file=load.csv&process=uniform"
        [devices."emulated:a"]
        slots = 1
        [models.detector]
        device = "emulated:a"
        profile = { "1" = "10ms", "8" = "80ms" }
        [modules.look]
        operator = "detect"
        model = "detector"
        inputs = ["camera"]
        tiles = [3, 2]
        "#;
    graph_in(folder, text, catalog)
}

#[test]
fn load_decides_how_many_tiles_a_frame_has_live_and_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let graph = geared(folder.path(), &whole_catalog());
    let (spec, streams) = world_from_graph(&graph).unwrap();
    let mut arrivals = streams[0].arrivals(0).unwrap().map(|at| Timestamp::ZERO + at);
    let simulated = simulate(&spec, "tiles", &mut arrivals, &mut |_| {}).report;
    let count = simulated.requests.arrived;
    let log = folder.path().join("log.jsonl");
    let live = run(assemble(graph, Parts::default()), &at_own_pace(Some(&log)));
    verify(&log).unwrap();
    for (name, report) in [("simulated", &simulated), ("live", &live)] {
        assert_eq!(report.requests.arrived, count, "{name}");
        let gears = report.gears.as_ref().unwrap();
        assert!(gears.shifts >= 2, "{name}: {gears:?}");
        // With seven items of each frame the model would do 14 frames a second of the 40, and with one it does all.
        let (items, frames) = (report.modules["look"].items, report.requests.delivered);
        assert!(frames > count * 8 / 10, "{name}: {:?}", report.requests);
        assert!(
            items > frames + 60 && items < 4 * frames,
            "{name}: {items} of {frames}"
        );
    }
}
