//! Pooled pipelines: what is booked happens, what happens is booked, and everything is accounted for.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_policy::reservations::{BookingTable, ReserveSpec, ResourceUse};
use weir_types::{ClusterSpec, PipelineSpec, ServerId, ServerSpec, ShareId, ShareSpec, StageSpec};
use weir_types::{ModuleId, Profile, Span};

use super::*;

/// Two stages on a few servers each, one or two items a batch, at a load of about one.
fn world(seed: u64, feedback: bool, noise: f64) -> (PooledSpec, Vec<Vec<Timestamp>>) {
    let random = &mut Pcg64Mcg::seed_from_u64(seed);
    let pools = [random.random_range(1..4_u32), random.random_range(1..4_u32)];
    let shares = (0..pools[0] + pools[1])
        .map(|share| ShareSpec {
            server: ServerId(share),
            device: share,
            class: if share < pools[0] { "low" } else { "high" }.to_owned(),
        })
        .collect();
    let stage = |stage: u32, first: u32, pool: u32, per_item: u64| StageSpec {
        blocks: (stage, stage + 1),
        shares: (first..first + pool).map(ShareId).collect(),
        profile: Profile::new(vec![
            (1, Span::from_millis(per_item)),
            (2, Span::from_millis(per_item + 3)),
        ])
        .unwrap(),
        received_bytes: u64::from(stage) * 2_500_000,
    };
    let batch = random.random_range(1..3_u32);
    let pipeline = PipelineSpec {
        module: ModuleId(0),
        batch,
        stages: vec![stage(0, 0, pools[0], 8), stage(1, pools[0], pools[1], 6)],
    };
    let reserve = ReserveSpec {
        cluster: ClusterSpec {
            servers: vec![
                ServerSpec {
                    bandwidth_bps: 10_000_000_000
                };
                (pools[0] + pools[1]) as usize
            ],
            shares,
            pipelines: vec![pipeline],
        },
        tables: if seed.is_multiple_of(2) {
            BookingTable::BusyUntil
        } else {
            BookingTable::Intervals
        },
        feedback,
        corrected: false,
        head_min_fraction: 0.95,
    };
    let spec = PooledSpec {
        reserve,
        streams: vec![PooledStream {
            module: ModuleId(0),
            slo: Span::from_millis(60),
        }],
        dispatch: Dispatch::Reserved,
        noise,
        seed,
        trace: true,
    };
    let rate = 100.0 * f64::from(pools[0].min(pools[1]));
    (spec, vec![poisson(rate, Span::from_secs(3), seed)])
}

fn accounted(run: &PooledRun, seed: u64) {
    for stats in &run.streams {
        assert_eq!(
            stats.arrived,
            stats.delivered + stats.late + stats.dropped,
            "seed {seed}"
        );
        assert!(stats.delivered > 0, "seed {seed}");
    }
}

/// No share and no link is used twice at once.
fn used_once(spec: &PooledSpec, run: &PooledRun, seed: u64) {
    let server = |share: ShareId| spec.reserve.cluster.shares[share.index()].server.0;
    let mut spans = Vec::new();
    let mut ran_on = std::collections::BTreeMap::new();
    for span in &run.uses {
        match span.used {
            ResourceUse::Run => {
                ran_on.insert((span.booking, span.stage), span.share);
                spans.push((0, span.share.0, span.from, span.to));
            }
            ResourceUse::Transfer => {
                let sender = ran_on[&(span.booking, span.stage - 1)];
                spans.push((1, server(sender), span.from, span.to));
                spans.push((2, server(span.share), span.from, span.to));
            }
        }
    }
    spans.sort_unstable();
    for pair in spans.windows(2) {
        let same = (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1);
        assert!(!same || pair[0].3 <= pair[1].2, "seed {seed}: {pair:?}");
    }
}

#[test]
fn what_is_booked_happens() {
    for seed in 0..40 {
        let (spec, arrivals) = world(seed, false, 0.0);
        let run = simulate_pooled(&spec, &arrivals);
        accounted(&run, seed);
        used_once(&spec, &run, seed);
        assert_eq!(run.streams[0].late, 0, "seed {seed}: what is booked is in time");
        assert_eq!(run, simulate_pooled(&spec, &arrivals), "seed {seed}");
        // Over real shares and links, and reported, the same comes out.
        let (spec, _) = world(seed, true, 0.0);
        let mut reported = simulate_pooled(&spec, &arrivals);
        let mut booked = run;
        for run in [&mut reported, &mut booked] {
            run.uses.sort_by_key(|span| (span.booking, span.stage, span.used));
            run.busy_s.clear();
            run.probes = 0;
        }
        assert_eq!(reported, booked, "seed {seed}");
    }
}

/// That what begins begins when the tables say is asserted in the loop itself.
#[test]
fn the_tables_follow_what_happens() {
    let (mut reported, mut unreported) = (0.0, 0.0);
    for seed in 0..40 {
        for (feedback, missed) in [(true, &mut reported), (false, &mut unreported)] {
            let (spec, arrivals) = world(seed, feedback, 0.15);
            let run = simulate_pooled(&spec, &arrivals);
            accounted(&run, seed);
            used_once(&spec, &run, seed);
            *missed += run.streams[0].miss_rate();
        }
    }
    assert!(
        reported < unreported,
        "with reports {reported}, without {unreported}"
    );
}

#[test]
fn without_a_view_of_links_less_is_in_time() {
    let (mut reserved, mut reactive) = (0.0, 0.0);
    for seed in 0..40 {
        let (mut spec, arrivals) = world(seed, false, 0.0);
        reserved += simulate_pooled(&spec, &arrivals).streams[0].miss_rate();
        spec.dispatch = Dispatch::Reactive;
        let run = simulate_pooled(&spec, &arrivals);
        accounted(&run, seed);
        assert_eq!(run, simulate_pooled(&spec, &arrivals), "seed {seed}");
        reactive += run.streams[0].miss_rate();
    }
    assert!(reserved < reactive, "reserved {reserved}, reactive {reactive}");
}

#[test]
fn the_load_factor_is_the_greatest_that_misses_at_most_a_hundredth() {
    let check = |most: f64, expected: f64| {
        let found = load_factor(|factor| if factor > most + 1e-9 { 0.011 } else { 0.01 });
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    };
    check(1.0, 1.0);
    check(0.66, 0.65);
    check(0.05, 0.05);
    check(0.0, 0.0);
}
