//! Goodput and drops of the policies, in scenarios with outcomes known in advance.

#![allow(clippy::print_stdout, reason = "figures are printed")]

use crate::common::scenario::{Items, Scenario, Stream, Vertex};
use crate::common::world::{World, specs};
use weir_policy::*;
use weir_types::*;

fn policy(drop: &str, order: Order) -> Policy {
    Policy {
        drop: serde_json::from_value(serde_json::json!(drop)).unwrap(),
        order: Some(order),
        ..Policy::default()
    }
}

/// A chain, a slot and a batch of one each, frames at a fixed period for `secs`.
fn chain(policy: Policy, durations_ms: &[u64], period_ms: u64, secs: u64) -> Scenario {
    let last = durations_ms.len() as u32 - 1;
    let vertex = |(id, &ms): (u32, &u64)| Vertex {
        next: if id == last { vec![] } else { vec![id + 1] },
        slots: vec![id],
        batch: vec![1],
        profile: vec![(1, ms)],
        items: Items::Fixed(1),
    };
    Scenario {
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
            max_in_flight: 100_000,
            slo: None,
        }],
        noise: 0.0,
        message_delay: Span::ZERO,
        batch_events: true,
        json: false,
        failure_rate: 0.0,
        flaky_slot: None,
        changes: Vec::new(),
    }
}

fn delivered(outcome: Outcome) -> bool {
    outcome == Outcome::Delivered
}

