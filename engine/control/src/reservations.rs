//! Reservations as a machine: paths that are booked, batches on them, and switches of plans. A booking is answered once, by
//! a batch or by giving it back; a batch ends once.

use std::collections::BTreeMap;

use weir_policy::ModuleEvent;
use weir_policy::reservations::{
    Accuracy, BookingId, PlanEffect, PlanReport, PlanSpec, PlannedEffect, PlannedEvent, PlannedReservations,
    ReserveEffect, ReserveEvent,
};
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{BatchId, ModuleId, Span, Timestamp};

use crate::machine::{Machine, Outbox};
use crate::message::{Address, BatchEnd, BookedPath, Effect, Message, ModuleMessage, ReservationMessage};

/// A batch on its path.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    module: ModuleId,
    batch: BatchId,
    finish: Timestamp,
}

/// See the module.
#[derive(Debug)]
pub struct ReservationMachine {
    policy: PlannedReservations,
    due: Vec<PlannedEvent>,
    effects: Vec<PlannedEffect>,
    /// Paths that are booked, with no batch on them yet; `None`: the path was lost with a worker.
    booked: BTreeMap<BookingId, Option<BookedPath>>,
    in_flight: BTreeMap<BookingId, InFlight>,
    accuracy: Accuracy,
}

impl ReservationMachine {
    /// Nothing booked, by this plan.
    #[must_use]
    pub fn new(plan: &PlanSpec) -> Self {
        Self {
            policy: PlannedReservations::new(plan),
            due: Vec::new(),
            effects: Vec::new(),
            booked: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            accuracy: Accuracy::default(),
        }
    }

    /// The policy that it decides by.
    #[must_use]
    pub fn policy(&self) -> &PlannedReservations {
        &self.policy
    }

    /// Gives how far bookings were from what happened, and plans that came into force.
    #[must_use]
    pub fn accuracy(&self) -> &Accuracy {
        &self.accuracy
    }

    pub(crate) fn due(&self) -> usize {
        self.due.len()
    }

    /// Its module answers a booking: gives the path, where that is still there.
    fn take(&mut self, booking: BookingId) -> Option<BookedPath> {
        let path = self.booked.remove(&booking);
        invariant!(
            path.is_some(),
            Kind::Bookings,
            "path {} is used or given back and is not booked; {} are",
            booking.0,
            self.booked.len()
        );
        path.flatten()
    }

    fn on_dispatched(
        &mut self,
        booking: BookingId,
        (module, batch, items): (ModuleId, BatchId, u32),
        out: &mut Outbox,
    ) {
        let Some(path) = self.take(booking) else {
            return self.end_failed(booking, (module, batch), (Span::ZERO, true), out);
        };
        let finish = path.finish;
        out.act(Effect::SetOut {
            booking,
            module,
            batch,
            items,
            path,
        });
        self.due.push(ReserveEvent::Dispatched { booking, items }.into());
        let in_flight = InFlight {
            module,
            batch,
            finish,
        };
        let before = self.in_flight.insert(booking, in_flight);
        invariant!(
            before.is_none(),
            Kind::Bookings,
            "booking {} is dispatched twice",
            booking.0
        );
    }

    fn end_failed(
        &mut self,
        booking: BookingId,
        (module, batch): (ModuleId, BatchId),
        (took, is_lost): (Span, bool),
        out: &mut Outbox,
    ) {
        let end = if is_lost {
            self.accuracy.on_lost();
            BatchEnd::LostOnPath
        } else {
            self.accuracy.on_failed();
            BatchEnd::FailedOnPath
        };
        self.due.push(ReserveEvent::Failed { booking }.into());
        let ended = ModuleMessage::BatchEnded { batch, took, end };
        out.tell(Message::Module(module, ended));
    }

