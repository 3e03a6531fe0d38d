//! The cluster of a world, and what is on it.

use std::collections::BTreeMap;

use weir_policy::reservations::{BookingId, PlanSpec, ResourceUse};
use weir_types::{BatchId, ClusterSpec, ModuleId, Span};

use super::cluster_run::ClusterRun;
use crate::cluster_usage::{ClusterUsage, ResourceUsage};
use crate::spec::WorldCluster;

/// A batch on its path.
#[derive(Debug)]
pub(super) struct InFlightBatch {
    pub(super) module: ModuleId,
    pub(super) batch: BatchId,
    pub(super) items: u32,
    /// Time on shares so far.
    pub(super) busy: Span,
}

/// The cluster of a world.
#[derive(Debug)]
pub(super) struct BookedCluster<'a> {
    pub(super) spec: &'a WorldCluster,
    /// Plan in force.
    pub(super) plan: &'a PlanSpec,
    pub(super) cluster: ClusterRun,
    pub(super) in_flight: BTreeMap<BookingId, InFlightBatch>,
    device_parts: Vec<f64>,
    pub(super) usage: ClusterUsage,
}

impl<'a> BookedCluster<'a> {
    pub(super) fn new(spec: &'a WorldCluster) -> Self {
        let plan = &spec.plan;
        Self {
            cluster: ClusterRun::new(&plan.reserve.cluster),
            in_flight: BTreeMap::new(),
            device_parts: device_parts(&plan.reserve.cluster),
            usage: ClusterUsage::default(),
            plan,
            spec,
        }
    }

    /// A plan is in force: everything of the one before has ended.
    pub(super) fn switch(&mut self, plan: &'a PlanSpec) {
        self.plan = plan;
        self.cluster = ClusterRun::new(&plan.reserve.cluster);
        self.device_parts = device_parts(&plan.reserve.cluster);
    }

    pub(super) fn record(&mut self, usage: ResourceUsage) {
        if usage.used == ResourceUse::Run {
            let share = usage.share.index();
            let class = &self.plan.reserve.cluster.shares[share].class;
            let busy = (usage.to - usage.from).as_secs_f64() * self.device_parts[share];
            match self.usage.busy_s.get_mut(class) {
                Some(total) => *total += busy,
                None => _ = self.usage.busy_s.insert(class.clone(), busy),
            }
        }
        if self.spec.trace {
            self.usage.uses.push(usage);
        }
    }
}

/// Part of a device that each share is.
fn device_parts(cluster: &ClusterSpec) -> Vec<f64> {
    let mut on_device: BTreeMap<u32, u32> = BTreeMap::new();
    for share in &cluster.shares {
        *on_device.entry(share.device).or_default() += 1;
    }
    let part = |device: u32| 1.0 / f64::from(on_device.get(&device).copied().unwrap_or(1));
    cluster.shares.iter().map(|share| part(share.device)).collect()
}
