//! Partitioned models: their partition workers, the plan in force, and the threads before the first and after the last
//! partition of a model.
//!
//! ```text
//! graph actor ──batch, path──► preprocess ──► client ──► workers
//!   ▲   │                                                   │
//!   │   └──outputs──► postprocess ──result──► graph actor   │
//!   └───────────────────Used, Done, Failed──────────────────┘
//! ```

mod active_plan;
mod event_relay;
mod partitions;
mod postprocess;
mod preprocess;
mod replanner;
mod setup;
mod share_assignment;
mod start;

pub(crate) use active_plan::ActivePlan;
pub(crate) use event_relay::WorkerEvent;
pub(crate) use postprocess::{FinishedBatch, Postprocessor};
pub(crate) use preprocess::{OutboundBatch, Preprocessor};
pub(crate) use replanner::{ReplanRequest, ReplanRequests};
pub(crate) use setup::{PartitionSetup, PreparedPlan};
