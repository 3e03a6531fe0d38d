//! Order of bids on a slot whose device does not hold all models, and the sessions that are opened for them.
//!
//! While the turn of an open session lasts, its bids go first. After that the arbitration decides, and the
//! first bid's model is opened if it is not open. No model is opened for a bid that another slot could serve
//! as soon.

use weir_types::{ModelId, ModuleId, SlotId, Span, Timestamp};

use super::arbiter::Rank;
use super::memory::{Change, SlotMemory};
use super::{SlotEffect, Slots, State, Tenant};
use crate::residency::Standing;
use crate::strategy::SlotQueues;

impl Slots {
    /// Ends turns that are over; free slots then start their pending openings and closings.
    pub(super) fn step_memory(&mut self, now: Timestamp, effects: &mut Vec<SlotEffect>) {
        let Self {
            memory: Some(memory),
            tenants,
            down,
            began,
            ..
        } = self
        else {
            return;
        };
        let load = |model: ModelId| {
            let of_model = tenants
                .values()
                .filter(|tenant| tenant.live && tenant.model == Some(model));
            let busy = of_model.map(|tenant| {
                tenant.recent.rate(now, began.unwrap_or(now)) - tenant.opening.rate(now, began.unwrap_or(now))
            });
            busy.sum()
        };
        memory.keep(load, |slot| !down.contains(&slot));
        let is_asked = |slot: SlotId, model: ModelId| {
            tenants.values().any(|tenant| {
                tenant.model == Some(model)
                    && tenant.bid.is_some()
                    && tenant.slots.contains(&slot)
                    && !down.contains(&slot)
                    && tenant.may_run_on(slot, down)
            })
        };
        memory.end_turns(is_asked, now);
        self.change_sessions(now, effects);
    }

    /// Sets the timer for the end of the next turn, if a session waits for that.
    pub(super) fn set_turn_timer(&mut self, now: Timestamp, effects: &mut Vec<SlotEffect>) {
        let next = self.memory.as_ref().and_then(SlotMemory::next_turn_end);
        // A turn that has ended during this step is handled in the next.
        let next = next.map(|at| at.max(now));
        if next != self.timer {
            self.timer = next;
            effects.extend(next.map(|at| SlotEffect::SetTimer { at }));
        }
    }

    /// Starts the pending openings and closings of free slots.
    fn change_sessions(&mut self, now: Timestamp, effects: &mut Vec<SlotEffect>) {
        let Some(memory) = &mut self.memory else { return };
        let with: Vec<SlotId> = memory.slots_with_changes().collect();
        for slot in with {
            // A slot that is lost still opens and closes: its memory is shared with other slots.
            if self.states[slot.index()] != State::Free {
                continue;
            }
            let Some(change) = memory.next_change(slot) else {
                continue;
            };
            match change {
                Change::Open { model, warm } => {
                    let until = now + memory.declared(slot, model, warm);
                    self.states[slot.index()] = State::Opening { model, until };
                    effects.push(SlotEffect::Open { slot, model, warm });
                }
                Change::Close(model) => {
                    self.states[slot.index()] = State::Closing { model };
                    effects.push(SlotEffect::Close { slot, model });
                }
            }
        }
        let discarded = memory.take_discarded();
        effects.extend(discarded.into_iter().map(|model| SlotEffect::Discard { model }));
    }

