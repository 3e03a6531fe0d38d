//! Adaptive batching (PPipe A.3, Algorithm 1): which pipeline, which path, how many; or not yet; or never.

use weir_types::{PipelineId, Timestamp};

use super::api::PathRequest;
use super::probe::{BookingView, Probe};

/// What becomes of an ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The most urgent item cannot be in time.
    Infeasible {
        /// The earliest that it could come out.
        finish: Timestamp,
    },
    /// A larger batch can still be waited for.
    Wait {
        /// Until the last moment at which the largest batch that can be in time now still would be.
        until: Timestamp,
    },
    /// This batch should go.
    Dispatch(Probe),
}

/// Room for probing, kept so that nothing is allocated anew.
#[derive(Debug, Clone)]
pub(super) struct Scratch {
    best: Probe,
    other: Probe,
    /// Probes so far.
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

/// What comes out, without the path, which is in the scratch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchDecision {
    Infeasible {
        finish: Timestamp,
    },
    /// For a batch of `size`.
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

    /// The smallest batch that may be considered is `least(planned)`.
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
        // `best` holds the planned size now.
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
            // It is now or never for that many: what is gained by waiting for fewer?
            size -= 1;
            self.probes += 1;
            view.probe(pipeline, size, now, &mut self.best);
        }
        BatchDecision::Dispatch
    }

    /// The pipeline that makes a batch of its planned size wait least; its planned size, its probe in `best`.
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
