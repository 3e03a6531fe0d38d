//! Events of partition workers: they go up and down, report their times, and finish, fail or lose batches.

use actix::Context;
use weir_flow::Tensor;
use weir_partition::wire::{BatchFailure, BatchKey, Resource, StageTimes};
use weir_partition::{Event, WorkerId};
use weir_policy::reservations::{ReserveEvent, ResourceUse};
use weir_types::ShareId;

use super::ReservationActor;
use crate::actors::burst::PolicyActor;
use crate::actors::messages::PipelineEvent;

impl ReservationActor {
    pub(super) fn on_worker_event(&mut self, event: Event, context: &mut Context<Self>) {
        match event {
            Event::Up { worker, info } => {
                tracing::info!(worker = self.name(worker), class = %info.class, "worker is up");
                self.on_worker_info(worker, &info);
                self.setup.available.insert(worker, info);
                self.on_shares(worker, |share| ReserveEvent::Up { share }, context);
            }
            Event::Down { worker, reason } => {
                tracing::warn!(worker = self.name(worker), "worker lost: {reason}");
                self.setup.available.remove(&worker);
                self.workers.entry(worker).or_default().downs += 1;
                self.on_shares(worker, |share| ReserveEvent::Down { share }, context);
                if let Some(switch) = &mut self.switch {
                    switch.on_worker_down(worker);
                }
            }
            Event::Used {
                worker,
                key,
                stage,
                what,
                usage,
            } => {
                if what == Resource::Run {
                    let report = self.workers.entry(worker).or_default();
                    report.runs += 1;
                    report.busy_s += usage.span().as_secs_f64();
                }
                let Some(in_flight) = self.batches.in_flight(key) else {
                    return;
                };
                let used = match what {
                    Resource::Transfer => ResourceUse::Transfer,
                    Resource::Run => ResourceUse::Run,
                };
                let booking = in_flight.booking;
                let (from, to) = (usage.from, usage.to);
                let event = ReserveEvent::Used {
                    booking,
                    stage,
                    used,
                    from,
                    to,
                };
                self.on_event(event, context);
            }
            Event::Done { key, times, outputs } => self.on_batch_done(key, &times, outputs, context),
            Event::Failed { key, failure, .. } => self.on_batch_failed(key, &failure, context),
            Event::Loaded {
                worker, partition, ..
            } => {
                if let Some(switch) = &mut self.switch {
                    switch.on_loaded(worker, partition);
                }
                self.advance_plan_switch(context);
            }
            Event::NotLoaded {
                worker,
                partition,
                reason,
            } => {
                tracing::error!(
                    worker = self.name(worker),
                    "a partition cannot be loaded: {reason}"
                );
                let switch = self.switch.as_ref();
                if switch.is_some_and(|switch| switch.waits_for(worker, partition)) {
                    tracing::error!("the new plan is given up; the one in force goes on");
                    self.switch = None;
                }
            }
            Event::Activated { .. } => {}
        }
    }

    pub(super) fn name(&self, worker: WorkerId) -> &str {
        self.setup
            .names
            .get(worker.0 as usize)
            .map_or("?", String::as_str)
    }

    /// Passes an event for each share that the plan has on `worker`.
    fn on_shares(
        &mut self,
        worker: WorkerId,
        event: fn(ShareId) -> ReserveEvent,
        context: &mut Context<Self>,
    ) {
        let owners = (0..).map(ShareId).zip(&self.setup.active.assignment.owners);
        let shares: Vec<ShareId> = owners
            .filter(|(_, (owner, _))| *owner == worker)
            .map(|(share, _)| share)
            .collect();
        for share in shares {
            self.on_event(event(share), context);
        }
    }

    fn on_batch_done(
        &mut self,
        key: BatchKey,
        times: &[StageTimes],
        outputs: Vec<Tensor>,
        context: &mut Context<Self>,
    ) {
        let Some(in_flight) = self.batches.on_ended(key) else {
            return;
        };
        let actual = times
            .last()
            .map_or_else(|| self.setup.clock.now(), |last| last.run.to);
        self.accuracy.on_finished(in_flight.finish, actual);
        let booking = in_flight.booking;
        self.on_event(ReserveEvent::Finished { booking }, context);
        let received = PipelineEvent::OutputsReceived {
            batch: key.batch,
            outputs,
            device_time: times.iter().map(|stage| stage.run.span()).sum(),
        };
        self.send_pipeline_event(key.module, received);
    }

    fn on_batch_failed(&mut self, key: BatchKey, failure: &BatchFailure, context: &mut Context<Self>) {
        let Some(in_flight) = self.batches.on_ended(key) else {
            return;
        };
        let lost = !matches!(failure, BatchFailure::Session(_) | BatchFailure::Panicked(_));
        if lost {
            self.accuracy.on_lost();
        } else {
            self.accuracy.on_failed();
        }
        let booking = in_flight.booking;
        self.on_event(ReserveEvent::Failed { booking }, context);
        self.report_failure(key, lost, failure.to_string());
    }
}
