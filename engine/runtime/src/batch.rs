//! Batches between modules and workers: what is sent to a slot, and what comes back.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::Sender;
use weir_flow::{DeviceKind, Inference, Item, Model, SessionError};
use weir_types::{BatchId, ModuleId, SlotId, Span, Timestamp};

use crate::panic_message::caught;
use crate::session_control::SessionControl;

/// A batch to run.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) module: ModuleId,
    pub(crate) model: usize,
    pub(crate) batch: BatchId,
    pub(crate) items: Vec<Item>,
    /// When its results are of no more use to any request; `None`: always of use.
    pub(crate) useful_until: Option<Timestamp>,
}

/// The result of a batch, with its durations; sent by the worker that ran it.
#[derive(Debug)]
pub(crate) struct BatchResult {
    pub(crate) slot: SlotId,
    pub(crate) module: ModuleId,
    pub(crate) batch: BatchId,
    /// Time for which the batch occupied its slot, until its outputs were decoded.
    pub(crate) took: Span,
    pub(crate) steps: StepTimes,
    /// Whether it was lost with a partition worker, and may run again.
    pub(crate) lost: bool,
    pub(crate) result: Result<Vec<Inference>, String>,
}

/// The inputs of a batch are prepared, and its run begins; sent by workers that prepare ahead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchLaunched {
    pub(crate) slot: SlotId,
    pub(crate) module: ModuleId,
    pub(crate) batch: BatchId,
    pub(crate) prepared: Span,
}

/// Durations of the three steps of a batch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StepTimes {
    pub(crate) prepared: Span,
    pub(crate) inferred: Span,
    pub(crate) decoded: Span,
}

/// Sends a result to its module; called on the thread of the worker.
pub(crate) type BatchDoneSender = Box<dyn Fn(BatchResult) + Send>;

/// Notifies a module that one of its batches begins to run; called on a thread of the worker.
pub(crate) type BatchLaunchedSender = Box<dyn Fn(BatchLaunched) + Send>;

/// A model as a worker sees it.
#[derive(Clone)]
pub(crate) struct PlacedModel {
    pub(crate) model: usize,
    pub(crate) name: String,
    pub(crate) device: DeviceKind,
    pub(crate) opener: Arc<dyn Model>,
}

impl PlacedModel {
    /// Runs the first-batch preparation of a session on the thread that will use the session. A failure is
    /// only logged, since the batches fail with the same reason and report it.
    pub(crate) fn begin(&self, slot: SlotId, begins: impl FnOnce() -> Result<(), SessionError>) {
        if let Err(reason) = caught(begins) {
            tracing::warn!(slot = slot.0, model = %self.name, reason, "the first run failed");
        }
    }
}

/// A worker on its threads.
pub(crate) struct WorkerHandle {
    pub(crate) jobs: Sender<Job>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    /// Control of the sessions; present only if the models of the device together exceed its memory, or if the number
    /// of workers follows the load.
    pub(crate) sessions: Option<SessionControl>,
}
