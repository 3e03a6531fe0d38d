//! Times that a live run has and a simulation leaves out unless they are set: hand-overs between a decision and a slot.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use weir_graph::parse;
use weir_policy::Report;
use weir_sim::{WorldSpec, experiment, simulate_streams};
use weir_types::{Span, StreamId, Timestamp};

const SECONDS: u64 = 10;

const ONE_MODEL: &str = r#"
    [models.first]
    device = "emulated:a"
    profile = { "1" = "10ms" }
    [modules.first]
    operator = "emulate"
    model = "first"
    inputs = ["archive"]
"#;

/// Memory for one of two models, which take turns.
const TWO_MODELS: &str = r#"
    [devices."emulated:a"]
    memory = "10MiB"
    host_memory = "100MiB"
    [models.first]
    device = "emulated:a"
    profile = { "1" = "5ms" }
    memory = "8MiB"
    open_cold = "10ms"
    open_warm = "10ms"
    [models.second]
    device = "emulated:a"
    profile = { "1" = "5ms" }
    memory = "8MiB"
    open_cold = "10ms"
    open_warm = "10ms"
    [modules.first]
    operator = "emulate"
    model = "first"
    inputs = ["archive"]
    [modules.second]
    operator = "emulate"
    model = "second"
    inputs = ["first"]
"#;

/// Ten seconds of an archive with more frames than the slot can run.
fn run(modules: &str, handover: Span) -> Report {
    let text = format!(
        r#"
        [app]
        name = "handover"
        slo = "2s"
        [sources.archive]
        uri = "emulated:uniform?rate=200"
        mode = "lossless"
        {modules}
        "#
    );
    let catalog = weir_graph::Catalog::default();
    let graph = parse(&text, Path::new("/graph.toml"), &catalog, &|_| None);
    let graph = graph.unwrap_or_else(|problems| panic!("{problems}"));
    let spec = WorldSpec {
        handover,
        stops_at: Some(Span::from_secs(SECONDS)),
        ..experiment::world_from_graph(&graph).unwrap().0
    };
    let at = |number: u64| (Timestamp::from_micros(number * 5_000), StreamId(0));
    let mut arrivals = (0..200 * SECONDS).map(at);
    simulate_streams(&spec, "handover", &mut arrivals, &mut |_| {}).report
}

#[test]
fn slot_is_idle_during_the_handover_of_a_batch() {
    let ended = |handover| run(ONE_MODEL, handover).requests.arrived as f64;
    let (without, with) = (ended(Span::ZERO), ended(Span::from_millis(1)));
    // 100 a second, and a few in flight at the end.
    assert!((1_000.0..1_050.0).contains(&without), "{without}");
    assert!((without / with - 1.1).abs() < 0.01, "{without} {with}");
}

#[test]
fn slot_is_idle_during_the_handover_of_a_session() {
    let report = |handover| run(TWO_MODELS, handover);
    let (without, with) = (report(Span::ZERO), report(Span::from_millis(2)));
    assert!(
        with.requests.arrived < without.requests.arrived,
        "{:?} {:?}",
        with.requests,
        without.requests
    );
    // Openings take as long as declared, and the way to the slot is not among it.
    let residency = with.residency.unwrap();
    let opened = residency.opened_cold + residency.opened_warm;
    assert!(opened > 2, "{opened}");
    assert!(
        (residency.seconds - 0.01 * opened as f64).abs() < 1e-6,
        "{residency:?}"
    );
}
