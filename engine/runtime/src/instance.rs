//! The thread of an instance: it owns a session of a model that generates, and runs one step at a time. What is asked of the
//! session before a step comes with it, over a bounded channel; only a sequence that leaves with its cache does not wait for
//! a step. A step that fails or panics loses the session, which is opened again: its sequences are to be put in anew. Where its
//! device or worker is gone, it is tried again until that is back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, never, select};
use weir_flow::{
    DeviceKind, GeneratedToken, GenerativeModel, GenerativeSession, Sampling, SequenceCommand, SequenceSpec,
    SequenceState, SequenceStep, SessionError, compute_up_to,
};
use weir_policy::SlotEvent;
use weir_policy::generate::PrefixUse;
use weir_types::{ModelId, ModuleId, SequenceId, SlotId, Span, StepCurve, StepProfile};

use crate::clock::Clock;
use crate::panic_message::panic_message;
use crate::processor_time::{ProcessorTimes, ThreadKind};
use crate::session_control::{SessionChangeSender, SessionControl, SessionOrder, WarmModels};

/// Decode steps of so many sequences are measured, up to what an instance takes.
const DECODE_SIZES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Steps with so many tokens of prompts are measured, up to what a step takes.
const PROMPT_SIZES: [u32; 5] = [1, 16, 64, 256, 1024];
/// Tokens of the prompts that are measured.
const PROMPT_TOKENS: u32 = 32;
/// Steps by which a size is measured.
const RUNS: usize = 3;
/// Maximum number of queued jobs per instance: sequences that leave it with their caches, and the next step.
pub(crate) const MAX_JOBS: usize = 32;
/// Longest wait of an instance for the cache of a sequence that moves to it. After that the cache is computed
/// again from the tokens.
const HANDOVER_TIMEOUT: Duration = Duration::from_millis(100);
/// Between two attempts to open a session whose device or worker is gone: at first, and at most.
const REOPEN_INTERVALS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// Commands that an instance carries out before a step.
#[derive(Debug)]
pub(crate) enum InstanceCommand {
    /// Something of a sequence.
    Sequence(SequenceCommand),
    /// A sequence comes from another instance with the cache of some of its tokens.
    TakeOver(Handover),
    /// All are gone: the session is opened anew.
    Reopen,
}

/// A sequence that comes with its cache.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) sequence: SequenceId,
    pub(crate) spec: SequenceSpec,
    pub(crate) generated: Vec<u32>,
    /// Tokens that steps take as computed.
    pub(crate) cached: u32,
    /// Channel over which the previous instance sends the cache.
    pub(crate) from: Receiver<SequenceState>,
}

/// Jobs in the queue of an instance.
#[derive(Debug)]
pub(crate) enum InstanceJob {
    /// Runs a step.
    Step(StepJob),
    /// Sends a sequence, with its cache, to another instance.
    HandOver {
        /// The sequence that moves.
        sequence: SequenceId,
        /// Channel to the instance that takes the sequence over.
        to: Sender<SequenceState>,
    },
}

/// A step, and what goes before it.
#[derive(Debug)]
pub(crate) struct StepJob {
    pub(crate) module: ModuleId,
    /// Among the steps of its module: a result is of no use where the instance was lost since.
    pub(crate) number: u64,
    pub(crate) commands: Vec<InstanceCommand>,
    pub(crate) steps: Vec<SequenceStep>,
    /// Prefixes that its sequences take from the cache of prefixes before the step.
    pub(crate) reused: Vec<PrefixUse>,
    /// Prefixes that are stored after the step.
    pub(crate) kept: Vec<PrefixUse>,
}

/// The result of a step, with its duration.
#[derive(Debug)]
pub(crate) struct StepResult {
    pub(crate) module: ModuleId,
    pub(crate) slot: SlotId,
    /// As its job has it.
    pub(crate) number: u64,
    /// Time for which the step occupied its slot.
    pub(crate) took: Span,
    pub(crate) result: Result<Vec<GeneratedToken>, StepFailure>,
}