    /// Returns the module that is granted the free `slot`. If the first bid needs a model that is not open,
    /// that model is opened instead.
    pub(super) fn choose_ready(
        &mut self,
        slot: SlotId,
        now: Timestamp,
        effects: &mut Vec<SlotEffect>,
    ) -> Option<ModuleId> {
        let Some(memory) = &self.memory else {
            return self.choose(slot);
        };
        let is_ready = |tenant: &Tenant| tenant.model.is_none_or(|model| memory.is_ready(slot, model));
        let (mut ready, mut other) = (None::<(Rank, ModuleId)>, None::<((Rank, ModuleId), ModelId)>);
        for (rank, module, tenant) in self.bids_on(slot) {
            let rank = (rank, module);
            match tenant.model {
                Some(model) if !is_ready(tenant) => {
                    if other.is_none_or(|(first, _)| rank < first) && self.may_open(module, tenant, slot, now)
                    {
                        other = Some((rank, model));
                    }
                }
                _ => ready = Some(ready.map_or(rank, |first| first.min(rank))),
            }
        }
        let Some((other, model)) = other else {
            return ready.map(|(_, module)| module);
        };
        if let Some(first) = ready {
            let own = self.tenants.get(&first.1).and_then(|tenant| tenant.model);
            let stays = match self.spec.queues {
                None => own.is_some_and(|own| memory.has_turn(slot, own)),
                Some(SlotQueues::Sticky) => true,
                Some(_) => false,
            };
            if first < other || stays {
                return Some(first.1);
            }
        }
        if let Some(memory) = &mut self.memory {
            memory.want(slot, model, now);
        }
        self.change_sessions(now, effects);
        // Until the session that stands in the way has ended, the slot serves bids whose models are open.
        let still_free = self.states[slot.index()] == State::Free;
        let is_open = |module: ModuleId| {
            let model = self.tenants.get(&module).and_then(|tenant| tenant.model);
            model.is_none_or(|model| {
                let memory = self.memory.as_ref();
                memory.is_some_and(|memory| memory.is_ready(slot, model))
            })
        };
        ready
            .map(|(_, module)| module)
            .filter(|&module| still_free && is_open(module))
    }

    /// Whether a tenant's model may be opened on the slot: by the plan, if there is one. Sessions reserved
    /// for cameras are always opened; further ones only if a request would be late on those.
    fn may_open(&self, module: ModuleId, tenant: &Tenant, slot: SlotId, now: Timestamp) -> bool {
        if let (Some(memory), Some(model), Some(bid)) = (&self.memory, tenant.model, tenant.bid) {
            let reserved = memory.reserved(slot, model);
            let held = || self.held_elsewhere(tenant, model, slot);
            if reserved > held().count() {
                return true;
            }
            if reserved > 0 && held().any(|other| self.free_at(other, now) <= bid.latest_start) {
                return false;
            }
        }
        match self.plan {
            Some(_) => self.is_planned(module, slot),
            None => self.is_sooner_here(tenant, slot, now),
        }
    }

    /// Whether a batch of a tenant could run sooner on the slot, with its model opened there, than on slots
    /// where the model is open or opening.
    fn is_sooner_here(&self, tenant: &Tenant, slot: SlotId, now: Timestamp) -> bool {
        let (Some(memory), Some(model)) = (&self.memory, tenant.model) else {
            return true;
        };
        let here = match self.spec.queues {
            // Sticky: a model that is open on another slot is served there.
            Some(SlotQueues::Sticky) => Timestamp::MAX,
            _ => now + memory.opening_time(slot, model),
        };
        let mut others = self
            .held_elsewhere(tenant, model, slot)
            .filter(|other| tenant.may_run_on(*other, &self.down));
        !others.any(|other| self.free_at(other, now) <= here)
    }

    /// Other slots of a tenant that are in use and on which its model is open or opening.
    fn held_elsewhere(&self, tenant: &Tenant, model: ModelId, slot: SlotId) -> impl Iterator<Item = SlotId> {
        let others = tenant.slots.iter().copied();
        others.filter(move |other| {
            *other != slot
                && !self.down.contains(other)
                && self.memory.as_ref().is_some_and(|memory| {
                    matches!(memory.standing(*other, model), Standing::Open | Standing::Opening)
                })
        })
    }

    /// Time at which the current work of a slot is expected to end.
    pub(super) fn free_at(&self, slot: SlotId, now: Timestamp) -> Timestamp {
        match self.states.get(slot.index()) {
            Some(State::Busy { until, .. } | State::Opening { until, .. }) => (*until).max(now),
            Some(State::Granted { duration, .. }) => now + *duration,
            Some(State::Free | State::Closing { .. }) => now,
            None => Timestamp::MAX,
        }
    }

