//! Tests of slots on a device whose memory does not hold all models: cases, and random runs in which memory
//! is never exceeded, no running model is closed, and every bid is served.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use weir_types::Topology;

use super::*;
use crate::residency::ModelMemory;
use crate::strategy::{Arbitration, QueueOperations, SlotPlanning, SlotQueues};

const COLD: Span = Span::from_millis(20);
const WARM: Span = Span::from_millis(5);
const RUN: Span = Span::from_millis(10);

/// Independent modules, each with its own model, on all slots of one device.
pub(super) fn spec(slots: u32, memory: u64, bytes: &[u64]) -> SlotsSpec {
    spec_on(1, slots, memory, bytes)
}

/// The same on several devices, each with so many slots and so much memory; modules are assigned to them in
/// turn.
fn spec_on(devices: u32, slots: u32, memory: u64, bytes: &[u64]) -> SlotsSpec {
    let slots_of =
        |device: u32| -> Vec<SlotId> { (device * slots..(device + 1) * slots).map(SlotId).collect() };
    let placements = (0..bytes.len() as u32).map(|id| Placement {
        routed: false,
        module: ModuleId(id),
        slots: slots_of(id % devices),
        weight: 1.0,
        optional: false,
        model: Some(ModelId(id)),
        live: false,
    });
    let device = |device: u32| {
        let own = (0..).zip(bytes).filter(|(id, _)| id % devices == device);
        let models = own.map(|(id, &bytes)| DeviceModel {
            model: ModelId(id),
            slots: slots_of(device),
            memory: ModelMemory {
                device_bytes: bytes,
                host_bytes: bytes,
            },
            open_cold: COLD,
            open_warm: WARM,
        });
        DeviceMemory {
            memory,
            host_memory: 1_000,
            models: models.collect(),
        }
    };
    SlotsSpec {
        slots: devices * slots,
        placements: placements.collect(),
        arbitration: Arbitration::LeastSlack,
        topology: Topology::new(vec![vec![]; bytes.len()]),
        forecasts: false,
        overlapped: Vec::new(),
        memory: (0..devices).map(device).collect(),
        queues: None,
        planning: SlotPlanning::default(),
    }
}

pub(super) fn ms(ms: u64) -> Timestamp {
    Timestamp::ZERO + Span::from_millis(ms)
}

pub(super) fn bid(module: u32, latest_start: u64) -> SlotEvent {
    let bid = Bid {
        slot: None,
        latest_start: ms(latest_start),
        since: ms(0),
        duration: RUN,
        backlog: None,
    };
    SlotEvent::Bid {
        module: ModuleId(module),
        bid,
    }
}

pub(super) fn started(module: u32, slot: u32) -> SlotEvent {
    SlotEvent::Started {
        module: ModuleId(module),
        slot: SlotId(slot),
        expected: RUN,
    }
}

pub(super) fn finished(module: u32, slot: u32) -> SlotEvent {
    SlotEvent::Finished {
        module: ModuleId(module),
        slot: SlotId(slot),
        took: RUN,
    }
}

pub(super) fn opened(model: u32, slot: u32, warm: bool) -> SlotEvent {
    SlotEvent::Opened {
        slot: SlotId(slot),
        model: ModelId(model),
        warm,
        took: if warm { WARM } else { COLD },
    }
}

pub(super) fn closed(model: u32, slot: u32) -> SlotEvent {
    SlotEvent::Closed {
        slot: SlotId(slot),
        model: ModelId(model),
        took: Span::ZERO,
    }
}

pub(super) fn step(
    slots: &mut Slots,
    events: impl IntoIterator<Item = SlotEvent>,
    at: u64,
) -> Vec<SlotEffect> {
    let mut effects = Vec::new();
    slots.step(events, ms(at), &mut effects);
    effects
}

fn open(model: u32, warm: bool) -> SlotEffect {
    SlotEffect::Open {
        slot: SlotId(0),
        model: ModelId(model),
        warm,
    }
}

