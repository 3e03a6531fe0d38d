//! Gear plans (KEN 4): the cascade for each load, the placement of its models, and the rules by which they
//! are invoked, planned together by simulation.
//!
//! ```text
//! frontier     from the most accurate cascades at every load to the cheapest, a step at a time         4.2, 4.3.1
//!   placement    beam search: replicas are added where memory allows                                   4.3.2
//!     schedule     load balanced by a linear program; sizes grow until a second's work fits a second   4.3.3
//!       evaluate     the plan in virtual time: latency and accuracy                                    4.3.4
//! ```
//!
//! What evaluates a plan is a closure, since the simulator stands on this crate. Everything is deterministic: random draws
//! come from the seed of the problem.

mod baselines;
mod frontier;
mod neighbours;
mod placement;
mod problem;
mod random;
mod schedule;

pub use baselines::{exhaustive, fixed, hypervolume, random_search, single_models};
pub use frontier::{Evaluated, frontier, pareto};
pub use problem::{
    Assignment, Beam, CascadeChoice, Evaluation, GearError, GearModel, GearProblem, LoadOrder,
    OperatorChoices, Operators, Overload, Scoring,
};