/// Error of a step that produced no tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepFailure {
    pub(crate) reason: String,
    /// Whether the instance has lost its session and all caches; it stays lost until
    /// [`InstanceReport::Back`].
    pub(crate) is_gone: bool,
}

/// Reports of an instance to its module.
#[derive(Debug)]
pub(crate) enum InstanceReport {
    /// A step ended.
    Stepped(StepResult),
    /// The session was opened again after a loss; the instance holds no sequence.
    Back {
        /// Module of the instance.
        module: ModuleId,
        /// Slot of the instance.
        slot: SlotId,
    },
}

/// Sends the report of an instance to its module; called on the thread of the instance.
pub(crate) type InstanceReportSender = Box<dyn Fn(InstanceReport) + Send>;

/// An instance before its thread starts: its session is open, unless it is opened and closed by orders.
pub(crate) struct Instance {
    slot: SlotId,
    clock: Clock,
    device: DeviceKind,
    model: Arc<dyn GenerativeModel>,
    session: Option<Box<dyn GenerativeSession>>,
    /// Its model in the graph, with the models in host memory; set if its session is opened and closed by orders.
    ordered: Option<(ModelId, Arc<WarmModels>)>,
    /// Reason for which an order to open its session failed last.
    failure: Option<String>,
}

/// An instance on its thread.
pub(crate) struct InstanceHandle {
    pub(crate) jobs: Sender<InstanceJob>,
    pub(crate) thread: JoinHandle<()>,
    /// Channel for orders, where its session is opened and closed by them.
    pub(crate) sessions: Option<SessionControl>,
}

impl Instance {
    pub(crate) fn open(
        slot: SlotId,
        clock: Clock,
        device: DeviceKind,
        model: Arc<dyn GenerativeModel>,
    ) -> Result<Self, SessionError> {
        Ok(Self {
            slot,
            clock,
            device,
            session: Some(model.open(device)?),
            model,
            ordered: None,
            failure: None,
        })
    }

    /// An instance without a session, which orders open and close.
    pub(crate) fn closed(
        (slot, device): (SlotId, DeviceKind),
        clock: Clock,
        (id, model): (ModelId, Arc<dyn GenerativeModel>),
        warm: Arc<WarmModels>,
    ) -> Self {
        Self {
            slot,
            clock,
            device,
            model,
            session: None,
            ordered: Some((id, warm)),
            failure: None,
        }
    }

    /// Opens its session anew, and returns the time that this takes.
    pub(crate) fn measure_opening(&mut self) -> Result<Span, SessionError> {
        self.discard();
        let (clock, began) = (self.clock, self.clock.now());
        self.session()?;
        Ok(clock.now().since(began))
    }

    /// Closes its session.
    pub(crate) fn close(&mut self) {
        self.discard();
    }

    /// Measures steps of up to `max_step_tokens` tokens and `max_sequences` sequences.
    pub(crate) fn measure(
        &mut self,
        max_step_tokens: u32,
        max_sequences: u32,
    ) -> Result<StepProfile, SessionError> {
        let sizes = |sizes: &[u32], most: u32| {
            let below = sizes.iter().copied().filter(|size| *size < most);
            below.chain([most.max(1)]).collect::<Vec<u32>>()
        };
        let mut decode = Vec::new();
        for size in sizes(&DECODE_SIZES, max_sequences.min(max_step_tokens)) {
            decode.push((size, self.measure_decode(size)?));
        }
        let mut prompt = Vec::new();
        for size in sizes(&PROMPT_SIZES, max_step_tokens) {
            prompt.push((size, self.measure_prompt(size)?));
        }
        Ok(StepProfile {
            decode: curve(decode),
            prompt: curve(prompt),
        })
    }

