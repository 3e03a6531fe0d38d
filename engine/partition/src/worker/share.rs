//! A share: the thread that owns the partitions placed on it and runs one batch at a time, of those that wait the one that is
//! booked first.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select};
use weir_flow::{DeviceKind, PartitionLoader, PartitionSession, Tensor};
use weir_types::{Profile, SleepCompensator, Timestamp};

use super::emulation::{Emulation, emulate_duration};
use super::permit::Permit;
use super::state::{WorkerState, count};
use super::uplink::Uplink;
use crate::wire::{BatchFailure, Message, PartitionId, Resource, StageInput, StageTimes, Usage};

/// Orders that wait for a share, at most; the control thread waits for its turn beyond.
const MAX_COMMANDS: usize = 16;

/// A batch that waits for a share.
pub(super) struct Job {
    pub(super) input: StageInput,
    pub(super) generation: u64,
    /// Transfer of its input to this worker.
    pub(super) transfer: Usage,
    /// Permit for the memory of its inputs.
    pub(super) permit: Permit,
}

/// Model and parameters from which a partition's sessions are built.
#[derive(Clone)]
pub(super) struct PartitionSpec {
    pub(super) plan: u64,
    pub(super) half: bool,
    /// Batch size in items for which the session is warmed up.
    pub(super) batch: u32,
    pub(super) declared: Option<Profile>,
    pub(super) model: Arc<Vec<u8>>,
}

/// Command of the control thread to a share.
pub(super) enum ShareCommand {
    /// Keeps the session of a partition, and replies whether it is ready.
    Place(PlacePartition),
    /// Unloads one partition.
    Remove(PartitionId),
    /// Unloads the partitions of all other plans, then replies.
    Keep { plan: u64, done: Sender<()> },
    /// Unloads all partitions.
    Clear,
    /// Unloads all partitions and ends the thread.
    End,
}

/// A partition for a share.
pub(super) struct PlacePartition {
    pub(super) partition: PartitionId,
    pub(super) spec: PartitionSpec,
    pub(super) session: Box<dyn PartitionSession>,
    pub(super) ready: Sender<Result<(), String>>,
}

/// The way to a share.
pub(super) struct ShareHandle {
    jobs: Sender<Job>,
    pub(super) commands: Sender<ShareCommand>,
    /// Batches that wait.
    waiting: Arc<AtomicUsize>,
    max_queue: usize,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Cut off when the share has ended.
    ended: Receiver<()>,
}

impl ShareHandle {
    /// Asks it to end after the batch that it runs.
    pub(super) fn ask_to_end(&self, timeout: Duration) {
        // The share may have ended already.
        let _ = self.commands.send_timeout(ShareCommand::End, timeout);
    }

    /// Waits until it has ended, its sessions with it: a process that exits while a GPU's session is dropped may crash. One that is
    /// not done in time is left behind.
    pub(super) fn join(&self, timeout: Duration) {
        if self.ended.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout) {
            return tracing::warn!("a share is busy and is not waited for any longer");
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // What it says of a panic was logged when it happened.
        let _ = thread.map(JoinHandle::join);
    }

    /// Queues a batch; returns false if the queue is full.
    pub(super) fn enqueue(&self, job: Job) -> bool {
        let room = |waiting| (waiting < self.max_queue).then_some(waiting + 1);
        let update = self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
        update.is_ok() && self.jobs.try_send(job).is_ok()
    }
}

/// Context that all shares of a worker have in common.
#[derive(Clone)]
pub(super) struct ShareContext {
    pub(super) state: Arc<WorkerState>,
    pub(super) uplink: Arc<Uplink>,
    pub(super) loader: Arc<dyn PartitionLoader>,
    pub(super) device: DeviceKind,
    pub(super) emulation: Emulation,
}

struct Share {
    context: ShareContext,
    partitions: BTreeMap<PartitionId, (PartitionSpec, Option<Box<dyn PartitionSession>>)>,
    compensator: SleepCompensator,
    waiting: Waiting,
    ends: bool,
}

