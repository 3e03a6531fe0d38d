//! Reservations of the plan in force, and the switch to another plan (PPipe 5.1). The partitions of the new
//! plan are loaded while the old plan continues. Then no path is booked until every booking has ended. Then
//! paths are booked by the new plan.
//!
//! ```text
//! PlanOffered ──Load──> loading ──Loaded, all──> paused ──last booking ended──Switch──> in force
//!       │                  └──NotLoaded──GiveUp
//!       └──GiveUp   (a stage without a worker, or a switch that is not complete)
//! ```
//!
//! A plan that was solved again for measured conditions (`replan.rs`) is loaded only if it is better than the one in force.
//!
//! Requests of modules are kept while booking is paused, and are answered by the new plan. A plan that is
//! given up changes nothing.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use weir_types::{Conditions, ModuleId, PartitionId, PlanGain, ShareId, Span, Timestamp, WorkerId};

use super::api::{BookingId, ReserveEffect, ReserveEvent};
use super::replan::{Replan, ReplanOrigin, ReplanSpec};
use super::{Reservations, ReserveSpec};

/// A plan laid out on workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanSpec {
    /// Number of the plan in its run.
    pub number: u64,
    /// Specification of the plan's reservations.
    pub reserve: ReserveSpec,
    /// Worker that owns each share; a share without an owner is never lost.
    pub owners: Vec<WorkerId>,
    /// Condition for solving it again; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replan: Option<ReplanSpec>,
}

/// A partition on a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PartitionLoad {
    /// Worker that loads the partition.
    pub worker: WorkerId,
    /// Partition to be loaded.
    pub partition: PartitionId,
}

/// An event for the plans.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum PlanEvent {
    /// A new plan is offered.
    PlanOffered {
        /// Plan that is offered.
        plan: Box<PlanSpec>,
        /// Partitions that must be loaded before the plan can be in force.
        loads: Vec<PartitionLoad>,
        /// Origin of a plan that was solved again; `None`: it is used however good it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<ReplanOrigin>,
    },
    /// Items arrived at a module, whether they are served or dropped.
    Arrived {
        /// Module that they arrived at.
        module: ModuleId,
        /// Number of items since the last event.
        items: u64,
    },
    /// A worker has loaded a partition.
    Loaded(PartitionLoad),
    /// A worker cannot load a partition.
    NotLoaded(PartitionLoad),
    /// A worker is up again; all workers are up at the start.
    WorkerUp {
        /// Worker that returned.
        worker: WorkerId,
    },
    /// A worker is down, and its shares with it.
    WorkerDown {
        /// Worker that is lost.
        worker: WorkerId,
    },
}

/// An effect of the plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum PlanEffect {
    /// Load the partitions of an offered plan. The plan in force continues.
    Load {
        /// Number of the plan.
        plan: u64,
    },
    /// A plan is given up. The plan in force continues.
    GiveUp {
        /// Number of the plan.
        plan: u64,
        /// The reason that is reported.
        reason: GiveUpReason,
    },
    /// A plan is in force: all effects after this one belong to it.
    Switch {
        /// Number of the plan.
        plan: u64,
        /// Time from the offer until the plan's partitions were loaded.
        preload: Span,
        /// Time for which no path was booked.
        pause: Span,
    },
}

/// Reason for which a plan is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GiveUpReason {
    /// A switch to another plan is not complete.
    SwitchPending,
    /// No worker of a stage is up.
    NoWorker {
        /// First block of the stage, and the block after its last.
        blocks: (u32, u32),
    },
    /// A worker cannot load a partition of the plan.
    NotLoaded(PartitionLoad),
    /// It was solved again and is not better enough.
    NotBetter(PlanGain),
    /// It was solved again from a plan that is no longer in force, or plans are no longer solved again.
    Outdated,
}

/// An event for the reservations or for their plans.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PlannedEvent {
    /// For the reservations.
    Reserve(ReserveEvent),
    /// For the plans.
    Plan(PlanEvent),
}

impl From<ReserveEvent> for PlannedEvent {
    fn from(event: ReserveEvent) -> Self {
        Self::Reserve(event)
    }
}

impl From<PlanEvent> for PlannedEvent {
    fn from(event: PlanEvent) -> Self {
        Self::Plan(event)
    }
}

/// An effect of the reservations or of the plans that they are by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PlannedEffect {
    /// Of the reservations.
    Reserve(ReserveEffect),
    /// Of the plans.
    Plan(PlanEffect),
    /// Conditions have departed from those of the plan in force: it is to be solved again for these, in the background.
    Replan(Conditions),
}

