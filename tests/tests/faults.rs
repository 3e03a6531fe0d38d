//! Faults of models and sinks are counted, lose no more frames than they must, and never end a run.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use weir_flow::{
    Batching, Catalog, Delivery, DeviceKind, Inference, Item, Model, Session, SessionError, Sink, SinkError,
    SinkFactory, Step,
};
use weir_runtime::RunOptions;

use crate::common::{Parts, as_fast_as_it_goes, assemble, catalog_with_sink, graph, run};

/// Runs at once; panics on every `n`th batch, fails on every `m`th, over all its sessions.
struct Faulty {
    batches: Arc<AtomicU64>,
    opened: Arc<AtomicU64>,
    panics_every: u64,
    fails_every: u64,
}

struct FaultySession {
    batches: Arc<AtomicU64>,
    panics_every: u64,
    fails_every: u64,
}

impl Model for Faulty {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let batches = Arc::clone(&self.batches);
        Ok(Box::new(FaultySession {
            batches,
            panics_every: self.panics_every,
            fails_every: self.fails_every,
        }))
    }
}

impl Session for FaultySession {
    fn run(&mut self, items: &[Item], on_step: &mut dyn FnMut(Step)) -> Result<Vec<Inference>, SessionError> {
        let batch = self.batches.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(
            !batch.is_multiple_of(self.panics_every),
            "batch {batch} is one of those that panic"
        );
        on_step(Step::Inferred);
        if batch.is_multiple_of(self.fails_every) {
            return Err(SessionError::Run {
                model: "faulty".into(),
                batch: items.len(),
                reason: "by design".into(),
            });
        }
        Ok(vec![Inference::default(); items.len()])
    }

    fn warm_up(&mut self, _batch: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

/// Two modules in a row on one CPU slot each.
const GRAPH: &str = r#"
    [app]
    name = "faults"
    slo = "2s"
    [sources.camera]
    uri = "emulated:uniform?rate=400&frames=500"
    mode = "lossless"
    [devices."emulated:a"]
    slots = 2
    [models.first]
    device = "emulated:a"
    batch = [1, 2]
    profile = { "1" = "1ms", "2" = "1ms" }
    [modules.one]
    operator = "emulate"
    model = "first"
    inputs = ["camera"]
    [modules.two]
    operator = "emulate"
    model = "first"
    inputs = ["one"]
"#;

#[test]
fn a_batch_that_panics_costs_its_requests_and_nothing_else() {
    let opened = Arc::new(AtomicU64::new(0));
    let faulty = Faulty {
        batches: Arc::default(),
        opened: Arc::clone(&opened),
        panics_every: 100,
        fails_every: u64::MAX,
    };
    let parts = Parts {
        models: vec![("first", Arc::new(faulty))],
        ..Parts::default()
    };
    let report = run(
        assemble(graph(GRAPH, &Catalog::default()), parts),
        &as_fast_as_it_goes(),
    );
    assert_eq!(report.requests.arrived, 500);
    assert_eq!(report.requests.in_flight, 0);
    let failed: u64 = report.modules.values().map(|module| module.failed).sum();
    assert!(failed >= 3, "{failed} batches failed");
    assert!(
        report.requests.dropped >= failed && report.requests.dropped <= 2 * failed,
        "{:?}",
        report.requests
    );
    assert!(report.drops.iter().all(|drop| drop.reason.name() == "failed"));
    assert_eq!(
        opened.load(Ordering::Relaxed),
        2 + failed,
        "each lost session is built anew"
    );
}

#[test]
fn a_model_that_always_fails_ends_every_request_with_a_reason() {
    let faulty = Faulty {
        batches: Arc::default(),
        opened: Arc::default(),
        panics_every: u64::MAX,
        fails_every: 1,
    };
    let text = GRAPH.replace("frames=500", "frames=12");
    let parts = Parts {
        models: vec![("first", Arc::new(faulty))],
        ..Parts::default()
    };
    let report = run(
        assemble(graph(&text, &Catalog::default()), parts),
        &as_fast_as_it_goes(),
    );
    assert_eq!((report.requests.arrived, report.requests.dropped), (12, 12));
}

#[test]
fn a_slot_of_a_modules_own_that_loses_batch_after_batch_is_out_of_use_and_returns() {
    let faulty = Faulty {
        batches: Arc::default(),
        opened: Arc::default(),
        panics_every: u64::MAX,
        fails_every: 1,
    };
    let text = GRAPH
        .replace("slo = \"2s\"", "slo = \"60s\"\n[policy]\nmailbox = \"worker\"")
        .replace("frames=500", "frames=20")
        .replace("batch = [1, 2]", "batch = [1]");
    let (text, _) = text.split_once("[modules.two]").unwrap();
    let parts = Parts {
        models: vec![("first", Arc::new(faulty))],
        ..Parts::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.jsonl");
    let options = RunOptions {
        record: Some(path.clone()),
        ..as_fast_as_it_goes()
    };
    let report = run(assemble(graph(text, &Catalog::default()), parts), &options);
    assert_eq!((report.requests.dropped, report.modules["one"].failed), (20, 20));
    let log = std::fs::read_to_string(&path).unwrap();
    let lines_with = |of: &str| log.lines().filter(|line| line.contains(of)).count();
    assert!(
        lines_with("\"taken-out\"") > 0,
        "its five losses are within a second"
    );
    assert!(
        lines_with("\"timer-fired\":\"breaker\"") > 0,
        "the rest ran after it"
    );
    assert!(weir_runtime::verify(&path).is_ok());
}

/// Takes `good` deliveries, then none.
struct Disk {
    frames: Arc<Mutex<Vec<u64>>>,
    good: usize,
    finished: Arc<AtomicU64>,
}

impl SinkFactory for Disk {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let (frames, finished) = (Arc::clone(&self.frames), Arc::clone(&self.finished));
        Ok(Box::new(Self {
            frames,
            good: self.good,
            finished,
        }))
    }
}

impl Sink for Disk {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let mut frames = self.frames.lock().unwrap();
        if frames.len() == self.good {
            return Err(SinkError {
                target: "disk".into(),
                reason: "no space left".into(),
            });
        }
        frames.push(delivery.frame.index);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.finished.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_full_disk_loses_lines_and_not_the_run() {
    let catalog = catalog_with_sink("disk");
    let text = format!("{GRAPH}\n[sinks.events]\ntype = \"disk\"\ninputs = [\"two\"]\n");
    let (frames, finished): (Arc<Mutex<Vec<u64>>>, Arc<AtomicU64>) = Default::default();
    let disk = Disk {
        frames: Arc::clone(&frames),
        good: 40,
        finished: Arc::clone(&finished),
    };
    let parts = Parts {
        sinks: vec![("events", Box::new(disk))],
        ..Parts::default()
    };
    let report = run(assemble(graph(&text, &catalog), parts), &as_fast_as_it_goes());
    assert_eq!(report.requests.delivered + report.requests.late, 500);
    let sink = &report.sinks["events"];
    assert_eq!((sink.written, sink.lost, sink.skipped), (40, 460, 0));
    assert!(
        sink.error
            .as_deref()
            .is_some_and(|error| error.contains("no space left"))
    );
    assert_eq!(
        *frames.lock().unwrap(),
        (0..40).collect::<Vec<_>>(),
        "in frame order, none left out"
    );
    assert_eq!(finished.load(Ordering::Relaxed), 1);
}
