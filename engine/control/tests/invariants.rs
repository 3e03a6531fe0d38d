//! Invariants for every policy, graph and load; the world checks most of them at every step.

use crate::common::scenario::{Items, Scenario, Stream, Vertex};
use crate::common::world::World;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_policy::*;
use weir_types::*;

fn rules() -> Vec<DropRule> {
    let table = |name: &&str| match *name {
        "pard" => serde_json::json!({"rule": "pard", "samples": 200}),
        other => serde_json::json!(other),
    };
    DropRule::NAMES
        .iter()
        .map(|name| serde_json::from_value(table(name)).unwrap())
        .collect()
}

fn policies() -> Vec<Policy> {
    let mut policies = Vec::new();
    for drop in rules() {
        for order in [
            Order::Adaptive,
            Order::Fcfs,
            Order::Hbf,
            Order::Lbf,
            Order::Instant,
        ] {
            for forming in [BatchBinding::Early, BatchBinding::Late] {
                for arbitration in [
                    Arbitration::LeastSlack,
                    Arbitration::DownstreamFirst,
                    Arbitration::Fifo,
                    Arbitration::Weighted,
                ] {
                    policies.push(Policy {
                        drop: drop.clone(),
                        order: Some(order),
                        forming: Some(forming),
                        arbitration,
                        ..Policy::default()
                    });
                }
            }
        }
    }
    policies
}

/// A random scenario: chain, diamond or wide split, own or shared slots, below or above capacity.
fn scenario(policy: Policy, seed: u64) -> Scenario {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let next: Vec<Vec<u32>> = match random.random_range(0..4) {
        0 => vec![vec![1], vec![2], vec![]],
        1 => vec![vec![1, 2], vec![3], vec![3], vec![]],
        2 => vec![vec![1, 2, 3, 4], vec![5], vec![5], vec![], vec![5], vec![]],
        _ => vec![vec![]],
    };
    let shared = random.random_bool(0.5);
    let slots = if shared {
        random.random_range(1..4)
    } else {
        next.len() as u32 + 1
    };
    let mut vertices = Vec::new();
    for (id, next) in (0_u32..).zip(next) {
        let one = random.random_range(2..20);
        let mut own: Vec<u32> = (0..slots).filter(|_| random.random_bool(0.7)).collect();
        if own.is_empty() {
            own.push(0);
        }
        vertices.push(Vertex {
            next,
            slots: if shared { own } else { vec![id] },
            batch: [vec![1], vec![1, 2, 4], vec![3], vec![2, 8]][random.random_range(0..4)].clone(),
            profile: vec![(1, one), (8, one * random.random_range(2..8))],
            items: [Items::Fixed(1), Items::UpTo(3), Items::Fixed(5), Items::UpTo(12)]
                [random.random_range(0..4)],
        });
    }
    let mut streams = Vec::new();
    for _ in 0..random.random_range(1..4) {
        streams.push(Stream {
            frames: 60,
            period: Span::from_millis(random.random_range(5..80)),
            poisson: random.random_bool(0.7),
            lossless: random.random_bool(0.25),
            max_in_flight: random.random_range(2..40),
            slo: None,
        });
    }
    Scenario {
        seed,
        policy,
        slo: Span::from_millis(random.random_range(100..600)),
        slots,
        vertices,
        streams,
        noise: [0.0, 0.3][random.random_range(0..2)],
        message_delay: Span::from_micros([0, 50, 3_000][random.random_range(0..3)]),
        batch_events: random.random_bool(0.5),
        json: false,
        failure_rate: 0.0,
        flaky_slot: None,
        changes: Vec::new(),
    }
}

/// Runs random scenarios and reports those that failed; `change` adapts each to the test.
fn check_every_world(
    seeds: std::ops::Range<u64>,
    change: impl Fn(&mut Scenario),
    each: impl Fn(&Scenario, World),
) {
    let mut failed = Vec::new();
    for (number, policy) in (0_u64..).zip(policies()) {
        for seed in seeds.clone() {
            let mut scenario = scenario(policy.clone(), seed * 1_000 + number);
            change(&mut scenario);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                each(&scenario, World::new(scenario.clone()).run());
            }));
            if outcome.is_err() {
                failed.push((seed * 1_000 + number, format!("{:?}", scenario.policy)));
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} worlds failed, first: {:#?}",
        failed.len(),
        &failed[..failed.len().min(8)]
    );
}

#[test]
fn requests_are_conserved_and_end_once() {
    check_every_world(
        0..3,
        |_| (),
        |scenario, world| {
            let total = world.ledger().total();
            let sent: u32 = scenario.streams.iter().map(|stream| stream.frames).sum();
            assert_eq!(total.arrived, u64::from(sent));
            // If the SLO is shorter than the time of a request alone, a policy that looks ahead runs none.
            assert!(world.site.runs > 0 || scenario.policy.is_predictive());
            if scenario.policy.drop == DropRule::None {
                assert_eq!(world.dropped_by().iter().sum::<u64>(), 0);
            }
        },
    );
}

#[test]
fn the_same_seed_gives_the_same_run_through_json() {
    check_every_world(
        7..8,
        |scenario| scenario.json = true,
        |scenario, world| {
            let json_round_trip = World::new(scenario.clone()).run();
            assert!(
                world.site.log == json_round_trip.site.log,
                "two runs of one seed differ"
            );
            assert_eq!(world.ledger().total(), json_round_trip.ledger().total());
        },
    );
}

/// The books of the world count by the request's own objective: what it has as delivered was in time.
#[test]
fn requests_with_objectives_of_their_own_are_conserved_and_end_once() {
    let own = |scenario: &mut Scenario| {
        let slos = [None, Some(Span::from_millis(150)), Some(Span::from_secs(2))];
        for (stream, slo) in scenario.streams.iter_mut().zip(slos.into_iter().cycle().skip(1)) {
            stream.slo = slo;
        }
    };
    check_every_world(40..41, own, |scenario, world| {
        let total = world.ledger().total();
        let sent: u32 = scenario.streams.iter().map(|stream| stream.frames).sum();
        assert_eq!(total.arrived, u64::from(sent));
    });
}

#[test]
fn failed_batches_and_lost_slots_leak_no_requests() {
    let flap_slot = |scenario: &mut Scenario| {
        scenario.failure_rate = 0.05;
        scenario.flaky_slot = Some(scenario.slots - 1);
    };
    check_every_world(20..21, flap_slot, |_, world| assert!(world.site.runs > 0));
}

/// Whatever is applied over whatever, and however often, no request is lost, and it is decided the same once more.
#[test]
fn policies_and_shares_that_change_while_requests_wait_lose_none() {
    let change = |scenario: &mut Scenario| {
        let all = policies();
        let from = scenario.seed as usize;
        // Steps that are coprime to the number of policies meet all pairs of rules, orders and bindings.
        scenario.changes = (0..5)
            .map(|step| all[(from + step * 37) % all.len()].clone())
            .collect();
        scenario.json = scenario.seed.is_multiple_of(4);
    };
    check_every_world(60..61, change, |scenario, world| {
        let total = world.ledger().total();
        let sent: u32 = scenario.streams.iter().map(|stream| stream.frames).sum();
        assert_eq!(total.arrived, u64::from(sent));
        let again = World::new(scenario.clone()).run();
        assert!(world.site.log == again.site.log, "two runs of one seed differ");
    });
}
