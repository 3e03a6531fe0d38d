//! Which instance a sequence goes to, and whether it goes on elsewhere (GoodServe): one model on devices of different speed.
//!
//! [`Router`] is notified of sequences that arrive, go on and end, and of what instances measured; it asks for a sequence to
//! be routed, moved or dropped. The rule that picks is a value ([`RouteRule`]), one file each with its formula, source and
//! parameters. How long a sequence will be comes as a number with the event: the router predicts no lengths. The mathematics
//! is in `README.md` beside this file.

mod api;
mod belief;
mod book;
mod earliest;
pub(crate) mod ends;
mod just_enough;
mod least_requests;
mod lowest_tokens;
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

pub use api::{Prefix, RouteEffect, RouteEvent};
pub use just_enough::{JustEnough, Moves};
pub use lowest_tokens::LowestTokens;
pub use most_free::MostFree;
pub use prefix::LongestPrefix;
pub use router::{Router, RouterSpec, RouterSpecError};
pub use rule::RouteRule;
pub use transfer::{Link, MoveCost, Transfer, TransferCost};
pub use weir::Weir;
