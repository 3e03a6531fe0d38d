//! A stream with a motion gate: models see only frames in which something changed; the others have the objects of the last of those, so
//! tracks go on, and all of it is decided again from the event log.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use weir_flow::{
    Catalog, Delivery, Frame, Inference, Item, ModuleOutput, Notice, Object, Operator, Packet, PacketFormat,
    PacketObserver, Points, Rect, Region, RequestResults, Sink, SinkError, SinkFactory, StopFlag,
};
use weir_runtime::{Assembly, Engine, RunOptions};

use crate::common::box_camera::BoxCamera;
use crate::common::gates::run_gated;
use crate::common::{
    Parts, as_fast_as_it_goes, assemble, at_own_pace, catalog_with_sink, check_books, graph, run, stream,
    wait_until,
};

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

/// The box in that frame.
fn place(frame: u64) -> Rect {
    let x = left(frame) as f32;
    Rect::new(x, 80.0, x + 20.0, 120.0)
}

const CAMERA: BoxCamera = BoxCamera {
    size: SIZE,
    frames: FRAMES,
    boxes: |frame| vec![place(frame)],
};

/// Finds the box, and remembers in which frames it was asked to.
#[derive(Clone, Default)]
struct Finder(Arc<Mutex<BTreeSet<u64>>>);

impl Operator for Finder {
    fn items(&self, frame: &Arc<Frame>, _results: &RequestResults) -> Vec<Item> {
        vec![Item::of_frame(frame, Region::Whole)]
    }

