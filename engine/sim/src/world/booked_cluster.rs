//! The cluster of a world: what is booked on it, and what is on it.

use std::collections::BTreeMap;

use weir_policy::reservations::{
    Accuracy, BookingId, PathStage, PlanReport, PlanSpec, PlannedEffect, PlannedEvent, PlannedReservations,
    ReserveEvent, ReserveReport, ResourceUse,
};
use weir_types::{BatchId, ClusterSpec, ModuleId, PipelineId, Span, Timestamp};

use super::cluster_run::ClusterRun;
use crate::cluster_usage::{ClusterUsage, ResourceUsage};
use crate::spec::WorldCluster;

/// A path that is booked, with no batch on it yet.
#[derive(Debug)]
pub(super) struct BookedPath {
    pub(super) pipeline: PipelineId,
    pub(super) path: Vec<PathStage>,
    pub(super) size: u32,
    pub(super) finish: Timestamp,
}

/// A batch on its path.
#[derive(Debug)]
pub(super) struct InFlightBatch {
    pub(super) module: ModuleId,
    pub(super) batch: BatchId,
    pub(super) items: u32,
    pub(super) finish: Timestamp,
    /// Time on shares so far.
    pub(super) busy: Span,
}

/// The cluster of a world: what is booked, and what happens.
#[derive(Debug)]
pub(super) struct BookedCluster<'a> {
    pub(super) spec: &'a WorldCluster,
    /// In force.
    pub(super) plan: &'a PlanSpec,
    pub(super) reservations: PlannedReservations,
    pub(super) cluster: ClusterRun,
    pub(super) booked: BTreeMap<BookingId, BookedPath>,
    pub(super) in_flight: BTreeMap<BookingId, InFlightBatch>,
    pub(super) events: Vec<PlannedEvent>,
    pub(super) effects: Vec<PlannedEffect>,
    device_parts: Vec<f64>,
    pub(super) usage: ClusterUsage,
    pub(super) accuracy: Accuracy,
    pub(super) plans: Vec<PlanReport>,
}

impl<'a> BookedCluster<'a> {
    pub(super) fn new(spec: &'a WorldCluster) -> Self {
        let plan = &spec.plan;
        Self {
            reservations: PlannedReservations::new(plan),
            cluster: ClusterRun::new(&plan.reserve.cluster),
            booked: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            events: Vec::new(),
            effects: Vec::new(),
            device_parts: device_parts(&plan.reserve.cluster),
            usage: ClusterUsage::default(),
            accuracy: Accuracy::default(),
            plans: Vec::new(),
            plan,
            spec,
        }
    }

    /// An event that is due now.
    pub(super) fn on_event(&mut self, event: PlannedEvent) {
        if let PlannedEvent::Reserve(ReserveEvent::Declined { booking }) = event {
            self.booked.remove(&booking);
            self.accuracy.on_unused();
        }
        self.events.push(event);
    }

    /// What came of it, and the report of bookings.
    pub(super) fn finish(mut self) -> (ClusterUsage, ReserveReport) {
        self.usage.probes = self.reservations.reservations().probes();
        let report = ReserveReport {
            plans: self.plans,
            ..self.accuracy.report()
        };
        (self.usage, report)
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
