//! The actors of a run. All but the egress live on the control thread. Messages from one to another arrive in the order of
//! sending, also across threads. Frames are decoded, models run and files written on threads of their own, which send these
//! actors events.
//!
//! An actix mailbox is a FIFO whose bound is soft: it only transports. What bounds it is the number of requests in flight
//! (see `admission`), since every message is about one of them, about a batch on a slot, or a tick.

mod egress;
mod graph;
mod graph_counts;
mod messages;
mod observer;
mod passing;
mod stream_table;

pub(crate) use egress::{Egress, EgressSetup, RunEnded, SinkRoute, descriptions, send_described};
pub(crate) use graph::{
    ActorRefs, GraphActor, ModuleSetup, PartitionSiteSetup, PromptJob, PromptMaker, PromptsMade, Site,
    SiteSetup, SlotSessions,
};
pub(crate) use graph_counts::ReservationCounts;
pub(crate) use messages::{
    Abandon, AbandonStream, AddStats, AddStream, Arrived, BatchDone, CameraReported, ControlMessage,
    DropGraph, EndWhenIdle, FrameInfo, InstanceSaid, LeftOut, ModuleLoad, RemoveStream, ReportStats,
    RequestAdmitted, RunLaunched, ScheduleChanged, SessionChanged, SetStreamSlo, StillFrame, StopActor,
    StreamEnded, StreamPaused, StreamStateChanged, SwapGraph, SwitchPlan, TakeCounts, TakeLoads, TakePlan,
    TakeStats,
};
pub(crate) use observer::Observer;
pub(crate) use stream_table::{EgressCounts, RemovedStream, StreamCounts};
