//! A module that waits for items runs a batch as soon as there are enough, and in time if there are not.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use weir_policy::gears::{Fallback, InvocationSize};
use weir_policy::{Module, ModuleEffect, ModuleEvent, ModuleInfo, ModuleSpec, Policy, Pool};
use weir_types::{ModuleId, Profile, RequestId, SlotId, Span, StreamId, Timestamp, Topology};

/// One slot; 10 ms for an item and 16 for four, requests with a second.
fn module(pool: Pool) -> Module {
    Module::new(spec(pool, 1))
}

/// Several slots are replicas with a queue each.
fn spec(pool: Pool, slots: u32) -> ModuleSpec {
    let profile = Profile::new(vec![(1, Span::from_millis(10)), (4, Span::from_millis(16))]).unwrap();
    ModuleSpec {
        ends: if slots > 1 {
            vec![profile.clone(); slots as usize]
        } else {
            Vec::new()
        },
        id: ModuleId(0),
        slo: Span::from_secs(1),
        policy: Policy::default(),
        slots: (0..slots).map(SlotId).collect(),
        pool,
        batch: vec![1, 2, 4],
        profile: profile.clone(),
        topology: Topology::new(vec![vec![]]),
        peers: vec![ModuleInfo {
            profile,
            batch: vec![1, 2, 4],
            workers: slots,
            fallback: Fallback::Never,
        }],
        share: 1.0,
        shares: Vec::new(),
        seed: 1,
        generate: None,
        overlap: None,
    }
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_micros(ms * 1_000)
}

fn arrived(request: u64, ms: u64) -> ModuleEvent {
    ModuleEvent::Arrived {
        request: RequestId(request),
        stream: StreamId(0),
        sent_at: at(ms),
        items: 1,
        droppable: true,
        slo: None,
    }
}

fn waits_for(items: u32, wait: Span) -> ModuleEvent {
    ModuleEvent::InvocationChanged {
        invocation: InvocationSize { items, wait },
    }
}

fn step(module: &mut Module, ms: u64, events: impl IntoIterator<Item = ModuleEvent>) -> Vec<ModuleEffect> {
    let mut effects = Vec::new();
    module.step(events, at(ms), &mut effects);
    effects
}

fn bids(effects: &[ModuleEffect]) -> bool {
    effects
        .iter()
        .any(|effect| matches!(effect, ModuleEffect::Bid(_)))
}

fn cancels(effects: &[ModuleEffect]) -> bool {
    effects
        .iter()
        .any(|effect| matches!(effect, ModuleEffect::CancelBid { .. }))
}

/// Items of the batches that run.
fn runs(effects: &[ModuleEffect]) -> Vec<u32> {
    let run = |effect: &ModuleEffect| match effect {
        ModuleEffect::Run { slices, .. } => Some(slices.iter().map(|slice| slice.count).sum()),
        _ => None,
    };
    effects.iter().filter_map(run).collect()
}

fn timer(effects: &[ModuleEffect]) -> Option<Timestamp> {
    let at = |effect: &ModuleEffect| match effect {
        ModuleEffect::SetTimer { at } => Some(*at),
        _ => None,
    };
    effects.iter().filter_map(at).min()
}

#[test]
fn it_bids_for_a_slot_with_enough_items_and_not_before() {
    let mut module = module(Pool::Shared);
    step(&mut module, 0, [waits_for(3, Span::from_millis(50))]);
    let first = step(&mut module, 10, [arrived(0, 10)]);
    assert!(!bids(&first));
    assert_eq!(timer(&first), Some(at(60)), "it looks again then");
    assert!(!bids(&step(&mut module, 20, [arrived(1, 20)])));
    assert!(bids(&step(&mut module, 30, [arrived(2, 30)])));
    let run = step(&mut module, 31, [ModuleEvent::Granted { slot: SlotId(0) }]);
    assert_eq!(runs(&run), [3]);
}

