//! What the client's threads share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_flow::StopFlag;

use super::event::Event;
use super::node_connections::NodeConnections;
use super::options::ClientOptions;
use super::state::ClientState;
use crate::time::Now;

/// Called with what happens, on threads of the client, not under a lock: it may call the client, and must not block.
pub type Listener = Box<dyn Fn(Event) + Send + Sync>;

/// What the client's threads share.
pub(super) struct Shared {
    pub(super) options: ClientOptions,
    pub(super) now: Now,
    pub(super) stop: StopFlag,
    pub(super) state: Mutex<ClientState>,
    pub(super) listener: Listener,
    /// Connections to workers of the fleet, where this engine is in one.
    pub(super) nodes: Option<NodeConnections>,
}

impl Shared {
    /// What is under it changes by whole steps, none of which panics.
    pub(super) fn state(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn publish(&self, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|event| (self.listener)(event));
    }
}
