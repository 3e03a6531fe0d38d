//! Workers of this process, by number. There is no global registry: callers get this value.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crossbeam_channel::Receiver;

use crate::wire::{Message, StageInput, Welcome, WireError};

/// Message handler of a worker, the same for TCP connections and for calls within the process.
pub(crate) trait LocalWorker: Send + Sync {
    /// Begins to serve an engine; the error is the reason of a refusal.
    fn open(&self, engine: u64) -> Result<EngineSession, WireError>;

    /// Ends the service with that generation number.
    fn close(&self, generation: u64);

    /// Handles a message of the engine.
    ///
    /// # Errors
    /// What an engine does not send; the connection is to be closed.
    fn on_message(&self, generation: u64, message: Message) -> Result<(), WireError>;

    /// Handles a feature from another worker.
    fn on_feature(&self, input: StageInput);
}

/// An engine is served.
pub(crate) struct EngineSession {
    pub(crate) welcome: Welcome,
    pub(crate) generation: u64,
    /// Messages to it; closed when the worker ends.
    pub(crate) reports: Receiver<Message>,
}

/// Workers of this process that can reach each other without a network.
#[derive(Clone, Default)]
pub struct LocalWorkers(Arc<Mutex<BTreeMap<u32, Weak<dyn LocalWorker>>>>);

impl LocalWorkers {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u32, Weak<dyn LocalWorker>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn register(&self, worker: Weak<dyn LocalWorker>) -> u32 {
        let mut all = self.all();
        let number = all.last_key_value().map_or(0, |(last, _)| last + 1);
        all.insert(number, worker);
        number
    }

    pub(crate) fn find(&self, number: u32) -> Option<Arc<dyn LocalWorker>> {
        self.all().get(&number)?.upgrade()
    }
}

impl fmt::Debug for LocalWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all().keys()).finish()
    }
}
