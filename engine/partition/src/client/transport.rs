//! Connection to one worker, over TCP, within the process or to a node of the fleet. A bounded channel and a
//! thread send messages; the connection manager reads the replies.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::node_connections::{NodeInbound, NodeOutbound};
use super::shared::Shared;
use crate::connection::{MessageReader, MessageWriter, connect};
use crate::local_workers::LocalWorker;
use crate::wire::{Address, Message, Welcome, WireError};

/// Receiving half of a connection, over one of the transports.
pub(super) enum Inbound {
    Tcp(Box<MessageReader>),
    Local(Receiver<Message>, Duration),
    Node(NodeInbound),
}

/// Sending half of a connection, over one of the transports.
pub(super) enum Outbound {
    Tcp(MessageWriter),
    Local(LocalConnection),
    Node(NodeOutbound),
}

/// The end of a local service when dropped.
pub(super) struct LocalConnection {
    worker: Arc<dyn LocalWorker>,
    generation: u64,
}

impl Drop for LocalConnection {
    fn drop(&mut self) {
        self.worker.close(self.generation);
    }
}

pub(super) fn open(shared: &Shared, to: Address) -> Result<(Welcome, Inbound, Outbound), WireError> {
    let options = &shared.options;
    match to {
        Address::Tcp(to) => {
            let hello = Message::Hello {
                engine: options.engine,
            };
            let connected = connect(
                to,
                &hello,
                options.limits,
                &options.timeouts,
                &shared.now,
                &shared.stop,
            );
            match connected? {
                (Message::Welcome(welcome), reader, writer) => {
                    Ok((welcome, Inbound::Tcp(Box::new(reader)), Outbound::Tcp(writer)))
                }
                (other, ..) => Err(WireError::Unexpected(other.name())),
            }
        }
        Address::Local(number) => {
            let worker = options.locals.find(number).ok_or(WireError::Closed)?;
            let session = worker.open(options.engine)?;
            let outbound = Outbound::Local(LocalConnection {
                worker,
                generation: session.generation,
            });
            let inbound = Inbound::Local(session.reports, options.timeouts.poll_interval);
            Ok((session.welcome, inbound, outbound))
        }
        Address::Node(name) => {
            let nodes = shared.nodes.as_ref().ok_or_else(WireError::no_fleet)?;
            let patience = (&options.timeouts, &shared.now, &shared.stop);
            let (welcome, inbound, outbound) =
                nodes.connect(name, options.engine, options.limits, patience)?;
            Ok((welcome, Inbound::Node(inbound), Outbound::Node(outbound)))
        }
    }
}

impl Inbound {
    /// Returns the next message, or `None` if none arrived within the poll interval.
    pub(super) fn poll(&mut self) -> Result<Option<Message>, WireError> {
        match self {
            Self::Tcp(reader) => reader.poll(),
            Self::Local(reports, poll_interval) => match reports.recv_timeout(*poll_interval) {
                Ok(message) => Ok(Some(message)),
                Err(RecvTimeoutError::Timeout) => Ok(None),
                Err(RecvTimeoutError::Disconnected) => Err(WireError::Closed),
            },
            Self::Node(inbound) => inbound.poll(),
        }
    }
}

impl Outbound {
    pub(super) fn send(&mut self, message: Message) -> Result<(), WireError> {
        match self {
            Self::Tcp(writer) => writer.send(&message),
            Self::Local(session) => session.worker.on_message(session.generation, message),
            Self::Node(outbound) => outbound.send(&message),
        }
    }

    pub(super) fn close(&self) {
        match self {
            Self::Tcp(writer) => writer.close(),
            Self::Local(session) => session.worker.close(session.generation),
            Self::Node(outbound) => outbound.close(),
        }
    }
}
