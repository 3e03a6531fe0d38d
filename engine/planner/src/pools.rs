//! From flows to pools: whole shares for every stage, whole devices for every model, position and class.

use std::collections::BTreeMap;

use crate::column::Column;
use crate::problem::{Objective, Problem};

/// Devices by position in the pipeline and class.
type Held = BTreeMap<(usize, usize), u32>;

/// Pools of one model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelPools {
    /// Pipelines in use, with the shares in the pool of each stage.
    pub(super) pipelines: Vec<(Column, Vec<u32>)>,
    pub(super) held: Held,
}

/// Pools of all models.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pools(pub(super) Vec<ModelPools>);

impl Pools {
    /// The least pools that take these flows, grown to what their devices have room for.
    pub(super) fn for_flows(columns: &[Vec<Column>], flows: &[Vec<f64>]) -> Self {
        Self(
            columns
                .iter()
                .zip(flows)
                .map(|(columns, flows)| ModelPools::for_flows(columns, flows))
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

    /// Whether the cluster has them.
    pub(super) fn fit(&self, problem: &Problem) -> bool {
        self.devices(problem.classes.len())
            .iter()
            .zip(&problem.classes)
            .all(|(&used, class)| used <= class.count)
    }

    /// Whether no model has more than its own devices and what others leave.
    pub(super) fn within(&self, problem: &Problem, allotted: Option<&[Vec<u32>]>) -> bool {
        let Some(allotted) = allotted else { return true };
        (0..problem.classes.len()).all(|class| {
            let taken: u32 = allotted.iter().map(|own| own[class]).sum();
            let borrowed: u32 = self
                .0
                .iter()
                .zip(allotted)
                .map(|(model, own)| model.devices(problem.classes.len())[class].saturating_sub(own[class]))
                .sum();
            borrowed <= problem.classes[class].count.saturating_sub(taken)
        })
    }

    /// The objective's value.
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
    fn for_flows(columns: &[Column], flows: &[f64]) -> Self {
        let pools = |(column, &flow): (&Column, &f64)| {
            (
                column.clone(),
                column.legs.iter().map(|leg| whole(flow / leg.rate)).collect(),
            )
        };
        let in_use = columns.iter().zip(flows).filter(|(_, flow)| **flow > 0.0);
        Self::grown(in_use.map(pools).collect())
    }

    /// These pipelines with these pools, grown to what their devices have room for.
    pub(super) fn grown(mut pipelines: Vec<(Column, Vec<u32>)>) -> Self {
        let held = fill(&mut pipelines);
        Self { pipelines, held }
    }

    /// Devices by class.
    pub(super) fn devices(&self, classes: usize) -> Vec<u32> {
        let mut devices = vec![0; classes];
        for (&(_, class), &count) in &self.held {
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

/// Items a second of a pipeline: the least of its stages.
pub(super) fn throughput(column: &Column, pools: &[u32]) -> f64 {
    column
        .legs
        .iter()
        .zip(pools)
        .map(|(leg, &pool)| leg.rate * f64::from(pool))
        .fold(f64::INFINITY, f64::min)
}

/// Up to a whole number, but for what the solver's tolerance adds.
fn whole(shares: f64) -> u32 {
    ((shares - 2e-6 * shares.max(1.0)).ceil() as u32).max(1)
}

/// The devices that pools need; a pool grows while its devices have room for another share, the first pipeline's first.
fn fill(pipelines: &mut [(Column, Vec<u32>)]) -> Held {
    let mut used: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for (column, pools) in pipelines.iter() {
        for (position, (leg, &pool)) in column.legs.iter().zip(pools).enumerate() {
            *used.entry((position, leg.class)).or_default() += f64::from(pool) / f64::from(leg.shares);
        }
    }
    let held: Held = used
        .iter()
        .map(|(&at, &devices)| (at, (devices - 1e-9).ceil() as u32))
        .collect();
    for (column, pools) in pipelines.iter_mut() {
        for (position, (leg, pool)) in column.legs.iter().zip(pools).enumerate() {
            let at = (position, leg.class);
            let room = f64::from(held[&at]) - used[&at];
            let more = (room * f64::from(leg.shares) + 1e-9).floor();
            *pool += more as u32;
            *used.entry(at).or_default() += more / f64::from(leg.shares);
        }
    }
    held
}
