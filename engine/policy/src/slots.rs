//! Who runs next on a slot: the reservations of a plain pool, where each resource is one slot and a booking is one batch.
//!
//! Modules bid for time; when a slot is free the arbiter grants it to one of them, which then runs a batch on it or
//! declines. A slot is granted to one module at a time and runs one batch at a time.
//!
//! ```text
//! Free ──Grant──> Granted ──Started──> Busy ──Finished──> Free
//!   ^                └──Declined──> Free
//! ```
//!
//! A slot that is lost (Down, until Up) is granted to nobody, whatever its state: a batch that was granted before may
//! still start and comes back, so that a slot which returns meanwhile is not booked twice.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::id::{ModuleId, SlotId};
use crate::time::{Span, Timestamp};
use crate::topology::Topology;
use crate::values::Arbitration;
use crate::window::Window;

/// What a module asks for: one batch's time on one of its slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bid {
    /// When it must start so that its most urgent request is on time.
    pub latest_start: Timestamp,
    /// Since when that request has waited here.
    pub since: Timestamp,
    /// How long the batch will take.
    pub duration: Span,
}

/// A module on slots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// Which.
    pub module: ModuleId,
    /// Where its model is placed.
    pub slots: Vec<SlotId>,
    /// Its weight under `weighted`.
    pub weight: f64,
}

/// What the slots are, for as long as the run lasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlotsSpec {
    /// How many there are.
    pub slots: u32,
    /// Who is where, by module id.
    pub placements: Vec<Placement>,
    /// Who goes first.
    pub arbitration: Arbitration,
    /// The graph's shape.
    pub topology: Topology,
    /// Whether modules want to know when slots will be free (they form batches ahead).
    pub forecasts: bool,
}

/// A fact that the arbiter is told.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum SlotEvent {
    /// A module asks; replaces what it asked before.
    Bid {
        /// Who.
        module: ModuleId,
        /// For what.
        bid: Bid,
    },
    /// A module asks no more.
    Withdrawn {
        /// Who.
        module: ModuleId,
    },
    /// A module gave a grant back.
    Declined {
        /// Who.
        module: ModuleId,
        /// Which.
        slot: SlotId,
    },
    /// A batch began.
    Started {
        /// Whose.
        module: ModuleId,
        /// Where.
        slot: SlotId,
        /// How long it should take.
        expected: Span,
    },
    /// A batch came back, well or not.
    Finished {
        /// Whose.
        module: ModuleId,
        /// Where.
        slot: SlotId,
        /// How long it had the slot.
        took: Span,
    },
    /// The slot is lost. What was granted before still comes back: declined, or started and finished.
    Down {
        /// Which.
        slot: SlotId,
    },
    /// The slot is there again.
    Up {
        /// Which.
        slot: SlotId,
    },
    /// Time passed.
    Tick,
}

/// What the arbiter wants done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum SlotEffect {
    /// The module may run one batch on the slot.
    Grant {
        /// Who.
        module: ModuleId,
        /// Where.
        slot: SlotId,
    },
    /// When the slot is expected to be free for the module.
    Forecast {
        /// Who.
        module: ModuleId,
        /// Where.
        slot: SlotId,
        /// When.
        free_at: Timestamp,
    },
    /// Share of its slots' time that the module can have.
    Share {
        /// Who.
        module: ModuleId,
        /// From 0 to 1.
        share: f64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Free,
    Granted { module: ModuleId, duration: Span },
    Busy { module: ModuleId, until: Timestamp },
}

impl State {
    fn granted_to(self, to: ModuleId) -> bool {
        matches!(self, Self::Granted { module, .. } if module == to)
    }
}

/// What is known of a module on the slots.
#[derive(Debug, Clone)]
struct Tenant {
    slots: Vec<SlotId>,
    weight: f64,
    /// Steps from here to the end of the graph: what was begun longest ago has the fewest.
    steps_to_end: usize,
    bid: Option<Bid>,
    /// Time it had on slots, in all and lately.
    had: Span,
    lately: Window,
}

/// How far back the shares of slots are looked at.
const SHARES: Span = Span::from_secs(5);

/// All slots of a run and their arbiter.
#[derive(Debug, Clone)]
pub struct Slots {
    spec: SlotsSpec,
    states: Vec<State>,
    /// Slots that are lost for now.
    down: BTreeSet<SlotId>,
    tenants: BTreeMap<ModuleId, Tenant>,
    began: Option<Timestamp>,
    /// What each module was last told of each of its slots.
    told: BTreeMap<(ModuleId, SlotId), Timestamp>,
}

