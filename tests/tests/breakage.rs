//! Parts that panic or hang: what they hold is lost and reported, and the run ends all the same.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use weir_flow::{
    Catalog, Delivery, Frame, Image, Inference, Item, ModuleOutput, Operator, Region, RequestResults, Sink,
    SinkError, SinkFactory, Source, SourceError, SourceFactory, SourceInfo, StopFlag,
};
use weir_policy::Report;
use weir_runtime::{Pace, RunOptions};

use crate::common::{Parts, assemble, catalog_with_sink, check_books, graph, run};

/// Two streams through one module to a sink each; the models are emulated.
const GRAPH: &str = r#"
    [app]
    name = "breakage"
    slo = "60s"
    [sources.one]
    uri = "emulated:uniform?rate=400&frames=60"
    mode = "lossless"
    [sources.two]
    uri = "emulated:uniform?rate=400&frames=60"
    mode = "lossless"
    [models.quick]
    device = "emulated:a"
    profile = { "1" = "1ms" }
    [modules.look]
    operator = "emulate"
    model = "quick"
    inputs = ["one", "two"]
    [sinks.events]
    type = "kept"
    inputs = ["look"]
"#;

fn catalog() -> Catalog {
    catalog_with_sink("kept")
}

fn at_once() -> RunOptions {
    RunOptions {
        pace: Pace::Max,
        ..RunOptions::default()
    }
}

fn run_with(text: &str, parts: Parts) -> Report {
    run(assemble(graph(text, &catalog()), parts), &at_once())
}

/// Behaviour of a fake source after its last frame.
#[derive(Clone)]
enum SourceEnd {
    Regular,
    Error,
    Panic,
    /// Asks the run to stop and does not stop itself, until the other end of the channel is gone.
    Hang(Arc<Mutex<mpsc::Receiver<()>>>),
}

struct FakeSource {
    frames: u64,
    ending: SourceEnd,
    opened: Arc<AtomicU64>,
    live: bool,
}

impl FakeSource {
    fn boxed(frames: u64, ending: SourceEnd) -> Box<dyn SourceFactory> {
        Box::new(Self {
            frames,
            ending,
            opened: Arc::default(),
            live: false,
        })
    }
}

impl SourceFactory for FakeSource {
    fn open(&self, stop: &StopFlag) -> Result<Box<dyn Source>, SourceError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(FakeStream {
            next: 0,
            frames: self.frames,
            ending: self.ending.clone(),
            live: self.live,
            stop: stop.clone(),
        }))
    }
}

struct FakeStream {
    next: u64,
    frames: u64,
    ending: SourceEnd,
    live: bool,
    stop: StopFlag,
}

impl Source for FakeStream {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            live: self.live,
            ..SourceInfo::default()
        }
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        if self.next < self.frames {
            let image = Image::from_rgb(2, 2, vec![0; 12]);
            self.next += 1;
            return Ok(Some(Frame::new(self.next - 1, self.next as f64, image)));
        }
        match &self.ending {
            SourceEnd::Regular => Ok(None),
            SourceEnd::Error => Err(SourceError::Broken {
                uri: "fake".into(),
                frames: self.frames,
                reason: "by design".into(),
            }),
            SourceEnd::Panic => panic!("the source panics by design"),
            SourceEnd::Hang(until) => {
                self.stop.raise();
                let _ = until.lock().unwrap().recv();
                Ok(None)
            }
        }
    }
}

/// Keeps the names of what it takes.
#[derive(Clone, Default)]
struct RecordingSink {
    taken: Arc<Mutex<Vec<(String, u64)>>>,
    finished: Arc<AtomicU64>,
    panics_at: Option<usize>,
    hangs: Option<(StopFlag, Arc<Mutex<mpsc::Receiver<()>>>)>,
}

impl SinkFactory for RecordingSink {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for RecordingSink {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let name = (delivery.stream.to_string(), delivery.frame.index);
        let taken = {
            let mut taken = self.taken.lock().unwrap();
            taken.push(name);
            taken.len()
        };
        assert_ne!(Some(taken), self.panics_at, "the sink panics by design");
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.finished.fetch_add(1, Ordering::Relaxed);
        if let Some((stop, until)) = &self.hangs {
            stop.raise();
            let _ = until.lock().unwrap().recv();
        }
        Ok(())
    }
}

#[test]
fn a_source_that_panics_ends_its_stream_and_no_other() {
    for (ending, word) in [
        (SourceEnd::Panic, "panics by design"),
        (SourceEnd::Error, "broke off"),
    ] {
        let kept = RecordingSink::default();
        let parts = Parts {
            sources: vec![("one", FakeSource::boxed(5, ending))],
            sinks: vec![("events", Box::new(kept.clone()))],
            ..Parts::default()
        };
        let report = run_with(GRAPH, parts);
        let arrived = |name: &str| report.streams[name].requests.arrived;
        assert_eq!((arrived("one"), arrived("two")), (5, 60));
        assert_eq!(
            (report.requests.dropped, kept.taken.lock().unwrap().len()),
            (0, 65)
        );
        let error = report.streams["one"].error.as_deref().unwrap_or_default();
        assert!(error.contains(word), "{error}");
        assert!(report.streams["two"].error.is_none());
    }
}

#[test]
fn a_source_without_frames_says_so() {
    for text in [
        GRAPH.to_owned(),
        GRAPH.replace("[sources.two]", "loop = true\n[sources.two]"),
    ] {
        let parts = Parts {
            sources: vec![("one", FakeSource::boxed(0, SourceEnd::Regular))],
            sinks: vec![("events", Box::new(RecordingSink::default()))],
            ..Parts::default()
        };
        let report = run_with(&text, parts);
        assert_eq!(report.requests.arrived, 60);
        let error = report.streams["one"].error.as_deref().unwrap_or_default();
        assert!(error.contains("gave no frame"), "{error}");
    }
}

