//! The graph in force, by which the frames of a source go. Another graph takes its place while the source goes on.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use actix::Addr;
use weir_analytics::transforms::Schedule;

use crate::actors::{ActorRefs, GraphActor};
use crate::routes::Route;

/// The graph that frames enter, and their way through it.
pub(crate) struct SourceTarget {
    pub(super) route: Arc<Route>,
    pub(super) graph: Addr<GraphActor>,
}

impl SourceTarget {
    pub(crate) fn new(route: &Arc<Route>, actors: &ActorRefs) -> Self {
        Self {
            route: Arc::clone(route),
            graph: actors.graph.clone(),
        }
    }
}

/// See the module. Shared by the thread of the source and the control thread.
pub(crate) struct SharedTarget(Mutex<Arc<SourceTarget>>);

impl SharedTarget {
    pub(crate) fn new(target: SourceTarget) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Arc::new(target))))
    }

    /// The target of the next frame. Its graph is not taken down as long as the caller holds the returned
    /// reference.
    pub(super) fn get(&self) -> Arc<SourceTarget> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a time in milliseconds since 1970 (UTC) is within a schedule, in the time zone of the graph in force where the schedule
    /// has none of its own.
    pub(crate) fn contains(&self, schedule: &Schedule, time_ms: u64) -> bool {
        schedule.contains_in(time_ms, self.get().route.zone.as_ref())
    }

    pub(crate) fn set(&self, target: SourceTarget) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(target);
    }
}

impl fmt::Debug for SharedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedTarget(graph {})", self.get().route.graph)
    }
}
