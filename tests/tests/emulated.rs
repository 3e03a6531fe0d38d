//! The live engine on emulated devices, where the outcome can be computed by hand.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use weir_flow::{Catalog, StopFlag};
use weir_runtime::{Pace, RunOptions};

use crate::common::{Parts, assemble, check_books, graph, run};

/// Three modules in a row, each with two slots of its own; the middle one is the slowest: 2 slots / 20 ms = 100 a second.
fn chain(rate: f64, frames: u64, mode: &str, policy: &str) -> String {
    format!(
        r#"
        [app]
        name = "chain"
        slo = "400ms"
        [policy]
        {policy}
        [sources.camera]
        uri = "emulated:poisson?rate={rate}&frames={frames}&seed=5"
        mode = "{mode}"
        [devices."emulated:a"]
        slots = 2
        [devices."emulated:b"]
        slots = 2
        [devices."emulated:c"]
        slots = 2
        [models.first]
        device = "emulated:a"
        profile = {{ "1" = "10ms" }}
        [models.second]
        device = "emulated:b"
        profile = {{ "1" = "20ms" }}
        [models.third]
        device = "emulated:c"
        profile = {{ "1" = "10ms" }}
        [modules.one]
        operator = "emulate"
        model = "first"
        inputs = ["camera"]
        [modules.two]
        operator = "emulate"
        model = "second"
        inputs = ["one"]
        [modules.three]
        operator = "emulate"
        model = "third"
        inputs = ["two"]
        "#
    )
}

fn own_pace() -> RunOptions {
    RunOptions {
        pace: Pace::Times(1.0),
        ..RunOptions::default()
    }
}

#[test]
fn a_lossless_source_loses_nothing_and_keeps_every_slot_busy() {
    let graph = graph(&chain(1_000.0, 300, "lossless", ""), &Catalog::default());
    let options = RunOptions {
        pace: Pace::Max,
        ..RunOptions::default()
    };
    let report = run(assemble(graph, Parts::default()), &options);
    assert_eq!(report.requests.arrived, 300);
    assert_eq!(report.requests.dropped, 0);
    assert_eq!(report.requests.in_flight, 0);
    for module in report.modules.values() {
        assert_eq!((module.items, module.failed), (300, 0));
    }
}

#[test]
fn one_batch_in_ten_fails_where_the_model_says_so() {
    let text = chain(1_000.0, 200, "lossless", "");
    let middle = r#"profile = { "1" = "20ms" }"#;
    let failing = text.replacen(middle, &format!("{middle}\nfail_every = 10"), 1);
    assert_ne!(text, failing);
    let options = RunOptions {
        pace: Pace::Max,
        ..RunOptions::default()
    };
    let report = run(
        assemble(graph(&failing, &Catalog::default()), Parts::default()),
        &options,
    );
    assert_eq!((report.requests.arrived, report.requests.dropped), (200, 20));
    assert_eq!(report.modules["two"].failed, 20);
    let drops: Vec<(&str, &str, u64)> = report
        .drops
        .iter()
        .map(|drop| (&*drop.module, drop.reason.name(), drop.count))
        .collect();
    assert_eq!(drops, [("two", "failed", 20)]);
}

#[test]
fn overload_is_dropped_early_and_the_rest_is_on_time() {
    let graph = graph(&chain(200.0, 600, "live", ""), &Catalog::default());
    let report = run(assemble(graph, Parts::default()), &own_pace());
    assert_eq!(report.requests.arrived, 600);
    assert_eq!(report.requests.in_flight, 0);
    // A machine that stalls costs deliveries, about as many as it has no time for; it must not change the rest.
    let counts = &report.requests;
    assert!(counts.dropped > 150, "twice the capacity: {counts:?}");
    assert!(
        counts.late * 10 < counts.dropped,
        "what cannot be in time is dropped: {counts:?}"
    );
    assert!(counts.late < counts.delivered, "{counts:?}");
    let after_bottleneck = report.drops.iter().filter(|drop| drop.module == "three");
    let wasted: u64 = after_bottleneck.map(|drop| drop.count).sum();
    assert!(
        wasted * 10 < counts.dropped,
        "what is worked on at the bottleneck is not dropped after it: {:?}",
        report.drops
    );
}

#[test]
fn branches_are_merged_and_a_drop_cancels_its_siblings() {
    let text = chain(150.0, 400, "live", "order = \"lbf\"")
        .replace("inputs = [\"two\"]", "inputs = [\"two\", \"side\"]")
        + r#"
        [modules.side]
        operator = "emulate"
        model = "first"
        inputs = ["one"]
        "#;
    let report = run(
        assemble(graph(&text, &Catalog::default()), Parts::default()),
        &own_pace(),
    );
    assert_eq!(report.requests.arrived, 400);
    assert_eq!(report.requests.in_flight, 0);
    assert_eq!(
        report.modules["three"].items,
        report.requests.delivered + report.requests.late
    );
}

#[test]
fn a_run_that_is_stopped_accounts_for_every_request() {
    let graph = graph(&chain(100.0, 1_000_000, "live", ""), &Catalog::default());
    let stop = StopFlag::default();
    let options = own_pace();
    let progress = std::sync::Arc::clone(&options.progress);
    let stopper = stop.clone();
    let watcher = std::thread::spawn(move || {
        while progress.snapshot().delivered < 20 {
            std::thread::yield_now();
        }
        stopper.raise();
    });
    let report = weir_runtime::run(assemble(graph, Parts::default()), &options, &stop).unwrap();
    watcher.join().unwrap();
    check_books(&report);
    assert_eq!(report.requests.in_flight, 0);
    assert!(report.requests.delivered >= 20);
}

#[test]
fn a_recorded_run_is_decided_the_same_again() {
    let folder = tempfile::tempdir().unwrap();
    let both = ["late", "eager"].map(|forming| [(forming, "pool"), (forming, "worker")]);
    for (forming, mailbox) in both.into_iter().flatten() {
        let policy = format!("forming = \"{forming}\"\nmailbox = \"{mailbox}\"");
        let graph = graph(&chain(180.0, 300, "live", &policy), &Catalog::default());
        let path = folder.path().join(format!("{forming}-{mailbox}.jsonl"));
        let options = RunOptions {
            record: Some(path.clone()),
            ..own_pace()
        };
        run(assemble(graph, Parts::default()), &options);
        let verified = weir_runtime::verify(&path).unwrap_or_else(|error| panic!("{forming}: {error}"));
        // A stalled machine takes in more at a step; every request comes and is sent on or dropped all the same.
        assert!(
            verified.steps > 0 && verified.events >= 300 && verified.effects >= 300,
            "{forming}: {verified:?}"
        );
        // The arbiter knows of slots that it grants, and of no others.
        let log = std::fs::read_to_string(&path).unwrap();
        let header: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
        let placements = header["control"]["slots"]["placements"].as_array();
        let expected = if mailbox == "pool" { 3 } else { 0 };
        assert_eq!(placements.unwrap().len(), expected, "{forming}, {mailbox}");
    }
}
