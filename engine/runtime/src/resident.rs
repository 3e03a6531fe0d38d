//! A worker that opens and closes sessions as the policy decides, between batches, on the thread that runs them: on a device whose
//! memory does not hold all its models, or in a pool whose workers follow the load.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crossbeam_channel::{Receiver, bounded, never, select};
use weir_flow::SessionError;
use weir_policy::SlotEvent;
use weir_types::{ModelId, SlotId, Span};

use crate::batch::{BatchDoneSender, Job, PlacedModel, WorkerHandle};
use crate::clock::Clock;
use crate::inline::InlineWorker;
use crate::panic_message::panic_message;
use crate::processor_time::{ProcessorTimes, ThreadKind, ThreadTimer};
use crate::session_control::{SessionChangeSender, SessionControl, SessionOrder, WarmModels};

/// A worker before its thread starts: no session is open.
pub(crate) struct ResidentWorker {
    inline: InlineWorker,
    open: BTreeSet<usize>,
    warm: Arc<WarmModels>,
    /// Why models could not be opened.
    failures: BTreeMap<usize, String>,
    /// Whether a session runs blank batches before it counts as open, so that no frame waits for its first run.
    warms_up: bool,
}

/// Measured memory and opening times of a session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionUse {
    /// Bytes of device memory.
    pub device_bytes: u64,
    /// Bytes of host memory of the prepared model, from which a session opens faster than from its file; 0 if
    /// the runtime prepares none.
    pub host_bytes: u64,
    /// Time to open the session from the file of the model.
    pub open_cold: Span,
    /// Time to open the session from the prepared model in host memory.
    pub open_warm: Span,
}

/// A session takes so many times the bytes of its model's file, where it was not seen how much it takes.
const FILE_FACTOR: u64 = 3;

impl ResidentWorker {
    pub(crate) fn new(slot: SlotId, clock: Clock, placed: Vec<PlacedModel>, warm: Arc<WarmModels>) -> Self {
        Self {
            inline: InlineWorker::closed(slot, clock, placed),
            open: BTreeSet::new(),
            warm,
            failures: BTreeMap::new(),
            warms_up: false,
        }
    }

    /// As a worker of a pool that follows the load: other workers serve frames while it opens.
    pub(crate) fn of_scaled_pool(self) -> Self {
        Self {
            warms_up: true,
            ..self
        }
    }

    pub(crate) fn warm_up(&mut self, model: usize, size: u32) -> Result<(), SessionError> {
        self.inline.warm_up(model, size)
    }

    /// Opens a session for measurements, which [`Self::close`] ends; measures what it takes with batches of `size`.
    pub(crate) fn examine(&mut self, model: usize, size: u32) -> Result<SessionUse, SessionError> {
        let Some(placed) = self.inline.placed(model).cloned() else {
            return Err(SessionError::Device {
                model: String::new(),
                reason: "it is not placed on this slot".to_owned(),
            });
        };
        let clock = self.inline.clock();
        let began = clock.now();
        let (session, prepared) = placed.opener.open_cold(placed.device)?;
        let open_cold = clock.now().since(began);
        drop(session);
        let before = resident_bytes();
        let began = clock.now();
        let session = match &prepared {
            Some(prepared) => placed.opener.open_warm(placed.device, prepared)?,
            None => placed.opener.open(placed.device)?,
        };
        let open_warm = clock.now().since(began);
        self.inline.put(model, session);
        self.inline.warm_up(model, size)?;
        let file = placed.opener.file_bytes().unwrap_or(0);
        let grown = before
            .zip(resident_bytes())
            .map_or(0, |(before, after)| after.saturating_sub(before));
        Ok(SessionUse {
            device_bytes: if grown < file { file * FILE_FACTOR } else { grown },
            host_bytes: prepared.map_or(0, |prepared| prepared.bytes),
            open_cold,
            open_warm,
        })
    }

    /// Opens the session of a model before the thread starts.
    pub(crate) fn open_first(&mut self, model: usize) -> Result<(), SessionError> {
        let opened = self.open(ModelId(model as u32), true);
        opened.map(drop).map_err(|reason| SessionError::Device {
            model: self
                .inline
                .placed(model)
                .map_or(String::new(), |placed| placed.name.clone()),
            reason,
        })
    }