fn grant(module: u32) -> SlotEffect {
    SlotEffect::Grant {
        module: ModuleId(module),
        slot: SlotId(0),
    }
}

#[test]
fn a_model_is_opened_before_its_module_is_granted_the_slot_and_the_next_time_from_host_memory() {
    let mut slots = Slots::new(spec(1, 10, &[10, 10]));
    assert_eq!(step(&mut slots, [bid(0, 500)], 0), [open(0, false)]);
    assert_eq!(slots.used_bytes(), [10]);
    assert_eq!(step(&mut slots, [bid(1, 100)], 5), [], "it is opening");
    assert_eq!(step(&mut slots, [opened(0, 0, false)], 20), [grant(0)]);
    // The turn lasts four times as long as opening took.
    assert_eq!(step(&mut slots, [started(0, 0)], 20), []);
    assert_eq!(step(&mut slots, [finished(0, 0), bid(0, 500)], 30), [grant(0)]);
    let close = SlotEffect::Close {
        slot: SlotId(0),
        model: ModelId(0),
    };
    step(&mut slots, [started(0, 0)], 30);
    assert_eq!(step(&mut slots, [finished(0, 0), bid(0, 500)], 101), [close]);
    assert_eq!(step(&mut slots, [closed(0, 0)], 101), [open(1, false)]);
    assert_eq!(step(&mut slots, [opened(1, 0, false)], 121), [grant(1)]);
    // No work asks for the second model any more: after a while the first one, whose bid waits, is opened.
    step(&mut slots, [started(1, 0)], 121);
    let due = SlotEffect::SetTimer { at: ms(136) };
    assert_eq!(step(&mut slots, [finished(1, 0)], 131), [due]);
    let close = SlotEffect::Close {
        slot: SlotId(0),
        model: ModelId(1),
    };
    assert_eq!(step(&mut slots, [SlotEvent::TimerFired], 136), [close]);
    assert_eq!(step(&mut slots, [closed(1, 0)], 136), [open(0, true)]);
}

#[test]
fn a_model_that_cannot_be_opened_costs_one_batch_and_is_tried_again() {
    let mut slots = Slots::new(spec(1, 10, &[10, 10]));
    let failed = SlotEvent::OpenFailed {
        slot: SlotId(0),
        model: ModelId(0),
        took: Span::ZERO,
    };
    assert_eq!(step(&mut slots, [bid(0, 500)], 0), [open(0, false)]);
    assert_eq!(step(&mut slots, [failed], 1), [grant(0)]);
    assert_eq!(slots.used_bytes(), [0]);
    step(&mut slots, [started(0, 0)], 1);
    assert_eq!(
        step(&mut slots, [finished(0, 0), bid(0, 500)], 2),
        [open(0, false)]
    );
}

#[test]
fn where_all_models_have_a_place_nothing_is_opened_and_queues_decide_nothing() {
    for queues in [None, Some(SlotQueues::Virtual)] {
        // Two models of 10 on each of two slots.
        let mut roomy = spec(2, 40, &[10, 10]);
        roomy.queues = queues;
        let plain = SlotsSpec {
            memory: Vec::new(),
            queues: None,
            ..roomy.clone()
        };
        let [mut roomy, mut plain] = [roomy, plain].map(Slots::new);
        let events = [
            (vec![with_backlog(0, 500, 0, 8), with_backlog(1, 40, 0, 8)], 0),
            (vec![started(1, 0), started(0, 1), bid(1, 60)], 1),
            (vec![finished(0, 1), bid(0, 500)], 11),
        ];
        let mut granted = 0;
        for (events, now) in events {
            let effects = step(&mut roomy, events.clone(), now);
            assert_eq!(effects, step(&mut plain, events, now));
            granted += effects
                .iter()
                .filter(|effect| matches!(effect, SlotEffect::Grant { .. }))
                .count();
        }
        assert_eq!(granted, 3);
        assert_eq!(roomy.used_bytes(), [0; 0]);
        assert!(roomy.queues_report().is_none());
    }
}

