//! Arbitration of slots. A slot is the resource and a batch the booking, as in the reservations of a plain
//! pool.
//!
//! Modules bid for time; when a slot is free the arbiter grants it to one of them, which then runs a batch on it or
//! declines. A slot is granted to one module at a time and runs one batch at a time.
//!
//! ```text
//! Free ──Grant──> Granted ──Started──> Busy ──Finished──> Free
//!   ^                └──Declined──> Free
//! ```
//!
//! If the memory of a device does not hold all its models, a slot also opens and closes them, and a module is
//! only granted a slot on which its model is open:
//!
//! ```text
//! Free ──Open──> Opening ──Opened, OpenFailed──> Free ──Close──> Closing ──Closed──> Free
//! ```
//!
//! A lost slot (from Down until Up) is granted to no module, in any state. A batch granted before may still
//! start and end, so that a slot which returns meanwhile is not used twice.

mod api;
mod arbiter;
mod breaker;
mod memory;
mod order;
mod overlap;
mod planning;
mod reserve;
mod residents;
mod shares;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{ModelId, ModuleId, SlotId, Span, Timestamp};

use crate::measure::window::Window;
use crate::strategy::SlotQueues;

pub use api::{Bid, DeviceMemory, DeviceModel, Placement, SlotEffect, SlotEvent, SlotsSpec, WaitingWork};
pub use breaker::{BreakerEffect, BreakerEvent, BreakerSpec, SlotBreaker};
use memory::{SlotMemory, Turn};
pub use order::QueuesReport;
use order::SlotPlan;
use overlap::OverlappedSlots;
use reserve::Reserve;
pub(crate) use shares::SlotShares;

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Free,
    Granted { module: ModuleId, duration: Span },
    Busy { module: ModuleId, until: Timestamp },
    Opening { model: ModelId, until: Timestamp },
    Closing { model: ModelId },
}

impl State {
    fn granted_to(self, to: ModuleId) -> bool {
        matches!(self, Self::Granted { module, .. } if module == to)
    }

    fn is_used_by(self, by: ModuleId) -> bool {
        matches!(self, Self::Busy { module, .. } if module == by)
    }
}

/// A module on the slots, with its bids and its recent use of slot time.
#[derive(Debug, Clone)]
struct Tenant {
    slots: Vec<SlotId>,
    weight: f64,
    optional: bool,
    model: Option<ModelId>,
    /// Steps from here to the end of the graph. Requests at modules near the end began longest ago, so fewer
    /// steps mean older work.
    longest_path_len: usize,
    /// Whether it receives frames of cameras.
    live: bool,
    /// Whether it bids for each slot separately.
    routed: bool,
    /// Its bid for any of its slots.
    bid: Option<Bid>,
    /// Its bids for single slots, if it is routed.
    slot_bids: BTreeMap<SlotId, Bid>,
    shares: SlotShares,
    /// Time that it had on slots in all, and in `recent` over the window.
    had: Span,
    recent: Window,
    /// The part of `recent` in which the module's model was opened or closed.
    opening: Window,
}

impl Tenant {
    /// Returns the module's bid for a slot: one for that slot alone, else the one for any slot.
    fn bid_on(&self, slot: SlotId) -> Option<Bid> {
        self.slot_bids.get(&slot).copied().or(self.bid)
    }

    /// Sets or removes its bid for one slot, or for any slot.
    fn set_bid(&mut self, slot: Option<SlotId>, bid: Option<Bid>) {
        match (slot, bid) {
            (None, bid) => self.bid = bid,
            (Some(slot), Some(bid)) => {
                self.slot_bids.insert(slot, bid);
            }
            (Some(slot), None) => {
                self.slot_bids.remove(&slot);
            }
        }
    }

    /// Whether it may run on one of its slots: by the slots' shares, unless all slots with a share are lost.
    fn may_run_on(&self, slot: SlotId, down: &BTreeSet<SlotId>) -> bool {
        let is_there = |slot: &SlotId| self.shares.is_placed(*slot) && !down.contains(slot);
        self.shares.is_placed(slot) || !self.slots.iter().any(is_there)
    }
}

/// Window over which the use of slots is measured for shares.
const SHARES: Span = Span::from_secs(5);

/// All slots of a run and their arbiter.
#[derive(Debug, Clone)]
pub struct Slots {
    spec: SlotsSpec,
    states: Vec<State>,
    overlapped: OverlappedSlots,
    /// Open sessions; `None` if no device has limited memory.
    memory: Option<SlotMemory>,
    /// The planned order of work; `None` if the rule of the queues does not plan.
    plan: Option<SlotPlan>,
    /// Time of the pending timer, at which the next turn of a session ends.
    timer: Option<Timestamp>,
    /// Slots that are lost for now.
    down: BTreeSet<SlotId>,
    tenants: BTreeMap<ModuleId, Tenant>,
    /// Whether a module's slots have shares, and are preferred by them now.
    has_shares: bool,
    began: Option<Timestamp>,
    /// The forecast that was published last, by module and slot.
    published: BTreeMap<(ModuleId, SlotId), Timestamp>,
}

