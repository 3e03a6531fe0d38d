//! Streams with latency objectives of their own, in worlds of every shape and under every rule.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use weir_graph::Catalog;
use weir_policy::{Counts, DropRule, Policy, Report};
use weir_sim::experiment::{Run, load};
use weir_sim::{SimulationResult, StreamSpec, simulate};
use weir_types::Span;

use crate::common::books;
use crate::common::drawn::Drawn;

fn policies() -> Vec<Policy> {
    let rule = |name: &&str| serde_json::from_value(serde_json::json!({ "drop": name })).unwrap();
    DropRule::NAMES.iter().map(rule).collect()
}

fn run(drawn: &Drawn) -> SimulationResult {
    let mut arrivals = drawn.arrivals.iter().copied();
    simulate(&drawn.spec, "drawn", &mut arrivals, &mut |_| {})
}

fn own(slo: Span) -> StreamSpec {
    StreamSpec {
        slo: Some(slo),
        ..StreamSpec::default()
    }
}

/// Report without its section on objectives.
fn results(ran: &SimulationResult) -> String {
    let mut report: Report = ran.report.clone();
    report
        .streams
        .values_mut()
        .for_each(|stream| stream.slo_ms = None);
    let report = serde_json::to_string(&report).unwrap();
    format!("{report} {:?} {}", ran.timeline, ran.policy_events)
}

#[test]
fn streams_that_all_have_the_objective_of_the_world_decide_as_without_any() {
    for (number, policy) in (0..).zip(policies()) {
        let mut drawn = Drawn::new(policy, 60_000 + number);
        let without = run(&drawn);
        drawn.spec.own = vec![own(drawn.spec.slo); drawn.spec.streams as usize];
        let with = run(&drawn);
        assert!(results(&with) == results(&without), "world {number}");
        assert!(with.report.streams.values().all(|stream| stream.slo_ms.is_some()));
    }
}

#[test]
fn nothing_is_delivered_as_in_time_after_its_own_deadline() {
    let mut late = 0;
    for (number, policy) in (0..).zip(policies().into_iter().cycle().take(60)) {
        let mut drawn = Drawn::new(policy, 70_000 + number);
        drawn.spec.streams = drawn.spec.streams.max(2);
        let slos = [30, 2_000, 200].map(|ms| own(Span::from_millis(ms)));
        drawn.spec.own = slos
            .into_iter()
            .cycle()
            .take(drawn.spec.streams as usize)
            .collect();
        let ran = run(&drawn);
        books::check(&drawn, &ran);
        for (stream, own) in drawn.spec.own.iter().enumerate() {
            let report = &ran.report.streams[&format!("stream-{stream}")];
            let slo_ms = own.slo.unwrap().as_millis_f64();
            assert_eq!(report.slo_ms, Some(slo_ms));
            // Its latencies are those of delivered and late requests.
            let over = report.latency_ms.max > slo_ms;
            assert_eq!(
                over,
                report.requests.late > 0,
                "stream {stream} of world {number}"
            );
            late += report.requests.late;
        }
    }
    assert!(late > 0, "some rules let requests be late");
}

/// Delivered of what arrived in the shipped experiment on two kinds of cameras, by policy and load: barriers with `OBJECTIVE`,
/// counters with `COUNTERS`.
fn attainment(variables: &[(&str, &str)]) -> Vec<(String, [f64; 2])> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/experiments/objectives.toml");
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let experiment = load(&path, &Catalog::default(), &variable, Some(&[1])).unwrap();
    let of_kind = |report: &Report, streams: [usize; 2]| {
        let counts = streams.map(|stream| report.streams[&format!("stream-{stream}")].requests);
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>() as f64;
        sum(|counts| counts.delivered) / sum(|counts| counts.arrived)
    };
    let row = |run: &Run| {
        let labels: Vec<String> = run
            .labels
            .iter()
            .map(|(key, label)| format!("{key} {label}"))
            .collect();
        let report = run.simulate().report;
        (
            labels.join(", "),
            [of_kind(&report, [0, 1]), of_kind(&report, [2, 3])],
        )
    };
    experiment.runs().iter().map(row).collect()
}

#[test]
fn no_kind_of_cameras_is_below_what_it_gets_with_the_tighter_objective_for_all() {
    let own = attainment(&[]);
    let one = attainment(&[("COUNTERS", "150ms")]);
    for ((labels, own), (_, one)) in own.iter().zip(&one) {
        println!("{labels}: {own:.4?}, with 150 ms for all {one:.4?}");
        for (own, one) in own.iter().zip(one) {
            assert!(own > &(one - 0.01), "{labels}: {own} after {one}");
        }
    }
    assert_eq!(own.len(), 4);
}
