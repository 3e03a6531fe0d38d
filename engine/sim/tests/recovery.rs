//! Slots that are slow for a while, under twice the load that they sustain: what is in time afterwards is as much as before.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_policy::{BatchBinding, DropRule, Mailboxes, Order, OverlapSpec, Policy};
use weir_sim::{Edge, Interference, WorldModule, WorldPool, WorldSpec, simulate};
use weir_types::{Profile, Span, Timestamp};

/// Microseconds of a batch by its size.
type Durations = [(u32, u64); 4];

fn profile(durations: &[(u32, u64)]) -> Profile {
    let points = durations.iter().map(|&(size, us)| (size, Span::from_micros(us)));
    Profile::new(points.collect()).unwrap()
}

/// Three detectors in a row on one GPU, as they were measured there.
fn chain(rule: DropRule, overlap: bool) -> WorldSpec {
    let measured: [Durations; 3] = [
        [(1, 1_462), (4, 2_076), (8, 3_520), (16, 8_041)],
        [(1, 2_691), (4, 3_100), (8, 4_109), (16, 7_413)],
        [(1, 1_003), (4, 1_316), (8, 2_042), (16, 3_500)],
    ];
    let overlap = overlap.then(|| OverlapSpec {
        preparation: Some(profile(&[(1, 500), (8, 1_500)])),
        slots: Vec::new(),
    });
    let module = |(place, durations): (usize, Durations)| WorldModule {
        ends: Vec::new(),
        name: format!("module-{place}"),
        profile: profile(&durations),
        batch: vec![1, 4, 8, 16],
        pool: WorldPool::Shared(vec![0]),
        next: (place < 2)
            .then_some(Edge {
                to: place + 1,
                link: None,
            })
            .into_iter()
            .collect(),
        weight: 1.0,
        overlap: overlap.clone(),
        model: None,
    };
    // Each rule in the architecture of the default, whose estimates this is about.
    let policy = Policy {
        drop: rule,
        order: Some(Order::Adaptive),
        forming: Some(BatchBinding::Late),
        mailbox: Some(Mailboxes::Pool),
        sweep: Some(true),
        fair: Some(true),
        ..Policy::default()
    };
    WorldSpec {
        shared_slots: 1,
        ..WorldSpec::new(
            Span::from_millis(150),
            policy,
            measured.into_iter().enumerate().map(module).collect(),
        )
    }
}

/// Requests in time of 1,800 a second for four seconds, of which the slot is slow for the first `slow_ms`.
fn delivered(spec: &WorldSpec, slow_ms: u64) -> u64 {
    let first_us = 8_000_000 - slow_ms * 1_000;
    let mut arrivals = (0..7_200).map(|number| Timestamp::from_micros(first_us + number * 555));
    simulate(spec, "recovery", &mut arrivals, &mut |_| ())
        .report
        .requests
        .delivered
}

#[test]
fn what_was_slow_for_a_moment_serves_as_before() {
    for rule in [
        "pard",
        "weir",
        "back",
        "sf",
        "nexus",
        "clipper++",
        "split",
        "wcl",
        "oc",
    ] {
        for overlap in [false, true] {
            let quiet = chain(DropRule::by_name(rule).unwrap(), overlap);
            let all = delivered(&quiet, 0);
            for (loops, slow_ms) in [(3, 30), (9, 100), (60, 10), (60, 400)] {
                let slow = WorldSpec {
                    interference: Some(Interference::new(loops, Span::from_secs(4))),
                    ..quiet.clone()
                };
                let with = delivered(&slow, slow_ms);
                // What is lost is the slow time, and six tenths of a second until that is known to be over.
                let wanted = all * (3_400 - slow_ms) / 4_000;
                assert!(
                    with >= wanted,
                    "{rule}, overlap {overlap}, {loops} loops for {slow_ms} ms: {with} of {all}, wanted {wanted}"
                );
            }
        }
    }
}
