//! Results of simulated request queues.

use serde::Serialize;
use weir_policy::groups::QueueStats;
use weir_types::{Span, Timestamp};

use super::workload::QueueRequest;

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct QueueOutcome {
    /// Time from its arrival until it was first assigned to an instance.
    pub started: Option<Span>,
    /// Time from its arrival to its last token.
    pub last: Option<Span>,
    /// Estimate of `last` at its arrival; `None` under rules without groups.
    pub estimate: Option<Span>,
    /// Number of times that it was returned from an instance to its queue.
    pub returns: u32,
    /// True if it was dropped because no instance can hold it.
    pub dropped: bool,
}

/// Outcomes of all requests and statistics of the world.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueResult {
    /// Outcome of each request, in the order of arrival.
    pub requests: Vec<QueueOutcome>,
    /// Counters of the queues.
    pub stats: QueueStats,
    /// Number of models loaded from files.
    pub opened_cold: u64,
    /// Number of models loaded from host memory.
    pub opened_warm: u64,
    /// Time for which instances loaded models, summed over instances.
    pub opening: Span,
    /// Time for which instances ran steps, summed over instances.
    pub busy: Span,
    /// Peak memory use of each instance, in bytes.
    pub max_used: Vec<u64>,
    /// Time at which the last request ended.
    pub end: Timestamp,
}

impl QueueResult {
    /// Part of a class's requests (of all without one) that had their last token in time.
    #[must_use]
    pub fn attainment(&self, requests: &[QueueRequest], class: Option<u32>) -> f64 {
        let pairs = self.requests.iter().zip(requests);
        let own = pairs.filter(|(_, request)| class.is_none_or(|class| request.class == class));
        let (mut all, mut in_time) = (0_usize, 0_usize);
        for (outcome, request) in own {
            all += 1;
            in_time += usize::from(outcome.last.is_some_and(|last| last <= request.objective));
        }
        if all == 0 {
            1.0
        } else {
            in_time as f64 / all as f64
        }
    }

    /// Requests that ended with their last token, for each second until the last did.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        let ended = self
            .requests
            .iter()
            .filter(|outcome| outcome.last.is_some())
            .count();
        ended as f64 / self.end.since(Timestamp::ZERO).as_secs_f64().max(1e-9)
    }

    /// Coefficient of determination between estimated and actual completion times; `None` without estimates.
    #[must_use]
    pub fn r2(&self) -> Option<f64> {
        let pairs = self
            .requests
            .iter()
            .filter_map(|outcome| Some((outcome.estimate?.as_secs_f64(), outcome.last?.as_secs_f64())));
        let pairs: Vec<(f64, f64)> = pairs.collect();
        let count = pairs.len() as f64;
        let mean = pairs.iter().map(|(_, actual)| actual).sum::<f64>() / count;
        let off: f64 = pairs
            .iter()
            .map(|(estimate, actual)| (actual - estimate).powi(2))
            .sum();
        let all: f64 = pairs.iter().map(|(_, actual)| (actual - mean).powi(2)).sum();
        (pairs.len() > 1 && all > 0.0).then(|| 1.0 - off / all)
    }
}