/// A switch that is not complete.
#[derive(Debug, Clone)]
struct PlanSwitch {
    next: Box<PlanSpec>,
    /// Whether it was solved again.
    is_replan: bool,
    offered_at: Timestamp,
    /// Loads that no worker has reported yet; loads on workers that are down are left out.
    pending_loads: BTreeSet<PartitionLoad>,
    /// Time since which no path is booked; `None` while partitions are loading.
    paused_at: Option<Timestamp>,
}

/// [`Reservations`] of the plan in force, with the switch to another plan.
#[derive(Debug, Clone)]
pub struct PlannedReservations {
    /// Number of the plan in force.
    number: u64,
    reservations: Reservations,
    /// By share of the plan in force.
    owners: Vec<WorkerId>,
    down: BTreeSet<WorkerId>,
    /// Bookings that have neither been declined nor ended, including lost ones, whose batches still end.
    outstanding: BTreeSet<BookingId>,
    switch: Option<PlanSwitch>,
    replan: Option<Replan>,
    /// Events of this step that go to the reservations.
    events: Vec<ReserveEvent>,
}

impl PlannedReservations {
    /// Starts with `plan` in force, no bookings, and all workers up.
    #[must_use]
    pub fn new(plan: &PlanSpec) -> Self {
        Self {
            number: plan.number,
            reservations: Reservations::new(&plan.reserve),
            owners: plan.owners.clone(),
            down: BTreeSet::new(),
            outstanding: BTreeSet::new(),
            switch: None,
            replan: plan.replan.clone().map(Replan::new),
            events: Vec::new(),
        }
    }

    /// Whether arrivals are counted, by which a plan is solved again.
    #[must_use]
    pub fn counts_arrivals(&self) -> bool {
        self.replan.is_some()
    }

    /// By the plan in force.
    #[must_use]
    pub fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// Takes in a burst of events, decides once, and appends the resulting effects.
    pub fn step(
        &mut self,
        events: impl IntoIterator<Item = PlannedEvent>,
        now: Timestamp,
        effects: &mut Vec<PlannedEffect>,
    ) {
        for event in events {
            match event {
                PlannedEvent::Reserve(event) => self.on_reserve_event(event),
                PlannedEvent::Plan(event) => self.on_plan_event(event, now, effects),
            }
        }
        self.decide(now, effects);
        self.advance_switch(now, effects);
        if self.switch.is_none()
            && let Some(replan) = &mut self.replan
        {
            effects.extend(replan.look(now).map(PlannedEffect::Replan));
        }
    }

    fn on_reserve_event(&mut self, event: ReserveEvent) {
        if let Some(replan) = &mut self.replan
            && let ReserveEvent::Used {
                booking,
                stage,
                used,
                from,
                to,
            } = event
            && let Some(planned) = self.reservations.planned_use(booking, stage, used)
        {
            replan.on_used(&planned, to.since(from));
        }
        if let ReserveEvent::Declined { booking }
        | ReserveEvent::Finished { booking }
        | ReserveEvent::Failed { booking } = event
        {
            self.outstanding.remove(&booking);
        }
        self.events.push(event);
    }

    fn on_plan_event(&mut self, event: PlanEvent, now: Timestamp, effects: &mut Vec<PlannedEffect>) {
        match event {
            PlanEvent::PlanOffered { plan, loads, origin } => {
                self.on_plan_offered((plan, origin), loads, now, effects);
            }
            PlanEvent::Arrived { module, items } => {
                if let Some(replan) = &mut self.replan {
                    replan.on_arrived(module, items);
                }
            }
            PlanEvent::Loaded(load) => {
                if let Some(switch) = &mut self.switch {
                    switch.pending_loads.remove(&load);
                }
            }
            PlanEvent::NotLoaded(load) => {
                let waits = |switch: &mut PlanSwitch| switch.pending_loads.contains(&load);
                // The worker would not load it the next time either, so it is not solved again.
                if let Some(switch) = self.switch.take_if(waits) {
                    effects.push(PlannedEffect::Plan(PlanEffect::GiveUp {
                        plan: switch.next.number,
                        reason: GiveUpReason::NotLoaded(load),
                    }));
                }
            }
            PlanEvent::WorkerUp { worker } => {
                self.down.remove(&worker);
                let shares = shares_of(&self.owners, worker);
                self.events.extend(shares.map(|share| ReserveEvent::Up { share }));
            }
            PlanEvent::WorkerDown { worker } => {
                self.down.insert(worker);
                let shares = shares_of(&self.owners, worker);
                self.events
                    .extend(shares.map(|share| ReserveEvent::Down { share }));
                if let Some(switch) = &mut self.switch {
                    switch.pending_loads.retain(|load| load.worker != worker);
                }
            }
        }
    }

