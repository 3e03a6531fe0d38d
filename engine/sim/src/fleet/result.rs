//! Results of a simulated fleet.

use serde::{Deserialize, Serialize};

/// Coverage, throughput and moves of a fleet's streams, measured after the start-up time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct FleetResult {
    /// Share of the streams' time during which no engine received their frames.
    pub unseen: f64,
    /// Share of the streams' time during which two or more engines received their frames.
    pub seen_twice: f64,
    /// The longest time that a stream was unseen, in seconds.
    pub longest_unseen_s: f64,
    /// Share of the streams' work that was done; an engine does at most its capacity.
    pub done: f64,
    /// Share that could be done if the work were spread evenly over all running engines.
    pub possible: f64,
    /// Moves of streams to another engine, per minute.
    pub moves_per_minute: f64,
    /// Moves per minute that undo a move of less than a minute before, although no engine failed or returned
    /// in between. They measure oscillation.
    pub swings_per_minute: f64,
    /// Engines that failed.
    pub failures: u64,
    /// Redirections by engines that were overloaded, and ends of them.
    pub redirections: u64,
    /// Events that members decided on.
    pub events: u64,
}
