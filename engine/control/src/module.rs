//! A module as a machine: its policy, and the flow of requests around it.

use weir_policy::{
    Module, ModuleEffect, ModuleEvent, ModuleSpec, ModuleStats, Pool, ScaledPool, ScalingSpec,
};
use weir_types::{SlotId, Timestamp};

use crate::backlog::ModuleWork;
use crate::machine::{Machine, Outbox};
use crate::message::ModuleMessage;
use crate::module_flow::{Edge, ModuleFlow};
use crate::stage_load::StageLoad;

/// See the module.
#[derive(Debug)]
pub struct ModuleMachine {
    flow: ModuleFlow,
    policy: Module,
    /// Slots that it has alone, of which the arbiter does not inform it.
    owned: Vec<SlotId>,
    due: Vec<ModuleEvent>,
    effects: Vec<ModuleEffect>,
}

impl ModuleMachine {
    /// A module without requests, in a graph of so many. Its requests take all edges of `next`; none: they are complete.
    #[must_use]
    pub fn new(spec: ModuleSpec, next: Vec<Edge>, modules: u32) -> Self {
        Self {
            flow: ModuleFlow::new(spec.id, spec.pool, next, modules),
            owned: match spec.pool {
                Pool::Own => spec.slots.clone(),
                Pool::Shared | Pool::Pipelines => Vec::new(),
            },
            policy: Module::new(spec),
            due: Vec::new(),
            effects: Vec::new(),
        }
    }

    /// The policy that it decides by.
    #[must_use]
    pub fn policy(&self) -> &Module {
        &self.policy
    }

    /// Requests that have come on some of their branches and not on all.
    #[must_use]
    pub fn joining(&self) -> usize {
        self.flow.joining()
    }

    /// Gives its statistics so far.
    #[must_use]
    pub fn stats(&self) -> ModuleStats {
        self.flow.stats(&self.policy)
    }

    /// Counts its load from now on: gears set it.
    pub(crate) fn count_load(&mut self, by_request: bool) {
        self.flow.count_load(by_request);
    }

    /// Gives its load since the last look, where that is counted.
    pub(crate) fn take_load(&mut self) -> Option<StageLoad> {
        self.flow.take_load()
    }

    /// Gives the items that came since this was asked last, where its batches run on booked paths.
    pub(crate) fn take_booked_items(&mut self) -> u64 {
        self.flow.take_booked_items()
    }

    /// Gives its work at a look, with `items` that wait or run of a stage.
    pub(crate) fn work(&self, items: Option<u64>) -> ModuleWork {
        ModuleWork {
            queued: items.map(|items| self.policy.expected_work(items)),
            busy: self.flow.busy(),
            batch: self.policy.expected_batch(),
            own_slots: self.policy.usable_slots(),
        }
    }

    /// Opens and closes its workers with its load from now on; its policy learns which slots it may not use yet.
    pub(crate) fn scale_by(&mut self, spec: ScalingSpec) {
        let closed = self.flow.scale_by(spec, &self.owned).into_iter();
        self.due.extend(closed.map(|slot| ModuleEvent::SlotDown { slot }));
    }

    /// Leaves the start of its sequences to queues from now on: its model takes turns with others.
    pub(crate) fn use_queues(&mut self) {
        self.policy.use_queues();
    }

    /// Its workers, where their number follows the load.
    #[must_use]
    pub fn scaled(&self) -> Option<&ScaledPool> {
        self.flow.scaled()
    }

    /// A request has come to the graph, and will pass the module.
    pub(crate) fn on_arrived(&mut self, now: Timestamp) {
        self.flow.on_arrived(now);
    }

    /// Opens or closes workers, of which `room` more may be there.
    pub(crate) fn scale(&mut self, room: u32, now: Timestamp, out: &mut Outbox) {
        self.flow.scale(room, now, &mut self.due, out);
    }

    pub(crate) fn owns(&self, slot: SlotId) -> bool {
        self.owned.contains(&slot)
    }

    pub(crate) fn due(&self) -> usize {
        self.due.len()
    }
}

impl Machine for ModuleMachine {
    type Message = ModuleMessage;

    fn on(&mut self, message: ModuleMessage, now: Timestamp, out: &mut Outbox) {
        self.flow.on(message, now, &mut self.due, out);
    }

    fn decide(&mut self, now: Timestamp, out: &mut Outbox) {
        self.policy.step(self.due.drain(..), now, &mut self.effects);
        for effect in self.effects.drain(..) {
            self.flow.apply(effect, out);
        }
    }

    fn is_due(&self) -> bool {
        !self.due.is_empty()
    }
}
