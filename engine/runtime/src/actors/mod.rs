//! The actors that carry control. All live on one thread, so messages between them arrive in the order of sending; frames
//! are decoded, models run and files written on threads of their own, which send these actors events.
//!
//! An actix mailbox is a FIFO whose bound is soft: it only transports. What bounds it is the number of requests in flight
//! (see `admission`), since every message is about one of them, about a batch on a slot, or a tick.

mod burst;
mod decode_levels;
mod egress;
mod gears;
mod messages;
mod module;
mod reservations;
mod slots;
mod stream_table;
mod supervisor;

pub(crate) use decode_levels::DecodeLevelActor;
pub(crate) use egress::{Egress, EgressSetup, RunEnded, SinkRoute};
pub(crate) use gears::{ApplyGears, ForgetStream, GearActor, GearSetup};
pub(crate) use messages::{
    Abandon, AbandonStream, AddStats, AddStream, ArbiterEvent, Arrived, BatchDone, Completed, Deliver,
    DropGraph, EndWhenIdle, FrameInfo, InstanceSaid, LeftOut, ModuleLoad, ModuleRef, PolicyEvent,
    RemoveStream, ReportReservations, ReportStats, RunLaunched, SetStreamSlo, StopActor, StreamEnded,
    StreamPaused, StreamStateChanged, SwapGraph, SwitchPlan, TakeCounts, TakeLoad, TakeStats,
};
pub(crate) use module::{ActorRefs, ModuleActor, ModuleSetup, OverdueSlots};
pub(crate) use reservations::{ReservationActor, ReservationSetup};
pub(crate) use slots::{SlotActor, SlotSessions};
pub(crate) use stream_table::{EgressCounts, StreamCounts};
pub(crate) use supervisor::{Supervisor, SupervisorSetup};