    /// The median time of steps in which so many sequences take one token each.
    fn measure_decode(&mut self, sequences: u32) -> Result<Span, SessionError> {
        let (clock, vocabulary) = (self.clock, self.model.limits().vocabulary);
        let session = self.session()?;
        let ids = (0..u64::from(sequences)).map(SequenceId);
        for id in ids.clone() {
            session.begin(id, sample(PROMPT_TOKENS, vocabulary))?;
        }
        let steps = |tokens: u32| -> Vec<SequenceStep> {
            let step = |sequence| SequenceStep { sequence, tokens };
            ids.clone().map(step).collect()
        };
        session.step(&steps(PROMPT_TOKENS))?;
        session.step(&steps(1))?;
        let mut times = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            let began = clock.now();
            session.step(&steps(1))?;
            times.push(clock.now().since(began));
        }
        for id in ids {
            session.take(id, false);
        }
        times.sort_unstable();
        Ok(times[RUNS / 2])
    }

    /// The median time of steps with so many tokens of prompts.
    fn measure_prompt(&mut self, tokens: u32) -> Result<Span, SessionError> {
        let (clock, vocabulary) = (self.clock, self.model.limits().vocabulary);
        let session = self.session()?;
        let whole = tokens / PROMPT_TOKENS;
        let rest = (!tokens.is_multiple_of(PROMPT_TOKENS)).then_some(tokens % PROMPT_TOKENS);
        let prompts = (0..whole).map(|_| PROMPT_TOKENS).chain(rest);
        let prompts: Vec<(SequenceId, u32)> = (0..).map(SequenceId).zip(prompts).collect();
        let steps = prompts
            .iter()
            .map(|&(sequence, tokens)| SequenceStep { sequence, tokens });
        let steps: Vec<SequenceStep> = steps.collect();
        let mut times = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            for &(id, tokens) in &prompts {
                session.begin(id, sample(tokens, vocabulary))?;
            }
            let began = clock.now();
            session.step(&steps)?;
            times.push(clock.now().since(began));
            for (id, _) in &prompts {
                session.take(*id, false);
            }
        }
        times.sort_unstable();
        Ok(times[RUNS / 2])
    }

    /// Runs jobs on a thread of its own until the channel closes.
    pub(crate) fn start(
        mut self,
        (on_report, on_change): (InstanceReportSender, SessionChangeSender),
        processor: &Arc<ProcessorTimes>,
    ) -> std::io::Result<InstanceHandle> {
        let (jobs, queue): (_, Receiver<InstanceJob>) = bounded(MAX_JOBS);
        let (orders, mut changes) = bounded(1);
        let sessions = self.ordered.as_ref().map(|(_, warm)| SessionControl {
            orders,
            warm: Arc::clone(warm),
        });
        let processor = Arc::clone(processor);
        let thread = std::thread::Builder::new()
            .name(format!("weir-slot-{}", self.slot.0))
            .spawn(move || {
                let mut timer = processor.timer(ThreadKind::Workers);
                loop {
                    select! {
                        recv(queue) -> job => match job {
                            Ok(job) => self.on_job(job, &queue, &on_report),
                            Err(_) => return,
                        },
                        recv(changes) -> order => match order {
                            Ok(order) => {
                                // Sequences that leave with their caches were sent before.
                                while let Ok(job) = queue.try_recv() {
                                    self.on_job(job, &queue, &on_report);
                                }
                                on_change(self.carry_out(order));
                            }
                            // Steps may still come.
                            Err(_) => changes = never(),
                        },
                    }
                    timer.update();
                }
            })?;
        Ok(InstanceHandle {
            jobs,
            thread,
            sessions,
        })
    }

    fn on_job(&mut self, job: InstanceJob, queue: &Receiver<InstanceJob>, on_report: &InstanceReportSender) {
        let mut job = match job {
            InstanceJob::Step(job) => job,
            InstanceJob::HandOver { sequence, to } => return self.hand_over(sequence, &to),
        };
        let began = self.clock.now();
        let result = self.run(&mut job);
        let took = self.clock.now().since(began);
        let is_gone = result.as_ref().is_err_and(|failure| failure.is_gone);
        let module = job.module;
        on_report(InstanceReport::Stepped(self.result(&job, took, result)));
        if is_gone {
            self.await_return(module, queue, on_report);
        }
    }

    /// Opens or closes its session.
    fn carry_out(&mut self, order: SessionOrder) -> SlotEvent {
        let (slot, clock) = (self.slot, self.clock);
        let began = clock.now();
        match order {
            SessionOrder::Open { model, warm } => {
                let opened = self.open_session(warm);
                let took = clock.now().since(began);
                match opened {
                    Ok(warm) => {
                        self.failure = None;
                        SlotEvent::Opened {
                            slot,
                            model,
                            warm,
                            took,
                        }
                    }
                    Err(reason) => {
                        // Each request tries again: a reason is logged once.
                        if self.failure.as_ref() != Some(&reason) {
                            tracing::warn!(
                                slot = slot.0,
                                "model not opened: {reason}; a request is dropped, and the next one tries again"
                            );
                        }
                        self.failure = Some(reason);
                        SlotEvent::OpenFailed { slot, model, took }
                    }
                }
            }
            SessionOrder::Close { model } => {
                self.discard();
                let took = clock.now().since(began);
                SlotEvent::Closed { slot, model, took }
            }
        }
    }

    /// Opens its session, from host memory if that is wanted and the model is there; returns whether it was.
    fn open_session(&mut self, warm: bool) -> Result<bool, String> {
        let known = self.ordered.as_ref().filter(|_| warm);
        let known = known.and_then(|(id, models)| models.of(*id));
        let opened = catch_unwind(AssertUnwindSafe(|| match &known {
            Some(prepared) => Ok((self.model.open_warm(self.device, prepared)?, None)),
            None => self.model.open_cold(self.device),
        }));
        let (session, prepared) = opened
            .map_err(|panic| panic_message(panic.as_ref()))?
            .map_err(|error: SessionError| error.to_string())?;
        if let Some((id, models)) = &self.ordered
            && let Some(prepared) = prepared
        {
            models.keep(*id, prepared);
        }
        self.session = Some(session);
        Ok(known.is_some())
    }

    /// Tries to open the session of `module` again until that is possible, or the run is over.
    fn await_return(
        &mut self,
        module: ModuleId,
        queue: &Receiver<InstanceJob>,
        on_report: &InstanceReportSender,
    ) {
        let [mut interval, longest] = REOPEN_INTERVALS;
        loop {
            match queue.recv_timeout(interval) {
                Err(RecvTimeoutError::Disconnected) => return,
                // What is to be handed over is gone.
                Err(RecvTimeoutError::Timeout) | Ok(InstanceJob::HandOver { .. }) => {}
                // Sent before its module knew.
                Ok(InstanceJob::Step(job)) => on_report(InstanceReport::Stepped(self.result(
                    &job,
                    Span::ZERO,
                    Err(StepFailure {
                        reason: "the instance is gone".to_owned(),
                        is_gone: true,
                    }),
                ))),
            }
            match self.session().map(|_| ()) {
                Ok(()) => {
                    let slot = self.slot;
                    return on_report(InstanceReport::Back { module, slot });
                }
                Err(error) => tracing::debug!(slot = self.slot.0, "{error}"),
            }
            interval = (interval * 2).min(longest);
        }
    }

    fn result(
        &self,
        job: &StepJob,
        took: Span,
        result: Result<Vec<GeneratedToken>, StepFailure>,
    ) -> StepResult {
        StepResult {
            module: job.module,
            slot: self.slot,
            number: job.number,
            took,
            result,
        }
    }

    /// Gives a sequence away; whoever waits for it hears that nothing comes where it is not here.
    fn hand_over(&mut self, sequence: SequenceId, to: &Sender<SequenceState>) {
        let Some(session) = &mut self.session else { return };
        match catch_unwind(AssertUnwindSafe(|| session.take(sequence, true))) {
            Ok(Some(state)) => {
                // Its channel of one is free; nobody may wait any more.
                let _ = to.try_send(state);
            }
            Ok(None) => {}
            Err(_) => self.discard(),
        }
    }

    fn run(&mut self, job: &mut StepJob) -> Result<Vec<GeneratedToken>, StepFailure> {
        let commands = std::mem::take(&mut job.commands);
        if matches!(commands.first(), Some(InstanceCommand::Reopen)) {
            self.discard();
        }
        let session = self.session().map_err(|error| failure(&error))?;
        let ran = catch_unwind(AssertUnwindSafe(|| {
            for command in commands {
                let done = match command {
                    InstanceCommand::Sequence(command) => command.carry_out(session.as_mut()),
                    InstanceCommand::TakeOver(handover) => take_over(handover, session.as_mut()),
                    // It was carried out before there was a session.
                    InstanceCommand::Reopen => continue,
                };
                // One that cannot be put in is in no step either, but for a defect, which fails that step.
                if let Err(error) = done {
                    tracing::debug!("{error}");
                }
            }
            for prefix in &job.reused {
                let computed = session.reuse_prefix(prefix.sequence, prefix.tokens);
                compute_up_to(session.as_mut(), prefix.sequence, [computed, prefix.tokens])?;
            }
            let tokens = session.step(&job.steps)?;
            for prefix in &job.kept {
                session.keep_prefix(prefix.sequence, prefix.tokens);
            }
            Ok::<_, SessionError>(tokens)
        }));
        let reason = match ran {
            Ok(Ok(tokens)) => return Ok(tokens),
            Ok(Err(error)) => failure(&error),
            Err(panic) => StepFailure {
                reason: format!("the session panicked: {}", panic_message(panic.as_ref())),
                is_gone: false,
            },
        };
        self.discard();
        Err(reason)
    }

    fn discard(&mut self) {
        // A broken session may panic as it is dropped, too.
        let broken = self.session.take();
        let _ = catch_unwind(AssertUnwindSafe(move || drop(broken)));
    }

    fn session(&mut self) -> Result<&mut Box<dyn GenerativeSession>, SessionError> {
        let opened = match self.session.take() {
            Some(session) => session,
            None => self.model.open(self.device)?,
        };
        Ok(self.session.insert(opened))
    }
}

