//! Models that generate token by token: one instance, a slot or a worker process that runs such a model, as a state machine.
//!
//! Batching is continuous: a sequence joins and leaves at any step. A step first takes running sequences in
//! the order in which they joined, each with one token or the next chunk of its prompt. Then it takes waiting
//! ones in order, while the step has tokens and the cache has blocks left. If blocks run out, the sequence
//! that joined last returns to the front of the queue and is computed again. A prompt whose beginning the
//! instance holds from an earlier one is computed from there on (`prefixes`). `Instance` decides this; `route`
//! decides which instance a sequence goes to.

mod api;
mod blocks;
mod finish;
mod instance;
pub(crate) mod length;
mod monitor;
mod prefixes;
mod sequence;
mod sequence_stats;
#[cfg(test)]
mod tests;

pub use api::{InstanceEffect, InstanceEvent, InstanceSpec, InstanceSpecError, Step, StepPart};
pub use blocks::BlockPool;
pub use finish::FinishEstimate;
pub use instance::{Instance, InstanceStats};
pub use length::{LengthSource, emulated_length, emulated_prediction, emulated_remaining, seed_after};
pub use monitor::InstanceState;
pub use prefixes::{PREFIX_BLOCK_TOKENS, Prefix, PrefixCache, PrefixFinder, PrefixUse};
pub(crate) use sequence_stats::Expectation;
pub use sequence_stats::{SequenceReport, SequenceStats};
