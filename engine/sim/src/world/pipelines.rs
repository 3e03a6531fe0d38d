//! Batches on the paths that were booked for them, and plans that take each other's place.

use weir_control::{BatchEnd, BookedPath, Message, ModuleMessage, ReservationMessage};
use weir_policy::ModuleEvent;
use weir_policy::reservations::{
    BookingId, PartitionLoad, PlanEvent, Reservations, ReserveEvent, ResourceUse,
};
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{BatchId, Conditions, ModuleId, PartitionId, ShareId, Span};

use super::booked_cluster::InFlightBatch;
use super::cluster_run::BatchLoad;
use super::{Event, Site};
use crate::cluster_usage::ResourceUsage;
use crate::spec::LaterPlan;

/// Loads of the plan: the first partition on each share represents all partitions that are loaded there.
fn loads(later: &LaterPlan) -> Vec<PartitionLoad> {
    let owners = (0..).map(PartitionId).zip(&later.plan.owners);
    let load = |(partition, &worker)| PartitionLoad { worker, partition };
    owners.map(load).collect()
}

impl Site<'_> {
    /// The later plan by its index is offered.
    pub(super) fn offer_plan(&mut self, index: usize, messages: &mut Vec<Message>) {
        if let Some(later) = self.later_plan(index) {
            messages.push(Message::planned(PlanEvent::PlanOffered {
                plan: Box::new(later.plan.clone()),
                loads: loads(later),
                origin: later.origin,
            }));
        }
    }

    /// The plan in force is solved again; what differs from it is offered later.
    pub(super) fn replan(&mut self, conditions: &Conditions) {
        let solved = self
            .cluster
            .as_mut()
            .and_then(|cluster| cluster.replan(conditions));
        if let Some((index, solve_time)) = solved {
            self.event_queue
                .push(self.now + solve_time, Event::PlanOffered(index));
        }
    }

    /// The links of a class change, by the index of the change.
    pub(super) fn change_links(&mut self, index: usize) {
        if let Some(cluster) = &mut self.cluster
            && let Some(change) = cluster.spec.link_changes.get(index)
        {
            let factors = &mut cluster.cluster.link_factors;
            factors.insert(change.class.clone(), change.factor);
        }
    }

    /// The partitions of the later plan by its index are loaded.
    pub(super) fn on_plan_loaded(&mut self, index: usize, messages: &mut Vec<Message>) {
        for load in self.later_plan(index).map(loads).unwrap_or_default() {
            messages.push(Message::planned(PlanEvent::Loaded(load)));
        }
    }

    fn later_plan(&self, index: usize) -> Option<&LaterPlan> {
        self.cluster.as_ref()?.later.get(index)
    }

    pub(super) fn load_plan(&mut self, number: u64) {
        let later = self.cluster.iter().flat_map(|cluster| &cluster.later);
        let found = later.enumerate().find(|(_, later)| later.plan.number == number);
        if let Some((index, later)) = found {
            let loaded = self.now + later.load_time;
            self.event_queue.push(loaded, Event::PlanLoaded(index));
        }
    }

    pub(super) fn switch_plan(&mut self, number: u64, messages: &mut Vec<Message>) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        let Some(later) = cluster.later.iter().find(|later| later.plan.number == number) else {
            return;
        };
        let later = later.clone();
        cluster.switch(later.plan);
        for (module, slots) in later.modules {
            let changed = ModuleEvent::PlanChanged {
                profile: slots.profile,
                batch: slots.batch,
                lanes: slots.count,
                share: slots.share,
            };
            self.send(Message::fact(ModuleId(module as u32), changed), messages);
        }
    }

    pub(super) fn start_uses(&mut self) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        for (at, booking) in cluster.cluster.start_ready(self.now) {
            self.event_queue.push(at, Event::UseEnded(booking));
        }
    }

    /// Sends a batch along its booked path.
    pub(super) fn set_out(
        &mut self,
        booking: BookingId,
        (module, batch, items): (ModuleId, BatchId, u32),
        path: &BookedPath,
        reservations: Option<&Reservations>,
    ) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        let reserve = &cluster.plan.reserve;
        let load = BatchLoad {
            path: &path.stages,
            stages: &reserve.cluster.pipelines[path.pipeline.index()].stages,
            items,
        };
        let reservations = reservations.filter(|_| reserve.feedback);
        let noise = (self.spec.noise, &mut self.random);
        cluster.cluster.start(booking, load, reservations, noise);
        let in_flight = InFlightBatch {
            module,
            batch,
            items,
            busy: Span::ZERO,
        };
        let before = cluster.in_flight.insert(booking, in_flight);
        invariant!(
            before.is_none(),
            Kind::Bookings,
            "booking {} is dispatched twice",
            booking.0
        );
    }

    /// The path of a batch is lost with a share: what has time runs again.
    pub(super) fn lose_path(&mut self, booking: BookingId, messages: &mut Vec<Message>) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        if let Some(lost) = cluster.in_flight.remove(&booking) {
            cluster.cluster.remove(booking);
            messages.push(Message::Reservations(ReservationMessage::Failed {
                booking,
                took: lost.busy,
                is_lost: true,
            }));
        }
    }

    pub(super) fn on_use_ended(&mut self, booking: BookingId, messages: &mut Vec<Message>) {
        let now = self.now;
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        let Some(ended) = cluster.cluster.on_use_end(booking) else {
            return;
        };
        let Some(in_flight) = cluster.in_flight.get_mut(&booking) else {
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
        cluster.record(usage);
        messages.push(Message::Reservations(ReservationMessage::Used {
            booking,
            stage: ended.stage,
            used: ended.used,
            from: ended.from,
            to: now,
        }));
        if !ended.last {
            return;
        }
        let Some(InFlightBatch {
            module, batch, busy, ..
        }) = cluster.in_flight.remove(&booking)
        else {
            return;
        };
        cluster.usage.last_output = now;
        let finished = ReservationMessage::Finished { booking, at: now };
        messages.push(Message::Reservations(finished));
        let ended = ModuleMessage::BatchEnded {
            batch,
            took: busy,
            end: BatchEnd::Out,
        };
        messages.push(Message::Module(module, ended));
    }

    /// A share fails, or returns.
    pub(super) fn on_share_failure(&self, module: usize, worker: u32, begins: bool) -> Option<Message> {
        let cluster = self.cluster.as_ref()?;
        let own = cluster.plan.reserve.cluster.pipelines.iter();
        let own = own.filter(|pipeline| pipeline.module.index() == module);
        let stages = own.flat_map(|pipeline| &pipeline.stages);
        let mut shares: Vec<ShareId> = stages.flat_map(|stage| stage.shares.iter().copied()).collect();
        shares.sort_unstable();
        shares.dedup();
        let share = *shares.get(worker as usize)?;
        Some(Message::planned(if begins {
            ReserveEvent::Down { share }
        } else {
            ReserveEvent::Up { share }
        }))
    }
}
