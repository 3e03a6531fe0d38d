//! State of a worker: the engine that it serves, the offset to that engine's clock, and counters.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_flow::StopFlag;
use weir_types::Timestamp;

use crate::time::{Now, to_engine_clock};
use crate::wire::{BatchFailure, BatchKey, Message};

/// Maximum number of reports queued for the engine. A share with more reports waits until they are read, or
/// until the connection is closed.
const MAX_REPORTS: usize = 256;

/// Counters of a worker since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Batches run, successful or not.
    pub batches: u64,
    /// Batches among them whose partition returned an error or panicked.
    pub failed: u64,
    /// Batches rejected because a queue was full or the partition was not loaded.
    pub rejected: u64,
    /// Batches dropped because their engine had disconnected.
    pub stale: u64,
    /// Peers that violated the protocol: invalid or incomplete messages, too long a message, another version.
    pub protocol_errors: u64,
    /// Connections refused, because another engine is served or a limit of connections is reached.
    pub refused: u64,
    /// Bytes of inputs that wait or run now, and of features that wait to be sent.
    pub held_bytes: u64,
    /// Bytes that have come of messages that are not whole yet.
    pub receiving_bytes: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) batches: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) stale: AtomicU64,
    pub(super) protocol_errors: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) held_bytes: AtomicU64,
    /// Shared with each connection.
    pub(super) receiving_bytes: Arc<AtomicU64>,
}

/// The engine that is served, or was last.
#[derive(Default)]
struct Service {
    engine: Option<u64>,
    /// Rises with every engine that comes, the same one again included: batches of an earlier service are stale.
    generation: u64,
    reports: Option<Sender<Message>>,
}

/// State that is shared by all threads of a worker.
pub(crate) struct WorkerState {
    now: Now,
    pub(super) stop: StopFlag,
    offset: AtomicI64,
    service: Mutex<Service>,
    pub(super) max_held_bytes: u64,
    pub(super) counters: Counters,
}

/// An engine came.
pub(super) struct OpenedService {
    pub(super) generation: u64,
    pub(super) reports: Receiver<Message>,
    /// True if the same engine was served before.
    pub(super) again: bool,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl WorkerState {
    pub(super) fn new(now: Now, max_held_bytes: u64) -> Self {
        Self {
            now,
            max_held_bytes,
            stop: StopFlag::default(),
            offset: AtomicI64::new(0),
            service: Mutex::default(),
            counters: Counters::default(),
        }
    }

    /// A service is only ever replaced as a whole, so a panic elsewhere leaves it sound.
    fn service(&self) -> MutexGuard<'_, Service> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clock(&self) -> &Now {
        &self.now
    }

    /// The worker's own time.
    pub(crate) fn own_now(&self) -> Timestamp {
        (self.now)()
    }

    /// The engine's time, as far as it is known.
    pub(super) fn engine_now(&self) -> Timestamp {
        to_engine_clock(self.own_now(), self.offset.load(Ordering::Relaxed))
    }

    pub(super) fn set_offset(&self, offset: i64) {
        self.offset.store(offset, Ordering::Relaxed);
    }

    /// Starts to serve an engine; `None` if another engine is served. The same engine may reconnect while its
    /// old connection still counts as open; the old one then ends.
    pub(super) fn open(&self, engine: u64) -> Option<OpenedService> {
        let mut service = self.service();
        let again = service.engine == Some(engine);
        if service.reports.is_some() && !again {
            return None;
        }
        let (sender, reports) = bounded(MAX_REPORTS);
        *service = Service {
            engine: Some(engine),
            generation: service.generation + 1,
            reports: Some(sender),
        };
        Some(OpenedService {
            generation: service.generation,
            reports,
            again,
        })
    }

    pub(super) fn close(&self, generation: u64) {
        let mut service = self.service();
        if service.generation == generation {
            service.reports = None;
        }
    }

    /// Ends the service of the current engine.
    pub(super) fn close_all(&self) {
        self.service().reports = None;
    }

    /// True if batches of that service are still relevant.
    pub(super) fn is_serving(&self, generation: u64) -> bool {
        let service = self.service();
        service.generation == generation && service.reports.is_some() && !self.stop.is_raised()
    }

    /// The present service of that engine.
    pub(super) fn current_service(&self, engine: u64) -> Option<u64> {
        let service = self.service();
        let serves = service.engine == Some(engine) && service.reports.is_some();
        serves.then_some(service.generation)
    }

    /// Sends a report to the engine of that service, if it is still connected.
    pub(super) fn report(&self, generation: u64, message: Message) {
        let service = self.service();
        let reports = service
            .reports
            .as_ref()
            .filter(|_| service.generation == generation);
        let Some(reports) = reports.cloned() else {
            return;
        };
        drop(service);
        // Sending fails if the connection was closed in the meantime; then there is no engine to report to.
        let _ = reports.send(message);
    }

    pub(super) fn fail_batch(&self, generation: u64, key: BatchKey, stage: u32, failure: BatchFailure) {
        let counter = match failure {
            BatchFailure::Session(_) | BatchFailure::Panicked(_) => &self.counters.failed,
            _ => &self.counters.rejected,
        };
        count(counter);
        tracing::debug!(
            module = key.module.0,
            batch = key.batch.0,
            stage,
            "batch failed: {failure}"
        );
        self.report(generation, Message::Failed { key, stage, failure });
    }

    pub(super) fn stats(&self) -> WorkerStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WorkerStats {
            batches: read(&self.counters.batches),
            failed: read(&self.counters.failed),
            rejected: read(&self.counters.rejected),
            stale: read(&self.counters.stale),
            protocol_errors: read(&self.counters.protocol_errors),
            refused: read(&self.counters.refused),
            held_bytes: read(&self.counters.held_bytes),
            receiving_bytes: read(&self.counters.receiving_bytes),
        }
    }
}
