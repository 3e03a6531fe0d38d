//! A graph that another one has taken the place of: its actors end when nothing of it is in flight.

use std::sync::Weak;

use crate::actors::{ActorRefs, DropGraph, StopActor};
use crate::routes::Route;

/// A graph that another one has taken the place of.
pub(super) struct DrainingGraph {
    pub(super) number: u32,
    pub(super) actors: ActorRefs,
    /// Held by its requests in flight, and by sources that are about to send one.
    pub(super) routes: Vec<Weak<Route>>,
    pub(super) is_stopping: bool,
}

impl DrainingGraph {
    /// Takes it down as far as that can be done by now; says whether nothing of it is left.
    pub(super) fn is_down(&mut self) -> bool {
        if self.routes.iter().any(|route| route.strong_count() > 0) {
            return false;
        }
        if !self.is_stopping {
            self.is_stopping = true;
            let number = self.number;
            self.actors.egress.do_send(DropGraph { number });
            self.actors.graph.do_send(StopActor);
        }
        !self.actors.graph.connected()
    }
}
