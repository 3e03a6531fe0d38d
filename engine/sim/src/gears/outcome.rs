//! What a gear plan came to.

use serde::{Deserialize, Serialize};
use weir_types::Span;

/// What a plan came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GearOutcome {
    /// Requests.
    pub requests: u64,
    /// Latencies of all requests, ascending.
    pub latencies: Vec<Span>,
    /// Part of the answers that is right.
    pub accuracy: f64,
    /// Items that came to each operator's stages, by place, and of these the ones that were handed on.
    pub stages: Vec<Vec<StageCounts>>,
    /// How often another gear came into force.
    pub shifts: u64,
    /// Seconds in each gear.
    pub seconds_by_gear: Vec<f64>,
    /// Seconds that slots were busy.
    pub busy_s: f64,
}

/// Items of one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StageCounts {
    /// Came.
    pub items: u64,
    /// Were handed on to the next stage.
    pub handed_on: u64,
}

impl GearOutcome {
    /// A quantile of the latencies, in seconds; 0 where there are none.
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
