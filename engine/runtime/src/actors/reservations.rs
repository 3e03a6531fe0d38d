//! The reservation actor: drives the policy's `Reservations` with what modules ask and what workers report, sends batches
//! on their way, and changes plans.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, SpawnHandle};
use weir_flow::Item;
use weir_partition::wire::{BatchKey, Failure, StageTimes, Use as Used};
use weir_partition::{Client, Event, WorkerId, WorkerInfo};
use weir_policy::reserve::{
    Accuracy, BookingId, PipelineId, PlanReport, Reservations, ReserveEffect, ReserveEvent, ReserveReport,
    ReserveSpec, ShareId, Tables, Use, WorkerReport,
};
use weir_policy::{BatchId, ModuleEvent, ModuleId, SlotId, Span, Timestamp};

use super::module::{BatchBack, Fact, ModuleActor};
use super::slots::Modules;
use crate::clock::{Clock, duration};
use crate::fleet::{Back, Front, Going, Planned, Through};
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
    pub(crate) planned: Planned,
    /// The two ends of each module's model.
    pub(crate) ends: BTreeMap<ModuleId, (Front, Back)>,
}

/// What reservations are made from, for a plan.
pub(crate) fn spec_of(planned: &Planned) -> ReserveSpec {
    ReserveSpec {
        cluster: planned.seats.cluster.clone(),
        tables: Tables::Intervals,
        feedback: true,
        head_min_fraction: 0.95,
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

/// A change of plans under way.
struct Change {
    planned: Box<Planned>,
    asked_at: Timestamp,
    /// Loads that are not reported yet.
    missing: Vec<(WorkerId, weir_partition::wire::PartId)>,
    /// Since when nothing is booked; `None` while the parts are loading.
    paused_at: Option<Timestamp>,
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
            reservations: Reservations::new(&spec_of(&setup.planned)),
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
            ReserveEvent::Ask { module, .. } | ReserveEvent::Withdrawn { module } => Some(module),
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
            ReserveEffect::Hopeless { module, finish } => {
                self.tell(module, ModuleEvent::Unbookable { finish })
            }
            // Batches on their way fail by themselves; one that has not left yet finds its way gone.
            ReserveEffect::Lost { booking, .. } => {
                self.ways.remove(&booking);
            }
            ReserveEffect::WakeAt { at } => {
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
            None => Err(Failure::NotHeld),
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

    fn told(&mut self, event: Event, context: &mut Context<Self>) {
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
                if what == Used::Run {
                    let report = self.workers.entry(worker).or_default();
                    report.runs += 1;
                    report.busy_s += usage.span().as_secs_f64();
                }
                let Some(moving) = self.moving.get(&key) else {
                    return;
                };
                let used = match what {
                    Used::Transfer => Use::Transfer,
                    Used::Run => Use::Run,
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
            Event::Loaded { worker, part, .. } => {
                if let Some(change) = &mut self.change {
                    change.missing.retain(|missing| *missing != (worker, part));
                }
                self.change_over(context);
            }
            Event::NotLoaded { worker, part, reason } => {
                tracing::error!(worker = self.name(worker), "a part cannot be loaded: {reason}");
                let refused = |change: &Change| change.missing.contains(&(worker, part));
                if self.change.as_ref().is_some_and(refused) {
                    tracing::error!("the new plan is given up; the one in force goes on");
                    self.change = None;
                }
            }
            Event::Activated { .. } => {}
        }
    }

    fn name(&self, worker: WorkerId) -> &str {
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
        outputs: Vec<weir_flow::Tensor>,
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

    fn failed(&mut self, key: BatchKey, failure: &Failure, context: &mut Context<Self>) {
        let Some(moving) = self.moving.remove(&key) else {
            return;
        };
        let lost = !matches!(failure, Failure::Part(_) | Failure::Panicked(_));
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

/// Plans (PPipe 5.1): the parts of the new one are loaded while the old one goes on; then nothing is booked until what is
/// under way is through; then all is booked by the new one.
impl ReservationActor {
    fn replan(&mut self, planned: Box<Planned>) {
        if self.change.is_some() {
            tracing::warn!("a plan is being changed already; the newer one is left out");
            return;
        }
        let mut missing = Vec::new();
        for (worker, load) in &planned.parts.loads {
            if self.setup.up.contains_key(worker) {
                missing.push((*worker, load.part));
            }
            self.setup.client.load(*worker, load.clone());
        }
        self.change = Some(Change {
            planned,
            asked_at: self.setup.clock.now(),
            missing,
            paused_at: None,
        });
    }

    /// A worker that is lost is not waited for.
    fn not_awaited(&mut self, worker: WorkerId) {
        if let Some(change) = &mut self.change {
            change.missing.retain(|(of, _)| *of != worker);
        }
    }

    fn change_over(&mut self, context: &mut Context<Self>) {
        let now = self.setup.clock.now();
        let Some(change) = &mut self.change else { return };
        if !change.missing.is_empty() {
            return;
        }
        let paused_at = *change.paused_at.get_or_insert(now);
        if !self.moving.is_empty() || !self.ways.is_empty() {
            return;
        }
        let Some(change) = self.change.take() else { return };
        self.setup.planned = *change.planned;
        let spec = spec_of(&self.setup.planned);
        if let Some(recorder) = &self.setup.recorder {
            recorder.plan(&spec);
        }
        self.reservations = Reservations::new(&spec);
        self.facts = self.absent();
        self.facts.extend(std::mem::take(&mut self.held).into_values());
        let number = self.setup.planned.number;
        self.setup.client.activate(number);
        for (module, _) in self.setup.planned.modules.clone() {
            if let Some(lanes) = self.setup.planned.lanes(module) {
                self.tell(
                    module,
                    ModuleEvent::Planned {
                        profile: lanes.profile,
                        batch: lanes.batch,
                        lanes: lanes.count,
                        share: lanes.share,
                    },
                );
            }
        }
        let report = PlanReport {
            at_s: now.since(Timestamp::ZERO).as_secs_f64(),
            preload_ms: paused_at.since(change.asked_at).as_millis_f64(),
            pause_ms: now.since(paused_at).as_millis_f64(),
        };
        if !self.deciding {
            self.deciding = true;
            context.notify(Decide);
        }
        tracing::info!(
            plan = number,
            pause_ms = report.pause_ms,
            "another plan is in force"
        );
        self.plans.push(report);
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
