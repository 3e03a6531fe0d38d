//! Uplink: sends features to other workers, with one thread per destination, so that a stalled destination
//! does not delay others for long.
//!
//! A link carries one feature at a time, in the order of their bookings, as reservations assume.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use weir_flow::Tensor;
use weir_types::{SleepCompensator, Span, Timestamp};

use super::emulation::{Emulation, emulate_duration};
use super::hops::AllowedHops;
use super::link_turns::{LinkTurns, SendQueue};
use super::permit::Permit;
use super::state::WorkerState;
use crate::carrier::{NodeCarrier, Peer, Role};
use crate::connection::{MessageReader, MessageWriter, connect};
use crate::local_workers::LocalWorkers;
use crate::node::NodeName;
use crate::timeouts::Timeouts;
use crate::wire::{Address, BatchFailure, Limits, Message, StageInput, WireError};

/// Destinations at a time, at most.
const MAX_DESTINATIONS: usize = 256;

/// Time without features after which a destination is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time for which a feature on a real link keeps others from being sent, in addition to that of an emulated link.
const MAX_TURN: Span = Span::from_millis(250);

/// A feature, the connection that it belongs to, its place in memory.
type QueuedFeature = (StageInput, u64, Permit);

/// The uplink of a worker.
pub(super) struct Uplink {
    context: Arc<UplinkContext>,
    /// Features by destination, each with the time for which its transfer is booked.
    links: Mutex<BTreeMap<Address, Sender<(Timestamp, QueuedFeature)>>>,
}

/// Context that all destinations of an uplink share.
pub(super) struct UplinkContext {
    pub(super) state: Arc<WorkerState>,
    pub(super) locals: LocalWorkers,
    pub(super) carrier: Option<NodeCarrier>,
    pub(super) limits: Limits,
    pub(super) timeouts: Timeouts,
    pub(super) emulation: Emulation,
    /// Maximum number of features that wait for one destination.
    pub(super) max_queue: usize,
    /// Order in which features take the link.
    pub(super) turns: LinkTurns,
    /// Lock of the emulated link: one sender at a time occupies it.
    pub(super) link_turn: Mutex<SleepCompensator>,
    /// Addresses to which features may be sent.
    pub(super) hops: AllowedHops,
}

impl Uplink {
    pub(super) fn new(context: UplinkContext) -> Self {
        Self {
            context: Arc::new(context),
            links: Mutex::default(),
        }
    }

    /// Sends what came out of a stage on its way to the next; a batch that cannot go is reported.
    pub(super) fn send(self: &Arc<Self>, mut input: StageInput, outputs: Vec<Tensor>, generation: u64) {
        let next = input.rest.remove(0);
        input.stage += 1;
        (input.share, input.partition, input.booked) = (next.share, next.partition, next.booked);
        input.tensors = outputs;
        let (key, stage) = (input.key, input.stage);
        let failed = |failure| self.context.state.fail_batch(generation, key, stage, failure);
        if let Address::Tcp(to) = next.address
            && !self.context.hops.allow(to)
        {
            let reason = format!("{to} is not among the hops of this worker (weir worker --hops)");
            return failed(BatchFailure::Unreachable(reason));
        }
        let Some(permit) = Permit::acquire(&self.context.state, &input.tensors) else {
            return failed(BatchFailure::QueueFull);
        };
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if !links.contains_key(&next.address) {
            if links.len() >= MAX_DESTINATIONS {
                return failed(BatchFailure::Unreachable(
                    "there are too many destinations".to_owned(),
                ));
            }
            match self.start(next.address) {
                Ok(link) => drop(links.insert(next.address, link)),
                Err(error) => return failed(BatchFailure::Unreachable(error.to_string())),
            }
        }
        if let Err(refused) = links[&next.address].try_send((next.sent, (input, generation, permit))) {
            drop(links);
            failed(match refused {
                TrySendError::Full(_) => BatchFailure::QueueFull,
                TrySendError::Disconnected(_) => BatchFailure::Unreachable("its thread has ended".to_owned()),
            });
        }
    }

    fn start(self: &Arc<Self>, to: Address) -> std::io::Result<Sender<(Timestamp, QueuedFeature)>> {
        let (sender, waiting) = bounded(self.context.max_queue);
        let mut link = Destination {
            to,
            context: Arc::clone(&self.context),
            uplink: Arc::downgrade(self),
            connection: None,
            is_stalled: false,
        };
        std::thread::Builder::new()
            .name("weir-uplink".to_owned())
            .spawn(move || link.work(&waiting))?;
        Ok(sender)
    }
}

