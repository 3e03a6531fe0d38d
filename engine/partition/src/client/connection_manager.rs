//! The connection to one worker: opens it, reads from it, and opens it again when it is gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use weir_types::WorkerId;

use super::event::{Event, WorkerInfo};
use super::shared::Shared;
use super::transport::{Inbound, Outbound, open};
use crate::liveness::Liveness;
use crate::time::Timebase;
use crate::timeouts::span;
use crate::wire::{Address, BatchFailure, Message, Welcome, WireError};

/// Keeps a worker connected until the client stops.
pub(super) fn run(shared: &Shared, worker: WorkerId, address: Address) {
    let options = &shared.options;
    let mut pause = options.initial_backoff;
    let mut last_reason = String::new();
    while !shared.stop.is_raised() {
        let mut was_up = false;
        let ended = open(shared, address)
            .and_then(|connection| ConnectionManager::new(shared, worker).serve(connection, &mut was_up));
        let reason = match ended {
            _ if shared.stop.is_raised() => "the client stops".to_owned(),
            Ok(()) => "the client stops".to_owned(),
            Err(error) => error.to_string(),
        };
        on_down(shared, worker, &reason);
        if was_up {
            pause = options.initial_backoff;
        } else if last_reason != reason {
            // Once each, not at every call.
            tracing::warn!(worker = worker.0, %address, "worker not reached: {reason}");
            last_reason = reason;
        }
        sleep_unless_stopped(shared, pause);
        pause = (pause * 2).min(options.max_backoff);
    }
}

/// Pauses, unless the client stops.
fn sleep_unless_stopped(shared: &Shared, pause: Duration) {
    let began = (shared.now)();
    while !shared.stop.is_raised() && (shared.now)().since(began) < span(pause) {
        std::thread::sleep(pause.min(shared.options.timeouts.poll_interval));
    }
}

/// Reports the end of a connection and fails its batches.
fn on_down(shared: &Shared, worker: WorkerId, reason: &str) {
    let (was_up, failed) = shared.state().on_disconnected(worker);
    if was_up {
        if shared.stop.is_raised() {
            tracing::debug!(worker = worker.0, "removed");
        } else {
            tracing::debug!(worker = worker.0, batches = failed.len(), "worker down: {reason}");
        }
        shared.publish([Event::Down {
            worker,
            reason: reason.to_owned(),
        }]);
    }
    shared.publish(failed.into_iter().map(|(key, stage)| Event::Failed {
        key,
        stage,
        failure: BatchFailure::WorkerDown(reason.to_owned()),
    }));
}

struct ConnectionManager<'a> {
    shared: &'a Shared,
    worker: WorkerId,
    timebase: Mutex<Timebase>,
    /// True while a message is being written.
    writing: AtomicBool,
}

impl<'a> ConnectionManager<'a> {
    fn new(shared: &'a Shared, worker: WorkerId) -> Self {
        Self {
            shared,
            worker,
            timebase: Mutex::default(),
            writing: AtomicBool::new(false),
        }
    }

