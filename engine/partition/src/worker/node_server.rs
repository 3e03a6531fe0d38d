//! Connections of a worker that is a node of a fleet: routes packets of its carrier by engine and by
//! connection.
//!
//! Workers send features without a connection. An engine's connection ends when a packet is missing, when the
//! engine closes it, or when the engine is silent or absent for too long. The engine receives the reason and
//! connects again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::Receiver;

use super::core::Core;
use super::options::WorkerError;
use super::state::count;
use crate::carrier::{Arrived, Header, NodeCarrier, NodeWriter, Order, Peer, Role};
use crate::liveness::Liveness;
use crate::local_workers::{EngineSession, LocalWorker};
use crate::wire::{BatchFailure, Message, Welcome, WireError};

/// Receives packets on a thread of its own.
pub(super) struct NodeServer(JoinHandle<()>);

impl NodeServer {
    pub(super) fn start(core: &Arc<Core>, carrier: NodeCarrier) -> Result<Self, WorkerError> {
        let receiving = Receiving {
            core: Arc::clone(core),
            carrier,
            engines: BTreeMap::new(),
        };
        let thread = std::thread::Builder::new()
            .name("weir-nodes".to_owned())
            .spawn(move || receiving.work())
            .map_err(WorkerError::Thread)?;
        Ok(Self(thread))
    }

    /// Waits until the server thread has ended, after the worker was asked to stop.
    pub(super) fn join(self) {
        let _ = self.0.join();
    }
}

struct Receiving {
    core: Arc<Core>,
    carrier: NodeCarrier,
    /// Engines with their latest connection.
    engines: BTreeMap<Peer, Served>,
}

/// An engine that is served.
struct Served {
    connection: u64,
    generation: u64,
    order: Order,
    liveness: Liveness,
    /// True once the engine was present: a starting engine connects before it is announced.
    was_seen: bool,
}

impl Receiving {
    fn work(mut self) {
        let stop = self.core.state().stop.clone();
        let poll_interval = self.core.options().timeouts.poll_interval;
        let mut looked = self.core.state().own_now();
        while !stop.is_raised() {
            if let Some(arrived) = self.carrier.receive(poll_interval) {
                self.take(arrived);
            }
            let now = self.core.state().own_now();
            if now.since(looked) >= crate::timeouts::span(poll_interval) {
                looked = now;
                self.look();
            }
        }
        for served in self.engines.values() {
            self.core.close(served.generation);
        }
    }

    /// Ends connections of engines that are silent or gone.
    fn look(&mut self) {
        let now = self.core.state().own_now();
        let timeout = self.core.options().timeouts.liveness;
        let mut ended = Vec::new();
        for (engine, served) in &mut self.engines {
            let is_seen = self.carrier.is_present(*engine);
            if !self.core.state().is_serving(served.generation) {
                ended.push((*engine, WireError::Closed));
            } else if served.was_seen && !is_seen {
                ended.push((*engine, WireError::NotThere(engine.name.to_string())));
            } else if served.liveness.on_idle(now) {
                ended.push((*engine, WireError::Silent(timeout)));
            }
            served.was_seen |= is_seen;
        }
        for (engine, error) in ended {
            self.end(engine, &error);
        }
    }

    fn take(&mut self, arrived: Arrived) {
        let from = arrived.from;
        let Some(header) = arrived.header() else {
            return self.broken(from, &WireError::Magic);
        };
        let taken = match from.role {
            Role::Worker => self.take_feature(arrived),
            Role::Engine => self.take_of_engine(header, arrived),
        };
        if let Err(error) = taken {
            if error.is_protocol_error() {
                self.broken(from, &error);
            }
            if from.role == Role::Engine {
                self.refuse(from, header.connection, &error);
                self.end(from, &error);
            }
        }
    }

    /// Counts and logs what a peer should not have sent.
    fn broken(&self, from: Peer, error: &WireError) {
        count(&self.core.state().counters.protocol_errors);
        tracing::warn!(peer = %from, "the peer broke the protocol: {error}");
    }

