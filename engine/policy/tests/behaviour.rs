//! What the policies are for, in worlds whose outcome can be worked out by hand.

mod common;

use common::world::{Items, Scene, Stream, Vertex, World};
use weir_policy::*;

fn policy(drop: &str, order: Order) -> Policy {
    Policy {
        drop: serde_json::from_value(serde_json::json!(drop)).unwrap(),
        order,
        ..Policy::default()
    }
}

/// A chain, a slot and a batch of one each, frames at a fixed period for `secs`.
fn chain(policy: Policy, durations_ms: &[u64], period_ms: u64, secs: u64) -> Scene {
    let last = durations_ms.len() as u32 - 1;
    let vertex = |(id, &ms): (u32, &u64)| Vertex {
        next: if id == last { vec![] } else { vec![id + 1] },
        slots: vec![id],
        batch: vec![1],
        profile: vec![(1, ms)],
        items: Items::Fixed(1),
    };
    Scene {
        seed: 1,
        policy,
        slo: Span::from_millis(400),
        slots: last + 1,
        vertices: (0..).zip(durations_ms).map(vertex).collect(),
        streams: vec![Stream {
            frames: (secs * 1_000 / period_ms) as u32,
            period: Span::from_millis(period_ms),
            poisson: false,
            lossless: false,
            most: 100_000,
        }],
        noise: 0.0,
        hop: Span::ZERO,
        bursts: true,
        json: false,
    }
}

fn delivered(outcome: Outcome) -> bool {
    outcome == Outcome::Delivered
}

#[test]
fn half_loaded_chain_delivers_all_in_the_sum_of_its_durations() {
    for forming in [Forming::Late, Forming::Eager] {
        let policy = Policy {
            forming,
            ..policy("pard", Order::Adaptive)
        };
        let world = World::new(chain(policy, &[10, 10, 10], 20, 20)).run();
        assert_eq!(world.ledger.total().delivered, 1_000);
        assert!(
            world
                .latencies()
                .iter()
                .all(|&latency| latency == Span::from_millis(30)),
            "{forming:?}"
        );
    }
}

#[test]
fn twice_overloaded_pard_keeps_its_goodput_and_none_collapses() {
    let (from, to) = (10, 30);
    let mut figures = Vec::new();
    for (rule, order, forming) in [
        ("pard", Order::Adaptive, Forming::Late),
        ("pard", Order::Adaptive, Forming::Eager),
        ("none", Order::Fcfs, Forming::Late),
    ] {
        let policy = Policy {
            forming,
            ..policy(rule, order)
        };
        let world = World::new(chain(policy, &[10, 10, 10], 5, to)).run();
        let late = world.ended(from, to, |outcome| outcome == Outcome::Late);
        figures.push((world.ended(from, to, delivered) as f64 / (to - from) as f64, late));
        println!(
            "{rule} {forming:?}: {:?}, {:?}",
            figures.last(),
            world.dropped_by()
        );
    }
    assert!(figures[0].0 >= 95.0 && figures[1].0 >= 95.0, "{figures:?}");
    assert!(figures[0].1 <= 20 && figures[1].1 <= 20, "{figures:?}");
    assert!(figures[2].0 < figures[0].0 / 3.0, "{figures:?}");
}

#[test]
fn pard_drops_before_a_slow_last_module_and_back_at_it() {
    for forming in [Forming::Late, Forming::Eager] {
        for order in [Order::Adaptive, Order::Fcfs, Order::Lbf, Order::Hbf] {
            let drops = |rule| {
                let policy = Policy {
                    forming,
                    ..policy(rule, order)
                };
                let world = World::new(chain(policy, &[5, 5, 20], 10, 60)).run();
                let goodput = world.ended(10, 60, delivered) as f64 / 50.0;
                println!(
                    "{rule} {forming:?} {order:?}: {:?} {goodput} {:.3}",
                    world.dropped_by(),
                    world.ledger.invalid_rate()
                );
                (world.dropped_by(), goodput)
            };
            let (pard, back) = (drops("pard"), drops("back"));
        }
    }
}