#[test]
fn a_model_moves_to_the_slot_that_gets_its_work() {
    let mut slots = Slots::new(spec(2, 10, &[10]));
    let share = |slot, share| SlotEvent::ShareSet {
        module: ModuleId(0),
        slot: SlotId(slot),
        share: Some(share),
    };
    // The model is opened before there is work for it.
    let shares = [share(0, 1.0), share(1, 0.0)];
    assert_eq!(step(&mut slots, shares, 0), [open(0, false)]);
    assert_eq!(
        step(&mut slots, [opened(0, 0, false), bid(0, 500)], 20),
        [grant(0)]
    );
    step(&mut slots, [started(0, 0)], 20);
    step(&mut slots, [finished(0, 0)], 30);
    let close = SlotEffect::Close {
        slot: SlotId(0),
        model: ModelId(0),
    };
    let moved = [share(0, 0.0), share(1, 1.0), bid(0, 900)];
    assert_eq!(step(&mut slots, moved, 100), [close]);
    let open = SlotEffect::Open {
        slot: SlotId(1),
        model: ModelId(0),
        warm: true,
    };
    assert_eq!(step(&mut slots, [closed(0, 0)], 101), [open]);
    let grant = SlotEffect::Grant {
        module: ModuleId(0),
        slot: SlotId(1),
    };
    assert_eq!(step(&mut slots, [opened(0, 1, true)], 106), [grant]);
}

#[test]
fn a_slot_that_is_lost_gives_its_memory_to_the_others() {
    let mut slots = Slots::new(spec(2, 10, &[10]));
    assert_eq!(step(&mut slots, [bid(0, 500)], 0), [open(0, false)]);
    assert_eq!(step(&mut slots, [opened(0, 0, false)], 20), [grant(0)]);
    step(&mut slots, [started(0, 0)], 20);
    // The slot is lost while it runs; its session loses its turn, and is closed for one on a usable slot.
    step(&mut slots, [SlotEvent::Down { slot: SlotId(0) }], 25);
    let due = SlotEffect::SetTimer { at: ms(35) };
    assert_eq!(step(&mut slots, [finished(0, 0), bid(0, 500)], 30), [due]);
    let close = SlotEffect::Close {
        slot: SlotId(0),
        model: ModelId(0),
    };
    assert_eq!(step(&mut slots, [SlotEvent::TimerFired], 35), [close]);
    assert_eq!(slots.used_bytes(), [10]);
    let open = SlotEffect::Open {
        slot: SlotId(1),
        model: ModelId(0),
        warm: true,
    };
    assert_eq!(step(&mut slots, [closed(0, 0)], 36), [open]);
    let grant = SlotEffect::Grant {
        module: ModuleId(0),
        slot: SlotId(1),
    };
    assert_eq!(step(&mut slots, [opened(0, 1, true)], 41), [grant]);
}

#[test]
fn each_device_has_its_own_memory() {
    let mut slots = Slots::new(spec_on(2, 1, 10, &[10, 10, 10, 10]));
    let open = |model: u32, slot: u32| SlotEffect::Open {
        slot: SlotId(slot),
        model: ModelId(model),
        warm: false,
    };
    assert_eq!(
        step(&mut slots, [bid(0, 500), bid(1, 500)], 0),
        [open(0, 0), open(1, 1)]
    );
    assert_eq!(slots.used_bytes(), [10, 10]);
    step(&mut slots, [opened(0, 0, false), opened(1, 1, false)], 20);
    step(&mut slots, [started(0, 0), started(1, 1)], 20);
    // An unused session on the first device is closed for another one there, but not on the second device.
    step(&mut slots, [finished(0, 0), bid(2, 500)], 30);
    let close = SlotEffect::Close {
        slot: SlotId(0),
        model: ModelId(0),
    };
    let effects = step(&mut slots, [SlotEvent::TimerFired], 60);
    let closes = effects
        .iter()
        .filter(|effect| matches!(effect, SlotEffect::Close { .. }));
    assert_eq!(closes.collect::<Vec<_>>(), [&close]);
    assert!(step(&mut slots, [closed(0, 0)], 60).contains(&open(2, 0)));
    assert_eq!(slots.used_bytes(), [10, 10]);
}

