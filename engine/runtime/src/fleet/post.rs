//! What the client tells, kept until the reservation actor is there to hear it.

use std::sync::{Arc, Mutex, PoisonError};

use actix::Addr;
use weir_partition::Event;

use crate::actors::{ReservationActor, Told};

/// Events on their way to the actor.
#[derive(Clone, Default)]
pub(crate) struct Post(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    early: Vec<Event>,
    to: Option<Addr<ReservationActor>>,
}

impl Post {
    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From a thread of the client.
    pub(crate) fn tell(&self, event: Event) {
        self.with(|state| match &state.to {
            Some(to) => to.do_send(Told(event)),
            None => state.early.push(event),
        });
    }

    /// What came so far, while nobody listens.
    pub(crate) fn early(&self) -> Vec<Event> {
        self.with(|state| std::mem::take(&mut state.early))
    }

    /// From now on the actor listens.
    pub(crate) fn deliver_to(&self, to: Addr<ReservationActor>) {
        self.with(|state| {
            for event in state.early.drain(..) {
                to.do_send(Told(event));
            }
            state.to = Some(to);
        });
    }
}
