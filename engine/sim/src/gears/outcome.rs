//! Results of a simulated gear plan.

use serde::{Deserialize, Serialize};
use weir_types::Span;

/// Latencies, accuracy and gear shifts of a simulated gear plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GearOutcome {
    /// Number of requests.
    pub requests: u64,
    /// Latencies of all requests, ascending.
    pub latencies: Vec<Span>,
    /// Share of answers that are right, 0 to 1.
    pub accuracy: f64,
    /// Items that reached each stage of each operator, and those that were handed on, by index.
    pub stages: Vec<Vec<StageCounts>>,
    /// Number of gear shifts.
    pub shifts: u64,
    /// Time in each gear, in seconds.
    pub seconds_by_gear: Vec<f64>,
    /// Busy time of all slots, in seconds.
    pub busy_s: f64,
}

/// Items of one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StageCounts {
    /// Items that reached the stage.
    pub items: u64,
    /// Items that were handed on to the next stage.
    pub handed_on: u64,
}

impl GearOutcome {
    /// Quantile of the latencies in seconds; 0 without requests.
    #[must_use]
    pub fn latency(&self, quantile: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let place = (quantile * last as f64).ceil() as usize;
        self.latencies
            .get(place.min(last))
            .map_or(0.0, |span| span.as_secs_f64())
    }

    /// Part of the requests that took longer than `slo`.
    #[must_use]
    pub fn late(&self, slo: Span) -> f64 {
        let in_time = self.latencies.partition_point(|latency| *latency <= slo);
        1.0 - in_time as f64 / self.latencies.len().max(1) as f64
    }
}