    /// With all its models open, which then stay so: the worker of a device that holds them.
    pub(crate) fn into_open(mut self) -> Result<InlineWorker, SessionError> {
        self.inline.open_all()?;
        Ok(self.inline)
    }

    /// Closes the session of a model.
    pub(crate) fn close(&mut self, model: usize) {
        self.open.remove(&model);
        self.inline.discard(model);
    }

    pub(crate) fn start(
        mut self,
        on_change: SessionChangeSender,
        on_done: BatchDoneSender,
        processor: &Arc<ProcessorTimes>,
    ) -> std::io::Result<WorkerHandle> {
        let (jobs, queue) = bounded(1);
        let (orders, changes) = bounded(1);
        let control = SessionControl {
            orders,
            warm: Arc::clone(&self.warm),
        };
        let name = format!("weir-slot-{}", self.inline.slot().0);
        let processor = Arc::clone(processor);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let timer = processor.timer(ThreadKind::Workers);
            self.serve(&queue, changes, (&on_change, &on_done), timer);
        })?;
        Ok(WorkerHandle {
            jobs,
            threads: vec![thread],
            sessions: Some(control),
        })
    }

    fn serve(
        &mut self,
        queue: &Receiver<Job>,
        mut changes: Receiver<SessionOrder>,
        (on_change, on_done): (&SessionChangeSender, &BatchDoneSender),
        mut timer: ThreadTimer,
    ) {
        if self.warms_up {
            self.inline.begin();
        }
        loop {
            select! {
                recv(queue) -> job => match job {
                    Ok(job) => self.run(job, on_done),
                    Err(_) => return,
                },
                recv(changes) -> order => match order {
                    Ok(order) => on_change(self.carry_out(order)),
                    // Batches may still come.
                    Err(_) => changes = never(),
                },
            }
            timer.update();
        }
    }

    fn run(&mut self, job: Job, on_done: &BatchDoneSender) {
        if self.open.contains(&job.model) {
            return self.inline.run_and_report(job, on_done);
        }
        let reason = self.failures.get(&job.model).cloned();
        let reason = reason.unwrap_or_else(|| "its model is not open on this slot".to_owned());
        self.inline.fail(&job, reason, on_done);
    }

    /// Opens or closes a session.
    fn carry_out(&mut self, order: SessionOrder) -> SlotEvent {
        let (slot, clock) = (self.inline.slot(), self.inline.clock());
        let began = clock.now();
        match order {
            SessionOrder::Open { model, warm } => {
                let opened = self.open(model, warm);
                let took = clock.now().since(began);
                match opened {
                    Ok(warm) => SlotEvent::Opened {
                        slot,
                        model,
                        warm,
                        took,
                    },
                    Err(reason) => {
                        let before = self.failures.insert(model.index(), reason.clone());
                        // It is tried again, and said again where the reason is another one.
                        if before.as_ref() != Some(&reason) {
                            tracing::warn!(slot = slot.0, "model not opened: {reason}; it is tried again");
                        }
                        SlotEvent::OpenFailed { slot, model, took }
                    }
                }
            }
            SessionOrder::Close { model } => {
                self.close(model.index());
                let took = clock.now().since(began);
                SlotEvent::Closed { slot, model, took }
            }
        }
    }

    /// Opens a model, from host memory where that is wanted and it is there; says whether it was.
    fn open(&mut self, model: ModelId, warm: bool) -> Result<bool, String> {
        let place = model.index();
        let placed = self.inline.placed(place).cloned();
        let placed = placed.ok_or("the model is not placed on this slot")?;
        let known = self.warm.of(model);
        let known = known.filter(|_| warm);
        let opened = catch_unwind(AssertUnwindSafe(|| match &known {
            Some(prepared) => Ok((placed.opener.open_warm(placed.device, prepared)?, None)),
            None => placed.opener.open_cold(placed.device),
        }));
        let (mut session, prepared) = opened
            .map_err(|panic| panic_message(panic.as_ref()))?
            .map_err(|error: SessionError| error.to_string())?;
        if self.warms_up {
            placed.begin(self.inline.slot(), || session.begin());
        }
        if let Some(prepared) = prepared {
            // The policy says whether it stays.
            self.warm.keep(model, prepared);
        }
        self.inline.put(place, session);
        self.open.insert(place);
        self.failures.remove(&place);
        Ok(known.is_some())
    }
}

/// Memory of this process; `None` where the system does not say.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kibibytes << 10)
}
