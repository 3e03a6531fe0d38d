//! A worker: the thread that owns a slot and the sessions placed on it. It runs one batch at a time, handed over a
//! channel of one, and answers with the measured time. A panic or an error of a batch costs that batch; the session is
//! built anew.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_flow::{DeviceKind, Inference, Item, Model, Session, SessionError, Step};
use weir_types::{BatchId, ModuleId, SlotId, Span};

use crate::clock::Clock;

/// One batch to run.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) module: ModuleId,
    pub(crate) model: usize,
    pub(crate) batch: BatchId,
    pub(crate) items: Vec<Item>,
}

/// A batch that came back.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) slot: SlotId,
    pub(crate) module: ModuleId,
    pub(crate) batch: BatchId,
    /// How long it had the slot, from being taken up to its decoded outputs.
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

/// Whom a worker answers: called on its thread.
pub(crate) type Answer = Box<dyn Fn(Ran) + Send>;

/// A model as a worker sees it.
#[derive(Clone)]
pub(crate) struct Placed {
    pub(crate) model: usize,
    pub(crate) name: String,
    pub(crate) device: DeviceKind,
    pub(crate) opener: Arc<dyn Model>,
}

/// A worker before it begins to answer: its sessions are open.
pub(crate) struct Worker {
    slot: SlotId,
    clock: Clock,
    sessions: BTreeMap<usize, (Placed, Option<Box<dyn Session>>)>,
}

/// The other end of a worker.
pub(crate) struct WorkerHandle {
    pub(crate) jobs: Sender<Job>,
    pub(crate) thread: JoinHandle<()>,
}

impl Worker {
    /// Opens a session of every model that is placed on `slot`.
    pub(crate) fn open(slot: SlotId, clock: Clock, placed: Vec<Placed>) -> Result<Self, SessionError> {
        let mut sessions = BTreeMap::new();
        for placed in placed {
            let session = placed.opener.open(placed.device)?;
            sessions.insert(placed.model, (placed, Some(session)));
        }
        Ok(Self {
            slot,
            clock,
            sessions,
        })
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

    /// Lets it work on a thread of its own until its channel closes.
    pub(crate) fn start(mut self, answer: Answer) -> std::io::Result<WorkerHandle> {
        let (jobs, queue) = bounded(1);
        let name = format!("weir-slot-{}", self.slot.0);
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || self.work(&queue, &answer))?;
        Ok(WorkerHandle { jobs, thread })
    }

    fn work(&mut self, queue: &Receiver<Job>, answer: &Answer) {
        for job in queue {
            let began = self.clock.now();
            let mut steps = StepTimes::default();
            let result = self.run(&job, &mut steps);
            // Items hold frames: let go of them before anybody is told that the batch is done.
            let Job {
                module,
                model,
                batch,
                items,
            } = job;
            drop(items);
            let took = self.clock.now().since(began);
            if result.is_err() {
                // While the slot still counts as busy, so that the next batch does not wait for it. What cannot be
                // built now is tried again then, and told then.
                let _ = self.session(model);
            }
            answer(Ran {
                slot: self.slot,
                module,
                batch,
                took,
                steps,
                lost: false,
                result,
            });
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
                format!(
                    "{} inferences came back for {} items",
                    inferences.len(),
                    job.items.len()
                )
            }
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("the session panicked: {}", words(panic.as_ref())),
        };
        self.discard(job.model);
        Err(reason)
    }

    /// The session of `model`, built anew where the last batch cost it.
    fn session(&mut self, model: usize) -> Result<&mut Box<dyn Session>, String> {
        let (placed, session) = self
            .sessions
            .get_mut(&model)
            .ok_or("the model is not placed on this slot")?;
        if session.is_none() {
            let opened = catch_unwind(AssertUnwindSafe(|| placed.opener.open(placed.device)));
            let fresh = opened
                .map_err(|panic| words(panic.as_ref()))?
                .map_err(|error| error.to_string())?;
            tracing::info!(slot = self.slot.0, model = %placed.name, "session built anew");
            *session = Some(fresh);
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

/// What a panic said.
pub(crate) fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
