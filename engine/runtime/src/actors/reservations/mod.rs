//! The reservation actor: drives the policy's `Reservations` with what modules ask and what workers report, sends batches
//! on their way, and changes plans.

mod change;
mod told;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, SpawnHandle};
use weir_flow::Item;
use weir_partition::wire::{BatchFailure, BatchKey};
use weir_partition::{Client, Event, WorkerId, WorkerInfo};
use weir_policy::reservations::{
    Accuracy, BookingId, PlanReport, Reservations, ReserveEffect, ReserveEvent, ReserveReport, ReserveSpec,
    WorkerReport,
};
use weir_policy::{ModuleEvent, Policy};
use weir_types::{BatchId, ModuleId, SlotId, Span, Timestamp};
use weir_types::{PipelineId, ShareId};

use change::Change;

use super::module::{BatchBack, Fact, ModuleActor};
use super::slots::Modules;
use crate::clock::{Clock, duration};
use crate::fleet::{Back, Front, Going, Planned};
use crate::record::Recorder;
use crate::telemetry::TICK;
use crate::worker::{Ran, StepTimes};

/// A fact for the reservations.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct ReserveFact(pub(crate) ReserveEvent);

/// A worker told something.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Told(pub(crate) Event);

/// A module sends a batch on the way that was booked for it.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Dispatch {
    pub(crate) module: ModuleId,
    pub(crate) booking: BookingId,
    pub(crate) batch: BatchId,
    pub(crate) items: Vec<Item>,
}

/// Another plan is to come into force.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Replan(pub(crate) Box<Planned>);

/// The run is over: tell what was counted.
#[derive(Message)]
#[rtype(result = "ReserveReport")]
pub(crate) struct TellReservations;

/// Sent by the actor to itself: all facts of a burst are in.
#[derive(Message)]
#[rtype(result = "()")]
struct Decide;

/// What the actor is made from.
pub(crate) struct ReservationSetup {
    pub(crate) clock: Clock,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) client: Arc<Client>,
    pub(crate) up: BTreeMap<WorkerId, WorkerInfo>,
    /// Names of all workers, and which are said to stand for other devices.
    pub(crate) names: Vec<String>,
    pub(crate) emulated: Vec<bool>,
    pub(crate) policy: Policy,
    pub(crate) planned: Planned,
    /// The two ends of each module's model.
    pub(crate) ends: BTreeMap<ModuleId, (Front, Back)>,
}

/// What reservations are made from, for a plan.
pub(crate) fn spec_of(planned: &Planned, policy: &Policy) -> ReserveSpec {
    ReserveSpec {
        cluster: planned.seats.cluster.clone(),
        tables: policy.tables,
        feedback: true,
        corrected: true,
        head_min_fraction: policy.head_min_fraction,
    }
}

/// A way that is kept free.
#[derive(Debug, Clone)]
struct Way {
    module: ModuleId,
    pipeline: PipelineId,
    path: Vec<ShareId>,
    finish: Timestamp,
}

/// A batch under way.
struct Moving {
    booking: BookingId,
    finish: Timestamp,
    items: Vec<Item>,
}

pub(crate) struct ReservationActor {
    setup: ReservationSetup,
    reservations: Reservations,
    modules: Vec<Addr<ModuleActor>>,
    ways: BTreeMap<BookingId, Way>,
    moving: BTreeMap<BatchKey, Moving>,
    /// What modules ask for while a plan is being changed.
    held: BTreeMap<ModuleId, ReserveEvent>,
    change: Option<Change>,
    accuracy: Accuracy,
    workers: BTreeMap<WorkerId, WorkerReport>,
    plans: Vec<PlanReport>,
    facts: Vec<ReserveEvent>,
    effects: Vec<ReserveEffect>,
    deciding: bool,
    alarm: Option<SpawnHandle>,
}

impl ReservationActor {
    pub(crate) fn new(setup: ReservationSetup) -> Self {
        let mut actor = Self {
            reservations: Reservations::new(&spec_of(&setup.planned, &setup.policy)),
            modules: Vec::new(),
            ways: BTreeMap::new(),
            moving: BTreeMap::new(),
            held: BTreeMap::new(),
            change: None,
            accuracy: Accuracy::default(),
            workers: BTreeMap::new(),
            plans: Vec::new(),
            facts: Vec::new(),
            effects: Vec::new(),
            deciding: false,
            alarm: None,
            setup,
        };
        for (worker, info) in actor.setup.up.clone() {
            actor.introduced(worker, &info);
        }
        actor.facts = actor.absent();
        actor
    }

    fn introduced(&mut self, worker: WorkerId, info: &WorkerInfo) {
        let said = self
            .setup
            .emulated
            .get(worker.0 as usize)
            .copied()
            .unwrap_or(false);
        let report = self.workers.entry(worker).or_default();
        report.class.clone_from(&info.class);
        report.emulated = info.emulated || said;
    }

    /// The shares of workers that are not there.
    fn absent(&self) -> Vec<ReserveEvent> {
        let seats = (0..).map(ShareId).zip(&self.setup.planned.seats.seats);
        seats
            .filter(|(_, (worker, _))| !self.setup.up.contains_key(worker))
            .map(|(share, _)| ReserveEvent::Down { share })
            .collect()
    }

    fn fact(&mut self, fact: ReserveEvent, context: &mut Context<Self>) {
        let module = match fact {
            ReserveEvent::PathRequested { module, .. } | ReserveEvent::RequestCancelled { module } => {
                Some(module)
            }
            _ => None,
        };
        match module {
            Some(module) if self.paused() => {
                self.held.insert(module, fact);
            }
            _ => self.facts.push(fact),
        }
        if !self.deciding {
            self.deciding = true;
            context.notify(Decide);
        }
    }

