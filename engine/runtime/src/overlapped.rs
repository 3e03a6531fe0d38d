//! A worker whose device prepares ahead: three threads in a row. One prepares the inputs of a batch while the batch before it
//! runs on the second, and the third reads the outputs of the one before that.
//!
//! ```text
//! jobs (1) ──> weir-prepare-N ──(1)──> weir-slot-N ──(1)──> weir-read-N ──> BatchResult
//!                                        └──> BatchLaunched
//! ```
//!
//! Channels between them hold one batch, and the policy sends another one only when the run of the one before has begun, so
//! at most two batches are prepared or run, and they end in the order in which they were sent. A batch that fails, in
//! whichever step, is passed on as failed, so that each is launched once and ends once. The session is then opened again by
//! the thread that runs it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_flow::{Infer, Inference, Item, Prepare, ReadOut, SessionError, SessionSteps, StepData};
use weir_types::{SlotId, Span};

use crate::batch::{
    BatchDoneSender, BatchLaunched, BatchLaunchedSender, BatchResult, Job, PlacedModel, StepTimes,
    WorkerHandle,
};
use crate::clock::Clock;
use crate::lock::lock;
use crate::panic_message::{caught, panic_message};
use crate::processor_time::{ProcessorTimes, ThreadKind, ThreadTimer};

/// The first and the last step of one model, each used by one thread, and replaced by the thread between them.
struct OuterSteps {
    prepare: Mutex<Option<Box<dyn Prepare>>>,
    read_out: Mutex<Option<Box<dyn ReadOut>>>,
    /// Reading failed: the session is to be opened again.
    is_broken: AtomicBool,
}

/// One model: what the thread in the middle has of it.
struct Middle {
    placed: PlacedModel,
    infer: Option<Box<dyn Infer>>,
    outer: Arc<OuterSteps>,
}

/// A worker before its threads start.
pub(crate) struct OverlappedWorker {
    slot: SlotId,
    clock: Clock,
    models: BTreeMap<usize, Middle>,
}

/// A batch whose inputs are prepared, or could not be.
struct Prepared {
    job: Job,
    took: Span,
    data: Result<StepData, String>,
}

/// A batch that has run, or failed.
struct Ran {
    job: Job,
    steps: StepTimes,
    data: Result<StepData, String>,
}

type AllOuterSteps = BTreeMap<usize, Arc<OuterSteps>>;

const NOT_PLACED: &str = "the model is not placed on this slot";
const NO_SESSION: &str = "the model has no session on this slot: it could not be opened again";

impl OverlappedWorker {
    /// Opens a session of every model that is placed on `slot`.
    pub(crate) fn open(slot: SlotId, clock: Clock, placed: Vec<PlacedModel>) -> Result<Self, SessionError> {
        let mut models = BTreeMap::new();
        for placed in placed {
            let SessionSteps {
                prepare,
                infer,
                read_out,
            } = placed.opener.open_steps(placed.device)?;
            let outer = OuterSteps {
                prepare: Mutex::new(Some(prepare)),
                read_out: Mutex::new(Some(read_out)),
                is_broken: AtomicBool::new(false),
            };
            let middle = Middle {
                infer: Some(infer),
                outer: Arc::new(outer),
                placed,
            };
            models.insert(middle.placed.model, middle);
        }
        Ok(Self { slot, clock, models })
    }

    pub(crate) fn warm_up(&mut self, model: usize, size: u32) -> Result<(), SessionError> {
        let infer = self.models.get_mut(&model).and_then(|model| model.infer.as_mut());
        infer.map_or(Ok(()), |infer| infer.warm_up(size as usize))
    }

    /// Runs jobs on threads of its own until the channel closes and what was sent has ended.
    pub(crate) fn start(
        mut self,
        (on_launched, on_done): (BatchLaunchedSender, BatchDoneSender),
        processor: &Arc<ProcessorTimes>,
    ) -> std::io::Result<WorkerHandle> {
        // One each: a batch that is handed on waits for the step after it, and the one behind it for that.
        let (jobs, queue) = bounded::<Job>(1);
        let (to_run, prepared) = bounded::<Prepared>(1);
        let (to_read, ran) = bounded::<Ran>(1);
        let outer = |(&model, middle): (&usize, &Middle)| (model, Arc::clone(&middle.outer));
        let outer: AllOuterSteps = self.models.iter().map(outer).collect();
        let (slot, clock) = (self.slot, self.clock);
        let spawn =
            |step: &str, work: Box<dyn FnOnce(ThreadTimer) + Send>| -> std::io::Result<JoinHandle<()>> {
                let processor = Arc::clone(processor);
                let name = format!("weir-{step}-{}", slot.0);
                let thread = std::thread::Builder::new().name(name);
                thread.spawn(move || work(processor.timer(ThreadKind::Workers)))
            };
        let preparing = outer.clone();
        let (began, begins) = bounded::<()>(1);
        let threads = vec![
            spawn(
                "prepare",
                Box::new(move |timer| prepare_all(&queue, &to_run, &preparing, clock, timer)),
            )?,
            spawn(
                "slot",
                Box::new(move |timer| {
                    self.begin();
                    let _ = began.send(());
                    self.run_all(&prepared, &to_read, &on_launched, timer);
                }),
            )?,
            spawn(
                "read",
                Box::new(move |timer| read_all(&ran, &on_done, &outer, (slot, clock), timer)),
            )?,
        ];
        // An error is the end of a thread that is not begun: its batches say so.
        let _ = begins.recv();
        Ok(WorkerHandle {
            jobs,
            threads,
            sessions: None,
        })
    }

