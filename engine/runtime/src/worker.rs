//! A worker: the thread that owns a slot and the sessions placed on it. It runs one batch at a time, sent over a channel of
//! one, and reports the result and the measured time. A panic or an error of a batch loses that batch; the session is
//! built again.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_flow::{DeviceKind, Inference, Item, Model, Session, SessionError, Step};
use weir_types::{BatchId, ModuleId, SlotId, Span};

use crate::clock::Clock;
use crate::instance::Instance;
use crate::panic_message::panic_message;
use crate::processor_time::{ProcessorTimes, ThreadKind, ThreadTimer};

/// A batch to run.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) module: ModuleId,
    pub(crate) model: usize,
    pub(crate) batch: BatchId,
    pub(crate) items: Vec<Item>,
}

/// How a batch ended.
#[derive(Debug)]
pub(crate) struct BatchResult {
    pub(crate) slot: SlotId,
    pub(crate) module: ModuleId,
    pub(crate) batch: BatchId,
    /// How long it had the slot, until its outputs were decoded.
    pub(crate) took: Span,
    pub(crate) steps: StepTimes,
    /// Whether it was lost with a partition worker, and may run again.
    pub(crate) lost: bool,
    pub(crate) result: Result<Vec<Inference>, String>,
}

/// Where the time of a batch went.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StepTimes {
    pub(crate) prepared: Span,
    pub(crate) inferred: Span,
    pub(crate) decoded: Span,
}

/// Sends a result to its module; called on the thread of the worker.
pub(crate) type BatchDoneSender = Box<dyn Fn(BatchResult) + Send>;

/// A model as a worker sees it.
#[derive(Clone)]
pub(crate) struct PlacedModel {
    pub(crate) model: usize,
    pub(crate) name: String,
    pub(crate) device: DeviceKind,
    pub(crate) opener: Arc<dyn Model>,
}

/// A worker before its thread starts: its sessions are open.
pub(crate) struct Worker {
    slot: SlotId,
    clock: Clock,
    sessions: BTreeMap<usize, (PlacedModel, Option<Box<dyn Session>>)>,
    /// Where a model that generates is placed, which has its slots alone.
    instance: Option<Instance>,
}

/// A worker on its thread.
pub(crate) struct WorkerHandle {
    pub(crate) jobs: Sender<Job>,
    pub(crate) thread: JoinHandle<()>,
}

impl Worker {
    /// Opens a session of every model that is placed on `slot`.
    pub(crate) fn open(slot: SlotId, clock: Clock, placed: Vec<PlacedModel>) -> Result<Self, SessionError> {
        let mut sessions = BTreeMap::new();
        let mut instance = None;
        for placed in placed {
            if let Some(model) = placed.opener.generative() {
                instance = Some(Instance::open(slot, clock, placed.device, model)?);
                continue;
            }
            let session = placed.opener.open(placed.device)?;
            sessions.insert(placed.model, (placed, Some(session)));
        }
        Ok(Self {
            slot,
            clock,
            sessions,
            instance,
        })
    }

    /// Its instance, where a model that generates is placed on its slot.
    pub(crate) fn instance_mut(&mut self) -> Option<&mut Instance> {
        self.instance.as_mut()
    }

    /// The instance that it is, or itself.
    pub(crate) fn into_instance(mut self) -> Result<Instance, Self> {
        self.instance.take().ok_or(self)
    }

    /// Runs `model` on blank batches of `size` and gives the median time, the first run left out.
    pub(crate) fn measure(&mut self, model: usize, size: u32, runs: usize) -> Result<Span, SessionError> {
        let Some((_, Some(session))) = self.sessions.get_mut(&model) else {
            return Ok(Span::ZERO);
        };
        session.warm_up(size as usize)?;
        let mut times = Vec::with_capacity(runs);
        for _ in 0..runs.max(1) {
            let began = self.clock.now();
            session.warm_up(size as usize)?;
            times.push(self.clock.now().since(began));
        }
        times.sort_unstable();
        Ok(times[times.len() / 2])
    }

    /// Runs jobs on a thread of its own until the channel closes.
    pub(crate) fn start(
        mut self,
        on_done: BatchDoneSender,
        processor: &Arc<ProcessorTimes>,
    ) -> std::io::Result<WorkerHandle> {
        let (jobs, queue) = bounded(1);
        let name = format!("weir-slot-{}", self.slot.0);
        let processor = Arc::clone(processor);
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || self.serve(&queue, &on_done, processor.timer(ThreadKind::Workers)))?;
        Ok(WorkerHandle { jobs, thread })
    }

    fn serve(&mut self, queue: &Receiver<Job>, on_done: &BatchDoneSender, mut timer: ThreadTimer) {
        for job in queue {
            let began = self.clock.now();
            let mut steps = StepTimes::default();
            let result = self.run(&job, &mut steps);
            // Items hold frames: dropped before the result is sent.
            let Job {
                module,
                model,
                batch,
                items,
            } = job;
            drop(items);
            let took = self.clock.now().since(began);
            if result.is_err() {
                // While the slot still counts as busy, so that the next batch does not wait for it. A session that
                // cannot be built now is tried again with the next batch, which reports the error.
                let _ = self.session(model);
            }
            on_done(BatchResult {
                slot: self.slot,
                module,
                batch,
                took,
                steps,
                lost: false,
                result,
            });
            timer.update();
        }
    }

    fn run(&mut self, job: &Job, steps: &mut StepTimes) -> Result<Vec<Inference>, String> {
        let clock = self.clock;
        let session = self.session(job.model)?;
        let mut last = clock.now();
        let mut on_step = |step| {
            let now = clock.now();
            let span = now.since(last);
            last = now;
            match step {
                Step::Preprocessed => steps.prepared += span,
                Step::Inferred => steps.inferred += span,
                Step::Postprocessed => steps.decoded += span,
            }
        };
        let ran = catch_unwind(AssertUnwindSafe(|| session.run(&job.items, &mut on_step)));
        let reason = match ran {
            Ok(Ok(inferences)) if inferences.len() == job.items.len() => return Ok(inferences),
            Ok(Ok(inferences)) => {
                format!("{} inferences for {} items", inferences.len(), job.items.len())
            }
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("the session panicked: {}", panic_message(panic.as_ref())),
        };
        self.discard(job.model);
        Err(reason)
    }

    /// The session of `model`, built again where the last batch discarded it.
    fn session(&mut self, model: usize) -> Result<&mut Box<dyn Session>, String> {
        let (placed, session) = self
            .sessions
            .get_mut(&model)
            .ok_or("the model is not placed on this slot")?;
        if session.is_none() {
            let opened = catch_unwind(AssertUnwindSafe(|| placed.opener.open(placed.device)));
            let rebuilt = opened
                .map_err(|panic| panic_message(panic.as_ref()))?
                .map_err(|error| error.to_string())?;
            tracing::info!(slot = self.slot.0, model = %placed.name, "session built again");
            *session = Some(rebuilt);
        }
        session.as_mut().ok_or_else(|| "no session".to_owned())
    }

    fn discard(&mut self, model: usize) {
        if let Some((_, session)) = self.sessions.get_mut(&model) {
            // A broken session may panic as it is dropped, too.
            let broken = session.take();
            let _ = catch_unwind(AssertUnwindSafe(move || drop(broken)));
        }
    }
}
