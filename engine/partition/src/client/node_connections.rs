//! Connections to workers that are nodes of the fleet, over its carrier.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use weir_flow::StopFlag;

use super::options::random_number;
use crate::carrier::{Arrived, NodeCarrier, NodeWriter, Order, Peer, Role};
use crate::node::NodeName;
use crate::time::Now;
use crate::timeouts::{Timeouts, span};
use crate::wire::{Limits, Message, Welcome, WireError};

/// Packets of one connection that wait to be read, at most: a worker reports some for each batch.
const MAX_WAITING: usize = 1 << 13;

type Connections = BTreeMap<(Peer, u64), Sender<Arrived>>;

/// Routes packets that arrive for this engine to their connections.
#[derive(Debug, Clone)]
pub(super) struct NodeConnections {
    carrier: NodeCarrier,
    open: Arc<Mutex<Connections>>,
}

impl NodeConnections {
    /// Creates the router for a carrier; packets are delivered once [`NodeConnections::receive`] runs.
    pub(super) fn new(carrier: NodeCarrier) -> Self {
        Self {
            carrier,
            open: Arc::default(),
        }
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands what arrives to its connections, until the client stops.
    pub(super) fn receive(&self, stop: &StopFlag, poll_interval: Duration) {
        while !stop.is_raised() {
            let Some(arrived) = self.carrier.receive(poll_interval) else {
                continue;
            };
            let Some(header) = arrived.header() else {
                tracing::debug!(from = %arrived.from, "a packet without a header that means something");
                continue;
            };
            let key = (arrived.from, header.connection);
            let mut connections = self.connections();
            // If the connection has ended, or reads too slowly and ends therefore, later packets are useless.
            if let Some(connection) = connections.get(&key)
                && connection.try_send(arrived).is_err()
            {
                connections.remove(&key);
            }
        }
    }

    /// Connects to a worker as an engine.
    pub(super) fn connect(
        &self,
        to: NodeName,
        engine: u64,
        limits: Limits,
        (timeouts, now, stop): (&Timeouts, &Now, &StopFlag),
    ) -> Result<(Welcome, NodeInbound, NodeOutbound), WireError> {
        let worker = Peer {
            role: Role::Worker,
            name: to,
        };
        if !self.carrier.is_present(worker) {
            return Err(WireError::NotThere(to.to_string()));
        }
        // 0 is no connection.
        let connection = random_number().max(1);
        let (sender, arriving) = bounded(MAX_WAITING);
        self.connections().insert((worker, connection), sender);
        let mut inbound = NodeInbound {
            of: self.clone(),
            key: (worker, connection),
            arriving,
            order: Order::default(),
            poll_interval: timeouts.poll_interval,
            limits,
        };
        let mut outbound = NodeOutbound(NodeWriter::new(self.carrier.clone(), worker, connection, limits));
        outbound.0.send(&Message::Hello { engine })?;
        let began = now();
        loop {
            match inbound.poll()? {
                Some(Message::Welcome(welcome)) => {
                    outbound.0.set_max_message_bytes(welcome.max_message_bytes);
                    return Ok((welcome, inbound, outbound));
                }
                Some(other) => return Err(WireError::Unexpected(other.name())),
                None if stop.is_raised() => return Err(WireError::Closed),
                None if now().since(began) > span(timeouts.stall) => {
                    return Err(WireError::Silent(timeouts.stall));
                }
                None => {}
            }
        }
    }
}

/// Receiving half of a connection to a worker of the fleet.
pub(super) struct NodeInbound {
    of: NodeConnections,
    key: (Peer, u64),
    arriving: Receiver<Arrived>,
    order: Order,
    poll_interval: Duration,
    limits: Limits,
}

impl NodeInbound {
    /// Returns the next message, or `None` if none arrived within the poll interval.
    pub(super) fn poll(&mut self) -> Result<Option<Message>, WireError> {
        match self.arriving.recv_timeout(self.poll_interval) {
            Ok(arrived) => {
                let header = arrived.header().unwrap_or_default();
                self.order.take(&header)?;
                match arrived.message(self.limits)? {
                    Message::Refused { reason } => Err(WireError::Refused(reason)),
                    message => Ok(Some(message)),
                }
            }
            Err(RecvTimeoutError::Timeout) if self.of.carrier.is_present(self.key.0) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(WireError::NotThere(self.key.0.name.to_string())),
            Err(RecvTimeoutError::Disconnected) => Err(WireError::Lost),
        }
    }
}

impl Drop for NodeInbound {
    fn drop(&mut self) {
        self.of.connections().remove(&self.key);
    }
}

/// Sending half of a connection to a worker of the fleet.
pub(super) struct NodeOutbound(NodeWriter);

impl NodeOutbound {
    pub(super) fn send(&mut self, message: &Message) -> Result<(), WireError> {
        self.0.send(message)
    }

    pub(super) fn close(&self) {
        self.0.close();
    }
}
