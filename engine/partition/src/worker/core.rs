//! The worker without its connections: handles each message in the same way, over TCP or within the process.

use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Sender, TrySendError};
use weir_flow::PartitionLoader;

use super::control::{self, ControlCommand, LoadedPartitions};
use super::link_turns::LinkTurns;
use super::options::{WorkerError, WorkerOptions};
use super::permit::Permit;
use super::share::{self, Job, ShareContext, ShareHandle};
use super::state::{WorkerState, count};
use super::uplink::{Uplink, UplinkContext};
use crate::local_workers::{EngineSession, LocalWorker};
use crate::time::Now;
use crate::wire::{BatchFailure, Message, Resource, StageInput, Usage, Welcome, WireError};

/// See the module.
pub(crate) struct Core {
    options: WorkerOptions,
    state: Arc<WorkerState>,
    shares: Arc<Vec<ShareHandle>>,
    control: Sender<(u64, ControlCommand)>,
    loaded: LoadedPartitions,
    loader: Arc<dyn PartitionLoader>,
}

impl Core {
    pub(super) fn start(
        options: WorkerOptions,
        loader: Arc<dyn PartitionLoader>,
        now: Now,
    ) -> Result<Arc<Self>, WorkerError> {
        if options.shares == 0 || options.shares > 1 << 10 {
            return Err(WorkerError::Options("a worker has 1 to 1024 shares"));
        }
        let quota = options.max_connections;
        if options.max_queue == 0 || quota.engines == 0 || quota.unidentified == 0 {
            return Err(WorkerError::Options(
                "a worker needs a queue of 1, and a connection for its engine, at least",
            ));
        }
        if !options.emulation.is_valid() {
            return Err(WorkerError::Options(
                "a slowdown is 1 to 1000, and an emulated link carries something",
            ));
        }
        let state = Arc::new(WorkerState::new(now, options.max_held_bytes));
        let uplink = Arc::new(Uplink::new(UplinkContext {
            state: Arc::clone(&state),
            locals: options.locals.clone(),
            carrier: options.carrier.as_ref().map(|(carrier, _)| carrier.clone()),
            limits: options.limits,
            timeouts: options.timeouts,
            emulation: options.emulation,
            max_queue: options.max_queue,
            turns: LinkTurns::default(),
            link_turn: Mutex::default(),
            hops: options.hops.clone(),
        }));
        let context = ShareContext {
            state: Arc::clone(&state),
            uplink,
            loader: Arc::clone(&loader),
            device: options.device,
            emulation: options.emulation,
        };
        let start = |number| share::start(number, options.max_queue, context.clone());
        let shares: Result<Vec<ShareHandle>, _> = (0..options.shares).map(start).collect();
        let shares = Arc::new(shares.map_err(WorkerError::Thread)?);
        let loaded = LoadedPartitions::default();
        let control = control::start(
            context,
            Arc::clone(&shares),
            Arc::clone(&loaded),
            options.timeouts.stall,
            options.max_model_bytes,
        );
        Ok(Arc::new(Self {
            state,
            shares,
            control: control.map_err(WorkerError::Thread)?,
            loaded,
            loader,
            options,
        }))
    }

    pub(crate) fn options(&self) -> &WorkerOptions {
        &self.options
    }

    pub(super) fn loader(&self) -> &dyn PartitionLoader {
        self.loader.as_ref()
    }

    pub(super) fn state(&self) -> &Arc<WorkerState> {
        &self.state
    }

    pub(super) fn stop(&self) {
        self.state.stop.raise();
        self.state.close_all();
    }

    /// Ends its shares and waits for them, for as long as a connection may stall.
    pub(super) fn join_shares(&self) {
        let timeout = self.options.timeouts.stall;
        self.shares.iter().for_each(|share| share.ask_to_end(timeout));
        self.shares.iter().for_each(|share| share.join(timeout));
    }

    /// Returns the message by which the worker introduces itself.
    pub(super) fn welcome(&self, held: Vec<crate::wire::PartitionId>) -> Welcome {
        Welcome {
            class: self.options.class.clone(),
            shares: self.options.shares,
            emulated: self.options.emulation.is_active(),
            max_message_bytes: self.options.limits.max_message_bytes,
            held,
        }
    }

    fn enqueue(&self, input: StageInput, generation: u64, transfer: Usage) {
        let (key, stage) = (input.key, input.stage);
        let failed = |failure| self.state.fail_batch(generation, key, stage, failure);
        let Some(share) = self.shares.get(input.share as usize) else {
            return failed(BatchFailure::NotHeld);
        };
        let Some(permit) = Permit::acquire(&self.state, &input.tensors) else {
            return failed(BatchFailure::QueueFull);
        };
        let job = Job {
            input,
            generation,
            transfer,
            permit,
        };
        if !share.enqueue(job) {
            failed(BatchFailure::QueueFull);
        }
    }
}

impl LocalWorker for Core {
    fn open(&self, engine: u64) -> Result<EngineSession, WireError> {
        if self.state.stop.is_raised() {
            return Err(WireError::Closed);
        }
        let Some(opened) = self.state.open(engine) else {
            count(&self.state.counters.refused);
            return Err(WireError::Refused("another engine is served".to_owned()));
        };
        if !opened.again {
            // Sending fails only if the control thread has ended, and then the worker ends, too.
            let _ = self.control.send((opened.generation, ControlCommand::Clear));
        }
        let held = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held.keys().copied().filter(|_| opened.again).collect();
        Ok(EngineSession {
            welcome: self.welcome(held),
            generation: opened.generation,
            reports: opened.reports,
        })
    }

    fn close(&self, generation: u64) {
        self.state.close(generation);
    }

    fn on_message(&self, generation: u64, message: Message) -> Result<(), WireError> {
        let command = match message {
            Message::Ping { sent, offset } => {
                if let Some(offset) = offset {
                    self.state.set_offset(offset);
                }
                let at = self.state.own_now();
                self.state.report(generation, Message::Pong { sent, at });
                return Ok(());
            }
            Message::Run(input) => {
                let transfer = Usage {
                    from: input.began,
                    to: self.state.engine_now(),
                };
                self.enqueue(input, generation, transfer);
                return Ok(());
            }
            Message::LoadPartition(load) => match Permit::for_bytes(&self.state, load.model.len() as u64) {
                Some(permit) => ControlCommand::LoadPartition(load, permit),
                None => {
                    let (partition, reason) = (load.partition, BatchFailure::QueueFull.to_string());
                    self.state
                        .report(generation, Message::NotLoaded { partition, reason });
                    return Ok(());
                }
            },
            Message::Unload { partition } => ControlCommand::Unload(partition),
            Message::Activate { plan } => ControlCommand::Activate(plan),
            other => return Err(WireError::Unexpected(other.name())),
        };
        match self.control.try_send((generation, command)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err(WireError::Unexpected("load, before the last was answered,")),
            Err(TrySendError::Disconnected(_)) => Err(WireError::Closed),
        }
    }

    fn on_feature(&self, input: StageInput) {
        let Some(generation) = self.state.current_service(input.engine) else {
            // No report is possible: the engine is gone, or already treats this worker as down.
            return count(&self.state.counters.stale);
        };
        let usage = Usage {
            from: input.began,
            to: self.state.engine_now(),
        };
        self.state.report(
            generation,
            Message::Used {
                key: input.key,
                stage: input.stage,
                what: Resource::Transfer,
                usage,
            },
        );
        self.enqueue(input, generation, usage);
    }
}