    fn on_plan_offered(
        &mut self,
        (plan, origin): (Box<PlanSpec>, Option<ReplanOrigin>),
        loads: Vec<PartitionLoad>,
        now: Timestamp,
        effects: &mut Vec<PlannedEffect>,
    ) {
        let number = plan.number;
        let is_up = |share: ShareId| {
            let owner = plan.owners.get(share.index());
            owner.is_none_or(|worker| !self.down.contains(worker))
        };
        let reason = if self.switch.is_some() {
            Some(GiveUpReason::SwitchPending)
        } else if let Some(reason) = origin.and_then(|origin| self.decline(origin)) {
            Some(reason)
        } else {
            let stage = plan.reserve.cluster.stage_without(is_up);
            stage.map(|stage| GiveUpReason::NoWorker { blocks: stage.blocks })
        };
        if let Some(reason) = reason {
            if !matches!(reason, GiveUpReason::NotBetter(_)) {
                self.on_given_up(origin.is_some());
            }
            return effects.push(PlannedEffect::Plan(PlanEffect::GiveUp { plan: number, reason }));
        }
        let on_worker_up = |load: &PartitionLoad| !self.down.contains(&load.worker);
        self.switch = Some(PlanSwitch {
            next: plan,
            is_replan: origin.is_some(),
            offered_at: now,
            pending_loads: loads.into_iter().filter(on_worker_up).collect(),
            paused_at: None,
        });
        effects.push(PlannedEffect::Plan(PlanEffect::Load { plan: number }));
    }

    /// Gives the reason for which a plan that was solved again is not used; `None` if it is.
    fn decline(&self, origin: ReplanOrigin) -> Option<GiveUpReason> {
        let ReplanOrigin { plan, gain } = origin;
        match self.replan.as_ref().filter(|_| plan == self.number) {
            Some(replan) => (!replan.accepts(gain)).then_some(GiveUpReason::NotBetter(gain)),
            None => Some(GiveUpReason::Outdated),
        }
    }

    /// A plan is given up, for a reason that may pass.
    fn on_given_up(&mut self, is_replan: bool) {
        if let Some(replan) = self.replan.as_mut().filter(|_| is_replan) {
            replan.on_given_up();
        }
    }

    /// Has the reservations decide on the events for them.
    fn decide(&mut self, now: Timestamp, effects: &mut Vec<PlannedEffect>) {
        let mut decided = Vec::new();
        self.reservations.step(self.events.drain(..), now, &mut decided);
        for effect in decided {
            if let ReserveEffect::Book { booking, .. } = effect {
                self.outstanding.insert(booking);
            }
            effects.push(PlannedEffect::Reserve(effect));
        }
    }

    /// Pauses booking once everything is loaded, and switches once every booking has ended.
    fn advance_switch(&mut self, now: Timestamp, effects: &mut Vec<PlannedEffect>) {
        let loaded = |switch: &&mut PlanSwitch| switch.pending_loads.is_empty();
        let Some(switch) = self.switch.as_mut().filter(loaded) else {
            return;
        };
        let paused_at = *switch.paused_at.get_or_insert(now);
        self.reservations.pause();
        if !self.outstanding.is_empty() {
            return;
        }
        let Some(switch) = self.switch.take() else { return };
        // One that was solved again is for the conditions that are known already.
        if !switch.is_replan {
            self.replan = switch.next.replan.clone().map(Replan::new);
        }
        let mut next = Reservations::new(&switch.next.reserve);
        next.adopt_corrections(&self.reservations);
        let before = std::mem::replace(&mut self.reservations, next);
        (self.number, self.owners) = (switch.next.number, switch.next.owners);
        effects.push(PlannedEffect::Plan(PlanEffect::Switch {
            plan: switch.next.number,
            preload: paused_at.since(switch.offered_at),
            pause: now.since(paused_at),
        }));
        for &worker in &self.down {
            let shares = shares_of(&self.owners, worker);
            self.events
                .extend(shares.map(|share| ReserveEvent::Down { share }));
        }
        let asked_again = before
            .requests()
            .map(|(module, request)| ReserveEvent::PathRequested { module, request });
        self.events.extend(asked_again);
        self.decide(now, effects);
    }
}

/// The shares that a worker has.
fn shares_of(owners: &[WorkerId], worker: WorkerId) -> impl Iterator<Item = ShareId> {
    let shares = (0..).map(ShareId).zip(owners);
    shares
        .filter(move |(_, owner)| **owner == worker)
        .map(|(share, _)| share)
}
