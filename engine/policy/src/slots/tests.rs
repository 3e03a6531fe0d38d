//! Cases of the slots' arbiter: order of bids, forecasts, shares and illegal events.

use weir_types::Topology;

use super::*;
use crate::strategy::{Arbitration, SlotPlanning};
use crate::violation::assert_violates;

/// Modules 0 -> 1 on the same slots.
fn chain(slots: u32, arbitration: Arbitration) -> Slots {
    let all: Vec<SlotId> = (0..slots).map(SlotId).collect();
    let placement = |module, weight| Placement {
        routed: false,
        module: ModuleId(module),
        slots: all.clone(),
        weight,
        optional: false,
        model: None,
        live: false,
    };
    Slots::new(SlotsSpec {
        slots,
        placements: vec![placement(0, 1.0), placement(1, 2.0)],
        arbitration,
        topology: Topology::new(vec![vec![ModuleId(1)], vec![]]),
        forecasts: false,
        overlapped: Vec::new(),
        memory: Vec::new(),
        queues: None,
        planning: SlotPlanning::default(),
    })
}

fn bid(module: u32, latest_start: u64, since: u64) -> SlotEvent {
    let (latest_start, since) = (
        Timestamp::from_micros(latest_start),
        Timestamp::from_micros(since),
    );
    let bid = Bid {
        slot: None,
        latest_start,
        since,
        duration: Span::from_millis(1),
        backlog: None,
    };
    SlotEvent::Bid {
        module: ModuleId(module),
        bid,
    }
}

fn step(slots: &mut Slots, events: impl IntoIterator<Item = SlotEvent>) -> Vec<(u32, u32)> {
    let mut effects = Vec::new();
    slots.step(events, Timestamp::ZERO, &mut effects);
    let grant = |effect: &SlotEffect| match effect {
        SlotEffect::Grant { module, slot } => Some((module.0, slot.0)),
        _ => None,
    };
    effects.iter().filter_map(grant).collect()
}

/// A slot that prepares ahead is granted again when the run of the previous batch begins. A module learns the
/// expected end of that run before it fills the next batch.
#[test]
fn a_slot_that_prepares_ahead_is_granted_again_when_a_run_begins() {
    let mut spec = chain(1, Arbitration::Fifo).spec;
    spec.overlapped = vec![SlotId(0)];
    let mut slots = Slots::new(spec);
    let (module, slot) = (ModuleId(0), SlotId(0));
    let started = SlotEvent::Started {
        module,
        slot,
        expected: Span::from_millis(5),
    };
    let launched = SlotEvent::Launched { module, slot };
    let finished = SlotEvent::Finished {
        module,
        slot,
        took: Span::from_millis(5),
    };
    assert_eq!(step(&mut slots, [bid(0, 9, 1)]), [(0, 0)]);
    assert_eq!(step(&mut slots, [started, bid(0, 9, 2)]), [], "it is prepared");
    let mut effects = Vec::new();
    slots.step([launched], Timestamp::from_micros(2_000), &mut effects);
    let forecast = SlotEffect::Forecast {
        module,
        slot,
        free_at: Timestamp::from_micros(7_000),
    };
    assert_eq!(effects, [forecast, SlotEffect::Grant { module, slot }]);
    // The outputs of the first may still be read when the second runs.
    assert_eq!(step(&mut slots, [started, launched, bid(1, 9, 3)]), [(1, 0)]);
    let declined = SlotEvent::Declined {
        module: ModuleId(1),
        slot,
    };
    assert_eq!(step(&mut slots, [finished, finished, declined]), []);
    assert_violates(weir_types::invariant::Kind::Slots, || {
        step(&mut slots, [finished]);
    });
}

/// Under any arbitration, an optional stage gets the time that all others leave.
#[test]
fn an_optional_module_has_what_others_leave() {
    for arbitration in [
        Arbitration::LeastSlack,
        Arbitration::DownstreamFirst,
        Arbitration::Fifo,
        Arbitration::Weighted,
    ] {
        let mut spec = chain(1, arbitration).spec;
        spec.placements[1].optional = true;
        let mut slots = Slots::new(spec);
        // It is the more urgent one, further on, and waits for longer.
        assert_eq!(
            step(&mut slots, [bid(1, 1, 1), bid(0, 9, 9)]),
            [(0, 0)],
            "{arbitration:?}"
        );
        let started = SlotEvent::Started {
            module: ModuleId(0),
            slot: SlotId(0),
            expected: Span::from_millis(1),
        };
        let finished = SlotEvent::Finished {
            module: ModuleId(0),
            slot: SlotId(0),
            took: Span::from_millis(1),
        };
        assert_eq!(step(&mut slots, [started, finished]), [(1, 0)], "{arbitration:?}");
    }
}

