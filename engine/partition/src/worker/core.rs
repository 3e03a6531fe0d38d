//! The worker without its connections: what is done with each message, whether it came over TCP or not.

use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, TrySendError};
use weir_flow::PartitionLoader;

use super::control::{self, Kept, Wanted};
use super::desk::{Desk, count};
use super::permit::Permit;
use super::share::{self, Job, Means, ShareHandle};
use super::uplink::{Road, Uplink};
use super::{WorkerError, WorkerOptions};
use crate::time::Now;
use crate::wire::{Failure, Leg, Message, Usage, Use, Welcome, WireError};

/// See the module.
pub(crate) struct Core {
    options: WorkerOptions,
    desk: Arc<Desk>,
    shares: Arc<Vec<ShareHandle>>,
    control: Sender<(u64, Wanted)>,
    kept: Kept,
}

/// An engine is served.
pub(crate) struct Served {
    pub(crate) welcome: Welcome,
    pub(crate) generation: u64,
    /// What it is told; closed when the worker ends.
    pub(crate) reports: Receiver<Message>,
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
        if options.queue_most == 0 || quota.engines == 0 || quota.unidentified == 0 {
            return Err(WorkerError::Options(
                "a worker needs a queue of 1, and a connection for its engine, at least",
            ));
        }
        if !options.emulation.is_sound() {
            return Err(WorkerError::Options(
                "a slowdown is 1 to 1000, and an emulated link carries something",
            ));
        }
        let desk = Arc::new(Desk::new(now, options.held_bytes_most));
        let uplink = Arc::new(Uplink::new(Road {
            desk: Arc::clone(&desk),
            locals: options.locals.clone(),
            limits: options.limits,
            patience: options.patience,
            emulation: options.emulation,
            queue_most: options.queue_most,
            turn: Mutex::default(),
            hops: options.hops.clone(),
        }));
        let means = Means {
            desk: Arc::clone(&desk),
            uplink,
            loader,
            device: options.device,
            emulation: options.emulation,
        };
        let start = |number| share::start(number, options.queue_most, means.clone());
        let shares: Result<Vec<ShareHandle>, _> = (0..options.shares).map(start).collect();
        let shares = Arc::new(shares.map_err(WorkerError::Thread)?);
        let kept = Kept::default();
        let control = control::start(
            means,
            Arc::clone(&shares),
            Arc::clone(&kept),
            options.patience.stall,
            options.max_model_bytes,
        );
        Ok(Arc::new(Self {
            desk,
            shares,
            control: control.map_err(WorkerError::Thread)?,
            kept,
            options,
        }))
    }

    pub(crate) fn options(&self) -> &WorkerOptions {
        &self.options
    }

    pub(super) fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    pub(super) fn stop(&self) {
        self.desk.stop.raise();
        self.desk.close_all();
    }

    /// Begins to serve an engine; an error says why not.
    pub(crate) fn open(&self, engine: u64) -> Result<Served, WireError> {
        if self.desk.stop.is_raised() {
            return Err(WireError::Closed);
        }
        let Some(opened) = self.desk.open(engine) else {
            count(&self.desk.counts.refused);
            return Err(WireError::Refused("another engine is served".to_owned()));
        };
        if !opened.again {
            // It fails only where the control thread has ended, and with it everything.
            let _ = self.control.send((opened.generation, Wanted::Clear));
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.keys().copied().filter(|_| opened.again).collect();
        Ok(Served {
            welcome: self.welcome(kept),
            generation: opened.generation,
            reports: opened.reports,
        })
    }

    /// How it introduces itself.
    pub(super) fn welcome(&self, kept: Vec<crate::wire::PartId>) -> Welcome {
        Welcome {
            class: self.options.class.clone(),
            shares: self.options.shares,
            emulated: self.options.emulation.is_any(),
            message_most: self.options.limits.message_most,
            kept,
        }
    }

    pub(crate) fn close(&self, generation: u64) {
        self.desk.close(generation);
    }

    /// Takes what the engine says.
    ///
    /// # Errors
    /// What an engine does not say; the connection is to be closed.
    pub(crate) fn take(&self, generation: u64, message: Message) -> Result<(), WireError> {
        let wanted = match message {
            Message::Ping { sent, offset } => {
                if let Some(offset) = offset {
                    self.desk.tell_offset(offset);
                }
                let at = self.desk.own_now();
                self.desk.report(generation, Message::Pong { sent, at });
                return Ok(());
            }
            Message::Run(leg) => {
                let transfer = Usage {
                    from: leg.began,
                    to: self.desk.engine_now(),
                };
                self.admit(leg, generation, transfer);
                return Ok(());
            }
            Message::Load(load) => match Permit::of(&self.desk, load.model.len() as u64) {
                Some(permit) => Wanted::Load(load, permit),
                None => {
                    let (part, reason) = (load.part, Failure::QueueFull.to_string());
                    self.desk.report(generation, Message::NotLoaded { part, reason });
                    return Ok(());
                }
            },
            Message::Unload { part } => Wanted::Unload(part),
            Message::Activate { plan } => Wanted::Activate(plan),
            other => return Err(WireError::Unexpected(other.name())),
        };
        match self.control.try_send((generation, wanted)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err(WireError::Unexpected("load, before the last was answered,")),
            Err(TrySendError::Disconnected(_)) => Err(WireError::Closed),
        }
    }

    /// Takes a feature from another worker.
    pub(super) fn feature(&self, leg: Leg) {
        let Some(generation) = self.desk.service_of(leg.engine) else {
            // Nobody can be told: the engine is gone, or knows that this worker was.
            return count(&self.desk.counts.stale);
        };
        let usage = Usage {
            from: leg.began,
            to: self.desk.engine_now(),
        };
        self.desk.report(
            generation,
            Message::Used {
                key: leg.key,
                stage: leg.stage,
                what: Use::Transfer,
                usage,
            },
        );
        self.admit(leg, generation, usage);
    }

    fn admit(&self, leg: Leg, generation: u64, transfer: Usage) {
        let (key, stage) = (leg.key, leg.stage);
        let failed = |failure| self.desk.fail(generation, key, stage, failure);
        let Some(share) = self.shares.get(leg.share as usize) else {
            return failed(Failure::NotHeld);
        };
        let Some(permit) = Permit::take(&self.desk, &leg.tensors) else {
            return failed(Failure::QueueFull);
        };
        let job = Job {
            leg,
            generation,
            transfer,
            permit,
        };
        if share.jobs.try_send(job).is_err() {
            failed(Failure::QueueFull);
        }
    }
}
