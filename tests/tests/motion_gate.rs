//! A stream with a motion gate: models see only frames in which something changed; the others have the objects of the last of those, so
//! tracks go on, and all of it is decided again from the event log.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use weir_flow::{
    Catalog, Delivery, Frame, Image, Inference, Item, ModuleOutput, Object, Operator, OwnedPlanes,
    PixelFormat, Points, Rect, Region, RequestResults, Sink, SinkError, SinkFactory, Source, SourceError,
    SourceFactory, SourceInfo, StopFlag,
};
use weir_runtime::{Pace, RunOptions, verify};

use crate::common::{Parts, assemble, catalog_with_sink, graph, run};

const GRAPH: &str = r#"
    [app]
    name = "gate"
    slo = "60s"
    [sources.camera]
    uri = "http://127.0.0.1/camera"
    mode = "lossless"
    gate = "motion"
    [models.quick]
    device = "emulated:a"
    profile = { "1" = "1ms" }
    [modules.look]
    operator = "emulate"
    model = "quick"
    inputs = ["camera"]
    [modules.tracks]
    operator = "track"
    inputs = ["look"]
    [sinks.events]
    type = "kept"
    inputs = ["tracks"]
"#;

/// Frames of a clip, 25 a second. A box moves from frame 200 to 300, and stands before and after.
const FRAMES: u64 = 700;
const SIZE: (usize, usize) = (320, 180);

/// The left edge of the box.
fn left(frame: u64) -> usize {
    40 + (frame.clamp(200, 300) - 200) as usize
}

#[derive(Clone, Copy, Default)]
struct Camera(u64);

impl SourceFactory for Camera {
    fn open(&self, _stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(*self))
    }
}

impl Source for Camera {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            fps: Some(25.0),
            ..SourceInfo::default()
        }
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        let index = self.0;
        self.0 += 1;
        let mut luma = vec![60; SIZE.0 * SIZE.1];
        for row in luma.chunks_mut(SIZE.0).skip(80).take(40) {
            row[left(index)..left(index) + 20].fill(200);
        }
        let image = Image {
            width: SIZE.0 as u32,
            height: SIZE.1 as u32,
            format: PixelFormat::Gray8,
            matrix: weir_flow::ColorMatrix::Bt601,
            full_range: true,
            planes: Arc::new(OwnedPlanes {
                planes: vec![(luma, SIZE.0)],
            }),
        };
        Ok((index < FRAMES).then(|| Frame::new(index, index as f64 * 40.0, image)))
    }
}

/// Finds the box, and remembers in which frames it was asked to.
#[derive(Clone, Default)]
struct Finder(Arc<Mutex<BTreeSet<u64>>>);

impl Operator for Finder {
    fn items(&self, frame: &Arc<Frame>, _results: &RequestResults) -> Vec<Item> {
        vec![Item {
            frame: Arc::clone(frame),
            region: Region::Whole,
            object: None,
            class: None,
        }]
    }

    fn output(&self, _module: u32, items: &[Item], _inferences: Vec<Inference>) -> ModuleOutput {
        let frame = items[0].frame.index;
        self.0.lock().unwrap().insert(frame);
        let x = left(frame) as f32;
        let object = Object {
            candidate: false,
            class: "box".into(),
            score: 0.9,
            rect: Rect::new(x, 80.0, x + 20.0, 120.0),
            parent: None,
            points: Points::None,
        };
        ModuleOutput {
            objects: vec![object],
            attributes: Vec::new(),
        }
    }
}

/// Index, whether it was still, left edge and track of the box of each frame.
type Seen = (u64, bool, f32, Option<u64>);

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Seen>>>);

impl SinkFactory for Kept {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Kept {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let found = &delivery.objects[0];
        self.0.lock().unwrap().push((
            delivery.frame.index,
            delivery.still,
            found.object.rect.x0,
            found.track.as_ref().map(|track| track.id),
        ));
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn models_see_what_changes_and_still_frames_have_the_objects_of_the_last_look() {
    let catalog = Catalog {
        tracker_keys: weir_analytics::TRACKER_KEYS,
        ..catalog_with_sink("kept")
    };
    let (finder, kept) = (Finder::default(), Kept::default());
    let parts = Parts {
        sources: vec![("camera", Box::new(Camera::default()))],
        operators: vec![("look", Arc::new(finder.clone()))],
        sinks: vec![("events", Box::new(kept.clone()))],
        ..Parts::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.jsonl");
    let options = RunOptions {
        pace: Pace::Max,
        record: Some(log.clone()),
        ..RunOptions::default()
    };
    let report = run(assemble(graph(GRAPH, &catalog), parts), &options);
    let counts = report.requests;
    assert!(counts.is_balanced() && counts.arrived == FRAMES, "{counts:?}");
    assert_eq!(counts.delivered + counts.still, FRAMES);
    assert!(counts.still > FRAMES * 6 / 10, "{counts:?}");

    let looked = finder.0.lock().unwrap().clone();
    assert_eq!(looked.len() as u64, counts.delivered);
    assert!(
        (200..=300).all(|frame| looked.contains(&frame) || left(frame) == left(frame - 1)),
        "{looked:?}"
    );
    let seen = kept.0.lock().unwrap();
    let frames: Vec<u64> = seen.iter().map(|(frame, ..)| *frame).collect();
    assert_eq!(frames, (0..FRAMES).collect::<Vec<_>>(), "all come out, in order");
    let tracks: BTreeSet<u64> = seen.iter().filter_map(|(.., track)| *track).collect();
    assert_eq!(tracks.len(), 1, "it stays one object");
    for (frame, still, at, _) in seen.iter() {
        assert_eq!(*still, !looked.contains(frame));
        // While it stands, it is where it was seen last.
        assert!((at - left(*frame) as f32).abs() <= 2.0, "frame {frame}: {at}");
    }
    let verified = verify(&log).unwrap();
    assert!(verified.events > FRAMES, "{verified:?}");
}
