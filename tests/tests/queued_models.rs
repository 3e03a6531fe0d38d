//! Several models that generate on one device whose memory holds one of them: they take turns by virtual queues, live and simulated.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "a test says what it finds")]

use std::path::Path;

use serde_json::Value;
use weir_graph::Graph;
use weir_policy::Report;
use weir_runtime::verify;
use weir_sim::control_spec;
use weir_sim::experiment::world_from_graph;

use crate::common::{Parts, assemble, at_own_pace, graph, run, whole_catalog};
use crate::residency::most_open;

const FRAMES: u64 = 20;
const MODELS: usize = 3;

/// Each frame brings a text of every model; `slots` have memory for one model each.
fn describing(slots: u32, more: &str) -> Graph {
    let mut text = format!(
        r#"
        [app]
        name = "queued"
        slo = "60s"
        [sources.camera]
        uri = "emulated:poisson?rate=500&frames={FRAMES}&seed=5"
        mode = "live"
        [devices."emulated:small"]
        slots = {slots}
        memory = "{}MiB"
        "#,
        40 * slots
    );
    for place in 0..MODELS {
        text += &format!(
            r#"
            [models.model-{place}]
            device = "emulated:small"
            head = "generate"
            profile = {{ "1" = "1ms", "64" = "2ms" }}
            max_sequences = 8
            memory = "30MiB"
            open_cold = "40ms"
            open_warm = "15ms"
            {}
            [modules.module-{place}]
            operator = "describe"
            model = "model-{place}"
            inputs = ["camera"]
            max_tokens = 20
            "#,
            if place == 1 { more } else { "" }
        );
    }
    graph(&text, &whole_catalog())
}

/// Runs a graph, and decides its log again.
fn run_verified(graph: Graph, log: &Path) -> Report {
    let report = run(assemble(graph, Parts::default()), &at_own_pace(Some(log)));
    let verified = verify(log).unwrap_or_else(|error| panic!("{error}"));
    assert!(verified.steps > 0);
    report
}

#[test]
fn models_change_once_for_a_group_and_not_for_each_request() {
    let folder = tempfile::tempdir().unwrap();
    for slots in [1, 2] {
        let log = folder.path().join(format!("{slots}.jsonl"));
        let report = run_verified(describing(slots, ""), &log);
        let counts = &report.requests;
        assert_eq!((counts.arrived, counts.delivered), (FRAMES, FRAMES));
        for module in report.modules.values() {
            let finished: u64 = module.instances.iter().map(|one| one.finished).sum();
            assert_eq!(finished, FRAMES);
        }
        let residency = report.residency.unwrap();
        println!("{slots} slots: {residency:?}");
        let openings = residency.opened_cold + residency.opened_warm;
        // Of sixty texts, each of another model than the one before it.
        assert!((3..=20).contains(&openings), "{openings} openings");
        assert!(most_open(&log, |_| true) <= slots as usize);
    }
}

#[test]
fn a_step_that_fails_costs_its_texts_and_the_queues_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.jsonl");
    let report = run_verified(describing(1, "fail_every = 20"), &log);
    let counts = &report.requests;
    assert_eq!((counts.arrived, counts.in_flight, counts.late), (FRAMES, 0, 0));
    assert!(report.modules["module-1"].failed > 0);
    assert_eq!(counts.delivered + counts.dropped, FRAMES);
}

/// By the same specification, live and in virtual time.
#[test]
fn live_and_simulated_queues_are_specified_alike() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.jsonl");
    run_verified(describing(2, ""), &log);
    let text = std::fs::read_to_string(&log).unwrap();
    let header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let (world, _) = world_from_graph(&describing(2, "")).unwrap();
    let simulated = serde_json::to_string(&control_spec(&world).queues[0].queues).unwrap();
    let simulated: Value = serde_json::from_str(&simulated).unwrap();
    assert_eq!(header["control"]["queues"][0]["queues"], simulated);
    assert_eq!(simulated["instances"].as_array().unwrap().len(), 2);
}

/// Errors are reported with their place in the text, before anything runs.
#[test]
fn models_that_cannot_take_turns_are_refused() {
    let check = |more: &str, said: &str| {
        let text = format!(
            r#"
            [app]
            name = "queued"
            slo = "60s"
            [sources.camera]
            uri = "emulated:poisson?rate=50"
            [devices."emulated:small"]
            slots = 2
            memory = "40MiB"
            [models.scribe]
            device = "emulated:small"
            head = "generate"
            profile = {{ "1" = "1ms", "64" = "2ms" }}
            {more}
            [modules.report]
            operator = "describe"
            model = "scribe"
            inputs = ["camera"]
            "#
        );
        let path = Path::new("graph.toml");
        let problems = weir_graph::parse(&text, path, &whole_catalog(), &|_| None);
        let problems = problems.map(|_| ()).map_err(|problems| problems.to_string());
        assert!(
            problems.clone().is_err_and(|problems| problems.contains(said)),
            "{more}: {problems:?}"
        );
    };
    check("", "has no `memory`");
    check("memory = \"10MiB\"\nworkers = 2", "has `workers`");
    check(
        "memory = \"10MiB\"\n[modules.second]\noperator = \"describe\"\nmodel = \"scribe\"\ninputs = [\"camera\"]",
        "run model \"scribe\", and on device \"emulated:small\" with its `memory` a model is for one module",
    );
    check(
        "memory = \"30MiB\"",
        "takes 30.0 MiB and device \"emulated:small\" has 20.0 MiB for each of its 2 slots",
    );
}