#[test]
fn a_source_that_does_not_stop_is_not_waited_for() {
    let (release, until) = mpsc::channel::<()>();
    let parts = Parts {
        sources: vec![(
            "one",
            FakeSource::boxed(3, SourceEnd::Hang(Arc::new(Mutex::new(until)))),
        )],
        sinks: vec![("events", Box::new(RecordingSink::default()))],
        ..Parts::default()
    };
    let options = RunOptions {
        grace: Duration::ZERO,
        ..at_once()
    };
    let assembly = assemble(graph(GRAPH, &catalog()), parts);
    let report = weir_runtime::run(assembly, &options, &StopFlag::default()).unwrap();
    check_books(&report);
    assert_eq!(report.requests.in_flight, 0);
    let error = report.streams["one"].error.as_deref().unwrap_or_default();
    assert!(error.contains("did not stop"), "{error}");
    drop(release);
}

/// Panics over some frames, by their index.
struct PanickingOperator {
    items_every: u64,
    finding_every: u64,
}

impl Operator for PanickingOperator {
    fn items(&self, frame: &Arc<Frame>, _results: &RequestResults) -> Vec<Item> {
        assert!(
            !(frame.index + 1).is_multiple_of(self.items_every),
            "items panics by design"
        );
        vec![Item::of_frame(frame, Region::Whole)]
    }

    fn output(&self, _module: u32, items: &[Item], _inferences: Vec<Inference>) -> ModuleOutput {
        assert!(
            !(items[0].frame.index + 1).is_multiple_of(self.finding_every),
            "finding panics by design"
        );
        ModuleOutput::default()
    }
}

#[test]
fn an_operator_that_panics_loses_that_request() {
    let kept = RecordingSink::default();
    let shaky = PanickingOperator {
        items_every: 10,
        finding_every: 15,
    };
    let parts = Parts {
        operators: vec![("look", Arc::new(shaky))],
        sinks: vec![("events", Box::new(kept.clone()))],
        ..Parts::default()
    };
    let report = run_with(GRAPH, parts);
    // Of 60 frames a stream, 6 are the tenth, 4 the fifteenth, 2 both.
    assert_eq!((report.requests.arrived, report.requests.dropped), (120, 16));
    assert!(
        report
            .drops
            .iter()
            .all(|drop| drop.reason.name() == "failed" && drop.module == "look")
    );
    assert_eq!(kept.taken.lock().unwrap().len(), 104);
}

#[test]
fn a_sink_that_panics_is_completed_and_loses_the_rest() {
    let kept = RecordingSink {
        panics_at: Some(31),
        ..RecordingSink::default()
    };
    let parts = Parts {
        sinks: vec![("events", Box::new(kept.clone()))],
        ..Parts::default()
    };
    let report = run_with(GRAPH, parts);
    let sink = &report.sinks["events"];
    assert_eq!((sink.written, sink.lost, sink.skipped), (30, 90, 0));
    assert!(sink.error.as_deref().unwrap().contains("panics by design"));
    assert_eq!(kept.finished.load(Ordering::Relaxed), 1);
}

#[test]
fn a_sink_that_hangs_when_the_run_stops_is_left_behind() {
    let (release, until) = mpsc::channel::<()>();
    let stop = StopFlag::default();
    let kept = RecordingSink {
        hangs: Some((stop.clone(), Arc::new(Mutex::new(until)))),
        ..RecordingSink::default()
    };
    let parts = Parts {
        sinks: vec![("events", Box::new(kept))],
        ..Parts::default()
    };
    let options = RunOptions {
        grace: Duration::ZERO,
        ..at_once()
    };
    let report = weir_runtime::run(assemble(graph(GRAPH, &catalog()), parts), &options, &stop).unwrap();
    let sink = &report.sinks["events"];
    assert_eq!(sink.written, 120);
    assert!(sink.error.as_deref().unwrap().contains("hung"));
    drop(release);
}

#[test]
fn a_camera_that_comes_back_goes_on() {
    let opened: Arc<AtomicU64> = Arc::default();
    let camera = FakeSource {
        frames: 7,
        ending: SourceEnd::Error,
        opened: Arc::clone(&opened),
        live: true,
    };
    let stop = StopFlag::default();
    let enough = StoppingSink {
        frames: 50,
        seen: 0,
        stop: stop.clone(),
    };
    let parts = Parts {
        sources: vec![("one", Box::new(camera))],
        sinks: vec![("events", Box::new(OnceFactory(Mutex::new(Some(enough)))))],
        ..Parts::default()
    };
    let text = GRAPH
        .replace("inputs = [\"one\", \"two\"]", "inputs = [\"one\"]")
        .replace("frames=60", "frames=1");
    let report = weir_runtime::run(assemble(graph(&text, &catalog()), parts), &at_once(), &stop).unwrap();
    check_books(&report);
    assert!(report.streams["one"].error.is_none());
    assert!(opened.load(Ordering::Relaxed) >= 8, "opened again and again");
}

/// Stops the run when it has seen enough.
struct StoppingSink {
    frames: u64,
    seen: u64,
    stop: StopFlag,
}

impl Sink for StoppingSink {
    fn accept(&mut self, _delivery: &Delivery) -> Result<(), SinkError> {
        self.seen += 1;
        if self.seen == self.frames {
            self.stop.raise();
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

struct OnceFactory(Mutex<Option<StoppingSink>>);

impl SinkFactory for OnceFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.0.lock().unwrap().take().unwrap()))
    }
}
