//! Tests of modules on slots of different speed: the choice of slots, and that each request ends once.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use weir_types::{BatchId, ModuleId, Profile, RequestId, SlotId, Span, StreamId, Timestamp, Topology};

use super::{BatchSlice, Module, ModuleEffect, ModuleEvent, ModuleSpec, Pool};
use crate::measure::slot_profiles::SlotProfiles;
use crate::route::RouteRule;
use crate::slots::{Bid, Placement, SlotEvent, Slots, SlotsSpec};
use crate::strategy::SlotPlanning;
use crate::{ModuleInfo, Policy};

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

/// Slots 0, 1 and 2 take 10, 20 and 40 ms for one item, and twice that for four.
fn spec(rule: RouteRule) -> ModuleSpec {
    let end = |base: u64| Profile::new(vec![(1, ms(base)), (4, ms(2 * base))]).unwrap();
    let ends: Vec<Profile> = [10, 20, 40].map(end).into();
    let batch = vec![1, 2, 4];
    let SlotProfiles { profile, ends } = SlotProfiles::new(ends, &batch).unwrap();
    ModuleSpec {
        id: ModuleId(0),
        slo: ms(400),
        policy: Policy {
            route: Some(rule),
            ..Policy::default()
        },
        slots: (0..3).map(SlotId).collect(),
        pool: Pool::Own,
        batch: batch.clone(),
        profile: profile.clone(),
        ends,
        topology: Topology::new(vec![vec![]]),
        peers: vec![ModuleInfo {
            profile,
            batch,
            workers: 3,
            fallback: crate::gears::Fallback::Never,
        }],
        share: 1.0,
        shares: Vec::new(),
        seed: 1,
        generate: None,
        overlap: None,
    }
}

/// Another module on the same slots.
const OTHER: ModuleId = ModuleId(1);

/// The arbiter of the slots of the module and of another one.
fn arbiter() -> Slots {
    let placement = |module, routed| Placement {
        module,
        slots: (0..3).map(SlotId).collect(),
        weight: 1.0,
        optional: false,
        model: None,
        live: true,
        routed,
    };
    Slots::new(SlotsSpec {
        slots: 3,
        placements: vec![placement(ModuleId(0), true), placement(OTHER, false)],
        arbitration: Policy::default().arbitration,
        topology: Topology::new(vec![vec![], vec![]]),
        forecasts: false,
        overlapped: Vec::new(),
        memory: Vec::new(),
        queues: None,
        planning: SlotPlanning::default(),
    })
}

/// A module with its running batches.
struct Driven {
    module: Module,
    /// Arbiter of its slots; without one, they are the module's own.
    slots: Option<Slots>,
    /// Batches of the other module: their slots, and when they end.
    others: BTreeMap<SlotId, (Timestamp, Span)>,
    /// Duration of the next batch of the other module.
    other_takes: Span,
    now: Timestamp,
    running: BTreeMap<SlotId, (BatchId, Vec<BatchSlice>, Timestamp, Span)>,
    /// By request: its items, and those that have run.
    items: BTreeMap<RequestId, (u32, u32)>,
    deadlines: BTreeMap<RequestId, Timestamp>,
    ended: BTreeSet<RequestId>,
    dropped: u32,
    late: u32,
    /// By slot: requests that ran there.
    ran: BTreeMap<SlotId, Vec<RequestId>>,
    next: u64,
}

impl Driven {
    fn new(rule: RouteRule) -> Self {
        Self {
            module: Module::new(spec(rule)),
            slots: None,
            others: BTreeMap::new(),
            other_takes: Span::ZERO,
            now: Timestamp::ZERO,
            running: BTreeMap::new(),
            items: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            ended: BTreeSet::new(),
            dropped: 0,
            late: 0,
            ran: BTreeMap::new(),
            next: 0,
        }
    }

    /// On slots that an arbiter grants.
    fn shared(rule: RouteRule) -> Self {
        let pool = Pool::Shared;
        let mut driven = Self {
            module: Module::new(ModuleSpec { pool, ..spec(rule) }),
            slots: Some(arbiter()),
            ..Self::new(rule)
        };
        driven.slot_events(Vec::new());
        driven
    }

    /// The other module bids for a slot for that long.
    fn other_bids(&mut self, duration: Span) {
        self.other_takes = duration;
        let bid = Bid {
            latest_start: self.now,
            since: self.now,
            duration,
            slot: None,
            backlog: None,
        };
        self.slot_events(vec![SlotEvent::Bid { module: OTHER, bid }]);
    }