    /// Time that opening a tenant's model on the slot takes before it can run there; zero if it is open.
    pub(super) fn opening_time(&self, tenant: &Tenant, slot: SlotId) -> Span {
        let memory = self.memory.as_ref().zip(tenant.model);
        memory.map_or(Span::ZERO, |(memory, model)| memory.opening_time(slot, model))
    }

    /// A module is to run on the slot: its model is opened there ahead of the first batch if memory allows.
    pub(super) fn expect_model(
        &mut self,
        module: ModuleId,
        slot: SlotId,
        share: Option<f64>,
        now: Timestamp,
    ) {
        if share.is_some_and(|share| share > 0.0)
            && let Some(memory) = &mut self.memory
            && let Some(model) = self.tenants.get(&module).and_then(|tenant| tenant.model)
        {
            memory.want(slot, model, now);
        }
    }

    /// A module is granted the slot for its model.
    pub(super) fn use_model(&mut self, module: ModuleId, slot: SlotId, now: Timestamp) {
        if let Some(memory) = &mut self.memory
            && let Some(model) = self.tenants.get(&module).and_then(|tenant| tenant.model)
        {
            memory.on_granted(slot, model, now);
        }
    }

    /// The module's grant of the slot is over.
    pub(super) fn free_model(&mut self, module: ModuleId, slot: SlotId, now: Timestamp) {
        if let Some(memory) = &mut self.memory
            && let Some(model) = self.tenants.get(&module).and_then(|tenant| tenant.model)
        {
            memory.on_freed(slot, model, now);
        }
    }

    pub(super) fn on_opened(&mut self, (slot, model): (SlotId, ModelId), took: Span, now: Timestamp) {
        if let Some(memory) = self.end_opening((slot, model), "opened", took, now) {
            memory.on_opened(slot, model, (took, now));
        }
    }

    pub(super) fn on_open_failed(&mut self, (slot, model): (SlotId, ModelId), took: Span, now: Timestamp) {
        if let Some(memory) = self.end_opening((slot, model), "not opened", took, now) {
            memory.on_open_failed(slot, model);
        }
    }

    pub(super) fn on_closed(&mut self, (slot, model): (SlotId, ModelId), took: Span, now: Timestamp) {
        let closes = |state| matches!(state, State::Closing { model: own } if own == model);
        if let Some(memory) = self.end_change((slot, model), ("closed", closes), took, now) {
            memory.on_closed(slot, model);
        }
    }

    fn end_opening(
        &mut self,
        (slot, model): (SlotId, ModelId),
        what: &str,
        took: Span,
        now: Timestamp,
    ) -> Option<&mut SlotMemory> {
        let opens = |state| matches!(state, State::Opening { model: own, .. } if own == model);
        self.end_change((slot, model), (what, opens), took, now)
    }

    /// Ends the opening or closing of a model on a slot, if that was in progress, and returns the sessions to
    /// be updated.
    fn end_change(
        &mut self,
        (slot, model): (SlotId, ModelId),
        (what, is_legal): (&str, impl FnOnce(State) -> bool),
        took: Span,
        now: Timestamp,
    ) -> Option<&mut SlotMemory> {
        if !self.change(
            slot,
            State::Free,
            format_args!("{what} for model {}", model.0),
            is_legal,
        ) {
            return None;
        }
        self.count_opening((slot, model), took, now);
        self.memory.as_mut()
    }

    /// Counts the time that a slot spent opening or closing as use by the first module of that model on the
    /// slot.
    fn count_opening(&mut self, (slot, model): (SlotId, ModelId), took: Span, now: Timestamp) {
        self.began.get_or_insert(now);
        let of_model = |tenant: &&mut Tenant| tenant.model == Some(model) && tenant.slots.contains(&slot);
        if let Some(tenant) = self.tenants.values_mut().find(of_model) {
            tenant.had += took;
            tenant.recent.observe(took.as_secs_f64(), now);
            tenant.opening.observe(took.as_secs_f64(), now);
        }
    }

    /// Bytes in use on each device with limited memory: by sessions that are open, opening or closing.
    #[must_use]
    pub fn used_bytes(&self) -> Vec<u64> {
        let memory = self.memory.iter();
        memory.flat_map(|memory| memory.used_bytes()).collect()
    }
}
