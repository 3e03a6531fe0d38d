//! Routing of sequences to instances, and moves between instances (GoodServe): one model on devices of
//! different speed.
//!
//! [`Router`] takes in events: sequences that arrive, progress and end, and reports of instances. It asks for
//! a sequence to be routed, moved or dropped. The rule that picks an instance is a value ([`RouteRule`]);
//! each has a file with its formula, source and parameters. The router predicts no lengths: the expected
//! length of a sequence comes with the event. The mathematics is in `README.md` beside this file.

mod api;
mod belief;
mod book;
mod earliest;
pub(crate) mod ends;
mod just_enough;
mod least_requests;
mod lowest_tokens;
mod margin;
mod most_free;
mod prefix;
mod random;
pub(crate) mod recent;
mod round_robin;
mod router;
mod rule;
mod step_times;
mod survival;
#[cfg(test)]
mod tests;
mod transfer;
mod view;
mod weir;
#[cfg(test)]
mod weir_tests;

pub use api::{RouteEffect, RouteEvent};
pub use just_enough::{JustEnough, Moves};
pub use lowest_tokens::LowestTokens;
pub use most_free::MostFree;
pub use prefix::LongestPrefix;
pub use router::{Router, RouterSpec, RouterSpecError};
pub use rule::RouteRule;
pub use transfer::{Link, MoveCost, Transfer, TransferCost};
pub use weir::Weir;

pub use crate::generate::Prefix;
