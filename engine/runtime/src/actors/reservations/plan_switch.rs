//! Switching plans (PPipe 5.1): the partitions of the new plan are loaded while the old one goes on; then nothing is booked
//! until no batch is in flight; then everything is booked by the new plan.

use weir_partition::WorkerId;
use weir_partition::wire::PartitionId;
use weir_types::Timestamp;

use crate::fleet::ActivePlan;

/// A switch of plans that is not complete.
pub(super) struct PlanSwitch {
    pub(super) next: Box<ActivePlan>,
    pub(super) requested_at: Timestamp,
    /// Loads that no worker has reported yet.
    pending_loads: Vec<(WorkerId, PartitionId)>,
    /// Since when nothing is booked; `None` while partitions are loading.
    paused_at: Option<Timestamp>,
}

impl PlanSwitch {
    pub(super) fn new(
        next: Box<ActivePlan>,
        pending_loads: Vec<(WorkerId, PartitionId)>,
        requested_at: Timestamp,
    ) -> Self {
        Self {
            next,
            requested_at,
            pending_loads,
            paused_at: None,
        }
    }

    pub(super) fn on_loaded(&mut self, worker: WorkerId, partition: PartitionId) {
        self.pending_loads.retain(|load| *load != (worker, partition));
    }

    /// Loads of a worker that is lost are not waited for.
    pub(super) fn on_worker_down(&mut self, worker: WorkerId) {
        self.pending_loads.retain(|(loading, _)| *loading != worker);
    }

    pub(super) fn waits_for(&self, worker: WorkerId, partition: PartitionId) -> bool {
        self.pending_loads.contains(&(worker, partition))
    }

    /// Whether nothing is booked until the switch is complete.
    pub(super) fn is_paused(&self) -> bool {
        self.paused_at.is_some()
    }

    /// Pauses booking once everything is loaded; gives when it was paused.
    pub(super) fn pause_if_loaded(&mut self, now: Timestamp) -> Option<Timestamp> {
        if !self.pending_loads.is_empty() {
            return None;
        }
        Some(*self.paused_at.get_or_insert(now))
    }
}
