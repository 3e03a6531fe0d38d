//! The live engine on slots that prepare the next batch while one runs: on emulated devices, with a session that is not
//! divided, and on a real model.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_flow::{Batching, Catalog, DeviceKind, Inference, Item, Model, Session, SessionError, Step};
use weir_runtime::{RunOptions, verify};

use crate::common::{Parts, as_fast_as_it_goes, assemble, graph, run};

/// Two modules in a row that share the slot of a device, whose inputs take half of a run.
fn chain(frames: u64, prepare: &str, more: &str) -> String {
    format!(
        r#"
        [app]
        name = "chain"
        slo = "2s"
        [sources.camera]
        uri = "emulated:uniform?rate=1000&frames={frames}"
        mode = "lossless"
        [devices."emulated:gpu"]
        prepare = "{prepare}"
        [models.both]
        device = "emulated:gpu"
        batch = [1, 2]
        profile = {{ "1" = "2ms", "2" = "4ms" }}
        preparation = {{ "1" = "1ms", "2" = "2ms" }}
        {more}
        [modules.one]
        operator = "emulate"
        model = "both"
        inputs = ["camera"]
        [modules.two]
        operator = "emulate"
        model = "both"
        inputs = ["one"]
        "#
    )
}

#[test]
fn every_frame_is_run_once_and_the_event_log_is_decided_again() {
    let folder = tempfile::tempdir().unwrap();
    for prepare in ["overlap", "inline"] {
        let path = folder.path().join(prepare);
        let options = RunOptions {
            record: Some(path.clone()),
            ..as_fast_as_it_goes()
        };
        let graph = graph(&chain(120, prepare, ""), &Catalog::default());
        let report = run(assemble(graph, Parts::default()), &options);
        let counts = &report.requests;
        assert_eq!((counts.arrived, counts.dropped, counts.in_flight), (120, 0, 0));
        for module in report.modules.values() {
            assert_eq!((module.items, module.failed), (120, 0), "{prepare}");
        }
        assert!(verify(&path).unwrap().steps > 240, "{prepare}");
        let log = std::fs::read_to_string(&path).unwrap();
        assert_eq!(log.contains("launched"), prepare == "overlap");
    }
}

#[test]
fn batches_that_fail_on_a_device_that_prepares_ahead_cost_their_requests_alone() {
    let graph = graph(&chain(200, "overlap", "fail_every = 10"), &Catalog::default());
    let report = run(assemble(graph, Parts::default()), &as_fast_as_it_goes());
    let counts = &report.requests;
    assert_eq!((counts.arrived, counts.in_flight), (200, 0));
    let failed: u64 = report.modules.values().map(|module| module.failed).sum();
    assert!(failed > 0);
    assert_eq!(counts.delivered + counts.late + counts.dropped, 200);
    assert!(report.drops.iter().all(|drop| drop.reason.name() == "failed"));
}

/// A session that is not divided into steps; it panics on every seventh batch.
struct Whole(Arc<AtomicU64>);

impl Model for Whole {
    fn batching(&self) -> Batching {
        Batching {
            max: None,
            remark: None,
        }
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(WholeSession(Arc::clone(&self.0))))
    }
}

struct WholeSession(Arc<AtomicU64>);

impl Session for WholeSession {
    fn run(
        &mut self,
        items: &[Item],
        _on_step: &mut dyn FnMut(Step),
    ) -> Result<Vec<Inference>, SessionError> {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(
            !number.is_multiple_of(7),
            "batch {number} is one of those that panic"
        );
        Ok(vec![Inference::default(); items.len()])
    }

    fn warm_up(&mut self, _batch: usize) -> Result<(), SessionError> {
        Ok(())
    }
}

#[test]
fn a_session_that_is_not_divided_runs_in_the_second_step() {
    let batches = Arc::new(AtomicU64::new(0));
    let parts = Parts {
        models: vec![("both", Arc::new(Whole(Arc::clone(&batches))))],
        ..Parts::default()
    };
    let graph = graph(&chain(100, "overlap", ""), &Catalog::default());
    let report = run(assemble(graph, parts), &as_fast_as_it_goes());
    let counts = &report.requests;
    assert_eq!((counts.arrived, counts.in_flight), (100, 0));
    let failed: u64 = report.modules.values().map(|module| module.failed).sum();
    assert_eq!(failed, batches.load(Ordering::Relaxed) / 7);
}
