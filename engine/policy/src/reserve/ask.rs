//! What a module asks for: a way through its pipelines for what waits.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// A module's wish for one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// By when the most urgent item must be out of the module.
    pub deadline: Timestamp,
    /// Since when it has waited.
    pub since: Timestamp,
    /// Items that wait.
    pub waiting: u32,
    /// The most urgent must not be let go: a batch is booked whether or not it makes the deadline.
    pub firm: bool,
}
