//! What became of the streams of a fleet.

use serde::{Deserialize, Serialize};

/// What became of the streams of a fleet, after the time in which it starts.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct FleetResult {
    /// Part of the streams' time in which no engine had frames of them.
    pub unseen: f64,
    /// Part of it in which two or more had.
    pub seen_twice: f64,
    /// The longest time that a stream was unseen, in seconds.
    pub longest_unseen_s: f64,
    /// Part of the streams' work that was done: an engine does no more than its capacity.
    pub done: f64,
    /// The same if the work were spread over all engines that are up.
    pub possible: f64,
    /// Streams that came to another engine, a minute.
    pub moves_per_minute: f64,
    /// Of these, those that came back to the engine they had left less than a minute before, while no engine failed or came back
    /// in between: what swings.
    pub swings_per_minute: f64,
    /// Engines that failed.
    pub failures: u64,
    /// Redirections by engines that were overloaded, and ends of them.
    pub redirections: u64,
    /// Events that members decided on.
    pub events: u64,
}
