//! Changes of plans (PPipe 5.1): the parts of the new one are loaded while the old one goes on; then nothing is booked until what is
//! under way is through; then all is booked by the new one.

use actix::{AsyncContext, Context};
use weir_partition::WorkerId;
use weir_partition::wire::PartitionId;
use weir_policy::ModuleEvent;
use weir_policy::reservations::{PlanReport, Reservations};
use weir_types::Timestamp;

use super::{Decide, ReservationActor, spec_of};
use crate::fleet::Planned;

/// A change of plans under way.
pub(super) struct Change {
    pub(super) planned: Box<Planned>,
    pub(super) asked_at: Timestamp,
    /// Loads that are not reported yet.
    pub(super) missing: Vec<(WorkerId, PartitionId)>,
    /// Since when nothing is booked; `None` while the parts are loading.
    pub(super) paused_at: Option<Timestamp>,
}

impl ReservationActor {
    pub(super) fn replan(&mut self, planned: Box<Planned>) {
        if self.change.is_some() {
            tracing::warn!("a plan is being changed already; the newer one is left out");
            return;
        }
        if let Err(stage) = planned.covered(&self.setup.up) {
            tracing::error!(
                "the new plan is given up, the one in force goes on: {stage} has no worker that is there"
            );
            return;
        }
        let mut missing = Vec::new();
        for (worker, load) in &planned.parts.loads {
            if self.setup.up.contains_key(worker) {
                missing.push((*worker, load.partition));
            }
            self.setup.client.load(*worker, load.clone());
        }
        self.change = Some(Change {
            planned,
            asked_at: self.setup.clock.now(),
            missing,
            paused_at: None,
        });
    }

    /// A worker that is lost is not waited for.
    pub(super) fn not_awaited(&mut self, worker: WorkerId) {
        if let Some(change) = &mut self.change {
            change.missing.retain(|(of, _)| *of != worker);
        }
    }

    pub(super) fn change_over(&mut self, context: &mut Context<Self>) {
        let now = self.setup.clock.now();
        let Some(change) = &mut self.change else { return };
        if !change.missing.is_empty() {
            return;
        }
        let paused_at = *change.paused_at.get_or_insert(now);
        if !self.moving.is_empty() || !self.ways.is_empty() {
            return;
        }
        let Some(change) = self.change.take() else { return };
        self.setup.planned = *change.planned;
        let spec = spec_of(&self.setup.planned, &self.setup.policy);
        if let Some(recorder) = &self.setup.recorder {
            recorder.plan(&spec);
        }
        self.reservations = Reservations::new(&spec);
        self.facts = self.absent();
        self.facts.extend(std::mem::take(&mut self.held).into_values());
        let number = self.setup.planned.number;
        self.setup.client.activate(number);
        for (module, _) in self.setup.planned.modules.clone() {
            if let Some(lanes) = self.setup.planned.lanes(module) {
                self.tell(
                    module,
                    ModuleEvent::PlanChanged {
                        profile: lanes.profile,
                        batch: lanes.batch,
                        lanes: lanes.count,
                        share: lanes.share,
                    },
                );
            }
        }
        let report = PlanReport {
            at_s: now.since(Timestamp::ZERO).as_secs_f64(),
            preload_ms: paused_at.since(change.asked_at).as_millis_f64(),
            pause_ms: now.since(paused_at).as_millis_f64(),
        };
        if !self.deciding {
            self.deciding = true;
            context.notify(Decide);
        }
        tracing::info!(
            plan = number,
            pause_ms = report.pause_ms,
            "another plan is in force"
        );
        self.plans.push(report);
    }
}