#[test]
fn each_arbiter_has_its_order() {
    let check = |arbitration, expected| {
        let mut slots = chain(1, arbitration);
        let slot = SlotId(0);
        assert_eq!(step(&mut slots, [bid(0, 0, 0)]), [(0, 0)]);
        step(
            &mut slots,
            [SlotEvent::Started {
                module: ModuleId(0),
                slot,
                expected: Span::from_millis(9),
            }],
        );
        assert_eq!(
            step(&mut slots, [bid(0, 10, 5), bid(1, 20, 7)]),
            [],
            "one batch at a time"
        );
        let took = Span::from_millis(9);
        let next = step(
            &mut slots,
            [SlotEvent::Finished {
                module: ModuleId(0),
                slot,
                took,
            }],
        );
        assert_eq!(next, [(expected, 0)], "{arbitration:?}");
    };
    check(Arbitration::LeastSlack, 0);
    check(Arbitration::DownstreamFirst, 1);
    check(Arbitration::Fifo, 0);
    check(Arbitration::Weighted, 1);
}

#[test]
fn a_bid_is_good_for_one_grant() {
    let mut slots = chain(2, Arbitration::Fifo);
    assert_eq!(step(&mut slots, [bid(0, 0, 0)]), [(0, 0)]);
    assert_eq!(step(&mut slots, [bid(0, 0, 0)]), [(0, 1)]);
    assert_eq!(step(&mut slots, [bid(1, 0, 0)]), []);
    let declined = SlotEvent::Declined {
        module: ModuleId(0),
        slot: SlotId(1),
    };
    assert_eq!(step(&mut slots, [declined]), [(1, 1)]);
}

#[test]
fn a_lost_slot_is_not_granted() {
    let mut slots = chain(1, Arbitration::Fifo);
    let slot = SlotId(0);
    assert_eq!(step(&mut slots, [SlotEvent::Down { slot }, bid(0, 0, 0)]), []);
    assert_eq!(step(&mut slots, [SlotEvent::Up { slot }]), [(0, 0)]);
}

#[test]
fn a_slot_that_returns_is_not_booked_beside_the_batch_that_was_granted_before() {
    let slot = SlotId(0);
    let module = ModuleId(0);
    let started = SlotEvent::Started {
        module,
        slot,
        expected: Span::from_millis(9),
    };
    let finished = SlotEvent::Finished {
        module,
        slot,
        took: Span::from_millis(9),
    };
    let (down, up) = (SlotEvent::Down { slot }, SlotEvent::Up { slot });
    // Lost while granted, while the batch runs, and back again before the batch is.
    let check = |before: &[SlotEvent], back: SlotEvent| {
        let mut slots = chain(1, Arbitration::Fifo);
        assert_eq!(step(&mut slots, [bid(0, 0, 0)]), [(0, 0)]);
        for event in before {
            assert_eq!(step(&mut slots, [*event, bid(1, 0, 0)]), [], "{before:?}");
        }
        assert_eq!(step(&mut slots, [back]), [(1, 0)], "{before:?}");
    };
    check(&[down, started, up], finished);
    check(&[started, down, up], finished);
    check(&[down, up, started], finished);
    check(&[down, started, finished], up);
    check(&[down, up], SlotEvent::Declined { module, slot });
}

#[test]
fn a_slot_that_is_started_finished_or_declined_out_of_turn_is_a_violation_and_keeps_its_state() {
    let slot = SlotId(0);
    let span = Span::from_millis(9);
    let started = |module| SlotEvent::Started {
        module: ModuleId(module),
        slot,
        expected: span,
    };
    let finished = |module| SlotEvent::Finished {
        module: ModuleId(module),
        slot,
        took: span,
    };
    let declined = |module| SlotEvent::Declined {
        module: ModuleId(module),
        slot,
    };
    // After `legal` events, `illegal` is a violation. Then module 1 bids, and is granted the slot if it is
    // free.
    let check = |legal: &[SlotEvent], illegal: SlotEvent, is_free: bool| {
        let granted = assert_violates(Kind::Slots, || {
            let mut slots = chain(1, Arbitration::Fifo);
            step(&mut slots, legal.iter().copied());
            step(&mut slots, [illegal]);
            step(&mut slots, [bid(1, 0, 0)])
        });
        assert_eq!(granted.len(), usize::from(is_free), "{legal:?} {illegal:?}");
    };
    let granted = bid(0, 0, 0);
    check(&[], started(0), true);
    check(&[], finished(0), true);
    check(&[], declined(0), true);
    check(&[granted], started(1), false);
    check(&[granted], finished(0), false);
    check(&[granted], declined(1), false);
}

