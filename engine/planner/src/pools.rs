//! Rounding of flows to pools: integral shares for every stage, integral devices for every model, position and class.

use std::collections::BTreeMap;

use crate::column::Column;
use crate::problem::{Objective, Problem};

/// Devices by position in the pipeline and class.
type DevicesByPosition = BTreeMap<(usize, usize), u32>;

/// Pools of one model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelPools {
    /// Pipelines in use, with the shares in the pool of each stage.
    pub(super) pipelines: Vec<(Column, Vec<u32>)>,
    pub(super) devices_by_position: DevicesByPosition,
}

/// Pools of all models.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pools(pub(super) Vec<ModelPools>);

impl Pools {
    /// The smallest pools for these flows, grown to fill their devices.
    pub(super) fn from_flows(columns: &[Vec<Column>], flows: &[Vec<f64>]) -> Self {
        Self(
            columns
                .iter()
                .zip(flows)
                .map(|(columns, flows)| ModelPools::from_flows(columns, flows))
                .collect(),
        )
    }

    /// Devices by class.
    pub(super) fn devices(&self, classes: usize) -> Vec<u32> {
        let mut devices = vec![0; classes];
        for model in &self.0 {
            for (of, count) in devices.iter_mut().zip(model.devices(classes)) {
                *of += count;
            }
        }
        devices
    }

    /// True if the cluster has enough devices.
    pub(super) fn fits(&self, problem: &Problem) -> bool {
        self.devices(problem.classes.len())
            .iter()
            .zip(&problem.classes)
            .all(|(&used, class)| used <= class.count)
    }

    /// True if models use only their allotted devices and the unallotted ones.
    pub(super) fn respects_allotment(&self, problem: &Problem, allotment: Option<&[Vec<u32>]>) -> bool {
        let Some(allotment) = allotment else { return true };
        (0..problem.classes.len()).all(|class| {
            let taken: u32 = allotment.iter().map(|own| own[class]).sum();
            let borrowed: u32 = self
                .0
                .iter()
                .zip(allotment)
                .map(|(model, own)| model.devices(problem.classes.len())[class].saturating_sub(own[class]))
                .sum();
            borrowed <= problem.classes[class].count.saturating_sub(taken)
        })
    }

    /// The value of the objective.
    pub(super) fn objective(&self, problem: &Problem) -> f64 {
        match problem.objective {
            Objective::Throughput => self
                .0
                .iter()
                .zip(&problem.models)
                .map(|(pools, model)| pools.throughput() / model.weight)
                .fold(f64::INFINITY, f64::min),
            Objective::Cost { .. } => self
                .devices(problem.classes.len())
                .iter()
                .zip(&problem.classes)
                .map(|(&used, class)| f64::from(used) * class.cost)
                .sum(),
        }
    }
}

impl ModelPools {
    fn from_flows(columns: &[Column], flows: &[f64]) -> Self {
        let pools = |(column, &flow): (&Column, &f64)| {
            (
                column.clone(),
                column
                    .stages
                    .iter()
                    .map(|stage| round_up_shares(flow / stage.rate))
                    .collect(),
            )
        };
        let in_use = columns.iter().zip(flows).filter(|(_, flow)| **flow > 0.0);
        Self::with_grown_pools(in_use.map(pools).collect())
    }

    /// Pools grown to fill their devices.
    pub(super) fn with_grown_pools(mut pipelines: Vec<(Column, Vec<u32>)>) -> Self {
        let devices_by_position = grow_pools(&mut pipelines);
        Self {
            pipelines,
            devices_by_position,
        }
    }

    /// Devices by class.
    pub(super) fn devices(&self, classes: usize) -> Vec<u32> {
        let mut devices = vec![0; classes];
        for (&(_, class), &count) in &self.devices_by_position {
            devices[class] += count;
        }
        devices
    }

    /// Items a second.
    pub(super) fn throughput(&self) -> f64 {
        self.pipelines
            .iter()
            .map(|(column, pools)| throughput(column, pools))
            .sum()
    }
}

/// Items a second of a pipeline: the minimum over its stages.
pub(super) fn throughput(column: &Column, pools: &[u32]) -> f64 {
    column
        .stages
        .iter()
        .zip(pools)
        .map(|(stage, &pool)| stage.rate * f64::from(pool))
        .fold(f64::INFINITY, f64::min)
}

/// Rounded up to an integer, less the solver's tolerance.
fn round_up_shares(shares: f64) -> u32 {
    ((shares - 2e-6 * shares.max(1.0)).ceil() as u32).max(1)
}

/// Grows each pool while its devices have a free share, in the order of pipelines; returns the devices.
fn grow_pools(pipelines: &mut [(Column, Vec<u32>)]) -> DevicesByPosition {
    let mut used: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for (column, pools) in pipelines.iter() {
        for (position, (stage, &pool)) in column.stages.iter().zip(pools).enumerate() {
            *used.entry((position, stage.class)).or_default() += f64::from(pool) / f64::from(stage.shares);
        }
    }
    let devices_by_position: DevicesByPosition = used
        .iter()
        .map(|(&at, &devices)| (at, (devices - 1e-9).ceil() as u32))
        .collect();
    for (column, pools) in pipelines.iter_mut() {
        for (position, (stage, pool)) in column.stages.iter().zip(pools).enumerate() {
            let at = (position, stage.class);
            let room = f64::from(devices_by_position[&at]) - used[&at];
            let more = (room * f64::from(stage.shares) + 1e-9).floor();
            *pool += more as u32;
            *used.entry(at).or_default() += more / f64::from(stage.shares);
        }
    }
    devices_by_position
}
