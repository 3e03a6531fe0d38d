//! Shares of gears: which slots of a model do its work follows the load, live and simulated, and no frame is lost by it.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "a test says what it finds")]

use std::path::Path;

use serde_json::Value;
use weir_flow::Catalog;
use weir_graph::Graph;
use weir_policy::Report;
use weir_runtime::{RunOptions, verify};
use weir_sim::experiment::world_from_graph;
use weir_sim::simulate;
use weir_types::Timestamp;

use crate::common::{Parts, assemble, graph_in, run};

/// 20 a second, then 100, then 20 again.
const LOAD: &str = "t_s,rate_rps\n0,20\n3,100\n6,20\n9,20\n";

/// In the first gear the small model does its work on the first of its slots, in the second on the second, with a quarter on the
/// first.
const GEARS: &str = r#"
    graph = "shares"
    number = 1
    shift = { window = "500ms", waiting = 8 }
    [[gears]]
    up_to = 40
    [gears.cascades]
    read = [{ model = "small", certainty = 0.5, shares = [1.0, 0.0] }, { model = "large" }]
    [[gears]]
    up_to = 400
    [gears.cascades]
    read = [{ model = "small", shares = [0.25, 0.75] }]
"#;

fn graph(folder: &Path, gears: &str, device: &str, model: &str) -> Graph {
    std::fs::write(folder.join("gears.toml"), gears).unwrap();
    std::fs::write(folder.join("load.csv"), LOAD).unwrap();
    let text = format!(
        r#"
        [app]
        name = "shares"
        slo = "400ms"
        gears = "gears.toml"
        [sources.camera]
        uri = "emulated:trace?file=load.csv&process=uniform"
        [devices."emulated:a"]
        slots = 2
        {device}
        [devices."emulated:b"]
        slots = 1
        [models.small]
        device = "emulated:a"
        profile = {{ "1" = "3ms", "8" = "8ms" }}
        {model}
        [models.large]
        device = "emulated:b"
        profile = {{ "1" = "8ms" }}
        [modules.read]
        operator = "emulate"
        cascade = [{{ model = "small", certainty = 0.5 }}, {{ model = "large" }}]
        inputs = ["camera"]
        "#
    );
    graph_in(folder, &text, &Catalog::default())
}

/// Batches of the first stage by slot and by gear, and the number of shifts, as the log has them.
fn batches(log: &Path) -> ([[u64; 2]; 2], u64) {
    let text = std::fs::read_to_string(log).unwrap();
    let (mut ran, mut gear, mut shifts) = ([[0; 2]; 2], 0, 0);
    for line in text.lines().skip(1) {
        let line: Value = serde_json::from_str(line).unwrap();
        for acted in line["control"]["effects"].as_array().into_iter().flatten() {
            let effect = &acted["effect"];
            if let Some(shifted) = effect["shifted"]["gear"].as_u64() {
                (gear, shifts) = (shifted as usize, shifts + 1);
            }
            let run = &effect["run"];
            if let (Some(0), Some(slot @ 0..2)) = (run["module"].as_u64(), run["slot"].as_u64()) {
                ran[gear][slot as usize] += 1;
            }
        }
    }
    (ran, shifts)
}

fn live(graph: Graph, log: &Path) -> Report {
    let options = RunOptions {
        record: Some(log.to_owned()),
        strict: true,
        ..RunOptions::default()
    };
    let report = run(assemble(graph, Parts::default()), &options);
    assert!(verify(log).unwrap().steps > 0);
    let stage = report.modules["read/1"].stage.unwrap();
    let counts = report.requests;
    println!("{counts:?} {stage:?}");
    assert_eq!(counts.in_flight, 0);
    assert_eq!(stage.failed + stage.accepted_late, 0);
    report
}

