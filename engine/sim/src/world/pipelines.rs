//! Modules over pipelines: their requests go to the reservations, their batches along the booked paths.

use weir_policy::reservations::{
    BookingId, PartitionLoad, PlanEffect, PlanEvent, PlanReport, PlannedEffect, PlannedEvent, ReserveEffect,
    ReserveEvent, ResourceUse,
};
use weir_policy::{BatchSlice, ModuleEvent};
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{BatchId, ModuleId, PartitionId, ShareId, Span, Timestamp};

use super::booked_cluster::{BookedPath, InFlightBatch};
use super::cluster_run::BatchLoad;
use super::{Event, World};
use crate::cluster_usage::ResourceUsage;
use crate::spec::{LaterPlan, WorldPool};

/// The first partition on each share stands for all that a plan has loaded there.
fn loads(later: &LaterPlan) -> Vec<PartitionLoad> {
    let owners = (0..).map(PartitionId).zip(&later.plan.owners);
    let load = |(partition, &worker)| PartitionLoad { worker, partition };
    owners.map(load).collect()
}

impl World<'_> {
    pub(super) fn is_partitioned(&self, module: ModuleId) -> bool {
        matches!(self.spec.modules[module.index()].pool, WorldPool::Pipelines(_))
    }

    /// Gives the reservations an event after a hop.
    pub(super) fn send_reservations(&mut self, event: ReserveEvent) {
        if self.spec.hop > Span::ZERO {
            self.event_queue
                .push_in_order(self.now + self.spec.hop, Event::Reservations(event));
        } else {
            self.on_planned_event(event.into());
        }
    }

    /// The later plan by its index is offered.
    pub(super) fn on_plan_offered(&mut self, index: usize) {
        if let Some(later) = self.later_plan(index) {
            let offered = PlanEvent::PlanOffered {
                plan: Box::new(later.plan.clone()),
                loads: loads(later),
            };
            self.on_planned_event(offered.into());
        }
    }

    /// The partitions of the later plan by its index are loaded.
    pub(super) fn on_plan_loaded(&mut self, index: usize) {
        for load in self.later_plan(index).map(loads).unwrap_or_default() {
            self.on_planned_event(PlanEvent::Loaded(load).into());
        }
    }

    fn later_plan(&self, index: usize) -> Option<&LaterPlan> {
        self.spec.cluster.as_ref()?.later.get(index)
    }

    fn apply_plan(&mut self, effect: PlanEffect) {
        let (PlanEffect::Load { plan: number }
        | PlanEffect::GiveUp { plan: number, .. }
        | PlanEffect::Switch { plan: number, .. }) = effect;
        let Some(pipelines) = &mut self.pipelines else {
            return;
        };
        let mut later = pipelines.spec.later.iter().enumerate();
        let Some((index, later)) = later.find(|(_, later)| later.plan.number == number) else {
            return;
        };
        match effect {
            PlanEffect::Load { .. } => self
                .event_queue
                .push(self.now + later.load_time, Event::PlanLoaded(index)),
            PlanEffect::GiveUp { .. } => {}
            PlanEffect::Switch { preload, pause, .. } => {
                pipelines.switch(&later.plan);
                pipelines.plans.push(PlanReport {
                    at_s: self.now.since(Timestamp::ZERO).as_secs_f64(),
                    preload_ms: preload.as_millis_f64(),
                    pause_ms: pause.as_millis_f64(),
                });
                for (module, slots) in &later.modules {
                    let changed = ModuleEvent::PlanChanged {
                        profile: slots.profile.clone(),
                        batch: slots.batch,
                        lanes: slots.count,
                        share: slots.share,
                    };
                    self.send(ModuleId(*module as u32), changed);
                }
            }
        }
    }

    pub(super) fn on_planned_event(&mut self, event: PlannedEvent) {
        if let Some(pipelines) = &mut self.pipelines {
            pipelines.on_event(event);
        }
    }

    /// Lets the reservations decide; says whether there was anything to decide.
    pub(super) fn reserve(&mut self) -> bool {
        let Some(pipelines) = &mut self.pipelines else {
            return false;
        };
        if pipelines.events.is_empty() {
            return false;
        }
        let mut effects = std::mem::take(&mut pipelines.effects);
        self.policy_events += pipelines.events.len() as u64;
        pipelines
            .reservations
            .step(pipelines.events.drain(..), self.now, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                PlannedEffect::Reserve(effect) => self.apply_reservation(effect),
                PlannedEffect::Plan(effect) => self.apply_plan(effect),
            }
        }
        if let Some(pipelines) = &mut self.pipelines {
            pipelines.effects = effects;
        }
        true
    }

    pub(super) fn start_uses(&mut self) {
        let Some(pipelines) = &mut self.pipelines else {
            return;
        };
        for (at, booking) in pipelines.cluster.start_ready(self.now) {
            self.event_queue.push(at, Event::UseEnded(booking));
        }
    }

    fn apply_reservation(&mut self, effect: ReserveEffect) {
        let Some(pipelines) = &mut self.pipelines else {
            return;
        };
        match effect {
            ReserveEffect::Book {
                module,
                booking,
                pipeline,
                size,
                path,
                finish,
                ..
            } => {
                let booked = BookedPath {
                    pipeline,
                    path,
                    size,
                    finish,
                };
                pipelines.booked.insert(booking, booked);
                self.send(
                    module,
                    ModuleEvent::Booked {
                        booking,
                        size,
                        finish,
                    },
                );
            }
            ReserveEffect::NoPath { module, finish } => self.send(module, ModuleEvent::NoPath { finish }),
            ReserveEffect::Lost { booking, .. } => {
                // One that was not dispatched yet finds its path gone.
                pipelines.booked.remove(&booking);
                if let Some(lost) = pipelines.in_flight.remove(&booking) {
                    pipelines.cluster.remove(booking);
                    self.on_batch_lost(booking, lost.module, lost.batch, lost.busy);
                }
            }
            ReserveEffect::SetTimer { at } => self.event_queue.push(at, Event::ReservationTimer),
        }
    }

    /// Sends a batch along its booked path.
    pub(super) fn dispatch(
        &mut self,
        module: ModuleId,
        booking: BookingId,
        batch: BatchId,
        slices: &[BatchSlice],
    ) {
        self.stats.modules.entry(module).or_default().on_run(slices);
        self.timeline.on_run(module, self.now, slices);
        self.stages
            .iter_mut()
            .for_each(|stages| stages.on_run(module, batch, slices));
        let Some(pipelines) = &mut self.pipelines else {
            return;
        };
        let Some(booked) = pipelines.booked.remove(&booking) else {
            return self.on_batch_lost(booking, module, batch, Span::ZERO);
        };
        let items = slices.iter().map(|slice| slice.count).sum();
        let reserve = &pipelines.plan.reserve;
        let load = BatchLoad {
            path: &booked.path,
            stages: &reserve.cluster.pipelines[booked.pipeline.index()].stages,
            size: booked.size,
            items,
        };
        let reservations = reserve.feedback.then_some(pipelines.reservations.reservations());
        let noise = (self.spec.noise, &mut self.random);
        pipelines.cluster.start(booking, load, reservations, noise);
        pipelines
            .events
            .push(ReserveEvent::Dispatched { booking, items }.into());
        let in_flight = InFlightBatch {
            module,
            batch,
            items,
            finish: booked.finish,
            busy: Span::ZERO,
        };
        let before = pipelines.in_flight.insert(booking, in_flight);
        invariant!(
            before.is_none(),
            Kind::Bookings,
            "booking {} is dispatched twice",
            booking.0
        );
    }

    /// A batch was lost with a share: what has time runs again.
    fn on_batch_lost(&mut self, booking: BookingId, module: ModuleId, batch: BatchId, took: Span) {
        if let Some(pipelines) = &mut self.pipelines {
            pipelines.accuracy.on_lost();
            pipelines.events.push(ReserveEvent::Failed { booking }.into());
        }
        let stats = self.stats.modules.entry(module).or_default();
        stats.on_batch_done(took, true);
        self.end_stage_batch(module, batch, true);
        self.deliver(module, ModuleEvent::Lost { batch, took });
    }

    pub(super) fn on_use_ended(&mut self, booking: BookingId) {
        let now = self.now;
        let Some(pipelines) = &mut self.pipelines else {
            return;
        };
        let Some(ended) = pipelines.cluster.on_use_end(booking) else {
            return;
        };
        let Some(in_flight) = pipelines.in_flight.get_mut(&booking) else {
            return;
        };
        if ended.used == ResourceUse::Run {
            in_flight.busy += now - ended.from;
        }
        let usage = ResourceUsage {
            booking,
            stage: ended.stage,
            share: ended.share,
            used: ended.used,
            size: in_flight.items,
            from: ended.from,
            to: now,
        };
        pipelines.record(usage);
        let used = ReserveEvent::Used {
            booking,
            stage: ended.stage,
            used: ended.used,
            from: ended.from,
            to: now,
        };
        pipelines.events.push(used.into());
        if !ended.last {
            return;
        }
        pipelines.events.push(ReserveEvent::Finished { booking }.into());
        let Some(finished) = pipelines.in_flight.remove(&booking) else {
            return;
        };
        pipelines.accuracy.on_finished(finished.finish, now);
        pipelines.usage.last_output = now;
        let InFlightBatch {
            module, batch, busy, ..
        } = finished;
        let stats = self.stats.modules.entry(module).or_default();
        stats.on_batch_done(busy, false);
        self.end_stage_batch(module, batch, false);
        self.deliver(module, ModuleEvent::Finished { batch, took: busy });
    }

    /// A share fails, or returns.
    pub(super) fn on_share_failure(&mut self, module: usize, worker: u32, begins: bool) {
        let Some(pipelines) = &mut self.pipelines else {
            return;
        };
        let own = pipelines.plan.reserve.cluster.pipelines.iter();
        let own = own.filter(|pipeline| pipeline.module.index() == module);
        let stages = own.flat_map(|pipeline| &pipeline.stages);
        let mut shares: Vec<ShareId> = stages.flat_map(|stage| stage.shares.iter().copied()).collect();
        shares.sort_unstable();
        shares.dedup();
        if let Some(&share) = shares.get(worker as usize) {
            let event = if begins {
                ReserveEvent::Down { share }
            } else {
                ReserveEvent::Up { share }
            };
            pipelines.events.push(event.into());
        }
    }
}
