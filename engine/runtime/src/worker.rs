//! A worker: the thread that owns a slot and the sessions placed on it. It runs one batch at a time, sent over a channel of
//! one, and reports the result and the measured time. A panic or an error of a batch loses that batch; the session is
//! built again. Where its device prepares ahead, it is several threads: see [`overlapped`](crate::overlapped).

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use weir_flow::{Inference, Session, SessionError, Step};
use weir_types::{SlotId, Span, Timestamp};

use crate::batch::{
    BatchDoneSender, BatchLaunchedSender, BatchResult, Job, PlacedModel, StepTimes, WorkerHandle,
};
use crate::clock::Clock;
use crate::instance::Instance;
use crate::overlapped::OverlappedWorker;
use crate::panic_message::panic_message;
use crate::processor_time::{ProcessorTimes, ThreadKind, ThreadTimer};

/// A worker before its threads start: its sessions are open.
pub(crate) enum Worker {
    Inline(InlineWorker),
    Overlapped(OverlappedWorker),
    /// Where a model that generates is placed, which has its slots alone.
    Generative(Instance),
}

impl Worker {
    /// Opens a session of every model that is placed on `slot`; `overlaps`: it prepares the next batch while one runs.
    pub(crate) fn open(
        slot: SlotId,
        clock: Clock,
        placed: Vec<PlacedModel>,
        overlaps: bool,
    ) -> Result<Self, SessionError> {
        let generative = placed
            .iter()
            .find_map(|placed| Some((placed.device, placed.opener.generative()?)));
        if let Some((device, model)) = generative {
            return Ok(Self::Generative(Instance::open(slot, clock, device, model)?));
        }
        Ok(if overlaps {
            Self::Overlapped(OverlappedWorker::open(slot, clock, placed)?)
        } else {
            Self::Inline(InlineWorker::open(slot, clock, placed)?)
        })
    }

    /// Its instance, where a model that generates is placed on its slot.
    pub(crate) fn instance_mut(&mut self) -> Option<&mut Instance> {
        match self {
            Self::Generative(instance) => Some(instance),
            Self::Inline(_) | Self::Overlapped(_) => None,
        }
    }

    /// The instance that it is, or the worker of batches.
    pub(crate) fn into_instance(self) -> Result<Instance, BatchWorker> {
        match self {
            Self::Generative(instance) => Ok(instance),
            Self::Inline(worker) => Err(BatchWorker::Inline(worker)),
            Self::Overlapped(worker) => Err(BatchWorker::Overlapped(worker)),
        }
    }

    /// Runs `model` on blank batches of `size` and gives the median time, the first run left out.
    pub(crate) fn measure(
        &mut self,
        clock: Clock,
        model: usize,
        size: u32,
        runs: usize,
    ) -> Result<Span, SessionError> {
        self.warm_up(model, size)?;
        let mut times = Vec::with_capacity(runs);
        for _ in 0..runs.max(1) {
            let began = clock.now();
            self.warm_up(model, size)?;
            times.push(clock.now().since(began));
        }
        times.sort_unstable();
        Ok(times[times.len() / 2])
    }

    fn warm_up(&mut self, model: usize, size: u32) -> Result<(), SessionError> {
        match self {
            Self::Inline(worker) => worker.warm_up(model, size),
            Self::Overlapped(worker) => worker.warm_up(model, size),
            Self::Generative(_) => Ok(()),
        }
    }
}

/// A worker of batches.
pub(crate) enum BatchWorker {
    Inline(InlineWorker),
    Overlapped(OverlappedWorker),
}

impl BatchWorker {
    /// Runs jobs on threads of its own until the channel closes.
    pub(crate) fn start(
        self,
        (on_launched, on_done): (BatchLaunchedSender, BatchDoneSender),
        processor: &Arc<ProcessorTimes>,
    ) -> std::io::Result<WorkerHandle> {
        match self {
            Self::Inline(worker) => worker.start(on_done, processor),
            Self::Overlapped(worker) => worker.start((on_launched, on_done), processor),
        }
    }
}

/// A worker that prepares, runs and reads each batch on its one thread.
pub(crate) struct InlineWorker {
    slot: SlotId,
    clock: Clock,
    sessions: BTreeMap<usize, (PlacedModel, Option<Box<dyn Session>>)>,
}

impl InlineWorker {
    fn open(slot: SlotId, clock: Clock, placed: Vec<PlacedModel>) -> Result<Self, SessionError> {
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

    fn warm_up(&mut self, model: usize, size: u32) -> Result<(), SessionError> {
        match self.sessions.get_mut(&model) {
            Some((_, Some(session))) => session.warm_up(size as usize),
            _ => Ok(()),
        }
    }

    fn start(
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
        Ok(WorkerHandle {
            jobs,
            threads: vec![thread],
        })
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
                useful_until: _,
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
        let left = |until: Timestamp| Duration::from_micros(until.since(last).micros());
        session.within(job.useful_until.map(left));
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
