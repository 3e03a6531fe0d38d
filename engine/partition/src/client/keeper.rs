//! The keeper of one worker: calls it, listens to it, and calls it again when it is gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::Shared;
use super::event::{Event, WorkerId, WorkerInfo};
use super::line::{Inbound, Outbound, connect};
use crate::line::span;
use crate::silence::Silence;
use crate::time::Timebase;
use crate::wire::{Address, Failure, Message, Welcome, WireError};

/// Keeps a worker connected until the client stops.
pub(super) fn keep(shared: &Shared, worker: WorkerId, address: Address) {
    let options = &shared.options;
    let mut pause = options.pause_first;
    let mut said = String::new();
    while !shared.stop.is_raised() {
        let mut rose = false;
        let ended = connect(shared, address)
            .and_then(|connection| Keeper::new(shared, worker).serve(connection, &mut rose));
        let reason = match ended {
            _ if shared.stop.is_raised() => "the client stops".to_owned(),
            Ok(()) => "the client stops".to_owned(),
            Err(error) => error.to_string(),
        };
        fall(shared, worker, &reason);
        if rose {
            pause = options.pause_first;
        } else if said != reason {
            // Once each, not at every call.
            tracing::warn!(worker = worker.0, %address, "worker not reached: {reason}");
            said = reason;
        }
        rest(shared, pause);
        pause = (pause * 2).min(options.pause_most);
    }
}

/// Pauses, unless the client stops.
fn rest(shared: &Shared, pause: Duration) {
    let began = (shared.now)();
    while !shared.stop.is_raised() && (shared.now)().since(began) < span(pause) {
        std::thread::sleep(pause.min(shared.options.patience.look_up));
    }
}

/// Tells of the end of a connection.
fn fall(shared: &Shared, worker: WorkerId, reason: &str) {
    let (was_up, struck) = shared.state().disconnected(worker);
    if was_up {
        if shared.stop.is_raised() {
            tracing::debug!(worker = worker.0, "let go of");
        } else {
            tracing::debug!(worker = worker.0, batches = struck.len(), "worker down: {reason}");
        }
        shared.tell([Event::Down {
            worker,
            reason: reason.to_owned(),
        }]);
    }
    shared.tell(struck.into_iter().map(|(key, stage)| Event::Failed {
        key,
        stage,
        failure: Failure::WorkerDown(reason.to_owned()),
    }));
}

struct Keeper<'a> {
    shared: &'a Shared,
    worker: WorkerId,
    base: Mutex<Timebase>,
    /// Whether something is being written just now.
    saying: AtomicBool,
}

impl<'a> Keeper<'a> {
    fn new(shared: &'a Shared, worker: WorkerId) -> Self {
        Self {
            shared,
            worker,
            base: Mutex::default(),
            saying: AtomicBool::new(false),
        }
    }