    fn apply(&mut self, effect: ReserveEffect, out: &mut Outbox) {
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
                let path = BookedPath {
                    pipeline,
                    size,
                    stages: path,
                    finish,
                };
                let before = self.booked.insert(booking, Some(path));
                invariant!(
                    before.is_none(),
                    Kind::Bookings,
                    "path {} is booked twice",
                    booking.0
                );
                let booked = ModuleEvent::Booked {
                    booking,
                    size,
                    finish,
                };
                out.send(Message::fact(module, booked));
            }
            ReserveEffect::NoPath { module, finish } => {
                out.send(Message::fact(module, ModuleEvent::NoPath { finish }));
            }
            // One that was not dispatched yet finds its path gone.
            ReserveEffect::Lost { booking, .. } => {
                if let Some(path) = self.booked.get_mut(&booking) {
                    *path = None;
                }
                if self.in_flight.contains_key(&booking) {
                    out.act(Effect::PathLost(booking));
                }
            }
            ReserveEffect::SetTimer { at } => out.act(Effect::SetTimer {
                of: Address::Reservations,
                at,
            }),
        }
    }

    fn apply_plan(&mut self, effect: PlanEffect, now: Timestamp, out: &mut Outbox) {
        match effect {
            PlanEffect::Load { plan } => out.act(Effect::LoadPlan(plan)),
            PlanEffect::GiveUp { plan, reason } => out.act(Effect::GiveUpPlan(plan, reason)),
            PlanEffect::Switch { plan, preload, pause } => {
                self.accuracy.on_plan_switched(PlanReport {
                    at_s: now.since(Timestamp::ZERO).as_secs_f64(),
                    preload_ms: preload.as_millis_f64(),
                    pause_ms: pause.as_millis_f64(),
                });
                out.act(Effect::SwitchPlan { plan, preload, pause });
            }
        }
    }
}

impl Machine for ReservationMachine {
    type Message = ReservationMessage;

    fn on(&mut self, message: ReservationMessage, _now: Timestamp, out: &mut Outbox) {
        match message {
            ReservationMessage::Planned(event) => {
                if let PlannedEvent::Reserve(ReserveEvent::Declined { booking }) = event {
                    self.take(booking);
                    self.accuracy.on_unused();
                }
                self.due.push(event);
            }
            ReservationMessage::Dispatched {
                booking,
                module,
                batch,
                items,
            } => self.on_dispatched(booking, (module, batch, items), out),
            ReservationMessage::Used {
                booking,
                stage,
                used,
                from,
                to,
            } => {
                // A use may be reported after the end of its batch.
                if self.in_flight.contains_key(&booking) {
                    let used = ReserveEvent::Used {
                        booking,
                        stage,
                        used,
                        from,
                        to,
                    };
                    self.due.push(used.into());
                }
            }
            ReservationMessage::Finished { booking, at } => {
                let Some(ended) = self.in_flight.remove(&booking) else {
                    return;
                };
                self.accuracy.on_finished(ended.finish, at);
                self.due.push(ReserveEvent::Finished { booking }.into());
            }
            ReservationMessage::Failed {
                booking,
                took,
                is_lost,
            } => {
                let Some(lost) = self.in_flight.remove(&booking) else {
                    return;
                };
                self.end_failed(booking, (lost.module, lost.batch), (took, is_lost), out);
            }
        }
    }

