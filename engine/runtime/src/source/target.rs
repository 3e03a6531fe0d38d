//! Where the frames of a source go: into the modules of the graph in force. Another graph takes its place while the source goes
//! on.

use std::sync::{Arc, Mutex, PoisonError};

use actix::Addr;

use crate::actors::{ActorRefs, ModuleActor};
use crate::routes::Route;

/// The modules that frames enter.
pub(crate) struct SourceTarget {
    pub(super) route: Arc<Route>,
    /// Each with how many branches make a request complete there.
    pub(super) entries: Vec<(Addr<ModuleActor>, u32)>,
}

impl SourceTarget {
    pub(crate) fn new(route: &Arc<Route>, actors: &ActorRefs) -> Self {
        let entry =
            |id: &weir_types::ModuleId| (actors.modules[id.index()].clone(), route.branches[id.index()]);
        Self {
            entries: route.entries.iter().map(entry).collect(),
            route: Arc::clone(route),
        }
    }
}

/// See the module. Shared by the thread of the source and the control thread.
pub(crate) struct SharedTarget(Mutex<Arc<SourceTarget>>);

impl SharedTarget {
    pub(crate) fn new(target: SourceTarget) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Arc::new(target))))
    }

    /// Where the next frame goes. Whoever has it keeps its graph from being taken down.
    pub(super) fn get(&self) -> Arc<SourceTarget> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, target: SourceTarget) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(target);
    }
}
