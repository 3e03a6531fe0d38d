//! Weights and reserves of streams under overload, in the world of a graph.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_policy::{Policy, Report, StreamShare};
use weir_sim::{Edge, StreamSpec, WorldModule, WorldPool, WorldSpec, poisson, simulate_streams};
use weir_types::{Profile, Span, StreamId, Timestamp};

const SECONDS: u64 = 60;

/// Two modules on a slot each; the second is the slower one and can do 100 a second.
fn world(policy: &str, own: &[StreamSpec]) -> WorldSpec {
    let module = |name: &str, ms: [u64; 2], next: Vec<Edge>| WorldModule {
        ends: Vec::new(),
        name: name.to_owned(),
        profile: Profile::new(vec![(1, Span::from_millis(ms[0])), (4, Span::from_millis(ms[1]))]).unwrap(),
        batch: vec![1, 4],
        pool: WorldPool::Fixed(1),
        next,
        weight: 1.0,
        overlap: None,
        model: None,
    };
    WorldSpec {
        streams: own.len() as u32,
        own: own.to_vec(),
        max_in_flight: Some(256),
        noise: 0.1,
        ..WorldSpec::new(
            Span::from_millis(400),
            Policy::preset(policy).unwrap(),
            vec![
                module("first", [8, 20], vec![Edge { to: 1, link: None }]),
                module("second", [15, 40], Vec::new()),
            ],
        )
    }
}

/// Streams that each bring `rate` a second.
fn run(spec: &WorldSpec, rate: f64) -> Report {
    let of = |stream: u32| {
        let times = poisson(rate, Span::from_secs(SECONDS), u64::from(stream) + 1);
        times.into_iter().map(move |at| (at, StreamId(stream)))
    };
    let mut all: Vec<(Timestamp, StreamId)> = (0..spec.streams).flat_map(of).collect();
    all.sort_unstable();
    simulate_streams(spec, "shares", &mut all.into_iter(), &mut |_| {}).report
}

fn goodput(report: &Report, stream: usize) -> f64 {
    report.streams[&format!("stream-{stream}")].requests.delivered as f64 / SECONDS as f64
}

fn share(weight: f64, reserve: Option<f64>) -> StreamSpec {
    StreamSpec {
        share: StreamShare { weight, reserve },
        ..StreamSpec::default()
    }
}

#[test]
fn under_overload_goodput_goes_by_weight() {
    for policy in ["weir", "pard"] {
        let weighted = run(&world(policy, &[share(1.0, None), share(3.0, None)]), 100.0);
        let ratio = goodput(&weighted, 1) / goodput(&weighted, 0);
        assert!((2.7..=3.3).contains(&ratio), "{policy}: 1 : {ratio}");
        // Equal shares lose nothing.
        let alike = run(&world(policy, &[share(1.0, None), share(1.0, None)]), 100.0);
        let lost = 1.0 - weighted.goodput_rps / alike.goodput_rps;
        assert!(lost < 0.05, "{policy}: {lost} of the goodput");
    }
}

#[test]
fn a_stream_with_a_reserve_has_it_whatever_the_others_bring() {
    for policy in ["weir", "pard"] {
        let mut own = vec![share(1.0, None); 20];
        own[7] = share(0.1, Some(5.0));
        // Three times the capacity: without the reserve it would have the least of all.
        let report = run(&world(policy, &own), 15.0);
        assert!(goodput(&report, 7) >= 4.75, "{policy}: {}", goodput(&report, 7));
        own[7] = share(0.1, None);
        let report = run(&world(policy, &own), 15.0);
        assert!(goodput(&report, 7) < 2.0, "{policy}: {}", goodput(&report, 7));
    }
}

#[test]
fn a_stream_that_brings_less_than_its_part_gets_it_through() {
    for policy in ["weir", "pard"] {
        let report = run(
            &world(policy, &[share(8.0, None), share(1.0, None), share(1.0, None)]),
            60.0,
        );
        // Its share of 100 requests per second is 80.
        assert!(
            goodput(&report, 0) > 0.95 * 60.0,
            "{policy}: {}",
            goodput(&report, 0)
        );
        let others = goodput(&report, 1) / goodput(&report, 2);
        assert!((0.9..=1.1).contains(&others), "{policy}: {others}");
    }
}
