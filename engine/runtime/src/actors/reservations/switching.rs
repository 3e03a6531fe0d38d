//! The steps of a switch of plans, as the actor takes them.

use actix::Context;
use weir_policy::ModuleEvent;
use weir_policy::reservations::{PlanReport, Reservations};
use weir_types::Timestamp;

use super::ReservationActor;
use super::plan_switch::PlanSwitch;
use crate::actors::burst::PolicyActor;
use crate::fleet::ActivePlan;

impl ReservationActor {
    pub(super) fn start_plan_switch(&mut self, next: Box<ActivePlan>) {
        if self.switch.is_some() {
            tracing::warn!("a switch of plans is not complete yet; the newer plan is ignored");
            return;
        }
        if let Err(stage) = next.check_available(&self.setup.available) {
            tracing::error!(
                "the new plan is given up, the one in force goes on: {stage} has no worker that is up"
            );
            return;
        }
        let mut pending_loads = Vec::new();
        for (worker, load) in &next.partitions.loads {
            if self.setup.available.contains_key(worker) {
                pending_loads.push((*worker, load.partition));
            }
            self.setup.client.load(*worker, load.clone());
        }
        self.switch = Some(PlanSwitch::new(next, pending_loads, self.setup.clock.now()));
    }

    /// Pauses booking once everything is loaded, and switches once nothing is booked or in flight.
    pub(super) fn advance_plan_switch(&mut self, context: &mut Context<Self>) {
        let now = self.setup.clock.now();
        let Some(switch) = &mut self.switch else { return };
        let Some(paused_at) = switch.pause_if_loaded(now) else {
            return;
        };
        if !self.batches.is_empty() {
            return;
        }
        let Some(switch) = self.switch.take() else { return };
        self.setup.active = *switch.next;
        let spec = self.setup.active.reserve_spec(&self.setup.policy);
        if let Some(recorder) = &self.setup.recorder {
            recorder.record_plan(&spec);
        }
        self.burst.replace(Reservations::new(&spec));
        self.report_down_shares();
        for request in std::mem::take(&mut self.deferred).into_values() {
            self.burst.push(request);
        }
        self.decide_soon(context);
        let number = self.setup.active.number;
        self.setup.client.activate(number);
        for (module, _) in self.setup.active.modules.clone() {
            if let Some(slots) = self.setup.active.pipeline_slots(module) {
                self.send_event(
                    module,
                    ModuleEvent::PlanChanged {
                        profile: slots.profile,
                        batch: slots.batch,
                        lanes: slots.count,
                        share: slots.share,
                    },
                );
            }
        }
        let report = PlanReport {
            at_s: now.since(Timestamp::ZERO).as_secs_f64(),
            preload_ms: paused_at.since(switch.requested_at).as_millis_f64(),
            pause_ms: now.since(paused_at).as_millis_f64(),
        };
        tracing::info!(
            plan = number,
            pause_ms = report.pause_ms,
            "another plan is in force"
        );
        self.plans.push(report);
    }
}