    fn take_feature(&self, arrived: Arrived) -> Result<(), WireError> {
        match arrived.message(self.core.options().limits)? {
            Message::Feature(input) => self.core.on_feature(input),
            other => return Err(WireError::Unexpected(other.name())),
        }
        Ok(())
    }

    fn take_of_engine(&mut self, header: Header, arrived: Arrived) -> Result<(), WireError> {
        let from = arrived.from;
        let known = self.engines.get_mut(&from);
        match known.filter(|served| served.connection == header.connection) {
            Some(served) => {
                let now = self.core.state().own_now();
                served.liveness.on_activity(now);
                served.order.take(&header)?;
                let generation = served.generation;
                let message = arrived.message(self.core.options().limits)?;
                self.core.on_message(generation, message)
            }
            None if header.is_last => Ok(()),
            None => {
                let mut order = Order::default();
                order.take(&header)?;
                match arrived.message(self.core.options().limits)? {
                    Message::Hello { engine } => self.begin(from, (header.connection, order), engine),
                    other => Err(WireError::Unexpected(other.name())),
                }
            }
        }
    }

    /// Serves an engine from now on.
    fn begin(&mut self, from: Peer, (connection, order): (u64, Order), engine: u64) -> Result<(), WireError> {
        if let Some(before) = self.engines.remove(&from) {
            self.core.close(before.generation);
        }
        let EngineSession {
            welcome,
            generation,
            reports,
        } = self.core.open(engine)?;
        let writer = self.writer(from, connection);
        let spawned = std::thread::Builder::new()
            .name("weir-reports".to_owned())
            .spawn(move || report(writer, &welcome, &reports));
        if let Err(error) = spawned {
            self.core.close(generation);
            return Err(WireError::Io(error));
        }
        tracing::info!(peer = %from, "engine connected");
        let state = self.core.state();
        let served = Served {
            connection,
            generation,
            order,
            liveness: Liveness::new(&self.core.options().timeouts, state.own_now()),
            was_seen: false,
        };
        self.engines.insert(from, served);
        Ok(())
    }

    fn writer(&self, to: Peer, connection: u64) -> NodeWriter {
        NodeWriter::new(self.carrier.clone(), to, connection, self.core.options().limits)
    }

    /// Tells the engine why its connection is refused. The reply is numbered from 0; an engine that expects
    /// another number closes the connection, too.
    fn refuse(&self, engine: Peer, connection: u64, error: &WireError) {
        let reason = match error {
            WireError::Closed => return,
            WireError::Refused(reason) => reason.clone(),
            error => error.to_string(),
        };
        if let Err(error) = self.writer(engine, connection).send(&Message::Refused { reason }) {
            tracing::debug!(peer = %engine, "not refused: {error}");
        }
    }

    fn end(&mut self, engine: Peer, error: &WireError) {
        if let Some(served) = self.engines.remove(&engine) {
            self.core.close(served.generation);
            tracing::info!(peer = %engine, "engine gone ({error}): its batches are dropped, partitions kept");
        }
    }
}

/// Sends an engine its reports, until its service ends.
fn report(mut writer: NodeWriter, welcome: &Welcome, reports: &Receiver<Message>) {
    let begun = writer.send(&Message::Welcome(welcome.clone()));
    let reported = begun.and_then(|()| {
        for report in reports {
            match (writer.send(&report), &report) {
                (Ok(()), _) => {}
                // Outputs that are too large cost their batch, not the connection.
                (Err(error @ WireError::TooLong { .. }), Message::Done { key, times, .. }) => {
                    writer.send(&Message::Failed {
                        key: *key,
                        stage: (times.len() as u32).saturating_sub(1),
                        failure: BatchFailure::Unreachable(error.to_string()),
                    })?;
                }
                (Err(error), _) => return Err(error),
            }
        }
        Ok(())
    });
    if let Err(error) = reported {
        tracing::warn!("the engine cannot be reached: {error}");
    }
    writer.close();
}
