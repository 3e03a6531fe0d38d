//! Partitions of models on workers of their own: the [`wire`] between them and the engine.
//!
//! Nothing here decides: which batch takes which way comes from reservations, and what is measured goes back to them.

mod time;
pub mod wire;

pub use time::{Now, Timebase};
/// Workers of this process.
pub struct Locals;