#[test]
fn a_batch_that_is_started_or_finished_twice_is_a_violation() {
    let (module, slot, span) = (ModuleId(0), SlotId(0), Span::from_millis(9));
    let started = SlotEvent::Started {
        module,
        slot,
        expected: span,
    };
    let finished = SlotEvent::Finished {
        module,
        slot,
        took: span,
    };
    for twice in [vec![started, started], vec![started, finished, finished]] {
        assert_violates(Kind::Slots, || {
            let mut slots = chain(1, Arbitration::Fifo);
            step(&mut slots, [bid(0, 0, 0)]);
            step(&mut slots, twice.iter().copied());
        });
    }
}

#[test]
fn a_module_that_is_placed_nowhere_and_a_slot_that_is_not_there_are_violations() {
    assert_violates(Kind::Slots, || {
        step(&mut chain(1, Arbitration::Fifo), [bid(7, 0, 0)])
    });
    let (module, slot) = (ModuleId(0), SlotId(7));
    let declined = SlotEvent::Declined { module, slot };
    assert_violates(Kind::Slots, || step(&mut chain(1, Arbitration::Fifo), [declined]));
}

fn share(module: u32, slot: u32, share: Option<f64>) -> SlotEvent {
    SlotEvent::ShareSet {
        module: ModuleId(module),
        slot: SlotId(slot),
        share,
    }
}

/// Runs `batches` of module 0 in sequence, as fast as slots are free; returns how many ran on each slot.
fn shares_of(slots: &mut Slots, batches: u32) -> Vec<u32> {
    let span = Span::from_millis(1);
    let module = ModuleId(0);
    let mut ran = vec![0; slots.states.len()];
    for number in 0..batches {
        let granted = step(slots, [bid(0, 0, u64::from(number))]);
        let [(0, slot)] = granted[..] else {
            panic!("{granted:?}");
        };
        ran[slot as usize] += 1;
        let slot = SlotId(slot);
        let started = SlotEvent::Started {
            module,
            slot,
            expected: span,
        };
        let finished = SlotEvent::Finished {
            module,
            slot,
            took: span,
        };
        assert_eq!(step(slots, [started, finished]), []);
    }
    ran
}

#[test]
fn of_free_slots_the_one_that_is_behind_its_share_is_granted_and_another_gear_moves_the_work() {
    let mut slots = chain(2, Arbitration::Fifo);
    assert_eq!(shares_of(&mut slots, 100), [100, 0]);
    step(&mut slots, [share(0, 0, Some(0.25)), share(0, 1, Some(0.75))]);
    assert_eq!(shares_of(&mut slots, 100), [25, 75]);
    step(&mut slots, [share(0, 0, Some(0.0)), share(0, 1, Some(1.0))]);
    assert_eq!(shares_of(&mut slots, 100), [0, 100]);
    step(&mut slots, [share(0, 0, None), share(0, 1, None)]);
    assert_eq!(shares_of(&mut slots, 100), [100, 0]);
}

#[test]
fn a_module_is_placed_where_its_share_is_not_zero_unless_that_is_lost() {
    let mut slots = chain(2, Arbitration::Fifo);
    step(&mut slots, [share(0, 0, Some(0.0)), share(0, 1, Some(1.0))]);
    let (first, second) = (SlotId(0), SlotId(1));
    assert_eq!(step(&mut slots, [bid(0, 0, 0)]), [(0, 1)]);
    // The other slot is free, but not for this module.
    assert_eq!(step(&mut slots, [bid(0, 0, 1)]), []);
    assert_eq!(step(&mut slots, [bid(1, 0, 2)]), [(1, 0)]);
    let declined = SlotEvent::Declined {
        module: ModuleId(1),
        slot: first,
    };
    assert_eq!(step(&mut slots, [declined]), []);
    assert_eq!(step(&mut slots, [SlotEvent::Down { slot: second }]), [(0, 0)]);
}

#[test]
fn nothing_waits_for_a_slot_that_is_busy_while_another_one_is_free() {
    let mut slots = chain(2, Arbitration::Fifo);
    step(&mut slots, [share(0, 0, Some(0.1)), share(0, 1, Some(0.9))]);
    assert_eq!(step(&mut slots, [bid(0, 0, 0)]), [(0, 0)]);
    assert_eq!(step(&mut slots, [bid(0, 0, 1)]), [(0, 1)]);
}

#[test]
fn on_a_slot_that_is_ahead_of_its_share_others_go_first() {
    let mut two = chain(2, Arbitration::Fifo);
    step(&mut two, [share(0, 0, Some(0.1)), share(0, 1, Some(0.9))]);
    // The second is lost meanwhile: the first does all.
    let down = SlotEvent::Down { slot: SlotId(1) };
    step(&mut two, [down]);
    assert_eq!(shares_of(&mut two, 50), [50, 0]);
    assert_eq!(step(&mut two, [bid(0, 0, 0), bid(1, 9, 9)]), [(1, 0)]);
}
