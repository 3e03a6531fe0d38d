//! An invariant that is broken in a live run, where violations are counted as in a release build: the run goes on and
//! reports it, or ends cleanly where it is strict.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Parts, assemble, catalog_with_sink, check_books, graph};
use weir_flow::{
    Delivery, Frame, Inference, Item, ModuleOutput, Operator, Region, RequestResults, Sink, SinkError,
    SinkFactory, StopFlag,
};
use weir_policy::Report;
use weir_runtime::{Pace, RunOptions};
use weir_types::invariant;
use weir_types::invariant::{Kind, Mode, set_mode};

const GRAPH: &str = r#"
    [app]
    name = "broken"
    slo = "60s"
    [sources.camera]
    uri = "emulated:uniform?rate=400&frames=FRAMES"
    mode = "lossless"
    [models.quick]
    device = "emulated:a"
    profile = { "1" = "1ms" }
    [modules.look]
    operator = "emulate"
    model = "quick"
    inputs = ["camera"]
    [sinks.counted]
    type = "counted"
    inputs = ["look"]
"#;

/// The frame over which it breaks an invariant.
const BROKEN_AT: u64 = 10;

struct BreakingOperator;

impl Operator for BreakingOperator {
    fn items(&self, frame: &Arc<Frame>, _results: &RequestResults) -> Vec<Item> {
        invariant!(
            frame.index != BROKEN_AT,
            Kind::Items,
            "frame {} breaks it by design",
            frame.index
        );
        vec![Item::of_frame(frame, Region::Whole)]
    }

    fn output(&self, _module: u32, _items: &[Item], _inferences: Vec<Inference>) -> ModuleOutput {
        ModuleOutput::default()
    }
}

/// Counts deliveries, and how often it was completed.
#[derive(Clone, Default)]
struct CountingSink {
    accepted: Arc<AtomicU64>,
    finished: Arc<AtomicU64>,
}

impl SinkFactory for CountingSink {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for CountingSink {
    fn accept(&mut self, _delivery: &Delivery) -> Result<(), SinkError> {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.finished.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Runs so many frames; the sink must be completed with all that is reported as delivered.
fn run(frames: u64, strict: bool, stop: &StopFlag) -> Report {
    let sink = CountingSink::default();
    let catalog = catalog_with_sink("counted");
    let text = GRAPH.replace("FRAMES", &frames.to_string());
    let parts = Parts {
        operators: vec![("look", Arc::new(BreakingOperator))],
        sinks: vec![("counted", Box::new(sink.clone()))],
        ..Parts::default()
    };
    let options = RunOptions {
        pace: Pace::Max,
        strict,
        ..RunOptions::default()
    };
    let report = weir_runtime::run(assemble(graph(&text, &catalog), parts), &options, stop).unwrap();
    check_books(&report);
    assert_eq!(report.requests.in_flight, 0);
    let counts = (
        sink.accepted.load(Ordering::Relaxed),
        sink.finished.load(Ordering::Relaxed),
    );
    assert_eq!(counts, (report.requests.delivered, 1));
    report
}

/// One test, since counts belong to the process.
#[test]
fn a_run_goes_on_and_reports_a_broken_invariant_and_a_strict_one_ends_at_it() {
    set_mode(Mode::Count);
    let broken = [("items".to_owned(), 1)];
    for strict in [false, true] {
        let unbroken = run(BROKEN_AT, strict, &StopFlag::default());
        assert_eq!(unbroken.requests.delivered, BROKEN_AT);
        assert!(unbroken.invariants.is_empty(), "of this run, not of those before");
    }

    let went_on = run(BROKEN_AT + 50, false, &StopFlag::default());
    assert_eq!(went_on.requests.delivered, BROKEN_AT + 50);
    assert!(went_on.invariants.into_iter().eq(broken.clone()));

    let (frames, stop) = (1_000_000_000, StopFlag::default());
    let ended = run(frames, true, &stop);
    assert!(stop.is_raised() && ended.requests.arrived < frames);
    assert!(
        ended.requests.delivered > BROKEN_AT,
        "what was in flight comes out"
    );
    assert!(ended.invariants.into_iter().eq(broken));
}