impl Slots {
    /// All slots free, nobody asking.
    #[must_use]
    pub fn new(spec: SlotsSpec) -> Self {
        let tenants = spec
            .placements
            .iter()
            .map(|placement| {
                let tenant = Tenant {
                    slots: placement.slots.clone(),
                    weight: placement.weight,
                    steps_to_end: spec.topology.steps_to_end(placement.module),
                    bid: None,
                    had: Span::ZERO,
                    lately: Window::new(SHARES),
                };
                (placement.module, tenant)
            })
            .collect();
        Self {
            states: vec![State::Free; spec.slots as usize],
            down: BTreeSet::new(),
            tenants,
            began: None,
            told: BTreeMap::new(),
            spec,
        }
    }

    /// Takes in a burst of events, decides once, and appends what is to be done.
    pub fn step(
        &mut self,
        events: impl IntoIterator<Item = SlotEvent>,
        now: Timestamp,
        effects: &mut Vec<SlotEffect>,
    ) {
        for event in events {
            self.record(event, now, effects);
        }
        for slot in (0..self.spec.slots).map(SlotId) {
            if self.states[slot.index()] == State::Free
                && !self.down.contains(&slot)
                && let Some(module) = self.choose(slot)
            {
                self.grant(module, slot, effects);
            }
        }
        if self.spec.forecasts {
            self.forecast(now, effects);
        }
    }

    fn record(&mut self, event: SlotEvent, now: Timestamp, effects: &mut Vec<SlotEffect>) {
        match event {
            SlotEvent::Bid { module, bid } => self.tenant(module, |tenant| tenant.bid = Some(bid)),
            SlotEvent::Withdrawn { module } => self.tenant(module, |tenant| tenant.bid = None),
            SlotEvent::Declined { module, slot } => {
                self.become_if(slot, |state| state.granted_to(module), State::Free)
            }
            SlotEvent::Started {
                module,
                slot,
                expected,
            } => {
                self.began.get_or_insert(now);
                // It has made its own guess as it began.
                self.told.remove(&(module, slot));
                let until = now + expected;
                self.become_if(
                    slot,
                    |state| state.granted_to(module),
                    State::Busy { module, until },
                );
            }
            SlotEvent::Finished { module, slot, took } => {
                self.tenant(module, |tenant| {
                    tenant.had += took;
                    tenant.lately.observe(took.as_secs_f64(), now);
                });
                let of_it = |state| matches!(state, State::Busy { module: holder, .. } if holder == module);
                self.become_if(slot, of_it, State::Free);
            }
            SlotEvent::Down { slot } => {
                self.down.insert(slot);
            }
            SlotEvent::Up { slot } => {
                self.down.remove(&slot);
            }
            SlotEvent::Tick => self.tell_shares(now, effects),
        }
    }

    fn tenant(&mut self, module: ModuleId, change: impl FnOnce(&mut Tenant)) {
        if let Some(tenant) = self.tenants.get_mut(&module) {
            change(tenant);
        }
    }

    fn become_if(&mut self, slot: SlotId, is: impl FnOnce(State) -> bool, next: State) {
        if let Some(state) = self.states.get_mut(slot.index())
            && is(*state)
        {
            *state = next;
        }
    }

    fn grant(&mut self, module: ModuleId, slot: SlotId, effects: &mut Vec<SlotEffect>) {
        let duration = self
            .tenants
            .get(&module)
            .and_then(|tenant| tenant.bid)
            .map_or(Span::ZERO, |bid| bid.duration);
        self.states[slot.index()] = State::Granted { module, duration };
        // One bid is good for one batch: whoever has more to run asks again when it has bound this one.
        self.tenant(module, |tenant| tenant.bid = None);
        effects.push(SlotEffect::Grant { module, slot });
    }

    /// The arbiter: whose bid on `slot` goes first. Ties go to the lower id.
    fn choose(&self, slot: SlotId) -> Option<ModuleId> {
        self.tenants
            .iter()
            .filter(|(_, tenant)| tenant.slots.contains(&slot))
            .filter_map(|(&module, tenant)| Some((self.rank(tenant, tenant.bid?), module)))
            .min()
            .map(|(_, module)| module)
    }

