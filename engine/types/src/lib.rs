//! Values that the other crates share: time, ids, profiles, the topology of a graph, devices and links, drop reasons and what was
//! missing, levels of decoding, states of streams, gear plans. Plain data without decisions or I/O.

mod cluster;
mod conditions;
mod decode_level;
mod drop_reason;
mod gear_plan;
mod id;
pub mod invariant;
mod profile;
mod shortfall;
mod sleep_compensation;
mod step_profile;
mod stream_state;
mod tile_grid;
mod time;
mod topology;

pub use cluster::{
    ClusterSpec, PartitionId, PipelineId, PipelineSpec, ServerId, ServerSpec, ShareId, ShareSpec, StageSpec,
    WorkerId, transfer_time,
};
pub use conditions::{AS_PLANNED, Conditions, DurationRatio, LinkSpeed, MixShare, PlanGain};
pub use decode_level::{DecodeLevel, FrameSkip};
pub use drop_reason::DropReason;
pub use gear_plan::{CascadeGear, Gear, GearPlan, GearPlanError, ReplicaGear, StageGear};
pub use id::{BatchId, GroupId, InstanceId, ModelId, ModuleId, RequestId, SequenceId, SlotId, StreamId};
pub use profile::Profile;
pub use shortfall::Shortfall;
pub use sleep_compensation::SleepCompensator;
pub use step_profile::{StepCurve, StepCurveError, StepProfile};
pub use stream_state::StreamState;
pub use tile_grid::TileGrid;
pub use time::{ParseSpanError, Span, Timestamp};
pub use topology::Topology;