    /// Prepares every open session on this thread, before its first batch.
    fn begin(&mut self) {
        for Middle { placed, infer, .. } in self.models.values_mut() {
            if let Some(infer) = infer {
                placed.begin(self.slot, || infer.begin());
            }
        }
    }

    fn run_all(
        &mut self,
        prepared: &Receiver<Prepared>,
        to_read: &Sender<Ran>,
        on_launched: &BatchLaunchedSender,
        mut timer: ThreadTimer,
    ) {
        for Prepared { job, took, data } in prepared {
            on_launched(BatchLaunched {
                slot: self.slot,
                module: job.module,
                batch: job.batch,
                prepared: took,
            });
            let (data, inferred) = self.run(&job, data);
            let steps = StepTimes {
                prepared: took,
                inferred,
                decoded: Span::ZERO,
            };
            if to_read.send(Ran { job, steps, data }).is_err() {
                return;
            }
            timer.update();
        }
    }

    /// Runs a batch; gives how long that took, too.
    fn run(&mut self, job: &Job, data: Result<StepData, String>) -> (Result<StepData, String>, Span) {
        let slot = self.slot;
        let Some(model) = self.models.get_mut(&job.model) else {
            return (data.and(Err(NOT_PLACED.to_owned())), Span::ZERO);
        };
        if model.outer.is_broken.swap(false, Ordering::AcqRel) {
            model.open_again(slot);
        }
        let began = self.clock.now();
        let ran = data.and_then(|data| {
            let infer = model.infer.as_mut().ok_or(NO_SESSION)?;
            caught(|| infer.infer(&job.items, data))
        });
        let took = self.clock.now().since(began);
        if ran.is_err() {
            // While the slot still counts as busy, so that the next batch does not wait for it.
            model.open_again(slot);
        }
        (ran, took)
    }
}

impl Middle {
    /// Replaces all steps. Where they cannot be opened, there are none, and the next batch that fails by that tries again.
    fn open_again(&mut self, slot: SlotId) {
        self.infer = discard(self.infer.take());
        let opened = catch_unwind(AssertUnwindSafe(|| {
            self.placed.opener.open_steps(self.placed.device)
        }));
        let (prepare, read_out) = match opened {
            Ok(Ok(steps)) => {
                tracing::info!(slot = slot.0, model = %self.placed.name, "session built again");
                self.infer = Some(steps.infer);
                (Some(steps.prepare), Some(steps.read_out))
            }
            Ok(Err(error)) => {
                tracing::warn!(slot = slot.0, model = %self.placed.name, %error, "no session");
                (None, None)
            }
            Err(panic) => {
                let reason = panic_message(panic.as_ref());
                tracing::warn!(slot = slot.0, model = %self.placed.name, reason, "no session");
                (None, None)
            }
        };
        let before = std::mem::replace(&mut *lock(&self.outer.prepare), prepare);
        discard(before);
        let before = std::mem::replace(&mut *lock(&self.outer.read_out), read_out);
        discard(before);
    }
}

fn prepare_all(
    jobs: &Receiver<Job>,
    to_run: &Sender<Prepared>,
    outer: &AllOuterSteps,
    clock: Clock,
    mut timer: ThreadTimer,
) {
    for job in jobs {
        let began = clock.now();
        let data = match outer.get(&job.model) {
            Some(steps) => match lock(&steps.prepare).as_mut() {
                Some(prepare) => caught(|| prepare.prepare(&job.items)),
                None => Err(NO_SESSION.to_owned()),
            },
            None => Err(NOT_PLACED.to_owned()),
        };
        let took = clock.now().since(began);
        if to_run.send(Prepared { job, took, data }).is_err() {
            return;
        }
        timer.update();
    }
}

fn read_all(
    ran: &Receiver<Ran>,
    on_done: &BatchDoneSender,
    outer: &AllOuterSteps,
    (slot, clock): (SlotId, Clock),
    mut timer: ThreadTimer,
) {
    for Ran { job, mut steps, data } in ran {
        let began = clock.now();
        let Job {
            module,
            model,
            batch,
            items,
            useful_until: _,
        } = job;
        let result = data.and_then(|data| {
            let steps = outer.get(&model).ok_or(NO_SESSION)?;
            let read = read(steps, &items, data);
            if read.is_err() {
                steps.is_broken.store(true, Ordering::Release);
            }
            read
        });
        // Items hold frames: dropped before the result is sent.
        drop(items);
        steps.decoded = clock.now().since(began);
        on_done(BatchResult {
            slot,
            module,
            batch,
            took: steps.inferred,
            steps,
            lost: false,
            result,
        });
        timer.update();
    }
}

fn read(steps: &OuterSteps, items: &[Item], data: StepData) -> Result<Vec<Inference>, String> {
    let mut read_out = lock(&steps.read_out);
    let read_out = read_out.as_mut().ok_or(NO_SESSION)?;
    let inferences = caught(|| read_out.read_out(items, data))?;
    if inferences.len() == items.len() {
        Ok(inferences)
    } else {
        Err(format!(
            "{} inferences for {} items",
            inferences.len(),
            items.len()
        ))
    }
}

/// Drops a step; a broken one may panic as it is dropped, too.
fn discard<T>(step: Option<T>) -> Option<T> {
    let _ = catch_unwind(AssertUnwindSafe(move || drop(step)));
    None
}

#[cfg(test)]
mod tests;
