//! The engine in virtual time: the decisions of `weir-policy`, line for line, driven by one event heap instead of actors
//! and threads.

mod agenda;
pub mod bound;
mod demand;
pub mod experiment;
mod limit;
pub mod pooled;
mod spec;
pub mod traces;
mod trail;
mod world;

pub use demand::{Branches, Crops, Demand};
pub use limit::Bounds;
pub use spec::{Edge, Failure, Link, ModulePlan, PoolPlan, Scaling, WorldSpec};
pub use trail::{ModuleTrail, Trail};
pub use world::{Ran, simulate};
