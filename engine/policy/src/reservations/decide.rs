//! Adaptive batching (PPipe A.3, Algorithm 1): dispatch a batch of some size on some path, wait, or report infeasibility.

use weir_types::{PipelineId, Timestamp};

use super::api::PathRequest;
use super::probe::{BookingView, Probe};

/// The decision on a path request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The most urgent item would miss its deadline.
    Infeasible {
        /// Its earliest possible end.
        finish: Timestamp,
    },
    /// There is time to wait for a larger batch.
    Wait {
        /// Latest time at which the largest feasible batch still meets the deadline.
        until: Timestamp,
    },
    /// The batch on this path is to be dispatched now.
    Dispatch(Probe),
}

/// Reused buffers of probes.
#[derive(Debug, Clone)]
pub(super) struct Scratch {
    best: Probe,
    other: Probe,
    /// Number of probes so far.
    pub(super) probes: u64,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            best: Probe::empty(),
            other: Probe::empty(),
            probes: 0,
        }
    }
}

/// A decision without its path, which is in the scratch buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchDecision {
    Infeasible {
        finish: Timestamp,
    },
    /// Waits for a batch of `size`.
    Wait {
        until: Timestamp,
        size: u32,
    },
    Dispatch,
}

impl Scratch {
    pub(super) fn chosen(&self) -> &Probe {
        &self.best
    }

    /// Decides on a request; the smallest batch that is considered has `least(planned)` items.
    pub(super) fn decide(
        &mut self,
        view: BookingView<'_>,
        pipelines: &[PipelineId],
        request: PathRequest,
        least: impl Fn(u32) -> u32,
        now: Timestamp,
    ) -> BatchDecision {
        const NEVER: BatchDecision = BatchDecision::Infeasible {
            finish: Timestamp::MAX,
        };
        let Some(planned) = self.choose(view, pipelines, now) else {
            return NEVER;
        };
        let pipeline = self.best.pipeline;
        let least = least(planned).clamp(1, planned);
        // `best` is the probe of the planned size.
        let mut size = planned;
        while self.best.finish > request.deadline {
            if size <= least {
                return BatchDecision::Infeasible {
                    finish: self.best.finish,
                };
            }
            size -= 1;
            self.probes += 1;
            view.probe(pipeline, size, now, &mut self.best);
        }
        let waiting = request.waiting.max(1);
        while waiting < size {
            let until = now + (request.deadline - self.best.finish);
            if until > now {
                return BatchDecision::Wait { until, size };
            }
            // No time to wait for that size: try the next smaller one.
            size -= 1;
            self.probes += 1;
            view.probe(pipeline, size, now, &mut self.best);
        }
        BatchDecision::Dispatch
    }

    /// Chooses the pipeline of least waiting time at its planned size; returns that size, with its probe in `best`.
    fn choose(&mut self, view: BookingView<'_>, pipelines: &[PipelineId], now: Timestamp) -> Option<u32> {
        let mut found = None;
        for &pipeline in pipelines {
            let planned = view.cluster.pipelines[pipeline.index()].batch;
            self.probes += 1;
            if !view.probe(pipeline, planned, now, &mut self.other) {
                continue;
            }
            if found.is_none() || self.other.total_wait < self.best.total_wait {
                found = Some(planned);
                std::mem::swap(&mut self.best, &mut self.other);
            }
        }
        found
    }
}