    fn paused(&self) -> bool {
        self.change
            .as_ref()
            .is_some_and(|change| change.paused_at.is_some())
    }

    fn decide(&mut self, context: &mut Context<Self>) {
        self.deciding = false;
        let now = self.setup.clock.now();
        let facts = std::mem::take(&mut self.facts);
        let mut effects = std::mem::take(&mut self.effects);
        self.reservations.step(facts.iter().copied(), now, &mut effects);
        if let Some(recorder) = &self.setup.recorder {
            recorder.reservations(now, &facts, &effects);
        }
        for effect in effects.drain(..) {
            self.carry_out(effect, context);
        }
        self.effects = effects;
        self.change_over(context);
    }

    fn carry_out(&mut self, effect: ReserveEffect, context: &mut Context<Self>) {
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
                let way = Way {
                    module,
                    pipeline,
                    path: path.iter().map(|leg| leg.share).collect(),
                    finish,
                };
                self.ways.insert(booking, way);
                self.tell(
                    module,
                    ModuleEvent::Booked {
                        booking,
                        size,
                        finish,
                    },
                );
            }
            ReserveEffect::NoPath { module, finish } => self.tell(module, ModuleEvent::NoPath { finish }),
            // Batches on their way fail by themselves; one that has not left yet finds its way gone.
            ReserveEffect::Lost { booking, .. } => {
                self.ways.remove(&booking);
            }
            ReserveEffect::SetTimer { at } => {
                if let Some(alarm) = self.alarm.take() {
                    context.cancel_future(alarm);
                }
                let wait = self.setup.clock.until(at);
                self.alarm = Some(context.run_later(wait, |actor, context| {
                    actor.fact(ReserveEvent::Tick, context);
                }));
            }
        }
    }

    fn tell(&self, module: ModuleId, event: ModuleEvent) {
        if let Some(address) = self.modules.get(module.index()) {
            address.do_send(Fact(event));
        }
    }

    fn dispatch(&mut self, dispatch: Dispatch, context: &mut Context<Self>) {
        let Dispatch {
            module,
            booking,
            batch,
            items,
        } = dispatch;
        let Some(way) = self.ways.remove(&booking) else {
            return self.back(
                module,
                batch,
                Err((true, "its way was lost with a worker".to_owned())),
            );
        };
        let key = BatchKey { module, batch };
        let planned = &self.setup.planned;
        let going = Going {
            key,
            items: items.clone(),
            way: planned.parts.way(&planned.seats, way.pipeline, &way.path),
        };
        let sent = match self.setup.ends.get(&way.module) {
            Some((front, _)) => front.send(going),
            None => Err(BatchFailure::NotHeld),
        };
        let finish = way.finish;
        self.moving.insert(
            key,
            Moving {
                booking,
                finish,
                items,
            },
        );
        if let Err(failure) = sent {
            self.failed(key, &failure, context);
        }
    }

    /// A batch is over: its module is told.
    fn back(&self, module: ModuleId, batch: BatchId, result: Result<(), (bool, String)>) {
        let (lost, reason) = match result {
            Ok(()) => return,
            Err(failure) => failure,
        };
        let ran = Ran {
            slot: SlotId(0),
            module,
            batch,
            took: Span::ZERO,
            steps: StepTimes::default(),
            lost,
            result: Err(reason),
        };
        if let Some(address) = self.modules.get(module.index()) {
            address.do_send(BatchBack(ran));
        }
    }
}

impl Actor for ReservationActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.run_interval(duration(TICK), |actor, context| {
            actor.fact(ReserveEvent::Tick, context);
        });
    }
}

impl Handler<ReserveFact> for ReservationActor {
    type Result = ();

    fn handle(&mut self, ReserveFact(fact): ReserveFact, context: &mut Self::Context) {
        if let ReserveEvent::Declined { booking } = fact {
            self.ways.remove(&booking);
            self.accuracy.unused();
        }
        self.fact(fact, context);
    }
}

impl Handler<Told> for ReservationActor {
    type Result = ();

    fn handle(&mut self, Told(event): Told, context: &mut Self::Context) {
        self.told(event, context);
    }
}

impl Handler<Dispatch> for ReservationActor {
    type Result = ();

    fn handle(&mut self, message: Dispatch, context: &mut Self::Context) {
        self.dispatch(message, context);
    }
}

impl Handler<Replan> for ReservationActor {
    type Result = ();

    fn handle(&mut self, Replan(planned): Replan, _context: &mut Self::Context) {
        self.replan(planned);
    }
}

impl Handler<Decide> for ReservationActor {
    type Result = ();

    fn handle(&mut self, _: Decide, context: &mut Self::Context) {
        self.decide(context);
    }
}

impl Handler<Modules> for ReservationActor {
    type Result = ();

    fn handle(&mut self, modules: Modules, _context: &mut Self::Context) {
        self.modules = modules.0;
    }
}

impl Handler<TellReservations> for ReservationActor {
    type Result = actix::MessageResult<TellReservations>;

    fn handle(&mut self, _: TellReservations, _context: &mut Self::Context) -> Self::Result {
        let mut report = self.accuracy.report();
        let named = self
            .workers
            .iter()
            .map(|(worker, report)| (self.name(*worker).to_owned(), report.clone()));
        report.workers = named.collect();
        report.plans.clone_from(&self.plans);
        actix::MessageResult(report)
    }
}
