//! The engine in virtual time: the decisions of `weir-policy`, line for line, driven by one event heap instead of actors
//! and threads.

pub mod bound;
mod bound_input;
mod demand;
mod event_queue;
pub mod experiment;
pub mod pooled;
mod spec;
mod timeline;
pub mod traces;
mod world;

pub use bound_input::BoundCache;
pub use demand::{Branches, Crops, Demand};
pub use spec::{Edge, Link, Scaling, WorkerFailure, WorldModule, WorldPool, WorldSpec};
pub use timeline::{ModuleTimeline, Timeline};
pub use world::{SimulationResult, simulate};