    fn decide(&mut self, now: Timestamp, out: &mut Outbox) {
        let mut effects = std::mem::take(&mut self.effects);
        self.policy.step(self.due.drain(..), now, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                PlannedEffect::Reserve(effect) => self.apply(effect, out),
                PlannedEffect::Plan(effect) => self.apply_plan(effect, now, out),
                PlannedEffect::Replan(conditions) => out.act(Effect::Replan(conditions)),
            }
        }
        self.effects = effects;
    }

    fn is_due(&self) -> bool {
        !self.due.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use weir_policy::reservations::{BookingTable, PathRequest, ReserveSpec};
    use weir_types::invariant::counted;
    use weir_types::{
        ClusterSpec, PipelineSpec, Profile, ServerId, ServerSpec, ShareId, ShareSpec, StageSpec, WorkerId,
    };

    use super::*;
    use crate::machine::Outgoing;

    const MODULE: ModuleId = ModuleId(0);
    const BATCH: BatchId = BatchId(7);

    /// One pipeline of one stage on one share.
    fn machine() -> ReservationMachine {
        let share = ShareId(0);
        let cluster = ClusterSpec {
            servers: vec![ServerSpec { bandwidth_bps: 1 }],
            shares: vec![ShareSpec {
                server: ServerId(0),
                device: 0,
                class: "any".to_owned(),
            }],
            pipelines: vec![PipelineSpec {
                module: MODULE,
                batch: 1,
                stages: vec![StageSpec {
                    blocks: (0, 1),
                    shares: vec![share],
                    profile: Profile::new(vec![(1, Span::from_millis(10))]).unwrap(),
                    received_bytes: 0,
                }],
            }],
        };
        ReservationMachine::new(&PlanSpec {
            number: 1,
            reserve: ReserveSpec {
                cluster,
                tables: BookingTable::Intervals,
                feedback: true,
                corrected: true,
                head_min_fraction: 0.0,
            },
            owners: vec![WorkerId(0)],
            replan: None,
        })
    }

    /// Takes a message in and decides; gives all that follows.
    fn outcome_of(machine: &mut ReservationMachine, message: ReservationMessage) -> Vec<Outgoing> {
        let mut out = Outbox::default();
        machine.on(message, Timestamp::ZERO, &mut out);
        machine.decide(Timestamp::ZERO, &mut out);
        out.drain().collect()
    }

    fn planned(event: ReserveEvent) -> ReservationMessage {
        ReservationMessage::Planned(event.into())
    }

    fn book(machine: &mut ReservationMachine) -> BookingId {
        let request = PathRequest {
            deadline: Timestamp::ZERO + Span::from_secs(1),
            since: Timestamp::ZERO,
            waiting: 1,
        };
        let requested = planned(ReserveEvent::PathRequested {
            module: MODULE,
            request,
        });
        let outgoing = outcome_of(machine, requested).into_iter();
        let mut booked = outgoing.filter_map(|outgoing| match outgoing {
            Outgoing::Send { message, .. } => match message {
                Message::Module(_, ModuleMessage::Fact(ModuleEvent::Booked { booking, .. })) => Some(booking),
                _ => None,
            },
            Outgoing::Tell(_) | Outgoing::Act(_) => None,
        });
        booked.next().unwrap()
    }

    fn dispatched(booking: BookingId) -> ReservationMessage {
        ReservationMessage::Dispatched {
            booking,
            module: MODULE,
            batch: BATCH,
            items: 1,
        }
    }

    /// Gives the end of its batch that the module is given.
    fn end(outgoing: &[Outgoing]) -> Option<BatchEnd> {
        outgoing.iter().find_map(|outgoing| match outgoing {
            Outgoing::Tell(Message::Module(MODULE, ModuleMessage::BatchEnded { end, .. })) => Some(*end),
            _ => None,
        })
    }

    #[test]
    fn a_path_is_used_or_given_back_once() {
        for second in [dispatched, |booking| planned(ReserveEvent::Declined { booking })] {
            let mut machine = machine();
            let booking = book(&mut machine);
            let set_out = outcome_of(&mut machine, dispatched(booking));
            assert!(
                matches!(set_out[0], Outgoing::Act(Effect::SetOut { .. })),
                "{set_out:?}"
            );
            let (_, violations) = counted(|| outcome_of(&mut machine, second(booking)));
            let kinds: Vec<Kind> = violations.iter().map(|(kind, _)| kind).collect();
            assert_eq!(kinds, [Kind::Bookings]);
        }
    }

    #[test]
    fn a_batch_whose_path_is_lost_before_it_sets_out_may_run_again() {
        let mut machine = machine();
        let booking = book(&mut machine);
        outcome_of(&mut machine, planned(ReserveEvent::Down { share: ShareId(0) }));
        let outgoing = outcome_of(&mut machine, dispatched(booking));
        assert_eq!(end(&outgoing), Some(BatchEnd::LostOnPath));
    }

    #[test]
    fn a_batch_that_failed_on_its_path_ends_once() {
        let mut machine = machine();
        let booking = book(&mut machine);
        outcome_of(&mut machine, dispatched(booking));
        let failed = ReservationMessage::Failed {
            booking,
            took: Span::ZERO,
            is_lost: false,
        };
        let ends = [failed.clone(), failed].map(|failed| end(&outcome_of(&mut machine, failed)));
        assert_eq!(ends, [Some(BatchEnd::FailedOnPath), None]);
    }
}