#[test]
fn another_gear_moves_the_work_to_other_slots() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let report = live(graph(folder.path(), GEARS, "", ""), &log);
    let (ran, shifts) = batches(&log);
    println!("{ran:?} after {shifts} shifts");
    assert_eq!(shifts, report.gears.unwrap().shifts);
    assert!(ran[0][0] > 60, "the first gear runs on the first slot: {ran:?}");
    // What was granted before a shift may start after it.
    assert!(ran[0][1] <= 2, "and nowhere else: {ran:?}");
    let second = ran[1][1] as f64 / (ran[1][0] + ran[1][1]) as f64;
    assert!((0.65..0.85).contains(&second), "{ran:?}");
}

#[test]
fn a_simulated_run_keeps_shares_as_the_live_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let graph = graph(folder.path(), GEARS, "", "");
    let (world, streams) = world_from_graph(&graph).unwrap();
    let mut arrivals = streams[0].arrivals(0).unwrap().map(|at| Timestamp::ZERO + at);
    let simulated = simulate(&world, "shares", &mut arrivals, &mut |_| {}).report;
    let live = live(graph, &folder.path().join("log"));
    assert_eq!(simulated.gears.unwrap().shifts, live.gears.unwrap().shifts);
    let apart = (simulated.goodput_rps - live.goodput_rps).abs() / simulated.goodput_rps;
    assert!(apart < 0.1, "{} {}", simulated.goodput_rps, live.goodput_rps);
}

/// Replicas in place of shares; in the second gear each waits for two items of its queue.
#[test]
fn replicas_with_queues_of_their_own_run_live_as_simulated() {
    let waits = |share: f64| format!("{{ share = {share:?}, items = 2, wait = \"50ms\" }}");
    let gears = GEARS
        .replace(
            "shares = [1.0, 0.0]",
            "replicas = [{ share = 1.0 }, { share = 0.0 }]",
        )
        .replace(
            "shares = [0.25, 0.75]",
            &format!("replicas = [{}, {}]", waits(0.25), waits(0.75)),
        );
    let folder = tempfile::tempdir().unwrap();
    let graph = graph(folder.path(), &gears, "", "batch = [1, 2, 8]");
    let (world, streams) = world_from_graph(&graph).unwrap();
    let mut arrivals = streams[0].arrivals(0).unwrap().map(|at| Timestamp::ZERO + at);
    let simulated = simulate(&world, "shares", &mut arrivals, &mut |_| {}).report;
    let log = folder.path().join("log");
    let live = live(graph, &log);
    let (ran, _) = batches(&log);
    println!("{ran:?}");
    assert!(
        ran[0][0] > 60 && ran[0][1] <= 3,
        "one replica has all items: {ran:?}"
    );
    assert!(ran[1][0] > 0 && ran[1][1] > ran[1][0], "{ran:?}");
    let mean_batches = [&simulated, &live].map(|report| report.modules["read/1"].mean_batch);
    assert!(mean_batches.iter().all(|mean| *mean > 1.15), "{mean_batches:?}");
    let apart = (simulated.goodput_rps - live.goodput_rps).abs() / simulated.goodput_rps;
    assert!(apart < 0.1, "{} {}", simulated.goodput_rps, live.goodput_rps);
}

/// With memory for one session the model is opened on the slot that gets the work.
#[test]
fn with_memory_for_one_session_the_model_moves_to_the_slot_that_gets_a_share() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let gears = GEARS.replace("[0.25, 0.75]", "[0.0, 1.0]");
    let device = "memory = \"20MiB\"";
    let model = "memory = \"20MiB\"\nopen_cold = \"20ms\"\nopen_warm = \"5ms\"";
    let report = live(graph(folder.path(), &gears, device, model), &log);
    let residency = report.residency.unwrap();
    println!("{residency:?}");
    assert!(
        residency.opened_cold + residency.opened_warm >= 3,
        "{residency:?}"
    );
    let counts = report.requests;
    assert!(counts.delivered * 10 > counts.arrived * 9, "{counts:?}");
    let (ran, _) = batches(&log);
    println!("{ran:?}");
    assert!(ran.iter().flatten().sum::<u64>() > 0);
}
