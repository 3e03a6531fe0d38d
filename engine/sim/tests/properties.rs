//! Properties that hold in every world, whatever its shape, its pools, its faults and its policy. Whatever fails prints
//! the seed that its world is drawn from.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_policy::{Arbitration, BatchBinding, DropRule, Mailboxes, Order, Policy, Queueing, Sizing};
use weir_sim::{SimulationResult, simulate};
use weir_types::invariant::{Kind, counted};
use weir_types::{Span, invariant};

use crate::common::books;
use crate::common::drawn::Drawn;

/// Far beyond what any drawn world can have to do.
const STUCK_AFTER: Span = Span::from_secs(3_600);

/// Every rule, and the forms of those that have several.
fn rules() -> Vec<DropRule> {
    let named = DropRule::NAMES.iter().map(|name| serde_json::json!(name));
    let forms = [
        serde_json::json!({"rule": "pard", "queueing": "recent", "samples": 200}),
        serde_json::json!({"rule": "nexus", "scan": "deadline"}),
        serde_json::json!({"rule": "clipper++", "budget": "local"}),
        serde_json::json!({"rule": "weir", "quantile": 0.5}),
        serde_json::json!({"rule": "oc", "threshold": "5ms", "alpha": 0.8}),
    ];
    let read = |value| serde_json::from_value(value).expect("a rule as in TOML");
    named.chain(forms).map(read).collect()
}

/// Policies that combine every value of every key with every rule, though not in all combinations.
fn policies() -> Vec<Policy> {
    let mut policies = Vec::new();
    for drop in rules() {
        for turn in 0..5 {
            let orders = [
                Order::Adaptive,
                Order::Fcfs,
                Order::Hbf,
                Order::Lbf,
                Order::Instant,
            ];
            let arbitrations = [
                Arbitration::DownstreamFirst,
                Arbitration::LeastSlack,
                Arbitration::Fifo,
                Arbitration::Weighted,
            ];
            policies.push(Policy {
                drop: drop.clone(),
                order: Some(orders[turn]),
                forming: Some([BatchBinding::Late, BatchBinding::Early][turn % 2]),
                arbitration: arbitrations[turn % 4],
                mailbox: Some([Mailboxes::Pool, Mailboxes::Worker, Mailboxes::Worker][turn % 3]),
                sweep: Some(turn % 2 == 0),
                fair: Some(turn % 3 > 0),
                sizing: [None, Some(Sizing::Fair), Some(Sizing::Together)][turn % 3],
                ..Policy::default()
            });
        }
    }
    policies
}

fn run(drawn: &Drawn) -> SimulationResult {
    // A world that is stuck would tick for ever.
    simulate(
        &drawn.spec,
        "drawn",
        &mut drawn.arrivals.iter().copied(),
        &mut |now| {
            assert!(
                now.micros() < STUCK_AFTER.micros(),
                "stuck: still at work at {now:?}"
            )
        },
    )
}

