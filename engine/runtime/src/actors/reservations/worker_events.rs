//! Events of partition workers: they go up and down, report their times, and finish, fail or lose batches.

use actix::Context;
use weir_flow::Tensor;
use weir_partition::wire::{BatchFailure, BatchKey, Resource, StageTimes};
use weir_partition::{Event, WorkerId};
use weir_policy::reservations::{PartitionLoad, PlanEvent, ReserveEvent, ResourceUse};

use super::ReservationActor;
use crate::actors::burst::PolicyActor;
use crate::actors::messages::PipelineEvent;

impl ReservationActor {
    pub(super) fn on_worker_event(&mut self, event: Event, context: &mut Context<Self>) {
        match event {
            Event::Up { worker, info } => {
                tracing::info!(worker = self.name(worker), class = %info.class, "worker is up");
                self.on_worker_info(worker, &info);
                self.on_event(PlanEvent::WorkerUp { worker }.into(), context);
            }
            Event::Down { worker, reason } => {
                tracing::warn!(worker = self.name(worker), "worker lost: {reason}");
                self.workers.entry(worker).or_default().downs += 1;
                self.on_event(PlanEvent::WorkerDown { worker }.into(), context);
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
                self.on_event(event.into(), context);
            }
            Event::Done { key, times, outputs } => self.on_batch_done(key, &times, outputs, context),
            Event::Failed { key, failure, .. } => self.on_batch_failed(key, &failure, context),
            Event::Loaded {
                worker, partition, ..
            } => {
                let loaded = PlanEvent::Loaded(PartitionLoad { worker, partition });
                self.on_event(loaded.into(), context);
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
                let not_loaded = PlanEvent::NotLoaded(PartitionLoad { worker, partition });
                self.on_event(not_loaded.into(), context);
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
        self.on_event(ReserveEvent::Finished { booking }.into(), context);
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
        self.on_event(ReserveEvent::Failed { booking }.into(), context);
        self.report_failure(key, lost, failure.to_string());
    }
}