#[test]
fn what_opens_counts_as_busy_in_forecasts() {
    let mut spec = spec(1, 10, &[10, 10]);
    spec.forecasts = true;
    let mut slots = Slots::new(spec);
    let effects = step(&mut slots, [bid(0, 500)], 0);
    let free_at = |module: u32, at: u64| SlotEffect::Forecast {
        module: ModuleId(module),
        slot: SlotId(0),
        free_at: ms(at),
    };
    // The first is opened until 20 ms; after it the second would have to be opened, behind the first's batch.
    assert!(effects.contains(&free_at(0, 20)), "{effects:?}");
    assert!(effects.contains(&free_at(1, 50)), "{effects:?}");
}

#[test]
fn events_of_sessions_out_of_turn_are_violations() {
    for event in [opened(0, 0, false), closed(0, 0)] {
        crate::violation::assert_violates(Kind::Slots, || {
            step(&mut Slots::new(spec(1, 10, &[10])), [event], 0);
        });
    }
}

fn with_backlog(module: u32, latest_start: u64, since: u64, batches: u64) -> SlotEvent {
    let bid = Bid {
        slot: None,
        latest_start: ms(latest_start),
        since: ms(since),
        duration: RUN,
        backlog: Some(WaitingWork {
            items: batches as u32,
            time: RUN * batches,
        }),
    };
    SlotEvent::Bid {
        module: ModuleId(module),
        bid,
    }
}

/// Returns the model that is opened first on one slot with memory for one model. The first module has waited
/// longest and is not urgent. The second is late in any order. The third has little work and would be late
/// behind the second.
fn opened_first(queues: SlotQueues) -> u32 {
    let mut spec = spec(1, 10, &[10, 10, 10]);
    spec.queues = Some(queues);
    let mut slots = Slots::new(spec);
    let bids = [
        with_backlog(0, 50_000, 0, 3),
        with_backlog(1, 300, 900, 100),
        with_backlog(2, 1_300, 3, 1),
    ];
    let effects = step(&mut slots, bids, 1_000);
    let opened = effects.iter().find_map(|effect| match effect {
        SlotEffect::Open { model, .. } => Some(model.0),
        _ => None,
    });
    opened.unwrap()
}

#[test]
fn each_rule_of_queues_has_its_order() {
    assert_eq!(opened_first(SlotQueues::Fcfs), 0);
    assert_eq!(opened_first(SlotQueues::Edf), 1);
    assert_eq!(opened_first(SlotQueues::Sticky), 1);
    // Work that is late in any order does not delay work that can be in time.
    assert_eq!(opened_first(SlotQueues::Virtual), 2);
}

#[test]
fn what_is_open_is_served_until_nothing_waits_for_it_by_sticky_alone() {
    for (queues, stays) in [(SlotQueues::Sticky, true), (SlotQueues::Edf, false)] {
        let mut spec = spec(1, 10, &[10, 10]);
        spec.queues = Some(queues);
        let mut slots = Slots::new(spec);
        step(&mut slots, [bid(0, 100)], 0);
        step(&mut slots, [opened(0, 0, false)], 20);
        step(&mut slots, [started(0, 0)], 20);
        let effects = step(&mut slots, [bid(1, 50), finished(0, 0), bid(0, 9_000)], 3_000);
        assert_eq!(effects.contains(&grant(0)), stays, "{queues:?}: {effects:?}");
    }
}

