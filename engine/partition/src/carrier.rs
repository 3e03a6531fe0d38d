//! Carriers transport messages between nodes of a fleet in place of TCP connections. This module builds
//! connections on top of them.
//!
//! A carrier authenticates the sender of each packet and delivers packets whole, in order for each urgency.
//! It may lose packets when the path between two nodes breaks. Packets of a connection are numbered, so that
//! a loss ends the connection, as TCP would. Features have no connection: if a feature is lost, its batch
//! ends by the engine's timeout.

use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use crate::node::NodeName;
use crate::wire::{Limits, Message, WireError, read_message, write_message};

/// Role of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// An engine, which sends batches.
    Engine,
    /// A partition worker, which runs them.
    Worker,
}

/// Node of a fleet as the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    /// Role of the node.
    pub role: Role,
    /// Name of the node in its fleet.
    pub name: NodeName,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Engine => "engine",
            Role::Worker => "worker",
        };
        write!(f, "{role} {}", self.name)
    }
}

/// Packet that is handed to a carrier.
#[derive(Debug)]
pub struct Packet {
    /// True if the packet overtakes other packets that are queued.
    pub is_urgent: bool,
    /// Header, a few bytes, which the receiver reads first.
    pub header: Vec<u8>,
    /// Body, an encoded message.
    pub body: Vec<u8>,
}

/// Packet that arrived.
pub struct Arrived {
    /// Sender, authenticated by the carrier.
    pub from: Peer,
    /// Header as it was sent.
    pub header: Vec<u8>,
    /// Body as it was sent; the receiver reads it in place, without a copy.
    pub body: Box<dyn Read + Send>,
}

/// Carries packets between this node and others.
pub trait Carrier: Send + Sync {
    /// Sends a packet; blocks while the connection to the node is congested. The packet may still be lost.
    ///
    /// # Errors
    /// Message of the carrier: the packet exceeds its limit, or the node has left the fleet.
    fn send(&self, to: Peer, packet: Packet) -> Result<(), String>;

    /// Returns the next packet for this node, or `None` after `timeout`. The queue is bounded; packets beyond
    /// the bound are lost.
    fn receive(&self, timeout: Duration) -> Option<Arrived>;

    /// True if the node is present in the fleet now.
    fn is_present(&self, node: Peer) -> bool;
}

/// A carrier that is shared.
#[derive(Clone)]
pub struct NodeCarrier(Arc<dyn Carrier>);

impl NodeCarrier {
    /// Wraps a carrier, so that it can be shared.
    #[must_use]
    pub fn new(carrier: Arc<dyn Carrier>) -> Self {
        Self(carrier)
    }

    pub(crate) fn is_present(&self, node: Peer) -> bool {
        self.0.is_present(node)
    }

    pub(crate) fn receive(&self, timeout: Duration) -> Option<Arrived> {
        self.0.receive(timeout)
    }

    /// Sends a feature to another worker.
    pub(crate) fn send_feature(&self, to: Peer, message: &Message, limits: Limits) -> Result<(), WireError> {
        if !self.is_present(to) {
            return Err(WireError::Closed);
        }
        self.send(to, &Header::default(), message, limits)
    }

    fn send(&self, to: Peer, header: &Header, message: &Message, limits: Limits) -> Result<(), WireError> {
        let mut body = Vec::new();
        write_message(&mut body, message, limits)?;
        let packet = Packet {
            is_urgent: header.is_urgent,
            header: header.bytes(),
            body,
        };
        self.0.send(to, packet).map_err(WireError::Carrier)
    }
}

impl fmt::Debug for NodeCarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeCarrier")
    }
}

impl Arrived {
    /// Parsed header; `None` if it is not valid.
    pub(crate) fn header(&self) -> Option<Header> {
        Header::read(&self.header)
    }

    /// The message in it.
    pub(crate) fn message(mut self, limits: Limits) -> Result<Message, WireError> {
        read_message(&mut self.body, limits)
    }
}

/// Connection of a packet and its position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Header {
    /// Number of the connection among those from the engine to that worker; 0 if the packet belongs to none.
    pub(crate) connection: u64,
    /// Sequence number among packets of the same urgency on that connection, from 0.
    pub(crate) number: u64,
    pub(crate) is_urgent: bool,
    /// True for the last packet of the connection.
    pub(crate) is_last: bool,
}

