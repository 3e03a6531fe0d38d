//! Passes the events of the client to the graph actor, and buffers them until that actor exists.

use std::sync::{Arc, Mutex, PoisonError};

use actix::{Message, Recipient};
use weir_partition::Event;

/// A partition worker reported something.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct WorkerEvent(pub(crate) Event);

/// From the threads of the client to the actor.
#[derive(Clone, Default)]
pub(crate) struct EventRelay(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    buffered: Vec<Event>,
    receiver: Option<Recipient<WorkerEvent>>,
}

impl EventRelay {
    fn with_state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Passes an event on; called on threads of the client.
    pub(crate) fn publish(&self, event: Event) {
        self.with_state(|state| match &state.receiver {
            Some(receiver) => receiver.do_send(WorkerEvent(event)),
            None => state.buffered.push(event),
        });
    }

    /// Takes the events that arrived while there is no receiver.
    pub(crate) fn take_buffered(&self) -> Vec<Event> {
        self.with_state(|state| std::mem::take(&mut state.buffered))
    }

    /// Passes what is buffered, and all later events, to `receiver`.
    pub(crate) fn connect(&self, receiver: Recipient<WorkerEvent>) {
        self.with_state(|state| {
            for event in state.buffered.drain(..) {
                receiver.do_send(WorkerEvent(event));
            }
            state.receiver = Some(receiver);
        });
    }
}