impl Slots {
    /// All slots free, and no bids.
    #[must_use]
    pub fn new(mut spec: SlotsSpec) -> Self {
        // Nothing is opened or closed on a device that holds all its models, as on one without a limit.
        spec.memory.retain(|device| !device.holds_all());
        let live = spec.placements.iter().filter(|placement| placement.live);
        let live: BTreeSet<ModelId> = live.filter_map(|placement| placement.model).collect();
        if spec.memory.is_empty() {
            // All models are open, so there is nothing to queue for.
            spec.queues = None;
        } else if spec
            .memory
            .iter()
            .any(|device| Reserve::new(device, &live).is_some())
        {
            spec.queues.get_or_insert(SlotQueues::BESIDE_CAMERAS);
        }
        if !spec.planning.operations.warm_start {
            for device in &mut spec.memory {
                device.host_memory = 0;
            }
        }
        let tenants = spec
            .placements
            .iter()
            .map(|placement| {
                let tenant = Tenant {
                    slots: placement.slots.clone(),
                    weight: placement.weight,
                    optional: placement.optional,
                    model: placement.model,
                    longest_path_len: spec.topology.longest_path_len(placement.module),
                    live: placement.live,
                    routed: placement.routed,
                    bid: None,
                    slot_bids: BTreeMap::new(),
                    shares: SlotShares::default(),
                    had: Span::ZERO,
                    recent: Window::new(SHARES),
                    opening: Window::new(SHARES),
                };
                (placement.module, tenant)
            })
            .collect();
        Self {
            states: vec![State::Free; spec.slots as usize],
            overlapped: OverlappedSlots::new(&spec.overlapped),
            memory: SlotMemory::new(&spec.memory, Turn::of(spec.queues), &live),
            plan: spec.queues.and_then(|queues| SlotPlan::new(queues, &spec.memory)),
            timer: None,
            down: BTreeSet::new(),
            tenants,
            has_shares: false,
            began: None,
            published: BTreeMap::new(),
            spec,
        }
    }

    /// Takes in a burst of events, decides once, and appends the resulting effects.
    pub fn step(
        &mut self,
        events: impl IntoIterator<Item = SlotEvent>,
        now: Timestamp,
        effects: &mut Vec<SlotEffect>,
    ) {
        for event in events {
            self.record(event, now, effects);
        }
        if self.memory.is_some() {
            self.step_memory(now, effects);
            self.plan_order(now, effects);
        }
        self.grant_free(now, effects);
        if self.has_shares {
            // A slot that is further behind its share was preferred above; if its module did not take it, any
            // free slot will do.
            self.has_shares = false;
            self.grant_free(now, effects);
            self.has_shares = true;
        }
        if self.memory.is_some() {
            self.set_turn_timer(now, effects);
        }
        self.forecast(now, effects);
    }

    fn grant_free(&mut self, now: Timestamp, effects: &mut Vec<SlotEffect>) {
        for slot in (0..self.spec.slots).map(SlotId) {
            if self.states[slot.index()] == State::Free
                && !self.down.contains(&slot)
                && let Some(module) = self.choose_ready(slot, now, effects)
            {
                self.grant(module, slot, now, effects);
            }
        }
    }

    fn record(&mut self, event: SlotEvent, now: Timestamp, effects: &mut Vec<SlotEffect>) {
        match event {
            SlotEvent::Bid { module, bid } => {
                self.tenant(module, |tenant| tenant.set_bid(bid.slot, Some(bid)));
            }
            SlotEvent::BidCancelled { module, slot } => {
                self.expect_nothing(module);
                self.tenant(module, |tenant| tenant.set_bid(slot, None));
            }
            SlotEvent::Declined { module, slot } => {
                if self.change(
                    slot,
                    State::Free,
                    format_args!("declined by module {}", module.0),
                    |state| state.granted_to(module),
                ) {
                    self.free_model(module, slot, now);
                    self.compare_end(slot, false, now);
                }
            }
            SlotEvent::Started {
                module,
                slot,
                expected,
            } => self.on_started(module, slot, expected, now),
            SlotEvent::Launched { module, slot } => self.on_launched(module, slot, now),
            SlotEvent::Finished { module, slot, took } => self.on_finished(module, slot, took, now),
            // Legal in any state, since a batch that was granted before continues. The event may come twice:
            // from the driver that lost a worker, and from the breaker that takes the slot out of use.
            SlotEvent::Down { slot } => {
                self.down.insert(slot);
            }
            SlotEvent::Up { slot } => {
                self.down.remove(&slot);
            }
            SlotEvent::ShareSet { module, slot, share } => {
                self.tenant(module, |tenant| tenant.shares.set(slot, share));
                self.has_shares = self.tenants.values().any(|tenant| tenant.shares.is_set());
                self.expect_model(module, slot, share, now);
            }
            SlotEvent::PolicyApplied {
                arbitration,
                forecasts,
            } => {
                (self.spec.arbitration, self.spec.forecasts) = (arbitration, forecasts);
                // Modules may have forgotten forecasts that were published before they asked for them.
                self.published.clear();
            }
            SlotEvent::Opened {
                slot, model, took, ..
            } => self.on_opened((slot, model), took, now),
            SlotEvent::OpenFailed { slot, model, took } => self.on_open_failed((slot, model), took, now),
            SlotEvent::Closed { slot, model, took } => self.on_closed((slot, model), took, now),
            SlotEvent::TimerFired => self.timer = None,
            SlotEvent::Tick => self.tell_shares(now, effects),
        }
    }

