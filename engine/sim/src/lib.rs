//! The engine in virtual time: the decisions of `weir-policy`, line for line, driven by one event heap instead of actors
//! and threads.

mod arrivals;
pub mod bound;
mod bound_input;
mod cascades;
mod cluster_usage;
mod demand;
mod event_queue;
pub mod experiment;
pub mod fleet;
pub mod gears;
pub mod generate;
mod interference;
pub mod queues;
mod scheduled;
mod spec;
mod timeline;
pub mod traces;
mod world;

pub use arrivals::{bursty, poisson};
pub use bound_input::BoundCache;
pub use cascades::CascadeSpec;
pub use cluster_usage::{ClusterUsage, ResourceUsage};
pub use demand::{Branches, Crops, Demand};
pub use event_queue::EventQueue;
pub use interference::Interference;
pub use scheduled::{ChangeKind, ScheduledChange};
pub use spec::{
    DecodingSpec, Edge, LaterPlan, Link, LinkChange, Replanner, Scaling, SceneSpec, SlotFault, StreamSpec,
    Tokens, WorkerFailure, WorldCluster, WorldGenerate, WorldMemory, WorldModule, WorldPool, WorldSpec,
};
pub use timeline::{ModuleTimeline, Timeline};
pub use world::{Shift, SimulationResult, control_spec, simulate, simulate_streams};