/// Draws a world of each seed for each policy and looks at each; says which ones failed.
fn every_world(seeds: std::ops::Range<u64>, each: impl Fn(&Drawn)) {
    let mut failed = Vec::new();
    for (number, policy) in (0_u64..).zip(policies()) {
        for seed in seeds.clone() {
            let seed = seed * 1_000 + number;
            let drawn = Drawn::new(policy.clone(), seed);
            if catch_unwind(AssertUnwindSafe(|| each(&drawn))).is_err() {
                failed.push((seed, format!("{:?}", drawn.spec.policy)));
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} worlds failed, by seed: {:#?}",
        failed.len(),
        &failed[..failed.len().min(8)]
    );
}

#[test]
fn the_books_add_up_and_everything_ends_once() {
    every_world(0..4, |drawn| books::check(drawn, &run(drawn)));
}

#[test]
fn a_world_ends_soon_after_its_work_is_done() {
    every_world(4..6, |drawn| {
        let ran = run(drawn);
        let looks = ran.timeline.priorities.iter().flatten();
        let last = looks.map(|(second, ..)| *second).fold(0.0, f64::max);
        let most = drawn.over_by(&ran.items).as_secs_f64();
        assert!(last <= most, "still at work after {last} s, not {most} s");
        assert!(ran.report.latency_ms.max <= most * 1e3);
    });
}

#[test]
fn the_same_seed_gives_the_same_run_to_the_byte() {
    let results = |ran: &SimulationResult| {
        let report = serde_json::to_string(&ran.report).expect("a report is JSON");
        format!("{report} {:?} {} {}", ran.timeline, ran.events, ran.policy_events)
    };
    every_world(6..7, |drawn| {
        let (one, two) = (run(drawn), run(drawn));
        assert!(results(&one) == results(&two), "two runs of one seed differ");
        assert_eq!(
            (one.arrivals, one.items, one.workers),
            (two.arrivals, two.items, two.workers)
        );
    });
}

#[test]
fn no_policy_beats_the_bound() {
    let losing = std::cell::Cell::new(0);
    every_world(7..11, |drawn| {
        if drawn.spec.noise > 0.0 {
            return;
        }
        let ran = run(drawn);
        if drawn.spec.cluster.is_some() {
            assert!(ran.bound(&drawn.spec).is_err(), "no bound is known for pipelines");
            return;
        }
        let limit = ran.bound(&drawn.spec).expect("the bound of its own run");
        let total = ran.report.requests;
        assert_eq!(limit.arrived, total.arrived);
        assert!(
            total.delivered <= limit.max_delivered && total.dropped + total.late >= limit.min_lost,
            "{total:?} against a bound of {} delivered, {} lost",
            limit.max_delivered,
            limit.min_lost
        );
        losing.set(losing.get() + usize::from(limit.min_lost > 0));
    });
    // A bound of zero would be kept by anything.
    assert!(losing.get() > 50, "only {} worlds had to lose any", losing.get());
}

/// A seed changes only the random draws within the world.
#[test]
fn another_seed_gives_other_noise() {
    let mut drawn = Drawn::new(Policy::default(), 3);
    drawn.spec.noise = 0.3;
    let one = run(&drawn);
    drawn.spec.seed += 1;
    let two = run(&drawn);
    assert_ne!(one.report.latency_ms, two.report.latency_ms);
}

/// With early binding and one mailbox per worker, as in the paper, the accounts hold as well: workers come,
/// go and fail.
#[test]
fn the_papers_setting_keeps_the_books_too() {
    for seed in 0..20 {
        let policy = Policy {
            drop: DropRule::Pard(weir_policy::Lookahead {
                queueing: Queueing::Recent,
                ..weir_policy::Lookahead::default()
            }),
            forming: Some(BatchBinding::Early),
            mailbox: Some(Mailboxes::Worker),
            sweep: Some(false),
            fair: Some(false),
            ..Policy::default()
        };
        let mut drawn = Drawn::new(policy, 50_000 + seed);
        drawn.spec.max_in_flight = None;
        drawn.spec.slo = Span::from_millis(400);
        books::check(&drawn, &run(&drawn));
    }
}

/// In a release build, where violations are otherwise counted, a simulation panics as in any build.
#[test]
fn a_simulation_panics_where_an_invariant_is_broken() {
    let drawn = Drawn::new(Policy::default(), 3);
    let mut arrivals = drawn.arrivals.iter().copied().inspect(|at| {
        invariant!(false, Kind::Ledger, "a request arrives at {at:?}");
    });
    let simulate = || simulate(&drawn.spec, "broken", &mut arrivals, &mut |_| {});
    let (simulated, violations) = counted(|| catch_unwind(AssertUnwindSafe(simulate)));
    let panic = simulated.expect_err("it went on");
    let what = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(
        what.starts_with("invariant ledger broken: a request arrives"),
        "{what}"
    );
    assert!(violations.is_empty());
}
