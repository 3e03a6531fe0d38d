//! What carries messages between nodes of a fleet in place of TCP connections of their own, and the connections that are made of it.
//!
//! A carrier knows who sent what, hands packets over whole, in order for each urgency, and may lose them with the way that they were
//! on. Packets of a connection are numbered, so that a loss ends it, as a TCP connection would end. Features have no connection: a
//! batch whose feature is lost ends by its engine's clock.

use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use crate::node::NodeName;
use crate::wire::{Limits, Message, WireError, read_message, write_message};

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// An engine.
    Engine,
    /// A worker.
    Worker,
}

/// A node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    /// What it is.
    pub role: Role,
    /// Its name.
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

/// What is handed to a carrier.
#[derive(Debug)]
pub struct Packet {
    /// Whether it goes before others that are on their way.
    pub is_urgent: bool,
    /// What the other side reads first; some bytes.
    pub header: Vec<u8>,
    /// The rest.
    pub body: Vec<u8>,
}

/// What arrived.
pub struct Arrived {
    /// Who sent it; nobody else could have.
    pub from: Peer,
    /// As it was sent.
    pub header: Vec<u8>,
    /// As it was sent, to be read where it lies.
    pub body: Box<dyn Read + Send>,
}

/// Carries packets between this node and others.
pub trait Carrier: Send + Sync {
    /// Sends a packet; blocks while the way is full. It may be lost all the same.
    ///
    /// # Errors
    /// What the carrier says: a packet beyond its bound, a node that has left its fleet.
    fn send(&self, to: Peer, packet: Packet) -> Result<(), String>;

    /// The next packet for this node; waits for it so long. What waits is bounded: those beyond are lost.
    fn receive(&self, timeout: Duration) -> Option<Arrived>;

    /// Whether a node is seen just now.
    fn is_present(&self, node: Peer) -> bool;
}

/// A carrier that is shared.
#[derive(Clone)]
pub struct NodeCarrier(Arc<dyn Carrier>);

impl NodeCarrier {
    /// Of that carrier.
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
    /// Its header; `None` where it has none that means something.
    pub(crate) fn header(&self) -> Option<Header> {
        Header::read(&self.header)
    }

    /// The message in it.
    pub(crate) fn message(mut self, limits: Limits) -> Result<Message, WireError> {
        read_message(&mut self.body, limits)
    }
}

/// Which packet of which connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Header {
    /// The connection's number among those of the engine to that worker; 0 where there is none.
    pub(crate) connection: u64,
    /// Its place among packets of its urgency on that connection, from 0.
    pub(crate) number: u64,
    pub(crate) is_urgent: bool,
    /// Nothing follows.
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
    /// Of the next packet, and of the next urgent one.
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
        // Who is gone needs no end.
        let _ = self.carrier.0.send(self.to, packet);
    }
}

/// Which packets of a connection arrived.
#[derive(Debug, Default)]
pub(crate) struct Order {
    next: [u64; 2],
}

impl Order {
    /// Takes the next packet in.
    ///
    /// # Errors
    /// One before it was lost, or it came twice; the end of the connection.
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