    fn with_base<T>(&self, look: impl FnOnce(&mut Timebase) -> T) -> T {
        look(&mut self.base.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Serves one connection to its end. `rose` is set where the worker was up.
    fn serve(
        &self,
        (welcome, mut inbound, outbound): (Welcome, Inbound, Outbound),
        rose: &mut bool,
    ) -> Result<(), WireError> {
        let now = (self.shared.now)();
        let said = self.shared.state().connected(self.worker, &welcome.kept, now);
        std::thread::scope(|scope| {
            self.speak(scope, said, outbound);
            let ended = self.listen(&mut inbound, &welcome, rose);
            // What is said ends with this, and the thread with it.
            fall(self.shared, self.worker, &word(&ended));
            ended
        })
    }

    /// Says what is to be said, and pings, on a thread of its own.
    fn speak<'s>(&'s self, scope: &'s Scope<'s, '_>, said: Receiver<Message>, mut outbound: Outbound) {
        scope.spawn(move || {
            let every = self.shared.options.ping_every;
            let mut pinged = None;
            loop {
                let now = (self.shared.now)();
                let comparing = self.with_base(|base| base.answers()) < self.shared.options.comparisons;
                // Clocks are compared quickly at first.
                let every = if comparing { every / 100 } else { every };
                let sent = if pinged.is_none_or(|at| now.since(at) >= span(every)) {
                    pinged = Some(now);
                    let offset = self.with_base(|base| base.offset());
                    self.say(&mut outbound, Message::Ping { sent: now, offset })
                } else {
                    match said.recv_timeout(every) {
                        Ok(message) => self.say(&mut outbound, message),
                        Err(RecvTimeoutError::Timeout) => Ok(()),
                        Err(RecvTimeoutError::Disconnected) => break,
                    }
                };
                if let Err(error) = sent {
                    tracing::debug!(worker = self.worker.0, "cannot be told: {error}");
                    break;
                }
            }
            outbound.close();
        });
    }

    /// Says one thing. What is larger than the worker takes is refused alone; the connection goes on.
    fn say(&self, outbound: &mut Outbound, message: Message) -> Result<(), WireError> {
        let (batch, part) = match &message {
            Message::Run(leg) => (Some(leg.key), None),
            Message::Load(load) => (None, Some(load.part)),
            _ => (None, None),
        };
        self.saying.store(true, Ordering::Relaxed);
        let sent = outbound.send(message);
        self.saying.store(false, Ordering::Relaxed);
        let (Err(error @ WireError::TooLong { .. }), true) = (&sent, batch.is_some() || part.is_some())
        else {
            return sent;
        };
        let (shared, worker, reason) = (self.shared, self.worker, error.to_string());
        if let Some(part) = part {
            shared.state().answered(worker, part, (shared.now)());
            let reason = reason.clone();
            shared.tell([Event::NotLoaded { worker, part, reason }]);
        }
        if let Some(key) = batch.filter(|&key| shared.state().book.end(key)) {
            let failure = Failure::Unreachable(reason);
            let stage = 0;
            shared.tell([Event::Failed { key, stage, failure }]);
        }
        Ok(())
    }

    fn listen(&self, inbound: &mut Inbound, welcome: &Welcome, rose: &mut bool) -> Result<(), WireError> {
        let options = &self.shared.options;
        let mut silence = Silence::new(&options.patience, (self.shared.now)());
        while !self.shared.stop.is_raised() {
            let message = inbound.next()?;
            let now = (self.shared.now)();
            if let Some(message) = message {
                self.hear(message)?;
                silence.broken((self.shared.now)());
            } else if self.saying.load(Ordering::Relaxed) {
                // While a large message is on its way no ping is; a write that does not move ends by itself.
                silence.broken(now);
            } else if silence.heard_nothing(now) {
                return Err(WireError::Silent(options.patience.silence));
            }
            let load_most = span(options.load_most);
            if let Some(fault) = self.shared.state().fault(self.worker, load_most, now) {
                return Err(WireError::Refused(fault.to_owned()));
            }
            *rose |= self.rise(welcome);
        }
        Ok(())
    }

    /// Tells of the worker's being up, once it is.
    fn rise(&self, welcome: &Welcome) -> bool {
        let (answers, offset, uncertainty) =
            self.with_base(|base| (base.answers(), base.offset(), base.uncertainty()));
        let sent = (self.shared.now)();
        let known = answers >= self.shared.options.comparisons.max(1);
        if !known
            || !self
                .shared
                .state()
                .rise(self.worker, Message::Ping { sent, offset })
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
        self.shared.tell([Event::Up {
            worker: self.worker,
            info,
        }]);
        true
    }

    fn hear(&self, message: Message) -> Result<(), WireError> {
        let (shared, worker, now) = (self.shared, self.worker, (self.shared.now)());
        let event = match message {
            Message::Pong { sent, at } => {
                self.with_base(|base| base.answered(sent, at, now));
                return Ok(());
            }
            Message::Loaded { part, took } => {
                shared.state().answered(worker, part, now);
                Event::Loaded { worker, part, took }
            }
            Message::NotLoaded { part, reason } => {
                shared.state().answered(worker, part, now);
                Event::NotLoaded { worker, part, reason }
            }
            Message::Activated { plan } => Event::Activated { worker, plan },
            Message::Used {
                key,
                stage,
                what,
                usage,
            } => {
                shared.state().book.used(key, stage, now);
                Event::Used {
                    worker,
                    key,
                    stage,
                    what,
                    usage,
                }
            }
            // A batch that was struck out has been told of.
            Message::Done { key, .. } | Message::Failed { key, .. } if !shared.state().book.end(key) => {
                tracing::debug!(
                    worker = worker.0,
                    batch = key.batch.0,
                    "heard of a batch that has ended"
                );
                return Ok(());
            }
            Message::Done { key, times, outputs } => Event::Done { key, times, outputs },
            Message::Failed { key, stage, failure } => Event::Failed { key, stage, failure },
            other => return Err(WireError::Unexpected(other.name())),
        };
        shared.tell([event]);
        Ok(())
    }
}

fn word(ended: &Result<(), WireError>) -> String {
    ended
        .as_ref()
        .map_or_else(ToString::to_string, |()| "the client stops".to_owned())
}
