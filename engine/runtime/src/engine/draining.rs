//! A graph that another one has taken the place of: its actors end when nothing of it is in flight.

use std::sync::{Arc, Weak};

use actix::Addr;
use weir_types::ModuleId;

use crate::actors::{ActorRefs, DropGraph, ModuleActor, StopActor};
use crate::routes::Route;

/// A graph that another one has taken the place of.
pub(super) struct DrainingGraph {
    pub(super) number: u32,
    /// Numbers of its modules in reports.
    pub(super) report_ids: Vec<ModuleId>,
    pub(super) actors: Arc<ActorRefs>,
    /// Held by its requests in flight, and by sources that are about to send one.
    pub(super) routes: Vec<Weak<Route>>,
    pub(super) is_stopping: bool,
}

impl DrainingGraph {
    /// Its modules with their numbers in reports.
    pub(super) fn modules(&self) -> impl Iterator<Item = (ModuleId, &Addr<ModuleActor>)> {
        self.report_ids.iter().copied().zip(&self.actors.modules)
    }

    /// Takes it down as far as that can be done by now; says whether nothing of it is left.
    pub(super) fn is_down(&mut self) -> bool {
        if self.routes.iter().any(|route| route.strong_count() > 0) {
            return false;
        }
        if !self.is_stopping {
            self.is_stopping = true;
            let number = self.number;
            self.actors.egress.do_send(DropGraph { number });
            for module in &self.actors.modules {
                module.do_send(StopActor);
            }
        }
        if self.actors.modules.iter().any(Addr::connected) {
            return false;
        }
        self.actors.slots.do_send(StopActor);
        self.actors.supervisor.do_send(StopActor);
        if let Some(gears) = &self.actors.gears {
            gears.do_send(StopActor);
        }
        true
    }
}
