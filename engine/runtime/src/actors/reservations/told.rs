//! What workers tell: that they come and go, what of their time was used, and what became of batches.

use actix::Context;
use weir_flow::Tensor;
use weir_partition::wire::{BatchFailure, BatchKey, Resource, StageTimes};
use weir_partition::{Event, WorkerId};
use weir_policy::reservations::{ReserveEvent, ResourceUse};
use weir_types::ShareId;

use super::ReservationActor;
use super::change::Change;
use crate::fleet::Through;

impl ReservationActor {
    pub(super) fn told(&mut self, event: Event, context: &mut Context<Self>) {
        match event {
            Event::Up { worker, info } => {
                tracing::info!(worker = self.name(worker), class = %info.class, "worker is there");
                self.introduced(worker, &info);
                self.setup.up.insert(worker, info);
                self.of_worker(worker, |share| ReserveEvent::Up { share }, context);
            }
            Event::Down { worker, reason } => {
                tracing::warn!(worker = self.name(worker), "worker lost: {reason}");
                self.setup.up.remove(&worker);
                self.workers.entry(worker).or_default().downs += 1;
                self.of_worker(worker, |share| ReserveEvent::Down { share }, context);
                self.not_awaited(worker);
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
                let Some(moving) = self.moving.get(&key) else {
                    return;
                };
                let used = match what {
                    Resource::Transfer => ResourceUse::Transfer,
                    Resource::Run => ResourceUse::Run,
                };
                let booking = moving.booking;
                let (from, to) = (usage.from, usage.to);
                let fact = ReserveEvent::Used {
                    booking,
                    stage,
                    used,
                    from,
                    to,
                };
                self.fact(fact, context);
            }
            Event::Done { key, times, outputs } => self.done(key, &times, outputs, context),
            Event::Failed { key, failure, .. } => self.failed(key, &failure, context),
            Event::Loaded {
                worker, partition, ..
            } => {
                if let Some(change) = &mut self.change {
                    change.missing.retain(|missing| *missing != (worker, partition));
                }
                self.change_over(context);
            }
            Event::NotLoaded {
                worker,
                partition,
                reason,
            } => {
                tracing::error!(worker = self.name(worker), "a part cannot be loaded: {reason}");
                let refused = |change: &Change| change.missing.contains(&(worker, partition));
                if self.change.as_ref().is_some_and(refused) {
                    tracing::error!("the new plan is given up; the one in force goes on");
                    self.change = None;
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

    fn of_worker(
        &mut self,
        worker: WorkerId,
        fact: fn(ShareId) -> ReserveEvent,
        context: &mut Context<Self>,
    ) {
        let seats = (0..).map(ShareId).zip(&self.setup.planned.seats.seats);
        let own: Vec<ShareId> = seats
            .filter(|(_, (of, _))| *of == worker)
            .map(|(share, _)| share)
            .collect();
        for share in own {
            self.fact(fact(share), context);
        }
    }

    fn done(
        &mut self,
        key: BatchKey,
        times: &[StageTimes],
        outputs: Vec<Tensor>,
        context: &mut Context<Self>,
    ) {
        let Some(moving) = self.moving.remove(&key) else {
            return;
        };
        let actual = times
            .last()
            .map_or_else(|| self.setup.clock.now(), |last| last.run.to);
        self.accuracy.finished(moving.finish, actual);
        let booking = moving.booking;
        self.fact(ReserveEvent::Finished { booking }, context);
        let through = Through {
            module: key.module,
            batch: key.batch,
            items: moving.items,
            outputs,
            ran: times.iter().map(|stage| stage.run.span()).sum(),
        };
        let taken = self
            .setup
            .ends
            .get(&key.module)
            .is_some_and(|(_, back)| back.take(through));
        if !taken {
            let reason = "too many batches wait to be decoded".to_owned();
            self.back(key.module, key.batch, Err((false, reason)));
        }
    }

    pub(super) fn failed(&mut self, key: BatchKey, failure: &BatchFailure, context: &mut Context<Self>) {
        let Some(moving) = self.moving.remove(&key) else {
            return;
        };
        let lost = !matches!(failure, BatchFailure::Session(_) | BatchFailure::Panicked(_));
        if lost {
            self.accuracy.lost();
        } else {
            self.accuracy.failed();
        }
        let booking = moving.booking;
        self.fact(ReserveEvent::Failed { booking }, context);
        self.back(key.module, key.batch, Err((lost, failure.to_string())));
    }
}
