//! Actors as pure machines with addresses, and their delivery: how a request passes from module to module.
//!
//! A [`Machine`] takes a message in and writes into an [`Outbox`] what follows: messages to other machines, and
//! [`Effect`]s on the world (run a batch, set a timer, say which items a request has here). It has no clock, no thread and
//! no payload. A [`Controller`] is all machines of a graph and delivers what they send; a driver implements [`Act`], which
//! carries effects out and knows frames, items, threads and durations.
//!
//! | machine | takes | sends to | decides by |
//! |---|---|---|---|
//! | [`ModuleMachine`] | [`ModuleMessage`] | slots, reservations, queues, breaker, egress, books, modules | [`weir_policy::Module`], [`weir_policy::ScaledPool`] |
//! | [`SlotMachine`] | [`weir_policy::SlotEvent`] | modules | [`weir_policy::Slots`] |
//! | [`BreakerMachine`] | [`weir_policy::BreakerEvent`] | slots | [`weir_policy::SlotBreaker`] |
//! | [`ReservationMachine`] | [`ReservationMessage`] | modules | [`weir_policy::reservations::PlannedReservations`] |
//! | [`Egress`] | [`EgressMessage`] | modules, books | joins and deadlines |
//! | [`GearMachine`] | [`GearMessage`] | modules, slots | [`weir_policy::gears::GearShift`] |
//! | [`QueueMachine`] | [`QueueMessage`] | modules | [`weir_policy::groups::Queues`] |
//! | [`Books`] | [`BooksMessage`] | modules | [`weir_policy::Ledger`] |

mod backlog;
mod books;
mod breaker;
mod controller;
mod egress;
mod gears;
mod machine;
mod message;
mod module;
mod module_flow;
mod queues;
mod request;
mod reservations;
mod slots;
mod stage_load;

pub use books::Books;
pub use breaker::BreakerMachine;
pub use controller::{Act, ControlSpec, Controller, View};
pub use egress::Egress;
pub use gears::{GEAR_INTERVAL, GearMachine, GearSpec, StageSpec};
pub use machine::{Machine, Outbox, Outgoing};
pub use message::{
    Address, BatchEnd, BookedPath, BooksMessage, Effect, EgressMessage, Entry, GearMessage, Message,
    ModuleMessage, Published, QueueMessage, ReservationMessage,
};
pub use module::ModuleMachine;
pub use module_flow::Edge;
pub use queues::{DeviceQueuesSpec, QueueMachine, QueuedModule};
pub use request::{RequestInfo, Route};
pub use reservations::ReservationMachine;
pub use slots::SlotMachine;