#[test]
fn a_plan_is_made_when_work_is_expected_to_be_late_and_its_estimates_are_held_against_what_came() {
    let mut spec = spec(1, 10, &[10, 10]);
    spec.queues = Some(SlotQueues::Virtual);
    let mut slots = Slots::new(spec);
    // In time by any order: no plan.
    step(&mut slots, [with_backlog(0, 10_000, 0, 1)], 0);
    assert_eq!(slots.queues_report().map(|report| report.replans), Some(0));
    step(&mut slots, [opened(0, 0, false)], 20);
    step(&mut slots, [started(0, 0)], 20);
    step(&mut slots, [finished(0, 0)], 30);
    let effects = step(&mut slots, [with_backlog(1, 20, 25, 8)], 30);
    let planned = effects
        .iter()
        .any(|effect| matches!(effect, SlotEffect::Planned { .. }));
    assert!(planned, "{effects:?}");
    let report = slots.queues_report().unwrap();
    assert_eq!((report.replans, report.violations_predicted), (1, 1));
    assert_eq!(report.groups, 2);
}

#[test]
fn groups_have_delta_batches_at_most_and_what_is_behind_waits_for_a_place_in_the_order() {
    let groups = |delta: u32, batches: u64| {
        let mut spec = spec(1, 10, &[10, 10]);
        spec.queues = Some(SlotQueues::Virtual);
        spec.planning.delta = delta;
        let mut slots = Slots::new(spec);
        step(&mut slots, [with_backlog(0, 10_000, 0, batches)], 0);
        slots.queues_report().unwrap().groups
    };
    assert_eq!(
        [1, 4, 5, 40, 1_000].map(|batches| groups(4, batches)),
        [1, 1, 2, 10, 16]
    );
    assert_eq!(
        [1, 4, 5, 40, 1_000].map(|batches| groups(1, batches)),
        [1, 4, 5, 16, 16]
    );
    assert_eq!([8, 40].map(|batches| groups(16, batches)), [1, 3]);
}

/// Slots on which a model is opened for one module with so many waiting batches, out of two slots.
fn opened_on(operations: QueueOperations, batches: u64) -> Vec<u32> {
    let mut spec = spec(2, 20, &[10, 10]);
    spec.queues = Some(SlotQueues::Virtual);
    spec.planning.operations = operations;
    let mut slots = Slots::new(spec);
    let effects = step(&mut slots, [with_backlog(1, 10_000, 0, batches)], 0);
    let opened = effects.iter().filter_map(|effect| match effect {
        SlotEffect::Open { slot, .. } => Some(slot.0),
        _ => None,
    });
    opened.collect()
}

#[test]
fn operations_of_planned_queues_are_switched_off_one_by_one() {
    let all = QueueOperations::default();
    // A group goes to the slot that finishes it first; without balance, to the slot in turn, by the module's
    // id.
    assert_eq!(opened_on(all, 2), [0]);
    let without = QueueOperations {
        balance: false,
        ..all
    };
    assert_eq!(opened_on(without, 2), [1]);
    // Without reordering no plan is made, whatever will be late.
    for (operations, replans) in [
        (all, 1),
        (
            QueueOperations {
                reorder: false,
                ..all
            },
            0,
        ),
    ] {
        let mut spec = spec(1, 10, &[10, 10]);
        spec.queues = Some(SlotQueues::Virtual);
        spec.planning.operations = operations;
        let mut slots = Slots::new(spec);
        step(&mut slots, [with_backlog(0, 20, 0, 8)], 30);
        assert_eq!(slots.queues_report().unwrap().replans, replans);
    }
    // Without warm start, host memory is not used.
    let mut spec = spec(1, 10, &[10, 10]);
    spec.planning.operations.warm_start = false;
    let mut slots = Slots::new(spec);
    step(&mut slots, [bid(0, 500)], 0);
    let effects = step(&mut slots, [opened(0, 0, false)], 20);
    assert!(
        effects.contains(&SlotEffect::Discard { model: ModelId(0) }),
        "{effects:?}"
    );
}

