//! A module as a machine: its policy, and the flow of requests around it.

use weir_policy::{Module, ModuleEffect, ModuleEvent, ModuleSpec, ModuleStats};
use weir_types::{ModuleId, Timestamp};

use crate::machine::{Machine, Outbox};
use crate::message::ModuleMessage;
use crate::module_flow::{Edge, ModuleFlow, ModuleWiring};
use crate::request::Route;

/// See the module.
#[derive(Debug)]
pub struct ModuleMachine {
    flow: ModuleFlow,
    policy: Module,
    due: Vec<ModuleEvent>,
    effects: Vec<ModuleEffect>,
}

impl ModuleMachine {
    /// A module without requests.
    #[must_use]
    pub fn new(spec: ModuleSpec, wiring: ModuleWiring) -> Self {
        Self {
            flow: ModuleFlow::new(spec.id, spec.pool, wiring),
            policy: Module::new(spec),
            due: Vec::new(),
            effects: Vec::new(),
        }
    }

    /// Gives the wiring of a module whose requests take these routes.
    #[must_use]
    pub fn wiring(id: ModuleId, next: Vec<Edge>, routes: &[Route]) -> ModuleWiring {
        ModuleWiring {
            next,
            branches: routes.iter().map(|route| route.branches(id)).collect(),
            modules: routes.first().map_or(0, |route| route.branches.len() as u32),
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

    pub(crate) fn due(&self) -> usize {
        self.due.len()
    }
}

impl Machine for ModuleMachine {
    type Message = ModuleMessage;

    fn on(&mut self, message: ModuleMessage, _now: Timestamp, out: &mut Outbox) {
        self.flow.on(message, &mut self.due, out);
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