    /// Sends events to the arbiter, and its effects to the modules.
    fn slot_events(&mut self, events: Vec<SlotEvent>) {
        let Some(mut slots) = self.slots.take() else {
            return;
        };
        let mut effects = Vec::new();
        slots.step(events, self.now, &mut effects);
        self.slots = Some(slots);
        for effect in effects {
            match ModuleEvent::from_slots(effect) {
                Some((OTHER, ModuleEvent::Granted { slot })) => {
                    assert!(!self.running.contains_key(&slot), "a slot runs one batch");
                    let took = self.other_takes;
                    assert!(self.others.insert(slot, (self.now + took, took)).is_none());
                    self.slot_events(vec![SlotEvent::Started {
                        module: OTHER,
                        slot,
                        expected: took,
                    }]);
                }
                Some((ModuleId(0), event)) => self.event(event),
                _ => {}
            }
        }
    }

    /// A slot is lost, or back.
    fn slot_is_there(&mut self, slot: SlotId, is_there: bool) {
        if self.slots.is_some() {
            self.slot_events(vec![if is_there {
                SlotEvent::Up { slot }
            } else {
                SlotEvent::Down { slot }
            }]);
        } else {
            self.event(if is_there {
                ModuleEvent::SlotUp { slot }
            } else {
                ModuleEvent::SlotDown { slot }
            });
        }
    }

    /// Changes the share of the work that a slot gets.
    fn share(&mut self, slot: SlotId, share: Option<f64>) {
        self.event(ModuleEvent::SlotShareSet { slot, share });
        self.slot_events(vec![SlotEvent::ShareSet {
            module: ModuleId(0),
            slot,
            share,
        }]);
    }

    fn tick(&mut self) {
        self.event(ModuleEvent::Tick);
        self.slot_events(vec![SlotEvent::Tick]);
    }

    fn arrive(&mut self, items: u32, slo: Span) -> RequestId {
        let request = RequestId(self.next);
        self.next += 1;
        self.items.insert(request, (items, 0));
        self.deadlines.insert(request, self.now + slo);
        self.event(ModuleEvent::Arrived {
            request,
            stream: StreamId(0),
            sent_at: self.now,
            items,
            droppable: true,
            slo: Some(slo),
        });
        request
    }

    fn event(&mut self, event: ModuleEvent) {
        let mut effects = Vec::new();
        self.module.step([event], self.now, &mut effects);
        let module = ModuleId(0);
        let mut asked = Vec::new();
        for effect in effects {
            match effect {
                ModuleEffect::Bid(bid) => asked.push(SlotEvent::Bid { module, bid }),
                ModuleEffect::CancelBid { slot } => asked.push(SlotEvent::BidCancelled { module, slot }),
                ModuleEffect::Decline { slot } => asked.push(SlotEvent::Declined { module, slot }),
                ModuleEffect::Run {
                    slot,
                    batch,
                    slices,
                    expected,
                } => {
                    let size = slices.iter().map(|slice| slice.count).sum();
                    let took = spec(RouteRule::Earliest).ends[slot.index()].duration(size);
                    assert!(expected > Span::ZERO && size <= 4);
                    assert!(!self.others.contains_key(&slot), "a slot runs one batch");
                    asked.push(SlotEvent::Started {
                        module,
                        slot,
                        expected,
                    });
                    for slice in &slices {
                        self.ran.entry(slot).or_default().push(slice.request);
                    }
                    let end = self.now + took;
                    assert!(self.running.insert(slot, (batch, slices, end, took)).is_none());
                }
                ModuleEffect::Forward { request } => {
                    assert!(self.ended.insert(request), "it ends once");
                    let (items, back) = self.items[&request];
                    assert_eq!(items, back, "all of it ran");
                    self.late += u32::from(self.now > self.deadlines[&request]);
                }
                ModuleEffect::Drop { request, .. } => {
                    assert!(self.ended.insert(request), "it ends once");
                    self.dropped += 1;
                }
                _ => {}
            }
        }
        if !asked.is_empty() {
            self.slot_events(asked);
        }
    }