    fn with_timebase<T>(&self, look: impl FnOnce(&mut Timebase) -> T) -> T {
        look(&mut self.timebase.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Serves one connection until it ends. `was_up` is set once the worker was up.
    fn serve(
        &self,
        (welcome, mut inbound, outbound): (Welcome, Inbound, Outbound),
        was_up: &mut bool,
    ) -> Result<(), WireError> {
        let now = (self.shared.now)();
        let outgoing = self.shared.state().on_connected(self.worker, &welcome.held, now);
        std::thread::scope(|scope| {
            self.spawn_writer(scope, outgoing, outbound);
            let ended = self.read(&mut inbound, &welcome, was_up);
            // This closes the queue of messages, and with it the writer thread ends.
            on_down(self.shared, self.worker, &end_reason(&ended));
            ended
        })
    }

    /// Starts the thread that sends queued messages and pings.
    fn spawn_writer<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        outgoing: Receiver<Message>,
        mut outbound: Outbound,
    ) {
        scope.spawn(move || {
            let every = self.shared.options.ping_interval;
            let mut pinged = None;
            loop {
                let now = (self.shared.now)();
                let comparing = self.with_timebase(|timebase| timebase.sample_count())
                    < self.shared.options.min_clock_samples;
                // Clocks are compared quickly at first.
                let every = if comparing { every / 100 } else { every };
                let sent = if pinged.is_none_or(|at| now.since(at) >= span(every)) {
                    pinged = Some(now);
                    let offset = self.with_timebase(|timebase| timebase.offset());
                    self.write(&mut outbound, Message::Ping { sent: now, offset })
                } else {
                    match outgoing.recv_timeout(every) {
                        Ok(message) => self.write(&mut outbound, message),
                        Err(RecvTimeoutError::Timeout) => Ok(()),
                        Err(RecvTimeoutError::Disconnected) => break,
                    }
                };
                if let Err(error) = sent {
                    tracing::debug!(worker = self.worker.0, "cannot be reached: {error}");
                    break;
                }
            }
            outbound.close();
        });
    }

    /// Sends one message. If it exceeds the worker's limit, only this message is rejected and the connection
    /// stays open.
    fn write(&self, outbound: &mut Outbound, message: Message) -> Result<(), WireError> {
        let (batch, partition) = match &message {
            Message::Run(input) => (Some(input.key), None),
            Message::LoadPartition(load) => (None, Some(load.partition)),
            _ => (None, None),
        };
        self.writing.store(true, Ordering::Relaxed);
        let sent = outbound.send(message);
        self.writing.store(false, Ordering::Relaxed);
        let (Err(error @ WireError::TooLong { .. }), true) = (&sent, batch.is_some() || partition.is_some())
        else {
            return sent;
        };
        let (shared, worker, reason) = (self.shared, self.worker, error.to_string());
        if let Some(partition) = partition {
            shared.state().on_load_answered(worker, partition, (shared.now)());
            let reason = reason.clone();
            shared.publish([Event::NotLoaded {
                worker,
                partition,
                reason,
            }]);
        }
        if let Some(key) = batch.filter(|&key| shared.state().in_flight.remove(key)) {
            let failure = BatchFailure::Unreachable(reason);
            let stage = 0;
            shared.publish([Event::Failed { key, stage, failure }]);
        }
        Ok(())
    }

    fn read(&self, inbound: &mut Inbound, welcome: &Welcome, was_up: &mut bool) -> Result<(), WireError> {
        let options = &self.shared.options;
        let mut liveness = Liveness::new(&options.timeouts, (self.shared.now)());
        while !self.shared.stop.is_raised() {
            let message = inbound.poll()?;
            let now = (self.shared.now)();
            if let Some(message) = message {
                self.on_message(message)?;
                liveness.on_activity((self.shared.now)());
            } else if self.writing.load(Ordering::Relaxed) {
                // While a large message is on its way no ping is; a write that does not move ends by itself.
                liveness.on_activity(now);
            } else if liveness.on_idle(now) {
                return Err(WireError::Silent(options.timeouts.liveness));
            }
            let load_timeout = span(options.load_timeout);
            if let Some(fault) = self.shared.state().fault(self.worker, load_timeout, now) {
                return Err(WireError::Refused(fault.to_owned()));
            }
            *was_up |= self.publish_if_up(welcome);
        }
        Ok(())
    }

    /// Reports that the worker is up as soon as this is the case.
    fn publish_if_up(&self, welcome: &Welcome) -> bool {
        let (answers, offset, uncertainty) = self
            .with_timebase(|timebase| (timebase.sample_count(), timebase.offset(), timebase.uncertainty()));
        let sent = (self.shared.now)();
        let known = answers >= self.shared.options.min_clock_samples.max(1);
        if !known
            || !self
                .shared
                .state()
                .mark_up(self.worker, Message::Ping { sent, offset })
        {
            return false;
        }
        let info = WorkerInfo {
            class: welcome.class.clone(),
            shares: welcome.shares,
            emulated: welcome.emulated,
            uncertainty: uncertainty.unwrap_or_default(),
        };
        tracing::info!(worker = self.worker.0, class = %info.class, "worker up");
        self.shared.publish([Event::Up {
            worker: self.worker,
            info,
        }]);
        true
    }

    fn on_message(&self, message: Message) -> Result<(), WireError> {
        let (shared, worker, now) = (self.shared, self.worker, (self.shared.now)());
        let event = match message {
            Message::Pong { sent, at } => {
                self.with_timebase(|timebase| timebase.on_pong(sent, at, now));
                return Ok(());
            }
            Message::Loaded { partition, took } => {
                shared.state().on_load_answered(worker, partition, now);
                Event::Loaded {
                    worker,
                    partition,
                    took,
                }
            }
            Message::NotLoaded { partition, reason } => {
                shared.state().on_load_answered(worker, partition, now);
                Event::NotLoaded {
                    worker,
                    partition,
                    reason,
                }
            }
            Message::Activated { plan } => Event::Activated { worker, plan },
            Message::Used {
                key,
                stage,
                what,
                usage,
            } => {
                shared.state().in_flight.on_used(key, stage, now);
                Event::Used {
                    worker,
                    key,
                    stage,
                    what,
                    usage,
                }
            }
            // The end of a batch that was removed has been reported.
            Message::Done { key, .. } | Message::Failed { key, .. }
                if !shared.state().in_flight.remove(key) =>
            {
                tracing::debug!(
                    worker = worker.0,
                    batch = key.batch.0,
                    "report on a batch that has ended"
                );
                return Ok(());
            }
            Message::Done { key, times, outputs } => Event::Done { key, times, outputs },
            Message::Failed { key, stage, failure } => Event::Failed { key, stage, failure },
            other => return Err(WireError::Unexpected(other.name())),
        };
        shared.publish([event]);
        Ok(())
    }
}

fn end_reason(ended: &Result<(), WireError>) -> String {
    ended
        .as_ref()
        .map_or_else(ToString::to_string, |()| "the client stops".to_owned())
}
