//! Control of sessions on devices whose memory does not hold all their models, and of workers that follow the load:
//! the orders for workers, and the models that stay prepared in host memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::Sender;
use weir_flow::PreparedModel;
use weir_policy::SlotEvent;
use weir_types::ModelId;

/// Prepared models in host memory; sessions open faster from them than from files.
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

/// Order of the arbiter, or of a pool, to open or close a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionOrder {
    Open { model: ModelId, warm: bool },
    Close { model: ModelId },
}

/// Sends the outcome of an order to the graph; called on the thread of the worker.
pub(crate) type SessionChangeSender = Box<dyn Fn(SlotEvent) + Send>;

/// Channel for orders to a worker, with the prepared models that its sessions open from.
#[derive(Debug, Clone)]
pub(crate) struct SessionControl {
    pub(crate) orders: Sender<SessionOrder>,
    pub(crate) warm: Arc<WarmModels>,
}
