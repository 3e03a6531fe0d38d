//! Traces of requests say what the report counts, and change nothing.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use weir_flow::Catalog;
use weir_runtime::{Pace, PhaseKind, RequestTrace, RunOptions, TraceExporter, TraceOptions};

use crate::common::{Parts, assemble, check_books, graph, run};

/// Twice what the second module can do, so that frames are dropped.
const OVERLOAD: &str = r#"
[app]
name = "traced"
slo = "200ms"
[sources.camera]
uri = "emulated:poisson?rate=200&frames=300&seed=5"
mode = "live"
[devices."emulated:a"]
slots = 1
[devices."emulated:b"]
slots = 1
[models.first]
device = "emulated:a"
profile = { "1" = "2ms" }
[models.second]
device = "emulated:b"
profile = { "1" = "10ms" }
[modules.one]
operator = "emulate"
model = "first"
inputs = ["camera"]
[modules.two]
operator = "emulate"
model = "second"
inputs = ["one"]
"#;

#[derive(Default)]
struct Taken(Mutex<Vec<RequestTrace>>);

impl TraceExporter for Taken {
    fn export(&self, trace: RequestTrace) {
        self.0.lock().unwrap().push(trace);
    }
}

#[test]
fn traces_of_all_requests_add_up_to_the_report() {
    let taken = Arc::<Taken>::default();
    let options = RunOptions {
        pace: Pace::Times(1.0),
        traces: Some(TraceOptions {
            rate: 1.0,
            exporter: Arc::clone(&taken) as _,
        }),
        ..RunOptions::default()
    };
    let parts = assemble(graph(OVERLOAD, &Catalog::default()), Parts::default());
    let report = run(parts, &options);
    check_books(&report);
    let traces = taken.0.lock().unwrap();
    assert_eq!(traces.len() as u64, report.requests.arrived);
    let mut outcomes = BTreeMap::<&str, u64>::new();
    for trace in traces.iter() {
        assert_eq!(&*trace.stream, "camera");
        *outcomes.entry(trace.outcome).or_default() += 1;
        let is_through = matches!(trace.outcome, "delivered" | "late");
        assert!(!is_through || trace.phases.len() == 6, "{trace:?}");
        for phase in &trace.phases {
            assert!(phase.began + phase.took <= trace.took, "{phase:?} in {trace:?}");
            assert_eq!(phase.items.is_some(), phase.kind == PhaseKind::Execution);
        }
    }
    let count = |outcome: &str| outcomes.get(outcome).copied().unwrap_or(0);
    assert_eq!(count("delivered"), report.requests.delivered);
    assert_eq!(count("late"), report.requests.late);
    let dropped = report.requests.arrived - report.requests.delivered - report.requests.late;
    assert!(dropped > 0, "{outcomes:?}");
    for drop in report.drops.iter().filter(|drop| drop.module == "two") {
        let by_two = traces.iter().filter(|trace| {
            trace.outcome == drop.reason.name() && trace.dropped_by.as_deref() == Some("two")
        });
        assert_eq!(by_two.count() as u64, drop.count, "{}", drop.reason.name());
    }
}
