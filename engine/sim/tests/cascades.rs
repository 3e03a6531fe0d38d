//! Cascades and gears in worlds: handed-on items, their answers, and agreement with the live engine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use weir_graph::{Graph, parse};
use weir_policy::StageCounts;
use weir_policy::gears::{emulated_certainty, emulated_regions};
use weir_sim::{SimulationResult, WorldSpec, experiment, simulate_streams};
use weir_types::{Profile, Span, StreamId, Timestamp};

/// A cascade of two stages on slots of their own: the first does 500 a second, the second 40.
fn graph(stream: &str, certainty: f64, keys: &str) -> Graph {
    let text = format!(
        r#"
        [app]
        name = "cascade"
        slo = "250ms"
        [sources.camera]
        uri = "emulated:{stream}"
        [devices."emulated:a"]
        slots = 1
        [devices."emulated:b"]
        slots = 1
        [models.small]
        device = "emulated:a"
        batch = [1]
        profile = {{ "1" = "2ms" }}
        [models.large]
        device = "emulated:b"
        batch = [1]
        profile = {{ "1" = "25ms" }}
        [modules.read]
        operator = "emulate"
        cascade = [{{ model = "small", certainty = {certainty} }}, {{ model = "large" }}]
        inputs = ["camera"]
        {keys}
        "#
    );
    parse(
        &text,
        Path::new("/graph.toml"),
        &weir_graph::Catalog::default(),
        &|_| None,
    )
    .unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn regions_that_are_handed_on_are_items_of_the_next_stage_and_parts_of_an_answer() {
    let mut spec = world(&graph("uniform?rate=60", 0.25, "escalate = \"regions\""), None);
    spec.cascades.accuracy = [(0, 0.5), (1, 1.0)].into();
    let ran = run(&spec, &[20]);
    let uncertain = (0..200).filter(|frame| emulated_certainty(*frame, 0) < 0.25);
    let uncertain: Vec<u64> = uncertain.collect();
    let regions: u64 = (uncertain.iter())
        .map(|frame| u64::from(emulated_regions(*frame)))
        .sum();
    let [first, second] = stages(&ran);
    assert_eq!(
        (first.handed_on, second.accepted),
        (uncertain.len() as u64, regions)
    );
    assert_eq!(ran.report.modules["read/2"].items, regions);
    let part = uncertain.len() as f64 / 200.0;
    let accuracy = ran.report.accuracy.unwrap();
    assert!(
        (accuracy - (0.5 + 0.5 * part)).abs() < 1e-9,
        "each frame is one answer: {accuracy}"
    );
}

/// Three gears: up to 60 requests per second items with a certainty below 0.5 are handed on, up to 150 those
/// below 0.1, above that none.
const GEARS: &str = r#"
graph = "cascade"
number = 7
[[gears]]
up_to = 60
accuracy = 0.98
[gears.cascades]
read = [{ model = "small", certainty = 0.5 }, { model = "large" }]
[[gears]]
up_to = 150
accuracy = 0.95
[gears.cascades]
read = [{ model = "small", certainty = 0.1 }, { model = "large" }]
[[gears]]
up_to = 400
accuracy = 0.9
[gears.cascades]
read = [{ model = "small" }]
"#;

fn world(graph: &Graph, gears: Option<&str>) -> WorldSpec {
    let (mut spec, _) = experiment::world_from_graph(graph).unwrap();
    spec.cascades.gears =
        gears.map(|text| weir_graph::parse_gears(text, Path::new("gears.toml"), graph).unwrap());
    spec
}

/// `rates` one after the other, ten seconds each.
fn run(spec: &WorldSpec, rates: &[u32]) -> SimulationResult {
    let mut arrivals = (0..).zip(rates).flat_map(|(place, &rate)| {
        let begin = Timestamp::from_micros(place * 10_000_000);
        let at =
            move |number: u32| begin + Span::from_micros(1_000_000 / u64::from(rate)) * u64::from(number);
        (0..10 * rate).map(move |number| (at(number), StreamId(0)))
    });
    simulate_streams(spec, "cascade", &mut arrivals, &mut |_| {})
}

fn stages(ran: &SimulationResult) -> [StageCounts; 2] {
    ["read/1", "read/2"].map(|name| ran.report.modules[name].stage.unwrap())
}

fn dropped_at(ran: &SimulationResult, module: &str) -> u64 {
    let drops = ran.report.drops.iter().filter(|drop| drop.module == module);
    drops.map(|drop| drop.count).sum()
}

#[test]
fn the_frames_that_are_handed_on_are_those_of_emulated_devices() {
    let spec = world(&graph("uniform?rate=60", 0.25, ""), None);
    let ran = run(&spec, &[60]);
    let frames = 600;
    let uncertain = (0..frames)
        .filter(|frame| emulated_certainty(*frame, 0) < 0.25)
        .count() as u64;
    let [first, second] = stages(&ran);
    assert_eq!((first.handed_on, first.accepted), (uncertain, frames - uncertain));
    assert_eq!((second.handed_on, second.accepted), (0, uncertain));
    assert_eq!(
        (
            ran.report.modules["read/1"].items,
            ran.report.modules["read/2"].items
        ),
        (frames, uncertain)
    );
    assert_eq!(ran.report.requests.delivered, frames, "{:?}", ran.report.drops);
    // The second stage sustains 40 items per second, and gets a quarter of all items.
    assert!((experiment::capacity(&spec) - 160.0).abs() < 1e-6);
}

/// Three times what the second stage can take.
#[test]
fn what_would_be_late_is_accepted_where_that_is_asked_for_and_else_dropped() {
    let accept = run(
        &world(&graph("uniform?rate=120", 1.0, "on_late = \"accept\""), None),
        &[120],
    );
    let [first, second] = stages(&accept);
    assert_eq!(accept.report.requests.dropped, 0, "{:?}", accept.report.drops);
    assert!(second.accepted_late > 0 && second.accepted > 0, "{second:?}");
    assert_eq!(second.accepted + second.accepted_late, first.handed_on);
    let drop = run(&world(&graph("uniform?rate=120", 1.0, ""), None), &[120]);
    let [_, second] = stages(&drop);
    assert_eq!(second.accepted_late, 0);
    assert!(drop.report.requests.dropped > 600, "{:?}", drop.report.requests);
    let bound = drop.bound(&world(&graph("uniform?rate=120", 1.0, ""), None));
    assert!(accept.report.requests.delivered <= bound.unwrap().max_delivered);
}

#[test]
fn gears_shift_by_the_load_and_back_and_no_item_is_lost_meanwhile() {
    let graph = graph("uniform?rate=60", 0.5, "on_late = \"accept\"");
    let spec = world(&graph, Some(GEARS));
    let ran = run(&spec, &[40, 120, 300, 40]);
    let gears: Vec<usize> = ran.shifts.iter().map(|shift| shift.gear).collect();
    assert_eq!(gears, [1, 2, 1, 0], "{:?}", ran.shifts);
    let times: Vec<f64> = ran
        .shifts
        .iter()
        .map(|shift| shift.at.micros() as f64 / 1e6)
        .collect();
    for (time, begin) in times.iter().zip([10.0, 20.0, 30.0, 30.0]) {
        assert!((begin..begin + 1.1).contains(time), "{times:?}");
    }
    let report = ran.report.gears.as_ref().unwrap();
    assert_eq!((report.plan, report.shifts), (7, 4));
    let seconds = &report.seconds_by_gear;
    assert!((seconds.iter().sum::<f64>() - 40.0).abs() < 0.5, "{seconds:?}");
    let expected = (seconds[0] * 0.98 + seconds[1] * 0.95 + seconds[2] * 0.9) / seconds.iter().sum::<f64>();
    assert!((report.accuracy_expected.unwrap() - expected).abs() < 1e-9);

    let [first, second] = stages(&ran);
    assert_eq!(
        first.handed_on,
        second.accepted + second.accepted_late + second.failed + dropped_at(&ran, "read/2")
    );
    assert_eq!(
        first.handed_on + first.accepted + dropped_at(&ran, "read/1"),
        ran.report.requests.arrived
    );
    assert_eq!(ran.report.requests.dropped, 0, "{:?}", ran.report.drops);
    // Without gears a half is handed on at any load: the second stage takes 40 a second, of 150.
    let fixed = run(&world(&graph, None), &[40, 120, 300, 40]);
    assert!(stages(&fixed)[1].accepted_late > 10 * second.accepted_late);
    assert!(fixed.shifts.is_empty() && fixed.report.gears.is_none());
}

#[test]
fn accuracy_is_that_of_the_stages_whose_answers_count() {
    let mut spec = world(&graph("uniform?rate=60", 0.25, "on_late = \"accept\""), None);
    assert_eq!(run(&spec, &[60]).report.accuracy, None);
    spec.cascades.accuracy = [(0, 0.9), (1, 0.98)].into();
    let report = run(&spec, &[60]).report;
    let handed_on = report.modules["read/1"].stage.unwrap().handed_on as f64 / 600.0;
    let accuracy = report.accuracy.unwrap();
    assert!((accuracy - (0.9 + 0.08 * handed_on)).abs() < 1e-9, "{accuracy}");
    assert!((report.right_rps.unwrap() - accuracy * report.goodput_rps).abs() < 1e-9);
    // If the second stage has no time, the answers of the first count.
    let crowded = run(&spec, &[400]).report.accuracy.unwrap();
    assert!(crowded > 0.9 && crowded < accuracy - 0.005, "{crowded}");
}

#[test]
fn by_stream_the_busy_one_alone_is_shifted() {
    let gears = format!("shift = {{ scope = \"stream\" }}\n{GEARS}");
    let mut spec = world(&graph("uniform?rate=60", 0.9, ""), Some(&gears));
    spec.streams = 2;
    // Twenty a second, and a hundred.
    let stream = |stream: u32, interval_us: u64| {
        let end = 20_000_000 / interval_us;
        (0..end).map(move |number| (Timestamp::from_micros(number * interval_us), StreamId(stream)))
    };
    let mut arrivals: Vec<(Timestamp, StreamId)> = stream(0, 50_000).chain(stream(1, 10_000)).collect();
    arrivals.sort();
    let ran = simulate_streams(&spec, "cascade", &mut arrivals.into_iter(), &mut |_| {});
    let shifts: Vec<_> = ran
        .shifts
        .iter()
        .map(|shift| (shift.stream, shift.gear))
        .collect();
    assert_eq!(shifts.first(), Some(&(Some(StreamId(1)), 1)), "{shifts:?}");
    assert!(
        shifts.iter().all(|(stream, _)| *stream == Some(StreamId(1))),
        "{shifts:?}"
    );
    let report = ran.report.gears.unwrap();
    // The seconds of both streams: the quiet one was in the first gear for all of them.
    let all: f64 = report.seconds_by_gear.iter().sum();
    assert!((all - 40.0).abs() < 0.5, "{report:?}");
    assert!(report.seconds_by_gear[0] > 19.0, "{report:?}");
}

#[test]
fn a_stage_that_waits_for_items_runs_fewer_batches() {
    let text = graph("uniform?rate=60", 1.0, "");
    let run_with = |items: &str| {
        let gears = format!(
            "graph = \"cascade\"\nnumber = 1\n[[gears]]\nup_to = 100\n[gears.cascades]\n\
             read = [{{ model = \"small\", certainty = 1.0 }}, {{ model = \"large\"{items} }}]\n"
        );
        let mut spec = world(&text, Some(&gears));
        spec.modules[1].batch = vec![1, 2, 4];
        let durations = vec![(1, Span::from_millis(25)), (4, Span::from_millis(40))];
        spec.modules[1].profile = Profile::new(durations).unwrap();
        let ran = run(&spec, &[30]);
        let module = &ran.report.modules["read/2"];
        assert_eq!(ran.report.requests.dropped + ran.report.requests.late, 0);
        module.items as f64 / module.batches as f64
    };
    let (alone, waiting) = (run_with(""), run_with(", items = 2, wait = \"80ms\""));
    assert!(
        alone < 1.5 && waiting > 1.8,
        "{alone} and {waiting} items a batch"
    );
}