    /// Smaller goes first.
    fn rank(&self, tenant: &Tenant, bid: Bid) -> (u64, Timestamp, Reverse<usize>) {
        let first = match self.spec.arbitration {
            Arbitration::LeastSlack => bid.latest_start.micros(),
            Arbitration::DownstreamFirst => tenant.steps_to_end as u64,
            Arbitration::Fifo => bid.since.micros(),
            Arbitration::Weighted => (tenant.had.micros() as f64 / tenant.weight.max(1e-9)) as u64,
        };
        (first, bid.latest_start, Reverse(tenant.steps_to_end))
    }

    /// When each slot will be free for each module: after what runs on it, and after the bids that go first, shared
    /// among the slots that they could run on.
    fn forecast(&mut self, now: Timestamp, effects: &mut Vec<SlotEffect>) {
        let mut told = std::mem::take(&mut self.told);
        for (&module, tenant) in &self.tenants {
            for &slot in &tenant.slots {
                let free_at = self.free_for(module, tenant, slot, now);
                // What lies behind is as good as now, so only news is told.
                let known = told.insert((module, slot), free_at);
                if known.is_none_or(|known| known.max(now) != free_at) {
                    effects.push(SlotEffect::Forecast {
                        module,
                        slot,
                        free_at,
                    });
                }
            }
        }
        self.told = told;
    }

    fn free_for(&self, module: ModuleId, tenant: &Tenant, slot: SlotId, now: Timestamp) -> Timestamp {
        let free_at = match self.states.get(slot.index()) {
            _ if self.down.contains(&slot) => Timestamp::MAX,
            Some(State::Free) => now,
            Some(State::Granted { module: holder, .. }) if *holder == module => now,
            Some(State::Granted { duration, .. }) => now + *duration,
            Some(State::Busy { until, .. }) => (*until).max(now),
            None => Timestamp::MAX,
        };
        // Who asks for nothing yet would come last among equals.
        let bid = tenant.bid.unwrap_or(Bid {
            latest_start: Timestamp::MAX,
            since: Timestamp::MAX,
            duration: Span::ZERO,
        });
        let own = (self.rank(tenant, bid), module);
        let before: Span = self
            .tenants
            .iter()
            .filter(|(other, rival)| **other != module && rival.slots.contains(&slot))
            .filter_map(|(&other, rival)| {
                let bid = rival.bid?;
                let first = (self.rank(rival, bid), other) < own;
                first.then(|| bid.duration / rival.slots.len() as u64)
            })
            .sum();
        free_at + before
    }

    /// Tells every module which share of its slots it could have: all but what modules take that go before it.
    fn tell_shares(&self, now: Timestamp, effects: &mut Vec<SlotEffect>) {
        let Some(began) = self.began else { return };
        for (&module, tenant) in &self.tenants {
            let taken: f64 = self
                .tenants
                .iter()
                .filter(|(other, rival)| **other != module && self.goes_before(rival, tenant))
                .filter(|(_, rival)| rival.slots.iter().any(|slot| tenant.slots.contains(slot)))
                .map(|(_, rival)| rival.lately.rate(now, began))
                .sum();
            let share = (1.0 - taken / tenant.slots.len().max(1) as f64).clamp(0.0, 1.0);
            effects.push(SlotEffect::Share { module, share });
        }
    }

    /// Whether what `rival` takes is lost to `tenant`. Downstream-first gives way to nobody further up.
    fn goes_before(&self, rival: &Tenant, tenant: &Tenant) -> bool {
        self.spec.arbitration != Arbitration::DownstreamFirst || rival.steps_to_end <= tenant.steps_to_end
    }

    /// Slots that are neither granted nor busy, nor lost.
    #[must_use]
    pub fn free(&self) -> usize {
        let free =
            |(slot, state): &(u32, &State)| **state == State::Free && !self.down.contains(&SlotId(*slot));
        (0..).zip(&self.states).filter(free).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Modules 0 -> 1 on the same slots.
    fn chain(slots: u32, arbitration: Arbitration) -> Slots {
        let all: Vec<SlotId> = (0..slots).map(SlotId).collect();
        let placement = |module, weight| Placement {
            module: ModuleId(module),
            slots: all.clone(),
            weight,
        };
        Slots::new(SlotsSpec {
            slots,
            placements: vec![placement(0, 1.0), placement(1, 2.0)],
            arbitration,
            topology: Topology::new(vec![vec![ModuleId(1)], vec![]]),
            forecasts: false,
        })
    }

    fn bid(module: u32, latest_start: u64, since: u64) -> SlotEvent {
        let (latest_start, since) = (
            Timestamp::from_micros(latest_start),
            Timestamp::from_micros(since),
        );
        let bid = Bid {
            latest_start,
            since,
            duration: Span::from_millis(1),
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
}
