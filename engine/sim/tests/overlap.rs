//! Slots that prepare the next batch while one runs, in virtual time: what that is worth, and what requests wait for.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_policy::{OverlapSpec, Policy, Report};
use weir_sim::{WorldModule, WorldPool, WorldSpec, poisson, simulate};
use weir_types::{Profile, Span, Timestamp};

const RUN: Span = Span::from_millis(20);
const PREPARATION: Span = Span::from_millis(10);
const SECONDS: u64 = 30;

/// A module on one slot with batches of one, whose preparation takes half of the run.
fn world(policy: &str, pool: WorldPool, overlaps: bool) -> WorldSpec {
    let profile = |span| Profile::new(vec![(1, span)]).unwrap();
    let both = profile(RUN).followed_by(&profile(PREPARATION));
    let overlap = OverlapSpec {
        preparation: Some(profile(PREPARATION)),
        slots: Vec::new(),
    };
    WorldSpec {
        shared_slots: 1,
        max_in_flight: Some(256),
        ..WorldSpec::new(
            Span::from_millis(200),
            Policy::preset(policy).unwrap(),
            vec![WorldModule {
                ends: Vec::new(),
                name: "detect".to_owned(),
                profile: if overlaps { profile(RUN) } else { both },
                batch: vec![1],
                pool,
                next: Vec::new(),
                weight: 1.0,
                overlap: overlaps.then_some(overlap),
                model: None,
            }],
        )
    }
}

fn run(spec: &WorldSpec, arrivals: Vec<Timestamp>) -> Report {
    simulate(spec, "overlap", &mut arrivals.into_iter(), &mut |_| {}).report
}

/// Delivered requests relative to the capacity of the runs alone, at twice that load.
fn share_of_runs(policy: &str, pool: WorldPool, overlaps: bool) -> f64 {
    let most = SECONDS as f64 / RUN.as_secs_f64();
    let arrivals = poisson(2.0 / RUN.as_secs_f64(), Span::from_secs(SECONDS), 1);
    let report = run(&world(policy, pool, overlaps), arrivals);
    let counts = &report.requests;
    assert!(counts.late * 100 < counts.delivered, "{counts:?}");
    counts.delivered as f64 / most
}

#[test]
fn a_device_that_prepares_ahead_runs_all_the_time_and_one_that_does_not_two_thirds_of_it() {
    for policy in ["pard", "weir"] {
        for pool in [WorldPool::Shared(vec![0]), WorldPool::Fixed(1)] {
            let overlapped = share_of_runs(policy, pool.clone(), true);
            let inline = share_of_runs(policy, pool.clone(), false);
            println!("{policy} {pool:?}: {overlapped:.3} of 1/run, inline {inline:.3}");
            assert!(
                (0.95..1.02).contains(&overlapped),
                "{policy} {pool:?}: {overlapped}"
            );
            assert!((0.60..0.69).contains(&inline), "{policy} {pool:?}: {inline}");
        }
    }
}

#[test]
fn a_request_alone_takes_its_preparation_and_its_run() {
    for pool in [WorldPool::Shared(vec![0]), WorldPool::Fixed(1)] {
        let mut spec = world("pard", pool, true);
        let every = |n: u64| Timestamp::from_micros(n * 100_000);
        spec.slo = PREPARATION + RUN;
        let counts = run(&spec, (0..50).map(every).collect()).requests;
        assert_eq!((counts.delivered, counts.late, counts.dropped), (50, 0, 0));
        // A run without preparation would fit into it.
        spec.slo = RUN + Span::from_millis(5);
        let counts = run(&spec, (0..50).map(every).collect()).requests;
        assert_eq!((counts.delivered, counts.late, counts.dropped), (0, 0, 50));
    }
}
