//! Plans of gears on the graph with its policy, and replicas with a queue each.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::Arc;

use weir_graph::{Catalog, Graph, parse, parse_gears, parse_gears_of};
use weir_planner::gears::{
    Beam, CascadeChoice, GearModel, GearProblem, LoadOrder, OperatorChoices, Operators, Overload, Scoring,
};
use weir_sim::gears::{PlannedOutcome, PlannedWorld, SampledItem};
use weir_sim::{SimulationResult, experiment, simulate};
use weir_types::{Profile, Span, StageGear, Timestamp};

const SMALL: &[(u32, u64)] = &[(1, 2)];
const LARGE: &[(u32, u64)] = &[(1, 20), (2, 26), (4, 40)];

/// The small model does 500 a second, each slot of the large one 50, and 100 in batches of four.
fn graph(slots: u32) -> Graph {
    let text = format!(
        r#"
        [app]
        name = "cascade"
        slo = "500ms"
        [sources.camera]
        uri = "emulated:uniform?rate=60"
        [devices."emulated:a"]
        slots = 1
        [devices."emulated:b"]
        slots = {slots}
        [models.small]
        device = "emulated:a"
        profile = {{ "1" = "2ms" }}
        [models.large]
        device = "emulated:b"
        batch = [1, 2, 4]
        profile = {{ "1" = "20ms", "2" = "26ms", "4" = "40ms" }}
        [modules.read]
        operator = "emulate"
        cascade = [{{ model = "small", certainty = 0.5 }}, {{ model = "large" }}]
        inputs = ["camera"]
        "#
    );
    let parsed = parse(&text, Path::new("/graph.toml"), &Catalog::default(), &|_| None);
    parsed.unwrap_or_else(|problems| panic!("{problems}"))
}

fn problem() -> GearProblem {
    let model = |name: &str, points: &[(u32, u64)], slots| {
        let points = points.iter().map(|(size, ms)| (*size, Span::from_millis(*ms)));
        let points: Vec<(u32, Span)> = points.collect();
        GearModel {
            name: name.to_owned(),
            memory: 0,
            batch: points.iter().map(|(size, _)| *size).collect(),
            profile: Profile::new(points).unwrap(),
            slots,
        }
    };
    let stage = |model| StageGear {
        model,
        certainty: 0.5,
    };
    GearProblem {
        models: vec![model("small", SMALL, 0..1), model("large", LARGE, 1..2)],
        operators: vec![OperatorChoices {
            name: "read".to_owned(),
            items: 1.0,
            cascades: vec![CascadeChoice {
                stages: vec![stage(0), stage(1)],
                reach: vec![1.0, 0.5],
                accuracy: 1.0,
            }],
        }],
        slots: 2,
        memory: u64::MAX,
        ranges: vec![1_000.0],
        scoring: Scoring::Trade,
        together: Operators::Together,
        overload: Overload::Evaluate,
        order: LoadOrder::Falling,
        refine: 0,
        beam: Beam::default(),
        seed: 1,
    }
}

fn gears_text(large: &str) -> String {
    format!(
        "graph = \"cascade\"\nnumber = 1\n[[gears]]\nup_to = 1000\n[gears.cascades]\n\
         read = [{{ model = \"small\", certainty = 0.5 }}, {{ model = \"large\"{large} }}]\n"
    )
}

/// Arrivals at even intervals for ten seconds.
fn even(rate: u64) -> Vec<Timestamp> {
    let times = 0..10 * rate;
    times
        .map(|number| Timestamp::from_micros(number * 1_000_000 / rate))
        .collect()
}

/// The small model is right of the half of which it is certain, the large one of all.
fn planned(rate: u64) -> PlannedOutcome {
    let sample = |number: u16| SampledItem {
        certainty: vec![f32::from(number) / 100.0, 1.0],
        right: vec![f64::from(u8::from(number >= 50)), 1.0],
    };
    let samples: Arc<[SampledItem]> = (0..100).map(sample).collect();
    let world = PlannedWorld::new(&graph(1), &problem(), [("read".to_owned(), samples)].into());
    let gears = parse_gears_of(
        &gears_text(""),
        Path::new("gears.toml"),
        world.graph(),
        world.stages(),
    );
    world.run(gears.unwrap(), &even(rate))
}

#[test]
fn plan_that_drops_requests_is_scored_as_less_accurate() {
    let sustained = planned(60);
    assert!(
        sustained.in_time > 0.99 && sustained.accuracy > 0.99,
        "{sustained:?}"
    );
    // The large model has three times what it sustains.
    let overloaded = planned(600);
    assert!(overloaded.in_time < 0.9, "{overloaded:?}");
    assert!(overloaded.accuracy <= overloaded.in_time, "{overloaded:?}");
    assert!(
        overloaded.latency(0.99) < 0.6,
        "drops keep latencies short: {overloaded:?}"
    );
}

fn run(large: &str) -> SimulationResult {
    run_gears(&gears_text(large), 60)
}

fn run_gears(gears: &str, rate: u64) -> SimulationResult {
    let graph = graph(2);
    let (mut spec, _) = experiment::world_from_graph(&graph).unwrap();
    spec.cascades.gears = Some(parse_gears(gears, Path::new("gears.toml"), &graph).unwrap());
    let result = simulate(&spec, "cascade", &mut even(rate).into_iter(), &mut |_| {});
    let counts = result.report.requests;
    assert!(counts.is_balanced() && counts.in_flight == 0, "{counts:?}");
    result
}

#[test]
fn replicas_wait_for_items_of_their_own_queues() {
    let mean_batch = |large: &str| run(large).report.modules["read/2"].mean_batch;
    let at_once = mean_batch(", replicas = [{ share = 0.5 }, { share = 0.5 }]");
    let replica = "{ share = 0.5, items = 4, wait = \"200ms\" }";
    let waiting = mean_batch(&format!(", replicas = [{replica}, {replica}]"));
    assert!(at_once < 1.6 && waiting > 2.0, "{at_once} {waiting}");
}

#[test]
fn replica_with_all_items_has_the_capacity_of_one_slot() {
    // 30 of 60 a second are handed on; one slot sustains 50.
    let one = run(", replicas = [{ share = 1.0 }, { share = 0.0 }]");
    assert_eq!(one.report.requests.delivered, 600, "{:?}", one.report.requests);
}

#[test]
fn requests_in_flight_shift_gears() {
    let gears = r#"
        graph = "cascade"
        number = 1
        shift = { by = "in-flight", dwell = "500ms" }
        [[gears]]
        up_to = 5
        [gears.cascades]
        read = [{ model = "small", certainty = 0.5 }, { model = "large" }]
        [[gears]]
        up_to = 100
        [gears.cascades]
        read = [{ model = "small" }]
    "#;
    let shifts = |rate| run_gears(gears, rate).report.gears.unwrap().shifts;
    assert_eq!(shifts(20), 0);
    assert!(shifts(400) > 0);
}
