//! Carrying out what is decided on plans: one that is offered is loaded, given up, or comes into force.

use actix::Context;
use weir_policy::ModuleEvent;
use weir_policy::reservations::{GiveUpReason, PlanEffect, PlanEvent, PlanReport};
use weir_types::{Span, Timestamp};

use super::ReservationActor;
use crate::actors::burst::PolicyActor;
use crate::fleet::ActivePlan;

impl ReservationActor {
    pub(super) fn offer_plan(&mut self, next: Box<ActivePlan>, context: &mut Context<Self>) {
        let offered = PlanEvent::PlanOffered {
            plan: Box::new(next.spec(&self.setup.policy)),
            loads: next.loads(),
        };
        self.offers.insert(next.number, next);
        self.on_event(offered.into(), context);
    }

    pub(super) fn apply_plan_effect(&mut self, effect: PlanEffect) {
        match effect {
            PlanEffect::Load { plan } => {
                let loads = self.offers.get(&plan).map(|offer| &offer.partitions.loads);
                for (worker, load) in loads.into_iter().flatten() {
                    self.setup.client.load(*worker, load.clone());
                }
            }
            PlanEffect::GiveUp { plan, reason } => {
                self.offers.remove(&plan);
                match reason {
                    GiveUpReason::SwitchPending => {
                        tracing::warn!("a switch of plans is not complete yet; the newer plan is ignored");
                    }
                    GiveUpReason::NoWorker { blocks: (first, end) } => tracing::error!(
                        "the new plan is given up, the one in force goes on: the stage of blocks {first}..{end} has no \
                         worker that is up"
                    ),
                    GiveUpReason::NotLoaded(_) => {
                        tracing::error!("the new plan is given up; the one in force goes on");
                    }
                }
            }
            PlanEffect::Switch { plan, preload, pause } => {
                if let Some(next) = self.offers.remove(&plan) {
                    self.switch_plan(*next, preload, pause);
                }
            }
        }
    }

    fn switch_plan(&mut self, next: ActivePlan, preload: Span, pause: Span) {
        self.setup.active = next;
        let active = &self.setup.active;
        self.setup.client.activate(active.number);
        for (module, _) in &active.modules {
            if let Some(slots) = active.pipeline_slots(*module) {
                self.send_event(
                    *module,
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
            at_s: self.setup.clock.now().since(Timestamp::ZERO).as_secs_f64(),
            preload_ms: preload.as_millis_f64(),
            pause_ms: pause.as_millis_f64(),
        };
        tracing::info!(
            plan = active.number,
            pause_ms = report.pause_ms,
            "another plan is in force"
        );
        self.plans.push(report);
    }
}
