//! Pipelines of a module as its policy sees them: slots that each process one batch from end to end. They
//! express the capacity of the module and are no limit.

use weir_types::{ClusterSpec, ModuleId, PipelineSpec, Profile, Span};

use crate::ModelPlan;

/// Maximum number of slots of a module for its pipelines. Slot ids of different modules are this far apart.
pub const MAX_PIPELINE_SLOTS: u32 = 4_096;

/// Slots of a module: as many as there are batches in flight at the planned throughput.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineSlots {
    /// Duration from end to end, transfers included.
    pub profile: Profile,
    /// The planned batch size.
    pub batch: u32,
    /// Number of slots of this size.
    pub count: u32,
    /// Planned throughput over that of all these slots, at most 1.
    pub share: f64,
}

impl PipelineSlots {
    /// Slots of `module` by its plan, placed on `cluster`. Durations are those of the pipeline with the
    /// largest throughput. `None` if the plan has no pipeline for the module.
    #[must_use]
    pub fn new(cluster: &ClusterSpec, module: ModuleId, plan: &ModelPlan) -> Option<Self> {
        let placed = cluster
            .pipelines
            .iter()
            .filter(|pipeline| pipeline.module == module);
        let mut best: Option<(f64, &PipelineSpec)> = None;
        for (pipeline, planned) in placed.zip(&plan.pipelines) {
            if best.is_none_or(|(max, _)| planned.throughput > max) {
                best = Some((planned.throughput, pipeline));
            }
        }
        let (_, pipeline) = best?;
        let servers = cluster.servers.iter();
        let bandwidth = servers.map(|server| server.bandwidth_bps).min().unwrap_or(1);
        let batch_time = |size: u32| {
            let stages = pipeline.stages.iter().map(|stage| {
                let bits = stage.received_bytes as f64 * 8.0 * f64::from(size);
                stage.profile.duration(size) + Span::from_secs_f64(bits / bandwidth.max(1) as f64)
            });
            stages.sum::<Span>()
        };
        let sizes = 1..=pipeline.batch;
        let profile = Profile::new(sizes.map(|size| (size, batch_time(size))).collect())?;
        let per_slot = profile.throughput(pipeline.batch);
        let exact = (plan.throughput / per_slot.max(1e-9)).max(1e-3);
        let count = exact.ceil().clamp(1.0, f64::from(MAX_PIPELINE_SLOTS)) as u32;
        Some(Self {
            profile,
            batch: pipeline.batch,
            count,
            share: (exact / f64::from(count)).min(1.0),
        })
    }
}
