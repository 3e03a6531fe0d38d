//! A worker that does all of a batch on one thread, and its sessions.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use weir_flow::{Inference, Session, SessionError, Step};
use weir_types::{SlotId, Span, Timestamp};

use crate::batch::{BatchDoneSender, BatchResult, Job, PlacedModel, StepTimes, WorkerHandle};
use crate::clock::Clock;
use crate::panic_message::{caught, panic_message};
use crate::processor_time::{ProcessorTimes, ThreadKind, ThreadTimer};

/// A worker that prepares, runs and reads each batch on its one thread.
pub(crate) struct InlineWorker {
    slot: SlotId,
    clock: Clock,
    sessions: BTreeMap<usize, (PlacedModel, Option<Box<dyn Session>>)>,
}

impl InlineWorker {
    pub(crate) fn open(slot: SlotId, clock: Clock, placed: Vec<PlacedModel>) -> Result<Self, SessionError> {
        let mut worker = Self::closed(slot, clock, placed);
        worker.open_all()?;
        Ok(worker)
    }

    /// With no session open.
    pub(crate) fn closed(slot: SlotId, clock: Clock, placed: Vec<PlacedModel>) -> Self {
        let sessions = placed.into_iter().map(|placed| (placed.model, (placed, None)));
        Self {
            slot,
            clock,
            sessions: sessions.collect(),
        }
    }

    /// Opens what is not open.
    pub(crate) fn open_all(&mut self) -> Result<(), SessionError> {
        for (placed, session) in self.sessions.values_mut() {
            if session.is_none() {
                *session = Some(placed.opener.open(placed.device)?);
            }
        }
        Ok(())
    }

    pub(crate) fn slot(&self) -> SlotId {
        self.slot
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn placed(&self, model: usize) -> Option<&PlacedModel> {
        self.sessions.get(&model).map(|(placed, _)| placed)
    }

    /// Takes a session of a model.
    pub(crate) fn put(&mut self, model: usize, opened: Box<dyn Session>) {
        if let Some((_, session)) = self.sessions.get_mut(&model) {
            *session = Some(opened);
        }
    }

    pub(crate) fn warm_up(&mut self, model: usize, size: u32) -> Result<(), SessionError> {
        match self.sessions.get_mut(&model) {
            Some((_, Some(session))) => session.warm_up(size as usize),
            _ => Ok(()),
        }
    }

    pub(crate) fn start(
        mut self,
        on_done: BatchDoneSender,
        processor: &Arc<ProcessorTimes>,
    ) -> std::io::Result<WorkerHandle> {
        let (jobs, queue) = bounded(1);
        let name = format!("weir-slot-{}", self.slot.0);
        let processor = Arc::clone(processor);
        let (began, begins) = bounded::<()>(1);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            self.begin();
            let _ = began.send(());
            self.serve(&queue, &on_done, processor.timer(ThreadKind::Workers));
        })?;
        // An error is the end of a thread that is not begun: its batches say so.
        let _ = begins.recv();
        Ok(WorkerHandle {
            jobs,
            threads: vec![thread],
            sessions: None,
        })
    }

    /// Prepares every open session on this thread, before its first batch.
    pub(crate) fn begin(&mut self) {
        for (placed, session) in self.sessions.values_mut() {
            if let Some(session) = session {
                placed.begin(self.slot, || session.begin());
            }
        }
    }

    fn serve(&mut self, queue: &Receiver<Job>, on_done: &BatchDoneSender, mut timer: ThreadTimer) {
        for job in queue {
            self.run_and_report(job, on_done);
            timer.update();
        }
    }

    pub(crate) fn run_and_report(&mut self, job: Job, on_done: &BatchDoneSender) {
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
    }

    /// Reports a batch that cannot run.
    pub(crate) fn fail(&self, job: &Job, reason: String, on_done: &BatchDoneSender) {
        on_done(BatchResult {
            slot: self.slot,
            module: job.module,
            batch: job.batch,
            took: Span::ZERO,
            steps: StepTimes::default(),
            lost: false,
            result: Err(reason),
        });
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
        let reason = match caught(|| session.run(&job.items, &mut on_step)) {
            Ok(inferences) if inferences.len() == job.items.len() => return Ok(inferences),
            Ok(inferences) => format!("{} inferences for {} items", inferences.len(), job.items.len()),
            Err(reason) => reason,
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

    /// Closes the session of a model.
    pub(crate) fn discard(&mut self, model: usize) {
        if let Some((_, session)) = self.sessions.get_mut(&model) {
            // A broken session may panic as it is dropped, too.
            let broken = session.take();
            let _ = catch_unwind(AssertUnwindSafe(move || drop(broken)));
        }
    }
}