impl Header {
    const BYTES: usize = 17;

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.extend(self.connection.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.push(u8::from(self.is_urgent) | u8::from(self.is_last) << 1);
        bytes
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (connection, rest) = bytes.split_first_chunk::<8>()?;
        let (number, flags) = rest.split_first_chunk::<8>()?;
        let [flags @ 0..=3] = flags else { return None };
        Some(Self {
            connection: u64::from_le_bytes(*connection),
            number: u64::from_le_bytes(*number),
            is_urgent: flags & 1 != 0,
            is_last: flags & 2 != 0,
        })
    }
}

/// The side of a connection that sends.
#[derive(Debug)]
pub(crate) struct NodeWriter {
    carrier: NodeCarrier,
    to: Peer,
    connection: u64,
    /// Sequence numbers of the next packets: `[normal, urgent]`.
    next: [u64; 2],
    limits: Limits,
}

impl NodeWriter {
    pub(crate) fn new(carrier: NodeCarrier, to: Peer, connection: u64, limits: Limits) -> Self {
        Self {
            carrier,
            to,
            connection,
            next: [0; 2],
            limits,
        }
    }

    pub(crate) fn set_max_message_bytes(&mut self, bytes: u32) {
        self.limits.max_message_bytes = self.limits.max_message_bytes.min(bytes);
    }

    /// Sends one message; signs of life go before others.
    pub(crate) fn send(&mut self, message: &Message) -> Result<(), WireError> {
        let is_urgent = matches!(message, Message::Ping { .. } | Message::Pong { .. });
        let next = &mut self.next[usize::from(is_urgent)];
        let header = Header {
            connection: self.connection,
            number: *next,
            is_urgent,
            is_last: false,
        };
        self.carrier.send(self.to, &header, message, self.limits)?;
        *next += 1;
        Ok(())
    }

    /// Ends the connection for both sides.
    pub(crate) fn close(&self) {
        let header = Header {
            connection: self.connection,
            number: self.next[0],
            is_urgent: false,
            is_last: true,
        };
        let packet = Packet {
            is_urgent: false,
            header: header.bytes(),
            body: Vec::new(),
        };
        // A peer that is gone needs no end.
        let _ = self.carrier.0.send(self.to, packet);
    }
}

/// Sequence numbers that the receiver of a connection expects next: `[normal, urgent]`.
#[derive(Debug, Default)]
pub(crate) struct Order {
    next: [u64; 2],
}

impl Order {
    /// Checks the next packet of the connection.
    ///
    /// # Errors
    /// [`WireError::Lost`] if a packet is missing or arrived twice, [`WireError::Closed`] at the end of the
    /// connection.
    pub(crate) fn take(&mut self, header: &Header) -> Result<(), WireError> {
        let next = &mut self.next[usize::from(header.is_urgent)];
        if header.number != *next {
            return Err(WireError::Lost);
        }
        if header.is_last {
            return Err(WireError::Closed);
        }
        *next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

    use super::*;

    #[test]
    fn a_packet_that_is_lost_or_repeated_ends_the_connection() {
        let header = |number, is_urgent, is_last| Header {
            connection: 7,
            number,
            is_urgent,
            is_last,
        };
        for (packets, ends) in [
            (vec![header(0, false, false), header(1, false, false)], None),
            (
                vec![
                    header(0, false, false),
                    header(0, true, false),
                    header(1, false, false),
                ],
                None,
            ),
            (vec![header(1, false, false)], Some("lost")),
            (
                vec![header(0, false, false), header(2, false, false)],
                Some("lost"),
            ),
            (
                vec![header(0, false, false), header(0, false, false)],
                Some("lost"),
            ),
            (vec![header(0, true, false), header(0, true, false)], Some("lost")),
            (
                vec![header(0, false, false), header(1, false, true)],
                Some("closed"),
            ),
            (vec![header(2, false, true)], Some("lost")),
        ] {
            let mut order = Order::default();
            let ended = packets.iter().find_map(|packet| {
                assert_eq!(Header::read(&packet.bytes()).as_ref(), Some(packet));
                order.take(packet).err()
            });
            let said = ended.map(|error| error.to_string());
            match (ends, &said) {
                (None, None) => {}
                (Some(word), Some(said)) => assert!(said.contains(word), "{said}"),
                _ => panic!("{packets:?}: {said:?}"),
            }
        }
        assert_eq!(Header::read(&[0; 16]), None);
        assert_eq!(Header::read(&[4; 17]), None);
    }
}