    fn output(&self, _module: u32, items: &[Item], _inferences: Vec<Inference>) -> ModuleOutput {
        let frame = items[0].frame.index;
        self.0.lock().unwrap().insert(frame);
        let object = Object {
            candidate: false,
            class: "box".into(),
            score: 0.9,
            rect: place(frame),
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
    let (finder, kept) = (Finder::default(), Kept::default());
    let (look, events) = (Arc::new(finder.clone()), Box::new(kept.clone()));
    let counts = run_gated(GRAPH, FRAMES, Box::new(CAMERA), look, events);
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
}

/// A schedule that contains no time.
const NEVER: &str = "{ except = [\"1970-01-01..2999-12-31\"] }";

#[test]
fn gate_outside_its_schedule_looks_at_every_frame() {
    let gate = "gate = \"motion\"";
    let text = GRAPH.replace(gate, &format!("{gate}\n    gate_schedule = {NEVER}"));
    let (finder, kept) = (Finder::default(), Kept::default());
    let (look, events) = (Arc::new(finder.clone()), Box::new(kept));
    let counts = run_gated(&text, FRAMES, Box::new(CAMERA), look, events);
    assert_eq!((counts.delivered, counts.still), (FRAMES, 0), "{counts:?}");
    assert_eq!(finder.0.lock().unwrap().len() as u64, FRAMES);
}

/// The camera of [`GRAPH`] at times at which it is not analysed.
fn outside_its_schedule(finder: &Finder, events: Box<dyn SinkFactory>) -> Assembly {
    let parts = Parts {
        sources: vec![("camera", Box::new(CAMERA))],
        operators: vec![("look", Arc::new(finder.clone()))],
        sinks: vec![("events", events)],
        ..Parts::default()
    };
    let catalog = Catalog {
        tracker_keys: weir_analytics::TRACKER_KEYS,
        ..catalog_with_sink("kept")
    };
    let text = GRAPH.replace("gate = \"motion\"", &format!("active = {NEVER}"));
    assemble(graph(&text, &catalog), parts)
}

/// First frame, number of frames and media time of each notice of still frames.
#[derive(Clone, Default)]
struct StillNotices(Arc<Mutex<Vec<(u64, u64, f64)>>>);

impl SinkFactory for StillNotices {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for StillNotices {
    fn accept(&mut self, _delivery: &Delivery) -> Result<(), SinkError> {
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        if let Notice::Still {
            frame,
            frames,
            pts_ms,
            ..
        } = notice
        {
            self.0.lock().unwrap().push((*frame, *frames, *pts_ms));
        }
        Ok(())
    }

    fn wants_notices(&self) -> bool {
        true
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn sinks_get_one_notice_of_ten_seconds_outside_the_schedule() {
    let notices = StillNotices::default();
    let assembly = outside_its_schedule(&Finder::default(), Box::new(notices.clone()));
    let counts = run(assembly, &as_fast_as_it_goes()).requests;
    assert_eq!((counts.arrived, counts.still), (FRAMES, FRAMES), "{counts:?}");
    let notices = notices.0.lock().unwrap();
    assert!(notices.len() <= 4, "{notices:?}");
    let mut next = 0;
    for (frame, frames, pts_ms) in &*notices {
        assert_eq!(*frame, next);
        assert!((pts_ms - next as f64 * 40.0).abs() < 1.0, "{notices:?}");
        next += frames;
    }
    assert_eq!(next, FRAMES);
}

#[test]
fn camera_outside_its_schedule_is_live_and_marked() {
    let assembly = outside_its_schedule(&Finder::default(), Box::new(Kept::default()));
    let options = RunOptions {
        until_stopped: true,
        ..at_own_pace(None)
    };
    let handle = Engine::start(assembly, options, &StopFlag::default()).unwrap();
    wait_until(&handle, |now| stream(now, "camera").outside_schedule);
    check_books(&handle.stop().unwrap());
}

/// Counts frames that it is given outside the schedule.
#[derive(Default)]
struct Watcher(AtomicU64);

impl PacketObserver for Watcher {
    fn on_format(&self, _stream: &Arc<str>, _format: &Arc<PacketFormat>) {}

    fn on_packet(&self, _stream: &Arc<str>, _packet: &Packet) {}

    fn on_idle_frame(&self, _stream: &Arc<str>, _frame: &Frame, _time_ms: u64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn is_view(&self) -> bool {
        true
    }
}

#[test]
fn watcher_is_given_frames_outside_the_schedule() {
    let assembly = outside_its_schedule(&Finder::default(), Box::new(Kept::default()));
    let options = RunOptions {
        until_stopped: true,
        ..at_own_pace(None)
    };
    let handle = Engine::start(assembly, options, &StopFlag::default()).unwrap();
    wait_until(&handle, |now| stream(now, "camera").outside_schedule);
    let watcher = Arc::new(Watcher::default());
    let _watching = handle.observe_packets("camera", watcher.clone()).unwrap();
    wait_until(&handle, |_| watcher.0.load(Ordering::Relaxed) > 0);
    check_books(&handle.stop().unwrap());
}

#[test]
fn frames_outside_the_schedule_are_counted_when_the_camera_is_paused() {
    let assembly = outside_its_schedule(&Finder::default(), Box::new(Kept::default()));
    let options = RunOptions {
        until_stopped: true,
        ..at_own_pace(None)
    };
    let handle = Engine::start(assembly, options, &StopFlag::default()).unwrap();
    wait_until(&handle, |now| stream(now, "camera").outside_schedule);
    handle.pause_stream("camera").unwrap();
    wait_until(&handle, |now| stream(now, "camera").requests.still > 0);
    check_books(&handle.stop().unwrap());
}

#[test]
fn frames_outside_the_schedule_of_a_source_are_still_and_no_model_sees_them() {
    let (finder, kept) = (Finder::default(), Kept::default());
    let assembly = outside_its_schedule(&finder, Box::new(kept.clone()));
    let run = run(assembly, &as_fast_as_it_goes());
    let counts = run.requests;
    assert_eq!((counts.arrived, counts.still), (FRAMES, FRAMES), "{counts:?}");
    assert_eq!((counts.delivered, counts.late), (0, 0), "{counts:?}");
    assert!(finder.0.lock().unwrap().is_empty() && kept.0.lock().unwrap().is_empty());
}
