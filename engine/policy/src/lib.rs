//! Pure decisions as synchronous state machines: `(event, now) -> effects`.
//!
//! No I/O, clocks, threads or hash order; randomness comes from a generator whose seed is an argument. The live engine and
//! the simulator are two drivers of these state machines.
//!
//! [`Module`] decides on requests, [`Slots`] on which module runs next, [`ConcurrencyLimit`] on admission of
//! frames. [`Join`] and [`ReorderBuffer`] join branches and order results; [`Ledger`] counts outcomes, and
//! [`Report`] shows them. Source threads use [`MediaClock`], [`SilenceWatch`], [`Backoff`] and
//! [`HealthTracker`]; [`DecodeLevels`] decides how much they decode. [`gears`] chooses between cascades of
//! models by load, [`generate`] runs an instance of a generative model, [`route`] assigns sequences to
//! instances, [`residency`] decides which models are open, and [`groups`] orders requests if models need more
//! memory than there is.

mod accounting;
mod admission;
mod baselines;
pub mod fleet;
mod flow;
pub mod gears;
pub mod generate;
pub mod groups;
pub mod lengths;
mod measure;
mod module;
mod pard;
mod queue;
pub mod reservations;
pub mod residency;
pub mod route;
mod slots;
mod strategy;
mod streams;
mod supply;
#[cfg(test)]
mod violation;
mod weir;

pub use accounting::efficiency::{EfficiencyReport, IdleWatch, RunCosts};
pub use accounting::ledger::{Counts, Ledger, Outcome, RemovedStreams};
pub use accounting::processor::ProcessorReport;
pub use accounting::report::{
    ControlReport, DropCount, GearReport, ModuleReport, ModuleStats, ModuleTotals, Report, RunInfo, RunStats,
    SinkReport, SlotCounts, StageCounts, StreamReport,
};
pub use accounting::residency::{ModelResidency, ResidencyReport};
pub use accounting::transform_report::TransformReport;
pub use admission::{AdmissionRule, BatchView, Candidate};
pub use baselines::nexus::{NexusScan, ScanBy};
pub use baselines::overload_control::OverloadControl;
pub use baselines::shares::{Budget, ShareWeight, Shares, Split, SplitScope};
pub use flow::concurrency_limit::{Admission, ConcurrencyLimit, ConcurrencyLimitSpec, Overflow};
pub use flow::join::Join;
pub use flow::reorder::ReorderBuffer;
pub use flow::stream_shares::StreamShare;
pub use measure::fan_out::FanOut;
pub use measure::histogram::{Histogram, Quantiles};
pub use measure::slot_profiles::SlotProfiles;
pub use measure::window::Window;
pub use module::{
    Answer, BatchSlice, GenerateSpec, Module, ModuleEffect, ModuleEvent, ModuleSpec, OverlapSpec, Pool,
    QueueFact,
};
pub use pard::batch_wait::{BatchWaitSamples, QuantileSketch, path_wait_quantile};
pub use pard::estimator::{Estimation, Estimator, Queueing, WaitMeasure, WaitTerm};
pub use pard::priority::AdaptivePriority;
pub use pard::state::{DownstreamEstimate, ModuleState, ObjectiveEstimate, ObjectiveState};
pub use pard::state_planner::StatePlanner;
pub use queue::depq::{Depq, End};
pub use queue::request_map::RequestMap;
pub use queue::tie_break::{GOLDEN_GAMMA, uniform_hash};
pub use slots::{
    Bid, BreakerEffect, BreakerEvent, BreakerSpec, DeviceMemory, DeviceModel, Placement, QueuesReport,
    SlotBreaker, SlotEffect, SlotEvent, Slots, SlotsSpec, WaitingWork,
};
pub use strategy::{
    Arbitration, BatchAdmission, BatchBinding, DropRule, Estimate, Lookahead, Mailboxes, Order, Policy,
    QueueOperation, QueueOperations, Sizing, SlotPlanning, SlotQueues, Switch,
};
pub use streams::catch_up::CatchUp;
pub use streams::decode_level::{DecodeEffect, DecodeEvent, DecodeLevels, DecodeObservation};
pub use streams::decode_load::{DecodeLoad, DecodingReport};
pub use streams::frame_sampler::FrameSampler;
pub use streams::frozen::FrozenWatch;
pub use streams::health::{HealthTracker, StateChange, StreamHealth, StreamStanding};
pub use streams::media_clock::{AGE_WINDOW, FrameTime, MAX_FALL, MAX_JUMP, MAX_LEAD, MediaClock, MediaInfo};
pub use streams::motion::{
    AreaChanges, CameraGate, CameraSignal, GateDecision, GateEvent, LumaGrid, MotionGate, Region,
    SceneChange, StreamGate, is_tile_due,
};
pub use streams::reconnect::{Backoff, ReconnectSpec};
pub use streams::silence::{
    CLOSE_TIMEOUT, OPEN_TIMEOUT, Silence, SilenceWatch, UNDECODED_TIMEOUT, WaitFor, silence_limit,
};
pub use supply::pool::{PoolEffect, ScaledPool, ScalingSpec, WorkerEvent, WorkersReport, worker_throughput};
pub use supply::scaling::{AutoscaleRule, Autoscaler};
pub use weir::branch_load::BranchLoadSpec;
pub use weir::cost_limit::CostLimitSpec;
pub use weir::duration_spread::DurationSpreadSpec;
pub use weir::fair_streams::FairStreamsSpec;
pub use weir::joint_batching::{JointSizingSpec, ModuleInfo};
pub use weir::slack::SlackSpec;
pub use weir::stagger::StaggerSpec;