#[test]
fn planned_work_of_a_device_that_is_lost_delays_no_other_and_is_served_once_it_is_back() {
    for queues in [SlotQueues::Virtual, SlotQueues::Shepherd] {
        // Modules 0 and 2 have the first device, 1 and 3 the second.
        let mut spec = spec_on(2, 1, 10, &[10, 10, 10, 10]);
        spec.queues = Some(queues);
        let mut slots = Slots::new(spec);
        let opens = |effects: &[SlotEffect]| -> Vec<u32> {
            let opened = effects.iter().filter_map(|effect| match effect {
                SlotEffect::Open { model, .. } => Some(model.0),
                _ => None,
            });
            opened.collect()
        };
        step(&mut slots, [SlotEvent::Down { slot: SlotId(0) }], 0);
        let effects = step(&mut slots, [bid(0, 20)], 10);
        assert!(opens(&effects).is_empty(), "{queues:?}");
        // No work on the usable device is expected to be late, so no plan is due.
        let effects = step(&mut slots, [bid(1, 500)], 100);
        assert_eq!(opens(&effects), [1], "{queues:?}");
        assert_eq!(slots.queues_report().unwrap().replans, 0, "{queues:?}");
        let effects = step(&mut slots, [SlotEvent::Up { slot: SlotId(0) }], 101);
        assert_eq!(opens(&effects), [0], "{queues:?}");
    }
}

/// A world of drawn bids, batches and openings.
struct Drawn {
    slots: Slots,
    sizes: Vec<u64>,
    memory: u64,
    /// Slots of each device.
    device_slots: u32,
    /// Devices whose memory does not hold all of their models.
    short: Vec<u32>,
    /// Slots that are lost at present.
    down: BTreeSet<u32>,
    /// Pending events, by time and then by order of insertion.
    due: BTreeMap<(u64, u64), SlotEvent>,
    order: u64,
    /// Models open by slot, as effects and events have it.
    open: BTreeSet<(u32, u32)>,
    /// The model that runs on each slot.
    running: BTreeMap<u32, u32>,
    /// Time of each module's bid that is not served yet.
    asked: BTreeMap<u32, u64>,
    longest_wait: u64,
    openings: u64,
}

impl Drawn {
    fn push(&mut self, at: u64, event: SlotEvent) {
        self.order += 1;
        self.due.insert((at, self.order), event);
    }

    fn apply(&mut self, effect: SlotEffect, now: u64) {
        match effect {
            SlotEffect::Open { slot, model, warm } => {
                assert!(!self.running.contains_key(&slot.0), "a slot opens while it runs");
                self.openings += 1;
                self.push(now + if warm { 5 } else { 20 }, opened(model.0, slot.0, warm));
            }
            SlotEffect::Close { slot, model } => {
                assert_ne!(
                    self.running.get(&slot.0),
                    Some(&model.0),
                    "what runs is not closed"
                );
                assert!(self.open.remove(&(slot.0, model.0)), "what is closed was open");
                self.push(now + 1, closed(model.0, slot.0));
            }
            SlotEffect::Grant { module, slot } => {
                assert!(self.open.contains(&(slot.0, module.0)), "what is granted is open");
                assert!(!self.down.contains(&slot.0), "what is granted is there");
                assert!(self.running.insert(slot.0, module.0).is_none());
                let since = self.asked.remove(&module.0).unwrap_or(now);
                self.longest_wait = self.longest_wait.max(now - since);
                self.push(now, started(module.0, slot.0));
                self.push(now + 10, finished(module.0, slot.0));
            }
            SlotEffect::SetTimer { at } => self.push(at.micros().div_ceil(1_000), SlotEvent::TimerFired),
            SlotEffect::Forecast { .. }
            | SlotEffect::Share { .. }
            | SlotEffect::Planned { .. }
            | SlotEffect::Discard { .. } => {}
        }
    }