/// Batches that wait for the share, by when they are booked and then in the order in which they came.
struct Waiting {
    jobs: BTreeMap<(Timestamp, u64), Job>,
    came: u64,
    /// Number of queued batches, including those not received yet.
    count: Arc<AtomicUsize>,
}

impl Waiting {
    fn push(&mut self, job: Job) {
        self.jobs.insert((job.input.booked, self.came), job);
        self.came += 1;
    }

    fn pop(&mut self) -> Option<Job> {
        let (_, job) = self.jobs.pop_first()?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(job)
    }
}

/// Starts the share with this number; it ends on request or when its handle is dropped.
pub(super) fn start(number: u32, max_queue: usize, context: ShareContext) -> io::Result<ShareHandle> {
    let (jobs, queue) = bounded(max_queue);
    let (commands, commands_in) = bounded(MAX_COMMANDS);
    let waiting = Arc::new(AtomicUsize::new(0));
    let mut share = Share {
        context,
        partitions: BTreeMap::new(),
        compensator: SleepCompensator::default(),
        waiting: Waiting {
            jobs: BTreeMap::new(),
            came: 0,
            count: Arc::clone(&waiting),
        },
        ends: false,
    };
    let (alive, ended) = bounded(0);
    let thread = std::thread::Builder::new()
        .name(format!("weir-share-{number}"))
        .spawn(move || {
            share.work(&queue, &commands_in);
            drop(alive);
        })?;
    Ok(ShareHandle {
        jobs,
        commands,
        waiting,
        max_queue,
        thread: Mutex::new(Some(thread)),
        ended,
    })
}

impl Share {
    fn work(&mut self, queue: &Receiver<Job>, commands_in: &Receiver<ShareCommand>) {
        loop {
            select! {
                recv(commands_in) -> command => match command {
                    Ok(command) => self.on_command(command),
                    Err(_) => return,
                },
                recv(queue) -> job => match job {
                    Ok(job) => self.waiting.push(job),
                    Err(_) => return,
                }
            }
            while let Some(job) = self.next(queue, commands_in) {
                self.run(job);
            }
            if self.ends {
                return;
            }
        }
    }

    /// The batch to be run now.
    fn next(&mut self, queue: &Receiver<Job>, commands_in: &Receiver<ShareCommand>) -> Option<Job> {
        while let Ok(job) = queue.try_recv() {
            self.waiting.push(job);
        }
        // A partition is placed before it is reported that batches for it may come.
        while let Ok(command) = commands_in.try_recv() {
            self.on_command(command);
        }
        if self.ends {
            return None;
        }
        self.waiting.pop()
    }

    fn on_command(&mut self, command: ShareCommand) {
        match command {
            ShareCommand::Place(place) => {
                self.discard(place.partition);
                let (began, session) = begin(place.session, place.spec.batch);
                self.partitions.insert(place.partition, (place.spec, session));
                // The requester may have stopped waiting.
                let _ = place.ready.send(began);
            }
            ShareCommand::Remove(partition) => self.discard(partition),
            ShareCommand::Keep { plan, done } => {
                let others = self.partitions.iter().filter(|(_, (spec, _))| spec.plan != plan);
                for partition in others.map(|(partition, _)| *partition).collect::<Vec<_>>() {
                    self.discard(partition);
                }
                // The requester may have stopped waiting.
                let _ = done.send(());
            }
            ShareCommand::Clear => self.clear(),
            ShareCommand::End => {
                self.clear();
                self.ends = true;
            }
        }
    }

    fn clear(&mut self) {
        while let Some((&partition, _)) = self.partitions.first_key_value() {
            self.discard(partition);
        }
    }

    fn discard(&mut self, partition: PartitionId) {
        let held = self.partitions.remove(&partition);
        // A broken session may panic as it is dropped, too.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(held)));
    }

