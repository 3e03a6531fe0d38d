//! Which partition is held where: numbers for the parts of a plan, and what each worker is to load.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::{Divided, SessionError};
use weir_partition::wire::{LoadPartition, PartitionId};
use weir_partition::{Stage, WorkerId};
use weir_types::ModuleId;
use weir_types::{PipelineId, ShareId};

use super::layout::Seats;

/// The parts of one plan.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts {
    first: u32,
    /// By pipeline and stage.
    numbers: Vec<Vec<PartitionId>>,
    pub(crate) loads: Vec<(WorkerId, LoadPartition)>,
}

impl Parts {
    /// Cuts what `seats` needs out of the models, numbered from `first` on, as plan `number`.
    pub(crate) fn cut(
        seats: &Seats,
        models: &BTreeMap<ModuleId, Arc<dyn Divided>>,
        emulated: &[bool],
        (number, first): (u64, u32),
    ) -> Result<Self, SessionError> {
        let mut parts = Self {
            first,
            ..Self::default()
        };
        let mut next = first;
        for pipeline in &seats.cluster.pipelines {
            let mut numbers = Vec::new();
            for stage in &pipeline.stages {
                let part = PartitionId(next);
                next += 1;
                numbers.push(part);
                let Some(divided) = models.get(&pipeline.module) else {
                    continue;
                };
                let blocks = stage.blocks.0 as usize..stage.blocks.1 as usize;
                let model = Arc::new(divided.part(blocks)?);
                let mut by_worker: BTreeMap<WorkerId, Vec<u32>> = BTreeMap::new();
                for share in &stage.shares {
                    let (worker, seat) = seats.seats[share.index()];
                    by_worker.entry(worker).or_default().push(seat);
                }
                parts.loads.extend(by_worker.into_iter().map(|(worker, shares)| {
                    let load = LoadPartition {
                        partition: part,
                        plan: number,
                        shares,
                        half: true,
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
            parts.numbers.push(numbers);
        }
        Ok(parts)
    }

    /// The number that the parts of another plan may begin with.
    pub(crate) fn next(&self) -> u32 {
        self.numbers
            .iter()
            .flatten()
            .map(|part| part.0 + 1)
            .max()
            .unwrap_or(self.first)
    }

    /// The way of a batch over these shares.
    pub(crate) fn way(&self, seats: &Seats, pipeline: PipelineId, path: &[ShareId]) -> Vec<Stage> {
        let Some(numbers) = self.numbers.get(pipeline.index()) else {
            return Vec::new();
        };
        let stage = |(share, &part): (&ShareId, &PartitionId)| {
            let (worker, share) = seats.seats[share.index()];
            Stage {
                worker,
                share,
                partition: part,
            }
        };
        path.iter().zip(numbers).map(stage).collect()
    }
}
