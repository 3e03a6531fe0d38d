//! What workers of devices whose memory does not hold all their models are sent about sessions, and what they keep for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::Sender;
use weir_flow::PreparedModel;
use weir_policy::SlotEvent;
use weir_types::ModelId;

/// What the models of a graph are opened from faster than from their files.
#[derive(Debug, Default)]
pub(crate) struct WarmModels(Mutex<BTreeMap<ModelId, PreparedModel>>);

impl WarmModels {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<ModelId, PreparedModel>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn of(&self, model: ModelId) -> Option<PreparedModel> {
        self.with(|models| models.get(&model).cloned())
    }

    pub(crate) fn keep(&self, model: ModelId, prepared: PreparedModel) {
        let before = self.with(|models| models.insert(model, prepared));
        drop(before);
    }

    pub(crate) fn discard(&self, model: ModelId) {
        // Freed after the lock is.
        let discarded = self.with(|models| models.remove(&model));
        drop(discarded);
    }
}

/// What a worker is to do with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionOrder {
    Open { model: ModelId, warm: bool },
    Close { model: ModelId },
}

/// Sends what became of a session to the arbiter; called on the thread of the worker.
pub(crate) type SessionChangeSender = Box<dyn Fn(SlotEvent) + Send>;

/// Where a worker takes orders for its sessions.
#[derive(Debug, Clone)]
pub(crate) struct SessionControl {
    pub(crate) orders: Sender<SessionOrder>,
    pub(crate) warm: Arc<WarmModels>,
}
