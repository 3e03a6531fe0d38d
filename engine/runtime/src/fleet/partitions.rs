//! The partitions of a plan: their ids, and which of them each worker loads.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::{PartitionedModel, SessionError};
use weir_partition::wire::{LoadPartition, PartitionId};
use weir_partition::{Stage, WorkerId};
use weir_policy::reservations::PathStage;
use weir_types::{ModuleId, PipelineId};

use super::share_assignment::ShareAssignment;

/// The partitions of one plan.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlanPartitions {
    /// The id that numbering began with.
    first: u32,
    /// By pipeline and stage.
    ids: Vec<Vec<PartitionId>>,
    pub(crate) loads: Vec<(WorkerId, LoadPartition)>,
}

impl PlanPartitions {
    /// Cuts what `assignment` needs out of the models, numbered from `first` on, as plan `number`.
    pub(crate) fn cut(
        assignment: &ShareAssignment,
        models: &BTreeMap<ModuleId, Arc<dyn PartitionedModel>>,
        emulated: &[bool],
        (number, first): (u64, u32),
    ) -> Result<Self, SessionError> {
        let mut partitions = Self {
            first,
            ..Self::default()
        };
        let mut next_id = first;
        for pipeline in &assignment.cluster.pipelines {
            let mut ids = Vec::new();
            for stage in &pipeline.stages {
                let part = PartitionId(next_id);
                next_id += 1;
                ids.push(part);
                let Some(model) = models.get(&pipeline.module) else {
                    continue;
                };
                let blocks = stage.blocks.0 as usize..stage.blocks.1 as usize;
                let model = Arc::new(model.partition(blocks)?);
                let mut by_worker: BTreeMap<WorkerId, Vec<u32>> = BTreeMap::new();
                for share in &stage.shares {
                    let (worker, share) = assignment.owners[share.index()];
                    by_worker.entry(worker).or_default().push(share);
                }
                partitions
                    .loads
                    .extend(by_worker.into_iter().map(|(worker, shares)| {
                        let load = LoadPartition {
                            partition: part,
                            plan: number,
                            shares,
                            half: true,
                            batch: pipeline.batch,
                            declared: if emulated.get(worker.0 as usize) == Some(&true) {
                                stage.profile.points().to_vec()
                            } else {
                                Vec::new()
                            },
                            model: Arc::clone(&model),
                        };
                        (worker, load)
                    }));
            }
            partitions.ids.push(ids);
        }
        Ok(partitions)
    }

    /// The id that numbering began with.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// The id that the partitions of another plan may begin with.
    pub(crate) fn next_id(&self) -> u32 {
        self.ids
            .iter()
            .flatten()
            .map(|part| part.0 + 1)
            .max()
            .unwrap_or(self.first)
    }

    /// The stages that a batch passes on its booked path.
    pub(crate) fn path(
        &self,
        assignment: &ShareAssignment,
        pipeline: PipelineId,
        booked: &[PathStage],
    ) -> Vec<Stage> {
        let Some(ids) = self.ids.get(pipeline.index()) else {
            return Vec::new();
        };
        let stage = |(booked, &part): (&PathStage, &PartitionId)| {
            let (worker, share) = assignment.owners[booked.share.index()];
            Stage {
                worker,
                share,
                partition: part,
                booked: booked.run.from,
                sent: booked.transfer.map_or(booked.run.from, |transfer| transfer.from),
            }
        };
        booked.iter().zip(ids).map(stage).collect()
    }
}