/// Destination of features, with its connection.
struct Destination {
    to: Address,
    context: Arc<UplinkContext>,
    uplink: Weak<Uplink>,
    connection: Option<(MessageReader, MessageWriter)>,
    /// Whether the last feature was not sent, or took too long: the next one keeps no others waiting.
    is_stalled: bool,
}

impl Destination {
    fn work(&mut self, waiting: &Receiver<(Timestamp, QueuedFeature)>) {
        let mut queue = SendQueue::new();
        loop {
            match waiting.recv_timeout(IDLE_TIMEOUT) {
                Ok(feature) => {
                    queue.push(feature);
                    while let Some((booked, (input, generation, _permit))) = queue.next(waiting) {
                        self.transmit(booked, input, generation);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let Some(uplink) = self.uplink.upgrade() else {
                        return;
                    };
                    let mut links = uplink.links.lock().unwrap_or_else(PoisonError::into_inner);
                    // Senders hold the lock while they send, so no feature can arrive in between.
                    if waiting.is_empty() {
                        links.remove(&self.to);
                        return;
                    }
                }
            }
        }
    }

    fn transmit(&mut self, booked: Timestamp, mut input: StageInput, generation: u64) {
        let context = Arc::clone(&self.context);
        if !context.state.is_serving(generation) {
            return super::state::count(&context.state.counters.stale);
        }
        let (key, stage) = (input.key, input.stage);
        let bytes: usize = input.tensors.iter().map(|tensor| tensor.data.len()).sum();
        let held_for = context.emulation.transfer(bytes as u64);
        let longest = held_for + MAX_TURN;
        let turn_time = if self.is_stalled { Span::ZERO } else { longest };
        // Features for workers of this process pass no link, unless one is emulated.
        let takes_link = held_for > Span::ZERO || !matches!(self.to, Address::Local(_));
        let turn = takes_link.then(|| context.turns.wait(booked, turn_time, context.state.clock()));
        let mut link_turn =
            (held_for > Span::ZERO).then(|| context.link_turn.lock().unwrap_or_else(PoisonError::into_inner));
        input.began = context.state.engine_now();
        let began = context.state.own_now();
        if let Some(compensator) = &mut link_turn {
            emulate_duration(&context.state, held_for, compensator);
        }
        let sent = match self.to {
            Address::Local(number) => match context.locals.find(number) {
                Some(worker) => {
                    drop((link_turn, turn));
                    self.is_stalled = false;
                    worker.on_feature(input);
                    return;
                }
                None => Err(WireError::Closed),
            },
            // The fleet's certificates determine which nodes may be reached.
            Address::Node(name) => self.send_to_node(name, input),
            Address::Tcp(_) => self.write(input),
        };
        drop((link_turn, turn));
        self.is_stalled = sent.is_err() || context.state.own_now().since(began) > longest;
        if let Err(error) = sent {
            self.connection = None;
            tracing::warn!(to = %self.to, "feature not sent: {error}");
            let reason = format!("{}: {error}", self.to);
            context
                .state
                .fail_batch(generation, key, stage, BatchFailure::Unreachable(reason));
        }
    }

    fn send_to_node(&self, name: NodeName, input: StageInput) -> Result<(), WireError> {
        let context = &self.context;
        let carrier = context.carrier.as_ref().ok_or_else(WireError::no_fleet)?;
        let role = Role::Worker;
        carrier.send_feature(Peer { role, name }, &Message::Feature(input), context.limits)
    }

    /// Writes to the open connection, or to a new one if its peer has changed.
    fn write(&mut self, input: StageInput) -> Result<(), WireError> {
        let Address::Tcp(to) = self.to else {
            return Err(WireError::Unexpected("feature"));
        };
        let open = self.connection.take_if(|(reader, _)| reader.is_alive());
        let (reader, mut writer) = match open {
            Some(open) => open,
            None => {
                let context = &self.context;
                let now = context.state.clock();
                let connected = connect(
                    to,
                    &Message::Peer,
                    context.limits,
                    &context.timeouts,
                    now,
                    &context.state.stop,
                )?;
                (connected.1, connected.2)
            }
        };
        writer.send(&Message::Feature(input))?;
        self.connection = Some((reader, writer));
        Ok(())
    }
}
