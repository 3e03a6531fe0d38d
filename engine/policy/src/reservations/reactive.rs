//! The reactive baseline (PPipe 7.4): each pool batches on its own, without knowledge of links or later stages.

use weir_types::{PipelineSpec, Span, StageSpec, Timestamp};

/// Decision for a free share of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// Drop the head: it would miss its deadline for this pool.
    Drop,
    /// Run a batch.
    Run {
        /// Number of items of the batch.
        size: u32,
    },
}

/// Largest batch of waiting items, up to the planned size, that ends by the head's deadline for this pool.
#[must_use]
pub fn react(stage: &StageSpec, planned: u32, waiting: u32, deadline: Timestamp, now: Timestamp) -> Reaction {
    (1..=planned.min(waiting))
        .rev()
        .find(|&size| now + stage.profile.duration(size) <= deadline)
        .map_or(Reaction::Drop, |size| Reaction::Run { size })
}

/// Deadline of each stage from arrival: the SLO is split in proportion to the planned times, with `bandwidth_bps` between
/// any two stages.
#[must_use]
pub fn stage_deadlines(pipeline: &PipelineSpec, slo: Span, bandwidth_bps: u64) -> Vec<Span> {
    let time = |stage: &StageSpec| {
        let bits = stage.received_bytes as f64 * 8.0 * f64::from(pipeline.batch);
        stage.profile.duration(pipeline.batch).as_secs_f64() + bits / bandwidth_bps.max(1) as f64
    };
    let total: f64 = pipeline.stages.iter().map(time).sum();
    let mut sum = 0.0;
    pipeline
        .stages
        .iter()
        .map(|stage| {
            sum += time(stage);
            slo.scale(sum / total.max(1e-9))
        })
        .collect()
}