    fn run(&mut self, job: Job) {
        let Job {
            mut input,
            generation,
            transfer,
            permit,
        } = job;
        let state = Arc::clone(&self.context.state);
        if !state.is_serving(generation) {
            return count(&state.counters.stale);
        }
        let Some((spec, _)) = self.partitions.get(&input.partition) else {
            return state.fail_batch(generation, input.key, input.stage, BatchFailure::NotHeld);
        };
        let declared = spec.declared.clone();
        count(&state.counters.batches);
        let (own, from) = (state.own_now(), state.engine_now());
        let result = self.infer(input.partition, std::mem::take(&mut input.tensors));
        drop(permit);
        let took = state.own_now().since(own);
        let extra = self
            .context
            .emulation
            .extra_time(declared.as_ref(), input.items, took);
        emulate_duration(&state, extra, &mut self.compensator);
        // Both ends by one offset: a correction of the clock in between is no part of the run.
        let usage = Usage {
            from,
            to: from + state.own_now().since(own),
        };
        state.report(
            generation,
            Message::Used {
                key: input.key,
                stage: input.stage,
                what: Resource::Run,
                usage,
            },
        );
        input.times.push(StageTimes { transfer, run: usage });
        match result {
            Ok(outputs) if input.rest.is_empty() => state.report(
                generation,
                Message::Done {
                    key: input.key,
                    times: input.times,
                    outputs,
                },
            ),
            Ok(outputs) => self.context.uplink.send(input, outputs, generation),
            Err(failure) => {
                state.fail_batch(generation, input.key, input.stage, failure);
                // While the share is still ours, so that the next batch does not wait for it. What cannot be built now
                // is tried again then, and reported then.
                let _ = self.session(input.partition);
            }
        }
    }

    fn infer(&mut self, partition: PartitionId, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, BatchFailure> {
        let session = self.session(partition)?;
        let ran = catch_unwind(AssertUnwindSafe(|| session.run(inputs)));
        match ran {
            Ok(ran) => ran.map_err(|error| BatchFailure::Session(error.to_string())),
            Err(panic) => {
                if let Some((_, session)) = self.partitions.get_mut(&partition) {
                    let broken = session.take();
                    let _ = catch_unwind(AssertUnwindSafe(move || drop(broken)));
                }
                Err(BatchFailure::Panicked(panic_message(panic.as_ref())))
            }
        }
    }

    /// Session of a partition, rebuilt if the last batch destroyed it.
    fn session(&mut self, partition: PartitionId) -> Result<&mut Box<dyn PartitionSession>, BatchFailure> {
        let (spec, session) = self.partitions.get_mut(&partition).ok_or(BatchFailure::NotHeld)?;
        if session.is_none() {
            let fresh = open(&self.context, spec).map_err(BatchFailure::Session)?;
            let (began, fresh) = begin(fresh, spec.batch);
            began.map_err(BatchFailure::Session)?;
            tracing::info!(partition = partition.0, "partition built anew");
            *session = fresh;
        }
        session.as_mut().ok_or(BatchFailure::NotHeld)
    }
}

/// Opens a partition, whatever its loader does.
pub(super) fn open(
    context: &ShareContext,
    spec: &PartitionSpec,
) -> Result<Box<dyn PartitionSession>, String> {
    let load = || context.loader.load(&spec.model, context.device, spec.half);
    let opened = catch_unwind(AssertUnwindSafe(load));
    opened
        .map_err(|panic| format!("the loader panicked: {}", panic_message(panic.as_ref())))?
        .map_err(|error| error.to_string())
}

/// Warms a session up on the thread that runs it, and returns it unless it panicked.
fn begin(
    mut session: Box<dyn PartitionSession>,
    batch: u32,
) -> (Result<(), String>, Option<Box<dyn PartitionSession>>) {
    match catch_unwind(AssertUnwindSafe(|| session.begin(batch as usize))) {
        Ok(began) => (began.map_err(|error| error.to_string()), Some(session)),
        Err(panic) => {
            // A broken session may panic as it is dropped, too.
            let _ = catch_unwind(AssertUnwindSafe(move || drop(session)));
            (
                Err(format!("its session panicked: {}", panic_message(panic.as_ref()))),
                None,
            )
        }
    }
}

/// Returns the message of a panic.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
