//! The connection to one worker, over TCP or within the process: what is said goes through a bounded channel and a
//! thread, what is heard is read by the keeper.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::Shared;
use crate::line::{Inlet, Outlet, call};
use crate::wire::{Address, Message, Welcome, WireError};
use crate::worker::Core;

/// Where messages come from.
pub(super) enum Inbound {
    Tcp(Box<Inlet>),
    Local(Receiver<Message>, Duration),
}

/// Where they go.
pub(super) enum Outbound {
    Tcp(Outlet),
    Local(Served),
}

/// The end of a local service when dropped.
pub(super) struct Served {
    core: Arc<Core>,
    generation: u64,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.core.close(self.generation);
    }
}

pub(super) fn connect(shared: &Shared, to: Address) -> Result<(Welcome, Inbound, Outbound), WireError> {
    let options = &shared.options;
    match to {
        Address::Tcp(to) => {
            let hello = Message::Hello {
                engine: options.engine,
            };
            let called = call(
                to,
                &hello,
                options.limits,
                &options.patience,
                &shared.now,
                &shared.stop,
            );
            match called? {
                (Message::Welcome(welcome), inlet, outlet) => {
                    Ok((welcome, Inbound::Tcp(Box::new(inlet)), Outbound::Tcp(outlet)))
                }
                (other, ..) => Err(WireError::Unexpected(other.name())),
            }
        }
        Address::Local(number) => {
            let core = options.locals.find(number).ok_or(WireError::Closed)?;
            let served = core.open(options.engine)?;
            let outbound = Outbound::Local(Served {
                core,
                generation: served.generation,
            });
            let inbound = Inbound::Local(served.reports, options.patience.look_up);
            Ok((served.welcome, inbound, outbound))
        }
    }
}

impl Inbound {
    /// The next message; `None` where none came for a while.
    pub(super) fn next(&mut self) -> Result<Option<Message>, WireError> {
        match self {
            Self::Tcp(inlet) => inlet.next(),
            Self::Local(reports, look_up) => match reports.recv_timeout(*look_up) {
                Ok(message) => Ok(Some(message)),
                Err(RecvTimeoutError::Timeout) => Ok(None),
                Err(RecvTimeoutError::Disconnected) => Err(WireError::Closed),
            },
        }
    }
}

impl Outbound {
    pub(super) fn send(&mut self, message: Message) -> Result<(), WireError> {
        match self {
            Self::Tcp(outlet) => outlet.send(&message),
            Self::Local(served) => served.core.take(served.generation, message),
        }
    }

    pub(super) fn close(&self) {
        match self {
            Self::Tcp(outlet) => outlet.close(),
            Self::Local(served) => served.core.close(served.generation),
        }
    }
}
