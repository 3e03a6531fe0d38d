//! State that is shared by the client's threads.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_flow::StopFlag;

use super::event::Event;
use super::node_connections::NodeConnections;
use super::options::ClientOptions;
use super::state::ClientState;
use crate::time::Now;

/// Callback for events. Runs on threads of the client without any lock held: it may call the client, and must
/// not block.
pub type Listener = Box<dyn Fn(Event) + Send + Sync>;

/// State that is shared by the client's threads.
pub(super) struct Shared {
    pub(super) options: ClientOptions,
    pub(super) now: Now,
    pub(super) stop: StopFlag,
    pub(super) state: Mutex<ClientState>,
    pub(super) listener: Listener,
    /// Connections to workers of the fleet, if this engine is in a fleet.
    pub(super) nodes: Option<NodeConnections>,
}

impl Shared {
    /// Locks the state. A poisoned lock is still valid, since no change under it panics halfway.
    pub(super) fn state(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn publish(&self, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|event| (self.listener)(event));
    }
}