    fn run(&mut self) {
        while let Some(((now, _), event)) = self.due.pop_first() {
            match event {
                SlotEvent::Bid { module, .. } => {
                    self.asked.entry(module.0).or_insert(now);
                }
                SlotEvent::Opened { slot, model, .. } => {
                    self.open.insert((slot.0, model.0));
                }
                SlotEvent::Finished { slot, .. } => {
                    self.running.remove(&slot.0);
                }
                SlotEvent::Down { slot } => {
                    self.down.insert(slot.0);
                }
                SlotEvent::Up { slot } => {
                    self.down.remove(&slot.0);
                }
                _ => {}
            }
            for effect in step(&mut self.slots, [event], now) {
                self.apply(effect, now);
            }
            for (&device, used) in self.short.iter().zip(self.slots.used_bytes()) {
                let own = self
                    .open
                    .iter()
                    .filter(|(slot, _)| slot / self.device_slots == device);
                let held: u64 = own.map(|(_, model)| self.sizes[*model as usize]).sum();
                assert!(
                    held <= used && used <= self.memory,
                    "device {device}: {held} {used} {}",
                    self.memory
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn memory_is_never_exceeded_nothing_that_runs_is_closed_and_every_bid_is_served(
        devices in 1_u32..3,
        slots in 1_u32..4,
        sizes in proptest::collection::vec(1_u64..10, 2..6),
        memory in 10_u64..20,
        bids in proptest::collection::vec((0_u64..3_000, 0_u32..6, 0_u64..400), 1..200),
        outages in proptest::collection::vec((0_u64..3_000, 0_u32..6, 1_u64..600), 0..4),
        live in proptest::collection::vec(any::<bool>(), 6),
        queues in prop_oneof![
            Just(None),
            Just(Some(SlotQueues::Fcfs)),
            Just(Some(SlotQueues::Edf)),
            Just(Some(SlotQueues::Shepherd)),
            Just(Some(SlotQueues::Sticky)),
            Just(Some(SlotQueues::Virtual)),
        ],
    ) {
        let mut spec = spec_on(devices, slots, memory, &sizes);
        spec.queues = queues;
        for (placement, live) in spec.placements.iter_mut().zip(&live) {
            placement.live = *live;
        }
        let is_short = |device: &u32| !spec.memory[*device as usize].holds_all();
        let (short, roomy): (Vec<u32>, Vec<u32>) = (0..devices).partition(is_short);
        // On a device that holds all its models, all are open.
        let open = |device: u32| {
            let own = (0..sizes.len() as u32).filter(move |model| model % devices == device);
            own.flat_map(move |model| (device * slots..(device + 1) * slots).map(move |slot| (slot, model)))
        };
        let mut world = Drawn {
            open: roomy.into_iter().flat_map(open).collect(),
            short,
            slots: Slots::new(spec),
            sizes: sizes.clone(),
            memory,
            device_slots: slots,
            down: BTreeSet::new(),
            due: BTreeMap::new(),
            order: 0,
            running: BTreeMap::new(),
            asked: BTreeMap::new(),
            longest_wait: 0,
            openings: 0,
        };
        let mut opens = false;
        for (at, module, slack) in bids {
            let module = module % sizes.len() as u32;
            opens |= world.short.contains(&(module % devices));
            world.push(at, bid(module, at + slack));
        }
        for (at, slot, lasts) in &outages {
            let slot = SlotId(slot % (devices * slots));
            world.push(*at, SlotEvent::Down { slot });
            world.push(at + lasts, SlotEvent::Up { slot });
        }
        world.run();
        prop_assert!(world.asked.is_empty(), "waiting: {:?}", world.asked);
        // Each module waits at most for the turns of all others, and for what they run and open.
        let bound = sizes.len() as u64 * 200;
        let shared = live.contains(&true);
        prop_assert!(queues.is_some() || !outages.is_empty() || shared || world.longest_wait <= bound, "{}", world.longest_wait);
        prop_assert_eq!(world.openings > 0, opens);
    }
}
