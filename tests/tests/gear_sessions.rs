//! Conservation: each frame ends once, while the load shifts gears and with them models move between slots whose device has
//! memory for one session of them: live, and simulated for many loads.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "a test says what it finds")]

use std::path::Path;

use weir_graph::Graph;
use weir_policy::Report;
use weir_runtime::{RunOptions, verify};
use weir_sim::experiment::world_from_graph;
use weir_sim::simulate;
use weir_types::Timestamp;

use crate::common::sinks::Outcomes;
use crate::common::{Parts, assemble, catalog_with_sink, check_books, graph_in, run};

/// Little and much load in turn; at the end more than both models can do.
const LOAD: &str = "t_s,rate_rps\n0,20\n2,120\n4,20\n6,120\n8,500\n10,20\n";

/// Another slot does the work in each gear.
const GEARS: &str = r#"
    graph = "sessions"
    number = 1
    shift = { window = "500ms", waiting = 8 }
    [[gears]]
    up_to = 40
    [gears.cascades]
    read = [{ model = "small", certainty = 0.7, shares = [1.0, 0.0] }, { model = "large" }]
    [[gears]]
    up_to = 300
    [gears.cascades]
    read = [{ model = "small", certainty = 0.3, shares = [0.0, 1.0] }, { model = "large" }]
    [[gears]]
    up_to = 1000
    [gears.cascades]
    read = [{ model = "small" }]
"#;

/// Two slots and memory for one session of either model: so the second stage has to take the first one's place, too.
fn graph(folder: &Path, on_late: &str) -> Graph {
    std::fs::write(folder.join("gears.toml"), GEARS).unwrap();
    std::fs::write(folder.join("load.csv"), LOAD).unwrap();
    let text = format!(
        r#"
        [app]
        name = "sessions"
        slo = "400ms"
        gears = "gears.toml"
        [sources.camera]
        uri = "emulated:trace?file=load.csv&process=poisson"
        [devices."emulated:a"]
        slots = 2
        memory = "30MiB"
        [models.small]
        device = "emulated:a"
        profile = {{ "1" = "3ms", "8" = "8ms" }}
        memory = "20MiB"
        open_cold = "20ms"
        open_warm = "5ms"
        [models.large]
        device = "emulated:a"
        profile = {{ "1" = "8ms", "8" = "30ms" }}
        memory = "20MiB"
        open_cold = "20ms"
        open_warm = "5ms"
        [modules.read]
        operator = "emulate"
        cascade = [{{ model = "small", certainty = 0.7 }}, {{ model = "large" }}]
        on_late = "{on_late}"
        inputs = ["camera"]
        [sinks.ends]
        type = "collect"
        inputs = ["read"]
        "#
    );
    graph_in(folder, &text, &catalog_with_sink("collect"))
}

/// All that came has ended, and an item that a stage had was answered there, handed on or counted as lost.
fn check(report: &Report) {
    check_books(report);
    let counts = report.requests;
    assert_eq!(counts.in_flight, 0, "{counts:?}");
    let [first, second] = ["read/1", "read/2"].map(|name| report.modules[name].stage.unwrap());
    let answered = first.accepted + first.accepted_late + first.failed + first.handed_on;
    assert!(answered <= counts.arrived, "{first:?} {counts:?}");
    let of_second = second.accepted + second.accepted_late + second.failed;
    assert!(of_second <= first.handed_on, "{first:?} {second:?}");
    let dropped_at = |module: &str| -> u64 {
        let drops = report.drops.iter().filter(|drop| drop.module == module);
        drops.map(|drop| drop.count).sum()
    };
    let lost = first.handed_on - of_second;
    assert!(
        lost <= dropped_at("read/2") + counts.late,
        "{first:?} {second:?} {:?}",
        report.drops
    );
}

/// Number of times that sessions were opened, from files or from host memory.
fn opened(report: &Report) -> u64 {
    let residency = report.residency.clone().unwrap();
    residency.opened_cold + residency.opened_warm
}

#[test]
fn every_frame_ends_once_while_gears_shift_and_sessions_open() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let ends = Outcomes::default();
    let parts = Parts {
        sinks: vec![("ends", Box::new(ends.clone()))],
        ..Parts::default()
    };
    let options = RunOptions {
        record: Some(log.clone()),
        strict: true,
        ..RunOptions::default()
    };
    let report = run(assemble(graph(folder.path(), "accept"), parts), &options);
    check(&report);
    println!("{:?} {:?}", report.requests, report.gears);
    let mut ends = ends.0.lock().unwrap().clone();
    ends.sort_unstable();
    let all: Vec<u64> = (0..report.requests.arrived).collect();
    assert_eq!(ends, all, "each frame once");
    assert!(report.gears.clone().unwrap().shifts >= 2, "{:?}", report.gears);
    assert!(opened(&report) > 4, "{:?}", report.residency);
    assert!(verify(&log).unwrap().steps > 0);
}

#[test]
fn simulated_frames_end_once_for_many_loads() {
    for on_late in ["accept", "drop"] {
        let folder = tempfile::tempdir().unwrap();
        let (world, streams) = world_from_graph(&graph(folder.path(), on_late)).unwrap();
        let (mut dropped, mut shifts, mut openings) = (0, 0, 0);
        for seed in 0..20 {
            let arrivals = streams[0].arrivals(seed).unwrap();
            let arrivals: Vec<Timestamp> = arrivals.map(|at| Timestamp::ZERO + at).collect();
            let sent = arrivals.len() as u64;
            let result = simulate(&world, "sessions", &mut arrivals.into_iter(), &mut |_| {});
            check(&result.report);
            assert_eq!(result.report.requests.arrived, sent);
            dropped += result.report.requests.dropped;
            shifts += result.report.gears.clone().unwrap().shifts;
            openings += opened(&result.report);
        }
        println!("{on_late}: {dropped} dropped, {shifts} shifts, {openings} openings");
        assert!(dropped > 0 && shifts >= 40 && openings > 80);
    }
}
