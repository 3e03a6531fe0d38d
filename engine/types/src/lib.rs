//! What workers, frames, decisions and plans all speak of: time, ids, profiles, the shape of a graph, devices and links,
//! and why a request is dropped. Plain values: no decision is made here, and nothing is done.

mod cluster;
mod drop_reason;
mod id;
pub mod invariant;
mod profile;
mod sleep_compensation;
mod time;
mod topology;

pub use cluster::{
    ClusterSpec, PipelineId, PipelineSpec, ServerId, ServerSpec, ShareId, ShareSpec, StageSpec,
};
pub use drop_reason::DropReason;
pub use id::{BatchId, ModuleId, RequestId, SlotId, StreamId};
pub use profile::Profile;
pub use sleep_compensation::SleepCompensator;
pub use time::{BadSpan, Span, Timestamp};
pub use topology::Topology;