/// Puts a sequence in with the cache that comes. What of it does not come is computed again, so that steps find as many tokens
/// computed as they take for it.
fn take_over(handover: Handover, session: &mut dyn GenerativeSession) -> Result<(), SessionError> {
    let Handover {
        sequence,
        spec,
        generated,
        cached,
        from,
    } = handover;
    let cache = from.recv_timeout(HANDOVER_TIMEOUT).ok();
    // It may have been here before, and was not taken out while its slot was out of use.
    session.take(sequence, false);
    let state = SequenceState {
        spec,
        generated,
        cache: cache.and_then(|state| state.cache),
    };
    let computed = session.put(sequence, state)?;
    compute_up_to(session, sequence, [computed, cached])
}

fn failure(error: &SessionError) -> StepFailure {
    StepFailure {
        reason: error.to_string(),
        is_gone: matches!(error, SessionError::Gone { .. }),
    }
}

/// A sequence to measure by.
fn sample(tokens: u32, vocabulary: u32) -> SequenceSpec {
    SequenceSpec {
        prompt: (0..tokens.max(1))
            .map(|token| token % vocabulary.max(1))
            .collect(),
        max_tokens: u32::MAX,
        stop: Arc::new([]),
        sampling: Sampling::default(),
    }
}

/// Step times that do not fall: where a larger step was measured to take less, it takes the same.
fn curve(points: Vec<(u32, Span)>) -> StepCurve {
    let mut longest = Span::from_micros(1);
    let points: Vec<(u32, Span)> = points
        .into_iter()
        .map(|(tokens, span)| {
            longest = longest.max(span);
            (tokens, longest)
        })
        .collect();
    StepCurve::from_points(&points).unwrap_or_else(|_| millisecond())
}

/// Of steps that were neither declared nor measured: a millisecond each.
pub(crate) fn millisecond() -> StepCurve {
    #[expect(clippy::unwrap_used, reason = "one point of one token is a curve")]
    StepCurve::from_points(&[(1, Span::from_millis(1))]).unwrap()
}
