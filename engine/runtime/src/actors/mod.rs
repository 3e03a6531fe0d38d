//! The actors that carry control. All live on one thread, so what they tell each other arrives in the order of telling;
//! frames are decoded, models run and files written on threads of their own, which tell these actors facts.
//!
//! An actix mailbox is a FIFO whose bound is soft: it is only the wire. What bounds it is the number of requests under
//! way (see `gate`), since every message is about one of them, about a batch on a slot, or a tick.

#[cfg(test)]
mod burst;
mod egress;
mod module;
mod reservations;
mod slots;
mod supervisor;

pub(crate) use egress::{
    Abandon, Completed, Egress, EgressSetup, FrameInfo, Opened, RunEnded, SinkLine, StreamEnded,
    StreamStateChanged,
};
pub(crate) use module::{BatchBack, Deliver, Laid, ModuleActor, ModuleSetup, TellTally, Wire};
pub(crate) use reservations::{Replan, ReservationActor, ReservationSetup, TellReservations, Told, spec_of};
pub(crate) use slots::{Modules, SlotActor};
pub(crate) use supervisor::{Supervisor, SupervisorSetup};
