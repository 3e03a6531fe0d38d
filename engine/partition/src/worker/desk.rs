//! The desk: which engine is served, on whose clock reports are, and what is counted.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_flow::StopFlag;
use weir_types::Timestamp;

use crate::time::{Now, shifted};
use crate::wire::{BatchKey, Failure, Message};

/// Reports that wait for the engine, at most; a share that reports more waits until they are read, or until the
/// connection is given up.
const REPORTS_MOST: usize = 256;

/// What a worker did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WorkerTally {
    /// Batches run, whatever came of them.
    pub batches: u64,
    /// Of these, partitions that gave an error or panicked.
    pub failed: u64,
    /// Batches turned away: too much waited, or the partition was not held.
    pub turned_away: u64,
    /// Batches dropped because their engine had gone.
    pub stale: u64,
    /// Peers that broke the protocol: garbage, half a message, too long a message, another version.
    pub foul: u64,
    /// Connections refused: another engine is served, or there are too many.
    pub refused: u64,
    /// Bytes of inputs that wait or run now, and of features that wait to be sent.
    pub held_bytes: u64,
    /// Bytes that have come of messages that are not whole yet.
    pub receiving_bytes: u64,
}

#[derive(Default)]
pub(super) struct Counts {
    pub(super) batches: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) turned_away: AtomicU64,
    pub(super) stale: AtomicU64,
    pub(super) foul: AtomicU64,
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

/// What is shared by all threads of a worker.
pub(crate) struct Desk {
    now: Now,
    pub(super) stop: StopFlag,
    offset: AtomicI64,
    service: Mutex<Service>,
    pub(super) held_bytes_most: u64,
    pub(super) counts: Counts,
}

/// An engine came.
pub(super) struct Opened {
    pub(super) generation: u64,
    pub(super) reports: Receiver<Message>,
    /// Whether it is the one that was served before.
    pub(super) again: bool,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Desk {
    pub(super) fn new(now: Now, held_bytes_most: u64) -> Self {
        Self {
            now,
            held_bytes_most,
            stop: StopFlag::default(),
            offset: AtomicI64::new(0),
            service: Mutex::default(),
            counts: Counts::default(),
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
        shifted(self.own_now(), self.offset.load(Ordering::Relaxed))
    }

    pub(super) fn tell_offset(&self, offset: i64) {
        self.offset.store(offset, Ordering::Relaxed);
    }

    /// Serves an engine from now on; `None` where another is served. The same one may come anew while its connection
    /// before still counts as open: that one ends.
    pub(super) fn open(&self, engine: u64) -> Option<Opened> {
        let mut service = self.service();
        let again = service.engine == Some(engine);
        if service.reports.is_some() && !again {
            return None;
        }
        let (sender, reports) = bounded(REPORTS_MOST);
        *service = Service {
            engine: Some(engine),
            generation: service.generation + 1,
            reports: Some(sender),
        };
        Some(Opened {
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

    /// Ends the service of whoever is served.
    pub(super) fn close_all(&self) {
        self.service().reports = None;
    }

    /// Whether batches of that service still matter to anybody.
    pub(super) fn serves(&self, generation: u64) -> bool {
        let service = self.service();
        service.generation == generation && service.reports.is_some() && !self.stop.is_raised()
    }

    /// The present service of that engine.
    pub(super) fn service_of(&self, engine: u64) -> Option<u64> {
        let service = self.service();
        let serves = service.engine == Some(engine) && service.reports.is_some();
        serves.then_some(service.generation)
    }

    /// Tells the engine of that service, if it is still there.
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
        // It fails where the connection was given up meanwhile; then nobody is there to be told.
        let _ = reports.send(message);
    }

    pub(super) fn fail(&self, generation: u64, key: BatchKey, stage: u32, failure: Failure) {
        let counter = match failure {
            Failure::Part(_) | Failure::Panicked(_) => &self.counts.failed,
            _ => &self.counts.turned_away,
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

    pub(super) fn tally(&self) -> WorkerTally {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WorkerTally {
            batches: read(&self.counts.batches),
            failed: read(&self.counts.failed),
            turned_away: read(&self.counts.turned_away),
            stale: read(&self.counts.stale),
            foul: read(&self.counts.foul),
            refused: read(&self.counts.refused),
            held_bytes: read(&self.counts.held_bytes),
            receiving_bytes: read(&self.counts.receiving_bytes),
        }
    }
}
