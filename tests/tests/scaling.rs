//! Workers that open and close with the load: on emulated devices, live and simulated.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use weir_flow::{
    Batching, Catalog, DeviceKind, Inference, Item, Model, PreparedModel, Session, SessionError, Step,
    StopFlag,
};
use weir_graph::SourceNode;
use weir_policy::{Report, WorkersReport};
use weir_runtime::{Engine, Handle, NewStream, RunOptions, Snapshot, verify};
use weir_sim::experiment::world_from_graph;
use weir_sim::{SimulationResult, simulate};
use weir_types::{Span, Timestamp};

use crate::common::{Parts, assemble, check_books, graph, wait_until};

/// A module of one to three workers, each of 50 items a second.
const SCALED: &str = r#"
[app]
name = "scaled"
slo = "500ms"
[sources.steady]
uri = "emulated:uniform?rate=10"
[devices."emulated:a"]
slots = 3
[models.first]
device = "emulated:a"
profile = { "1" = "20ms" }
scaling = { least = 1, most = 3, patience = "500ms" }
open_cold = "50ms"
[modules.one]
operator = "emulate"
model = "first"
inputs = ["steady"]
"#;

fn start(text: &str, parts: Parts, options: RunOptions) -> Handle {
    let options = RunOptions {
        until_stopped: true,
        strict: true,
        ..options
    };
    let graph = graph(text, &Catalog::default());
    Engine::start(assemble(graph, parts), options, &StopFlag::default()).unwrap()
}

fn add_rush(handle: &Handle) {
    let rush = NewStream {
        node: SourceNode::new("rush", "emulated:uniform?rate=300"),
        factory: None,
        like: None,
    };
    handle.add_stream(rush).unwrap();
}

fn workers(report: &Report) -> WorkersReport {
    report.modules["one"].workers.unwrap()
}

/// Workers that are open, as the page shows them and as the report counts them.
fn has_open(now: &Snapshot, count: u32) -> bool {
    let counted = now.report.modules.get("one").and_then(|module| module.workers);
    now.modules[0].placed_slots == count as usize && counted.is_some_and(|workers| workers.open == count)
}

#[test]
fn overload_opens_all_workers_and_they_close_once_it_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let options = RunOptions {
        record: Some(log.clone()),
        ..RunOptions::default()
    };
    let handle = start(SCALED, Parts::default(), options);
    wait_until(&handle, |now| {
        now.report.requests.delivered > 3 && has_open(now, 1)
    });
    add_rush(&handle);
    wait_until(&handle, |now| has_open(now, 3));
    handle.remove_stream("rush").unwrap();
    let after = wait_until(&handle, |now| {
        has_open(now, 1) && workers(&now.report).closed == 2
    });
    // The one that is left goes on.
    let delivered = after.streams[0].requests.delivered;
    wait_until(&handle, |now| now.streams[0].requests.delivered > delivered + 3);
    let report = handle.stop().unwrap();
    check_books(&report);
    let module = &report.modules["one"];
    assert_eq!(module.failed, 0, "{:?}", module.last_failure);
    let workers = workers(&report);
    assert_eq!((workers.most_open, workers.failed), (3, 0), "{workers:?}");
    assert!(workers.cold_start_ms.is_some());
    assert!(report.residency.is_none(), "the memory of no device is limited");
    verify(&log).unwrap_or_else(|error| panic!("{error}"));
    assert_closed_only_idle(&std::fs::read_to_string(&log).unwrap());
}