    /// Advances to the end of the next batch, or to `until`; returns whether a batch ended.
    fn batch_done(&mut self, until: Timestamp) -> bool {
        let first_other = self.others.iter().min_by_key(|(_, (end, _))| *end);
        let own_end = self.running.values().map(|(_, _, end, _)| *end).min();
        if let Some((&slot, &(end, took))) = first_other
            && end <= until
            && own_end.is_none_or(|own| end <= own)
        {
            self.now = self.now.max(end);
            self.others.remove(&slot);
            self.slot_events(vec![SlotEvent::Finished {
                module: OTHER,
                slot,
                took,
            }]);
            return true;
        }
        let next = self.running.iter().min_by_key(|(_, (_, _, end, _))| *end);
        let Some((slot, end)) = next
            .map(|(slot, (_, _, end, _))| (*slot, *end))
            .filter(|(_, end)| *end <= until)
        else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(end);
        let (batch, slices, _, took) = self.running.remove(&slot).unwrap();
        for slice in slices {
            if let Some((_, back)) = self.items.get_mut(&slice.request) {
                *back += slice.count;
            }
        }
        self.event(ModuleEvent::Finished { batch, took });
        self.slot_events(vec![SlotEvent::Finished {
            module: ModuleId(0),
            slot,
            took,
        }]);
        true
    }

    fn pass(&mut self, span: Span) {
        let until = self.now + span;
        while self.batch_done(until) {}
    }

    fn place_of(&self, request: RequestId) -> Option<SlotId> {
        let ran = self.ran.iter().find(|(_, all)| all.contains(&request));
        ran.map(|(slot, _)| *slot)
    }
}

fn rule(name: &str) -> RouteRule {
    RouteRule::all()
        .into_iter()
        .find(|rule| rule.name() == name)
        .unwrap()
}

#[test]
fn requests_with_time_go_to_slow_slots_and_urgent_ones_to_fast_ones() {
    for name in ["just-enough", "weir"] {
        let mut driven = Driven::new(rule(name));
        let patient = driven.arrive(1, ms(300));
        let hurried = driven.arrive(1, ms(15));
        let middling = driven.arrive(1, ms(30));
        driven.pass(ms(500));
        let places = [patient, hurried, middling].map(|request| driven.place_of(request));
        assert_eq!(places, [2, 0, 1].map(|slot| Some(SlotId(slot))), "{name}");
        assert_eq!((driven.dropped, driven.late), (0, 0));
    }
    let mut driven = Driven::new(rule("earliest"));
    let patient = driven.arrive(1, ms(300));
    driven.pass(ms(500));
    assert_eq!(driven.place_of(patient), Some(SlotId(0)));
}

#[test]
fn end_times_are_those_of_batches_one_after_the_other() {
    let ends = spec(RouteRule::Earliest).ends;
    let mut driven = Driven::new(RouteRule::Earliest);
    let full = driven.module.peers.batch_size();
    // Batches are full except for the last; while one runs, they start after it.
    let spelled_out = |place: usize, mut items: u32, free_in: Span| {
        let mut until = free_in;
        while items > full {
            until += ends[place].duration(full);
            items -= full;
        }
        until + ends[place].duration(items)
    };
    let check = |driven: &Driven, free_in: [Span; 3]| {
        for (place, free_in) in free_in.into_iter().enumerate() {
            for (ahead, items) in (0..14).flat_map(|ahead| (1..7).map(move |items| (ahead, items))) {
                let (finish, duration) = driven
                    .module
                    .finish_at(place, u64::from(ahead), items, driven.now);
                assert_eq!(
                    finish,
                    spelled_out(place, ahead + items, free_in),
                    "place {place}: {items} items behind {ahead}"
                );
                assert!(duration <= finish);
            }
        }
    };
    check(&driven, [Span::ZERO; 3]);
    driven.arrive(1, ms(300));
    driven.pass(ms(4));
    assert_eq!(driven.running.keys().copied().collect::<Vec<_>>(), [SlotId(0)]);
    check(&driven, [ms(6), Span::ZERO, Span::ZERO]);
}

#[test]
fn what_would_be_late_where_it_waits_goes_on_where_it_is_in_time() {
    let mut driven = Driven::new(rule("weir"));
    // The slow slot runs one; the second request has no time to wait for it there.
    driven.arrive(4, ms(300));
    let second = driven.arrive(1, ms(100));
    driven.pass(ms(500));
    assert_eq!((driven.dropped, driven.late), (0, 0));
    assert_ne!(driven.place_of(second), Some(SlotId(2)));
    // A lost slot hands its waiting requests over to other slots.
    let mut driven = Driven::new(rule("just-enough"));
    let all: Vec<RequestId> = (0..4).map(|_| driven.arrive(4, ms(390))).collect();
    driven.event(ModuleEvent::SlotDown { slot: SlotId(2) });
    driven.pass(ms(900));
    assert_eq!((driven.ended.len(), driven.dropped), (all.len(), 0));
    assert_eq!(
        driven.ran[&SlotId(2)].len(),
        1,
        "what ran there came back, no more went there"
    );
}