#[test]
fn it_runs_with_less_when_the_first_has_waited_long_enough() {
    let mut module = module(Pool::Shared);
    step(&mut module, 0, [waits_for(3, Span::from_millis(50))]);
    step(&mut module, 10, [arrived(0, 10)]);
    assert!(!bids(&step(&mut module, 59, [])));
    assert!(bids(&step(&mut module, 60, [])));
    // Even with a long wait, half of the remaining time is left: of 1,000 ms, 984 remain with a batch of
    // four.
    let mut patient = self::module(Pool::Shared);
    step(&mut patient, 0, [waits_for(3, Span::from_secs(60))]);
    let first = step(&mut patient, 0, [arrived(0, 0)]);
    assert_eq!(timer(&first), Some(at(492)));
    assert!(bids(&step(&mut patient, 492, [])));
}

#[test]
fn another_gear_holds_at_once() {
    let mut module = module(Pool::Shared);
    step(&mut module, 0, [waits_for(4, Span::from_millis(200))]);
    assert!(!bids(&step(&mut module, 10, [arrived(0, 10), arrived(1, 10)])));
    let changed = step(&mut module, 20, [waits_for(1, Span::ZERO)]);
    assert!(bids(&changed), "what waits runs");
    let back = step(&mut module, 30, [waits_for(4, Span::from_millis(200))]);
    assert!(cancels(&back), "a bid that was not granted is withdrawn");
    // A batch holds four: it waits for no more.
    let full = step(
        &mut module,
        40,
        [
            waits_for(9, Span::from_millis(200)),
            arrived(2, 40),
            arrived(3, 40),
        ],
    );
    assert!(bids(&full));
}

#[test]
fn on_a_slot_of_its_own_it_waits_as_well() {
    let mut module = module(Pool::Own);
    step(&mut module, 0, [waits_for(2, Span::from_millis(50))]);
    assert_eq!(runs(&step(&mut module, 10, [arrived(0, 10)])), [0; 0]);
    assert_eq!(runs(&step(&mut module, 20, [arrived(1, 20)])), [2]);
}

fn slot_waits_for(slot: u32, items: u32) -> ModuleEvent {
    ModuleEvent::SlotInvocationSet {
        slot: SlotId(slot),
        invocation: InvocationSize {
            items,
            wait: Span::from_millis(50),
        },
    }
}

/// Two replicas, all items of which are for the first: it waits for three.
fn replicas(pool: Pool) -> Module {
    let mut module = Module::new(spec(pool, 2));
    let share = |slot, share| ModuleEvent::SlotShareSet {
        slot: SlotId(slot),
        share: Some(share),
    };
    step(
        &mut module,
        0,
        [share(0, 1.0), share(1, 0.0), slot_waits_for(0, 3)],
    );
    module
}

#[test]
fn replica_runs_when_enough_items_of_its_own_queue_wait() {
    let mut module = replicas(Pool::Own);
    let first = step(&mut module, 10, [arrived(0, 10)]);
    assert_eq!(runs(&first), [0; 0], "the free replica beside it takes no item");
    assert_eq!(timer(&first), Some(at(60)));
    assert_eq!(runs(&step(&mut module, 20, [arrived(1, 20)])), [0; 0]);
    assert_eq!(runs(&step(&mut module, 30, [arrived(2, 30)])), [3]);
}

#[test]
fn replica_runs_with_less_when_its_first_item_has_waited_long_enough() {
    let mut module = replicas(Pool::Own);
    step(&mut module, 10, [arrived(0, 10)]);
    assert_eq!(runs(&step(&mut module, 59, [])), [0; 0]);
    assert_eq!(runs(&step(&mut module, 60, [])), [1]);
    let mut other = replicas(Pool::Own);
    step(&mut other, 10, [arrived(0, 10)]);
    assert_eq!(
        runs(&step(&mut other, 20, [slot_waits_for(0, 1)])),
        [1],
        "in another gear"
    );
}

#[test]
fn replica_on_a_shared_slot_bids_for_that_slot_alone() {
    let mut module = replicas(Pool::Shared);
    assert!(!bids(&step(&mut module, 10, [arrived(0, 10), arrived(1, 10)])));
    let enough = step(&mut module, 20, [arrived(2, 20)]);
    let slots = enough.iter().filter_map(|effect| match effect {
        ModuleEffect::Bid(bid) => Some(bid.slot),
        _ => None,
    });
    assert_eq!(slots.collect::<Vec<_>>(), [Some(SlotId(0))]);
    let run = step(&mut module, 21, [ModuleEvent::Granted { slot: SlotId(0) }]);
    assert_eq!(runs(&run), [3]);
}