/// In the log, no worker is closed while a batch is on it, and none runs a batch while it is not open.
fn assert_closed_only_idle(log: &str) {
    let mut open = [true, false, false];
    let mut busy = [false; 3];
    let mut closed = 0;
    for line in log.lines().skip(1) {
        let line: Value = serde_json::from_str(line).unwrap();
        let control = &line["control"];
        let message = &control["message"]["module"][1];
        if message["worker"]["event"] == "opened" {
            open[slot(&message["worker"])] = true;
        }
        let end = &message["batch-ended"]["end"];
        if end.is_object() {
            let slot = end["done"].as_u64().unwrap_or_else(|| panic!("{end}"));
            busy[slot as usize] = false;
        }
        for acted in control["effects"].as_array().into_iter().flatten() {
            let effect = &acted["effect"];
            if effect["run"].is_object() {
                let slot = slot(&effect["run"]);
                assert!(open[slot] && !busy[slot], "{line}");
                busy[slot] = true;
            }
            if effect["close-worker"].is_object() {
                let slot = slot(&effect["close-worker"]);
                assert!(open[slot] && !busy[slot], "{line}");
                open[slot] = false;
                closed += 1;
            }
        }
    }
    assert!(closed >= 2, "{closed} closings are in the log");
}

fn slot(of: &Value) -> usize {
    of["slot"].as_u64().unwrap_or_else(|| panic!("{of}")) as usize
}

/// A model of which the first session opens, and then a few do not.
#[derive(Default)]
struct Stubborn(AtomicU64);

impl Model for Stubborn {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            1..3 => Err(SessionError::Load {
                model: "stubborn".to_owned(),
                reason: "its disk is gone".to_owned(),
            }),
            _ => Ok(Box::new(Blank)),
        }
    }

    fn open_cold(
        &self,
        device: DeviceKind,
    ) -> Result<(Box<dyn Session>, Option<PreparedModel>), SessionError> {
        Ok((self.open(device)?, None))
    }
}

struct Blank;

impl Session for Blank {
    fn run(
        &mut self,
        items: &[Item],
        _on_step: &mut dyn FnMut(Step),
    ) -> Result<Vec<Inference>, SessionError> {
        Ok(vec![Inference::default(); items.len()])
    }

    fn warm_up(&mut self, _batch: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

#[test]
fn a_worker_that_cannot_be_opened_is_tried_again_and_costs_no_batch() {
    let parts = Parts {
        models: vec![("first", Arc::new(Stubborn::default()) as Arc<dyn Model>)],
        ..Parts::default()
    };
    let handle = start(SCALED, parts, RunOptions::default());
    add_rush(&handle);
    wait_until(&handle, |now| has_open(now, 3));
    let report = handle.stop().unwrap();
    check_books(&report);
    let workers = workers(&report);
    assert_eq!((workers.failed, workers.opened), (2, 2), "{workers:?}");
    assert_eq!(report.modules["one"].failed, 0);
}

/// Requests at these rates, each for so many seconds.
fn simulated(steps: &[(u64, u64)]) -> SimulationResult {
    let (world, _) = world_from_graph(&graph(SCALED, &Catalog::default())).unwrap();
    let mut arrivals = Vec::new();
    let mut began = Timestamp::ZERO;
    for (rate, seconds) in steps {
        let step = (0..rate * seconds).map(|number| began + Span::from_micros(number * 1_000_000 / rate));
        arrivals.extend(step);
        began = began + Span::from_secs(*seconds);
    }
    simulate(&world, "steps", &mut arrivals.into_iter(), &mut |_| {})
}

#[test]
fn simulated_workers_follow_steps_of_the_load() {
    let ran = simulated(&[(20, 10), (120, 20), (20, 30)]);
    let counts: Vec<u32> = ran.workers[0].iter().map(|(_, workers)| *workers).collect();
    assert_eq!(
        counts,
        [1, 2, 3, 2, 1],
        "one more at a time as the rate is seen to rise"
    );
    let workers = workers(&ran.report);
    assert_eq!(
        (workers.open, workers.most_open, workers.opened, workers.closed),
        (1, 3, 2, 2)
    );
    assert_eq!(workers.cold_start_ms, Some(50.0));
    let again = simulated(&[(20, 10), (120, 20), (20, 30)]);
    assert_eq!(again.workers, ran.workers);
    // One worker alone would serve 50 a second.
    let delivered = ran.report.requests.delivered;
    assert!(delivered * 10 > ran.report.requests.arrived * 9, "{delivered}");
}