#[test]
fn what_others_have_a_slot_for_counts_in_where_requests_go() {
    let mut driven = Driven::shared(rule("earliest"));
    let others = |driven: &Driven| driven.others.keys().copied().collect::<Vec<_>>();
    driven.other_bids(ms(300));
    assert_eq!(others(&driven), [SlotId(0)], "it has the fastest");
    let first = driven.arrive(1, ms(200));
    driven.other_bids(ms(300));
    assert_eq!(others(&driven), [SlotId(0), SlotId(2)], "the second is taken");
    let second = driven.arrive(1, ms(200));
    driven.pass(ms(1_000));
    assert_eq!((driven.dropped, driven.late), (0, 0));
    assert_eq!(
        [first, second].map(|request| driven.place_of(request)),
        [Some(SlotId(1)); 2]
    );
}

#[test]
fn what_waits_at_a_shared_slot_that_is_lost_or_has_no_share_goes_elsewhere() {
    for takes_away in [
        |driven: &mut Driven| driven.slot_is_there(SlotId(0), false),
        |driven: &mut Driven| driven.share(SlotId(1), Some(1.0)),
    ] {
        let mut driven = Driven::shared(rule("earliest"));
        driven.other_bids(ms(50));
        let waits = driven.arrive(1, ms(55));
        // If the second slot is occupied too, the first one is free next.
        driven.slot_is_there(SlotId(1), false);
        driven.slot_is_there(SlotId(2), false);
        let second = driven.arrive(1, ms(300));
        driven.slot_is_there(SlotId(1), true);
        takes_away(&mut driven);
        driven.pass(ms(1_000));
        assert_eq!(driven.place_of(waits), Some(SlotId(1)));
        assert_eq!(driven.place_of(second), Some(SlotId(1)));
        assert_eq!((driven.dropped, driven.late), (0, 0));
    }
}

#[test]
fn slots_of_unequal_speed_do_the_shares_that_are_set() {
    let mut driven = Driven::shared(rule("earliest"));
    for (slot, share) in [(0, 0.25), (1, 0.75), (2, 0.0)] {
        driven.share(SlotId(slot), Some(share));
    }
    for _ in 0..200 {
        driven.arrive(1, ms(400));
        driven.pass(ms(30));
    }
    let ran = |slot: u32| driven.ran.get(&SlotId(slot)).map_or(0, Vec::len);
    assert!((45..=55).contains(&ran(0)), "{} of 200", ran(0));
    assert_eq!((ran(0) + ran(1), ran(2)), (200, 0));
}

#[test]
fn a_load_of_nine_tenths_is_in_time_and_no_worse_than_with_the_earliest() {
    // 4 items take 20, 40 and 80 ms: 350 items a second together.
    let goodput = |name: &str| {
        let mut driven = Driven::new(rule(name));
        for number in 0..1_500_u64 {
            let slo = if number % 2 == 0 { ms(110) } else { ms(400) };
            driven.arrive(1, slo);
            driven.pass(Span::from_micros(3_175));
        }
        driven.pass(Span::from_secs(5));
        assert_eq!(driven.ended.len(), 1_500);
        1_500 - driven.dropped - driven.late
    };
    let [earliest, just_enough, weir] = ["earliest", "just-enough", "weir"].map(goodput);
    assert!(weir >= earliest, "{weir} {earliest}");
    assert!(weir >= just_enough, "{weir} {just_enough}");
    assert!(weir > 1_350, "{weir} of 1,500");
}

proptest! {
    #[test]
    fn every_request_ends_once_wherever_it_goes(
        actions in prop::collection::vec((0_u32..12, 1_u32..9, 1_u64..80, 5_u64..400), 1..80),
        rule in 0..RouteRule::all().len(),
        is_shared in any::<bool>(),
    ) {
        let rule = RouteRule::all()[rule];
        let mut driven = if is_shared { Driven::shared(rule) } else { Driven::new(rule) };
        for (kind, items, wait, slo) in actions {
            let slot = SlotId(items % 3);
            match kind {
                0 => driven.slot_is_there(slot, false),
                1 => driven.slot_is_there(slot, true),
                2 => driven.tick(),
                3 => driven.other_bids(ms(wait)),
                4 if is_shared => driven.share(slot, (slo < 200).then_some(slo as f64 / 200.0)),
                _ => drop(driven.arrive(items, ms(slo))),
            }
            driven.pass(ms(wait));
        }
        for slot in 0..3 {
            driven.slot_is_there(SlotId(slot), true);
        }
        for _ in 0..40 {
            driven.pass(ms(100));
            driven.tick();
        }
        prop_assert_eq!(driven.ended.len() as u64, driven.next);
        prop_assert_eq!(driven.module.requests(), 0);
    }
}