    fn on_started(&mut self, module: ModuleId, slot: SlotId, expected: Span, now: Timestamp) {
        self.began.get_or_insert(now);
        // The module has estimated for itself when its batch ends.
        self.published.remove(&(module, slot));
        let until = self.overlapped.run_end(slot, now) + expected;
        self.overlapped.on_started(slot, expected);
        self.change(
            slot,
            State::Busy { module, until },
            format_args!("started by module {}", module.0),
            |state| state.granted_to(module),
        );
    }

    /// Frees a slot that prepares ahead, whose prepared batch has begun to run.
    fn on_launched(&mut self, module: ModuleId, slot: SlotId, now: Timestamp) {
        let overlaps = self.overlapped.contains(slot);
        if self.change(
            slot,
            State::Free,
            format_args!("launched by module {}", module.0),
            |state| overlaps && state.is_used_by(module),
        ) {
            self.overlapped.on_launched(slot, now);
        }
    }

    /// Charges the time of a batch to its module. Frees the slot, unless the launch of the batch has freed it.
    fn on_finished(&mut self, module: ModuleId, slot: SlotId, took: Span, now: Timestamp) {
        self.tenant(module, |tenant| {
            tenant.had += took;
            tenant.recent.observe(took.as_secs_f64(), now);
        });
        if self.overlapped.contains(slot) {
            let away = self.overlapped.on_finished(slot);
            invariant!(
                away,
                Kind::Slots,
                "slot {} is finished by module {} before its run began",
                slot.0,
                module.0
            );
            return;
        }
        if self.change(
            slot,
            State::Free,
            format_args!("finished by module {}", module.0),
            |state| state.is_used_by(module),
        ) {
            self.free_model(module, slot, now);
            self.compare_end(slot, true, now);
        }
    }

    fn tenant(&mut self, module: ModuleId, change: impl FnOnce(&mut Tenant)) {
        let tenant = self.tenants.get_mut(&module);
        invariant!(
            tenant.is_some(),
            Kind::Slots,
            "module {} is placed on no slot",
            module.0
        );
        if let Some(tenant) = tenant {
            change(tenant);
        }
    }

    /// Changes the state of a slot if the change is legal from its current state; returns whether it was.
    fn change(
        &mut self,
        slot: SlotId,
        next: State,
        what: fmt::Arguments<'_>,
        is_legal: impl FnOnce(State) -> bool,
    ) -> bool {
        let state = self.states.get_mut(slot.index());
        let holds = invariant!(
            state.as_deref().copied().is_some_and(is_legal),
            Kind::Slots,
            "slot {} is {what} while it is {state:?}",
            slot.0
        );
        if let Some(state) = state.filter(|_| holds) {
            *state = next;
        }
        holds
    }

    fn grant(&mut self, module: ModuleId, slot: SlotId, now: Timestamp, effects: &mut Vec<SlotEffect>) {
        let bid = self.tenants.get(&module).and_then(|tenant| tenant.bid_on(slot));
        let duration = bid.map_or(Span::ZERO, |bid| bid.duration);
        self.states[slot.index()] = State::Granted { module, duration };
        self.use_model(module, slot, now);
        self.expect_end(module, slot);
        self.tenant(module, |tenant| tenant.shares.on_granted(slot, duration));
        // One bid is good for one batch: a module that has more to run bids again when it has bound this one.
        self.tenant(module, |tenant| {
            tenant.set_bid(bid.and_then(|bid| bid.slot), None)
        });
        if self.overlapped.contains(slot) {
            // The batch runs after the one that runs there now: the module needs that time before it fills a
            // batch.
            let free_at = self.overlapped.run_end(slot, now);
            self.published.insert((module, slot), free_at);
            effects.push(SlotEffect::Forecast {
                module,
                slot,
                free_at,
            });
        }
        effects.push(SlotEffect::Grant { module, slot });
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
mod memory_tests;
#[cfg(test)]
mod reserve_tests;
#[cfg(test)]
mod tests;