#[test]
fn half_loaded_chain_delivers_all_in_the_sum_of_its_durations() {
    for forming in [BatchBinding::Late, BatchBinding::Early] {
        let policy = Policy {
            forming: Some(forming),
            ..policy("pard", Order::Adaptive)
        };
        let world = World::new(chain(policy, &[10, 10, 10], 20, 20)).run();
        assert_eq!(world.ledger().total().delivered, 1_000);
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
    let mut results = Vec::new();
    for (rule, order, forming) in [
        ("pard", Order::Adaptive, BatchBinding::Late),
        ("pard", Order::Adaptive, BatchBinding::Early),
        ("none", Order::Fcfs, BatchBinding::Late),
    ] {
        let policy = Policy {
            forming: Some(forming),
            ..policy(rule, order)
        };
        let world = World::new(chain(policy, &[10, 10, 10], 5, to)).run();
        let late = world.ended(from, to, |outcome| outcome == Outcome::Late);
        results.push((world.ended(from, to, delivered) as f64 / (to - from) as f64, late));
        println!(
            "{rule} {forming:?}: {:?}, {:?}",
            results.last(),
            world.dropped_by()
        );
    }
    assert!(results[0].0 >= 95.0 && results[1].0 >= 95.0, "{results:?}");
    assert!(results[0].1 <= 20 && results[1].1 <= 20, "{results:?}");
    assert!(results[2].0 < results[0].0 / 3.0, "{results:?}");
}

/// Drops by module, goodput a second and the invalid rate, with a last module of half the input's rate.
fn slow_last_module(rule: &str, order: Order, forming: BatchBinding) -> (Vec<u64>, f64, f64) {
    let policy = Policy {
        forming: Some(forming),
        ..policy(rule, order)
    };
    let world = World::new(chain(policy, &[5, 5, 20], 10, 60)).run();
    let goodput = world.ended(10, 60, delivered) as f64 / 50.0;
    println!(
        "{rule} {forming:?} {order:?}: {:?}, {goodput}/s of 50, invalid {:.3}",
        world.dropped_by(),
        world.ledger().invalid_rate()
    );
    (world.dropped_by(), goodput, world.ledger().invalid_rate())
}

/// If requests queue in order, the wait of a new one is predictable, and pard drops it before work is spent. The rest arrives
/// between two states of the last module.
#[test]
fn pard_drops_before_a_slow_last_module_and_back_at_it() {
    for forming in [BatchBinding::Late, BatchBinding::Early] {
        for order in [Order::Fcfs, Order::Lbf] {
            let (pard, goodput, invalid) = slow_last_module("pard", order, forming);
            let (back, _, invalid_back) = slow_last_module("back", order, forming);
            assert!(pard[0] + pard[1] > 3 * pard[2], "{forming:?} {order:?}: {pard:?}");
            assert!(
                back[2] > 9 * (back[0] + back[1]),
                "{forming:?} {order:?}: {back:?}"
            );
            assert!(goodput >= 47.5, "{forming:?} {order:?}: {goodput}");
            assert!(invalid < invalid_back / 2.0, "{invalid} and {invalid_back}");
        }
    }
}

/// High budget first serves new requests at once, so their estimates stay feasible whatever the queue: no capacity may be
/// lost by it.
#[test]
fn high_budget_first_keeps_a_slow_last_module_busy() {
    for forming in [BatchBinding::Late, BatchBinding::Early] {
        for order in [Order::Adaptive, Order::Hbf] {
            assert!(slow_last_module("pard", order, forming).1 >= 47.5);
        }
    }
}

/// Under sustained overload the adaptive order switches to high budget first once, and serves requests of short waits; low
/// budget first serves requests close to their deadline.
#[test]
fn adaptive_order_turns_to_high_budget_under_overload() {
    let median = |order| {
        let world = World::new(chain(policy("pard", order), &[10, 10, 10], 5, 20)).run();
        let mut latencies = world.latencies();
        latencies.sort_unstable();
        (
            latencies[latencies.len() / 2],
            world.controller.modules()[0].policy().priority_switches(),
        )
    };
    let ((adaptive, switches), (lbf, _)) = (median(Order::Adaptive), median(Order::Lbf));
    println!("median {adaptive} adaptive, {lbf} lbf, {switches} switches");
    assert!((1..=2).contains(&switches), "{switches}");
    assert!(
        adaptive < Span::from_millis(100) && lbf > Span::from_millis(300),
        "{adaptive}, {lbf}"
    );
}

/// Three modules share two slots at twice the load: downstream first wastes less device time than FIFO.
#[test]
fn downstream_first_wastes_less_than_fifo_on_shared_slots() {
    let wasted = |rule, arbitration| {
        let policy = Policy {
            arbitration,
            ..policy(rule, Order::Fcfs)
        };
        let mut scenario = chain(policy, &[10, 10, 10], 8, 30);
        scenario.slots = 2;
        for vertex in &mut scenario.vertices {
            vertex.slots = vec![0, 1];
        }
        let world = World::new(scenario).run();
        let goodput = world.ended(5, 30, delivered) as f64 / 25.0;
        println!(
            "{rule} {arbitration:?}: {:?} {goodput}/s of 66, invalid {:.3}",
            world.dropped_by(),
            world.ledger().invalid_rate()
        );
        (world.ledger().invalid_rate(), goodput)
    };
    for rule in ["pard", "back", "clipper++"] {
        let (downstream, fifo) = (
            wasted(rule, Arbitration::DownstreamFirst),
            wasted(rule, Arbitration::Fifo),
        );
        wasted(rule, Arbitration::LeastSlack);
        assert!(
            downstream.0 <= fifo.0 && downstream.1 >= fifo.1 * 0.98,
            "{rule}: {downstream:?}, {fifo:?}"
        );
    }
}

/// A request in the mailbox or in an early bound batch is dropped at the moment it becomes infeasible, not at the next tick.
#[test]
fn requests_are_dropped_as_soon_as_they_become_infeasible() {
    let ms = |ms| Timestamp::ZERO + Span::from_millis(ms);
    for forming in [BatchBinding::Late, BatchBinding::Early] {
        let policy = Policy {
            forming: Some(forming),
            ..policy("pard", Order::Adaptive)
        };
        let mut scenario = chain(policy, &[10], 20, 1);
        scenario.slo = Span::from_millis(100);
        scenario.vertices[0].batch = vec![1, 4];
        scenario.vertices[0].profile = vec![(1, 10), (4, 12)];
        let mut module = Module::new(specs(&scenario).0.remove(0));
        let mut effects = Vec::new();
        let arrived = |request, droppable| ModuleEvent::Arrived {
            request: RequestId(request),
            stream: StreamId(0),
            sent_at: ms(0),
            items: 1,
            droppable,
            slo: None,
        };
        module.step([arrived(1, true), arrived(2, false)], ms(1), &mut effects);
        let at = ms(90) + Span::from_micros(1);
        assert!(effects.contains(&ModuleEffect::SetTimer { at }), "{effects:?}");
        effects.clear();
        module.step([], at, &mut effects);
        let drop = ModuleEffect::Drop {
            request: RequestId(1),
            reason: DropReason::Infeasible,
            // 10 ms alone, and less than that is left.
            shortfall: Some(Shortfall {
                execution: Span::from_millis(10),
                remaining: ms(100).since(at),
                ..Shortfall::default()
            }),
        };
        assert!(effects.contains(&drop), "{forming:?}: {effects:?}");
        effects.clear();
        module.step([ModuleEvent::Granted { slot: SlotId(0) }], ms(200), &mut effects);
        let ran = effects
            .iter()
            .any(|effect| matches!(effect, ModuleEffect::Run { slices, .. } if slices.len() == 1));
        assert!(
            ran && module.requests() == 1,
            "an undroppable request runs: {effects:?}"
        );
    }
}

/// Twelve equal streams at three times the capacity: the least and the greatest drop rate of a stream.
fn extremes(drop: &str, fair: bool, fair_streams: bool) -> (f64, f64) {
    let mut scenario = chain(
        Policy {
            fair: Some(fair),
            fair_streams: Some(Switch::Is(fair_streams)),
            ..policy(drop, Order::Adaptive)
        },
        &[10, 10, 10],
        40,
        20,
    );
    scenario.streams = vec![scenario.streams[0].clone(); 12];
    let world = World::new(scenario).run();
    let rates: Vec<f64> = (0..12)
        .map(|stream| world.ledger().stream(StreamId(stream)).drop_rate())
        .collect();
    let total = world.ledger().total().drop_rate();
    assert!((total - 2.0 / 3.0).abs() < 0.03, "{drop}: {total}");
    let least = rates.iter().copied().fold(1.0, f64::min);
    (least, rates.iter().copied().fold(0.0, f64::max))
}

#[test]
fn streams_with_synchronised_frames_share_the_drops() {
    for drop in ["pard", "weir"] {
        for (fair, fair_streams) in [(true, false), (false, true)] {
            let (least, most) = extremes(drop, fair, fair_streams);
            assert!(most - least < 0.25, "{drop}: {least} to {most}");
        }
        let (least, most) = extremes(drop, false, false);
        assert!(
            most - least > 0.5,
            "{drop}, strictly by budget: {least} to {most}"
        );
    }
}

/// Late events about an unknown request, slot or peer leave a module unchanged; a slot granted to it is
/// declined.
#[test]
fn unknown_things_are_passed_over() {
    let scene = chain(policy("pard", Order::Adaptive), &[10, 10], 20, 1);
    let mut module = Module::new(specs(&scene).0.remove(0));
    let (slot, request) = (SlotId(99), RequestId(99));
    let mut effects = Vec::new();
    let events = [
        ModuleEvent::Cancelled { request },
        ModuleEvent::Granted { slot },
        ModuleEvent::Forecast {
            slot,
            free_at: Timestamp::MAX,
        },
        ModuleEvent::PeerState(ModuleState::initial(ModuleId(99), Span::MAX).into()),
        ModuleEvent::Share { share: f64::NAN },
        ModuleEvent::Tick,
    ];
    module.step(events, Timestamp::MAX, &mut effects);
    assert!(
        effects.contains(&ModuleEffect::Decline { slot }) && module.requests() == 0,
        "{effects:?}"
    );
}
