//! The actor of one module: carries out what the policy's `Module` decides, and holds what the policy only counts,
//! the parcels, their items and what has come back for them.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, SpawnHandle};
use crossbeam_channel::Sender;
use weir_flow::{Inference, Item, Operator};
use weir_policy::reserve::{BookingId, ReserveEvent};
use weir_policy::{
    BatchId, DropReason, Join, Module, ModuleEffect, ModuleEvent, ModuleId, ModuleTally, Part, RequestId,
    SlotEvent, SlotId, Span,
};

use super::egress::{Completed, Dropped, Egress, Spent, Tallied};
use super::reservations::{Dispatch, ReservationActor, ReserveFact};
use super::slots::{SlotActor, SlotFact};
use super::supervisor::{BatchLost, RequestLost, Supervisor};
use crate::clock::{Clock, duration};
use crate::record::Recorder;
use crate::request::{Parcel, Request};
use crate::telemetry::{self, TICK};
use crate::worker::{Job, Ran, words};

/// A parcel for a vertex; `of` parts make the request whole there.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Deliver {
    pub(crate) parcel: Parcel,
    pub(crate) of: u32,
}

/// A fact for the policy's module.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Fact(pub(crate) ModuleEvent);

/// A worker answered.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct BatchBack(pub(crate) Ran);

/// The wire is laid: every module has the same.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Laid(pub(crate) Arc<Wire>);

/// Sent by the actor to itself: all facts of a burst are in.
#[derive(Message)]
#[rtype(result = "()")]
struct Decide;

/// The run is over: tell what was counted.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct TellTally;

/// Whom the module tells. Comes once all actors exist.
pub(crate) struct Wire {
    pub(crate) modules: Vec<Addr<ModuleActor>>,
    pub(crate) slots: Addr<SlotActor>,
    /// Only where models are spread over partition workers.
    pub(crate) reservations: Option<Addr<ReservationActor>>,
    pub(crate) egress: Addr<Egress>,
    pub(crate) supervisor: Addr<Supervisor>,
}

/// What a module actor is made from.
pub(crate) struct ModuleSetup {
    pub(crate) id: ModuleId,
    pub(crate) name: String,
    pub(crate) model: usize,
    pub(crate) operator: Arc<dyn Operator>,
    pub(crate) successors: Vec<ModuleId>,
    /// How many parts make a request of each stream whole, at each module; by stream, then by module.
    pub(crate) parts: Arc<Vec<Vec<u32>>>,
    pub(crate) jobs: BTreeMap<SlotId, Sender<Job>>,
    pub(crate) clock: Clock,
    pub(crate) recorder: Option<Recorder>,
    /// Whether its model is spread over partition workers.
    pub(crate) planned: bool,
    /// Whether a request can be in two modules at once, so that drops must be told.
    pub(crate) splits: bool,
}

/// A request in this module.
struct Held {
    parcel: Parcel,
    items: Vec<Item>,
    inferences: Vec<Inference>,
}

pub(crate) struct ModuleActor {
    setup: ModuleSetup,
    module: Module,
    wire: Option<Arc<Wire>>,
    join: Join<Parcel>,
    held: BTreeMap<RequestId, Held>,
    running: BTreeMap<BatchId, Vec<Part>>,
    tally: ModuleTally,
    facts: Vec<ModuleEvent>,
    effects: Vec<ModuleEffect>,
    deciding: bool,
    alarm: Option<SpawnHandle>,
}

impl ModuleActor {
    pub(crate) fn new(setup: ModuleSetup, module: Module) -> Self {
        Self {
            setup,
            module,
            wire: None,
            join: Join::default(),
            held: BTreeMap::new(),
            running: BTreeMap::new(),
            tally: ModuleTally::default(),
            facts: Vec::new(),
            effects: Vec::new(),
            deciding: false,
            alarm: None,
        }
    }

    fn fact(&mut self, fact: ModuleEvent, context: &mut Context<Self>) {
        self.facts.push(fact);
        if !self.deciding {
            self.deciding = true;
            context.notify(Decide);
        }
    }

    fn decide(&mut self, context: &mut Context<Self>) {
        self.deciding = false;
        let now = self.setup.clock.now();
        let facts = std::mem::take(&mut self.facts);
        let mut effects = std::mem::take(&mut self.effects);
        match &self.setup.recorder {
            None => self.module.step(facts, now, &mut effects),
            Some(recorder) => {
                self.module.step(facts.iter().cloned(), now, &mut effects);
                recorder.module(self.setup.id, now, &facts, &effects);
            }
        }
        for effect in effects.drain(..) {
            self.carry_out(effect, context);
        }
        self.effects = effects;
    }

    fn carry_out(&mut self, effect: ModuleEffect, context: &mut Context<Self>) {
        let Some(wire) = self.wire.clone() else { return };
        let module = self.setup.id;
        match effect {
            ModuleEffect::Bid(bid) => wire.slots.do_send(SlotFact(SlotEvent::Bid { module, bid })),
            ModuleEffect::Withdraw if self.setup.planned => {
                reserve(&wire, ReserveEvent::Withdrawn { module })
            }
            ModuleEffect::Withdraw => wire.slots.do_send(SlotFact(SlotEvent::Withdrawn { module })),
            ModuleEffect::Ask(ask) => reserve(&wire, ReserveEvent::Ask { module, ask }),
            ModuleEffect::Release { booking } => reserve(&wire, ReserveEvent::Declined { booking }),
            ModuleEffect::Dispatch {
                booking,
                batch,
                parts,
                ..
            } => self.dispatch(booking, batch, parts, &wire),
            ModuleEffect::Decline { slot } => {
                wire.slots.do_send(SlotFact(SlotEvent::Declined { module, slot }))
            }
            ModuleEffect::Run {
                slot,
                batch,
                parts,
                expected,
            } => {
                wire.slots.do_send(SlotFact(SlotEvent::Started {
                    module,
                    slot,
                    expected,
                }));
                self.run(slot, batch, parts, context);
            }
            ModuleEffect::Forward { request } => self.forward(request, &wire),
            ModuleEffect::Drop { request, reason } => self.let_go(request, reason, &wire),
            ModuleEffect::Spent { request, span } => wire.egress.do_send(Spent {
                request,
                module,
                span,
            }),
            ModuleEffect::Publish(state) => {
                telemetry::module_state(&self.setup.name, &state);
                for (id, address) in (0_u32..).zip(&wire.modules) {
                    if id != module.0 {
                        address.do_send(Fact(ModuleEvent::Heard(state.clone())));
                    }
                }
            }
            ModuleEffect::WakeAt { at } => {
                if let Some(alarm) = self.alarm.take() {
                    context.cancel_future(alarm);
                }
                let wait = self.setup.clock.until(at);
                self.alarm = Some(context.run_later(wait, |actor, context| actor.decide(context)));
            }
        }
    }

    /// Hands a batch to the worker of its slot. The channel of one is free: a slot is granted only when it is.
    fn run(&mut self, slot: SlotId, batch: BatchId, parts: Vec<Part>, context: &mut Context<Self>) {
        let items = parts.iter().flat_map(|part| self.items_of(part)).collect();
        self.tally.ran(&parts);
        let job = Job {
            module: self.setup.id,
            model: self.setup.model,
            batch,
            items,
        };
        let sent = self
            .setup
            .jobs
            .get(&slot)
            .is_some_and(|jobs| jobs.try_send(job).is_ok());
        self.running.insert(batch, parts);
        if !sent {
            let ran = Ran {
                slot,
                module: self.setup.id,
                batch,
                took: Span::ZERO,
                steps: crate::worker::StepTimes::default(),
                lost: false,
                result: Err("the worker of the slot is gone".to_owned()),
            };
            context.notify(BatchBack(ran));
        }
    }

    /// Hands a batch to the reservations, which know its way.
    fn dispatch(&mut self, booking: BookingId, batch: BatchId, parts: Vec<Part>, wire: &Wire) {
        let items = parts.iter().flat_map(|part| self.items_of(part)).collect();
        self.tally.ran(&parts);
        self.running.insert(batch, parts);
        if let Some(reservations) = &wire.reservations {
            reservations.do_send(Dispatch {
                module: self.setup.id,
                booking,
                batch,
                items,
            });
        }
    }

    fn items_of(&self, part: &Part) -> Vec<Item> {
        let (first, count) = (part.first as usize, part.count as usize);
        let items = self
            .held
            .get(&part.request)
            .and_then(|held| held.items.get(first..first + count));
        items.map(<[Item]>::to_vec).unwrap_or_default()
    }

    fn batch_back(&mut self, ran: Ran, context: &mut Context<Self>) {
        let Ran {
            slot,
            module,
            batch,
            took,
            steps,
            lost,
            result,
        } = ran;
        let Some(parts) = self.running.remove(&batch) else {
            return;
        };
        self.tally.took(took, result.is_err());
        telemetry::batch(&self.setup.name, took, &steps);
        match result {
            Ok(inferences) => {
                let mut inferences = inferences.into_iter();
                for part in parts {
                    let own = inferences.by_ref().take(part.count as usize);
                    match self.held.get_mut(&part.request) {
                        Some(held) => {
                            for (place, inference) in (part.first as usize..).zip(own) {
                                if let Some(slot) = held.inferences.get_mut(place) {
                                    *slot = inference;
                                }
                            }
                        }
                        None => own.for_each(drop),
                    }
                }
                self.fact(ModuleEvent::Finished { batch, took }, context);
            }
            Err(reason) if self.setup.planned => {
                if let Some(wire) = &self.wire {
                    wire.supervisor.do_send(RequestLost {
                        module: self.setup.name.clone(),
                        reason,
                    });
                }
                let event = if lost {
                    ModuleEvent::Lost { batch, took }
                } else {
                    ModuleEvent::Failed { batch, took }
                };
                self.fact(event, context);
            }
            Err(reason) => {
                if let Some(wire) = &self.wire {
                    wire.supervisor.do_send(BatchLost {
                        module: self.setup.name.clone(),
                        slot,
                        reason,
                    });
                }
                self.fact(ModuleEvent::Failed { batch, took }, context);
            }
        }
        if let Some(wire) = self.wire.as_ref().filter(|_| !self.setup.planned) {
            wire.slots
                .do_send(SlotFact(SlotEvent::Finished { module, slot, took }));
        }
    }

    fn forward(&mut self, request: RequestId, wire: &Wire) {
        let Some(Held {
            mut parcel,
            items,
            inferences,
        }) = self.held.remove(&request)
        else {
            return;
        };
        if parcel.request.has_ended() {
            return;
        }
        let module = self.setup.id;
        let operator = &self.setup.operator;
        let found = catch_unwind(AssertUnwindSafe(|| {
            operator.finding(module.0, &items, inferences)
        }));
        match found {
            Ok(finding) => parcel.evidence.add(module.0, finding),
            Err(panic) => return self.operator_failed(parcel.request, panic.as_ref(), wire),
        }
        let parts = &self.setup.parts[parcel.request.stream.index()];
        let Some((last, others)) = self.setup.successors.split_last() else {
            wire.egress.do_send(Completed(parcel));
            return;
        };
        let of = |successor: &ModuleId| parts[successor.index()];
        for successor in others {
            let deliver = Deliver {
                parcel: parcel.clone(),
                of: of(successor),
            };
            wire.modules[successor.index()].do_send(deliver);
        }
        wire.modules[last.index()].do_send(Deliver { of: of(last), parcel });
    }

    /// A drop is told to the ledger and the source (both through the egress), and to siblings that may hold the request.
    fn let_go(&mut self, request: RequestId, reason: DropReason, wire: &Wire) {
        let Some(held) = self.held.remove(&request) else {
            return;
        };
        self.end(held.parcel.request, reason, wire);
    }

    /// The operator panicked over a request, which is lost by it; the run goes on.
    fn operator_failed(&self, request: Arc<Request>, panic: &(dyn Any + Send), wire: &Wire) {
        wire.supervisor.do_send(RequestLost {
            module: self.setup.name.clone(),
            reason: format!("the operator panicked: {}", words(panic)),
        });
        self.end(request, DropReason::Failed, wire);
    }

    fn end(&self, shared: Arc<Request>, reason: DropReason, wire: &Wire) {
        let request = shared.id;
        if !shared.end() {
            return;
        }
        wire.egress.do_send(Dropped {
            request: shared,
            module: Some(self.setup.id),
            reason,
        });
        if self.setup.splits {
            for (id, address) in (0_u32..).zip(&wire.modules) {
                if id != self.setup.id.0 {
                    address.do_send(Fact(ModuleEvent::Cancelled { request }));
                }
            }
        }
    }
}

impl Actor for ModuleActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.run_interval(duration(TICK), |actor, context| {
            actor.fact(ModuleEvent::Tick, context)
        });
    }
}

impl Handler<Deliver> for ModuleActor {
    type Result = ();

    fn handle(&mut self, Deliver { parcel, of }: Deliver, context: &mut Self::Context) {
        if parcel.request.has_ended() {
            self.join.cancel(parcel.request.id);
            return;
        }
        let request = parcel.request.id;
        let whole = self.join.part(request, of, parcel, |whole, part| {
            whole.evidence.merge(&part.evidence)
        });
        let Some(parcel) = whole else { return };
        let operator = &self.setup.operator;
        let items = catch_unwind(AssertUnwindSafe(|| {
            operator.items(&parcel.request.frame, &parcel.evidence)
        }));
        let items = match (items, &self.wire) {
            (Ok(items), _) => items,
            (Err(panic), Some(wire)) => return self.operator_failed(parcel.request, panic.as_ref(), wire),
            (Err(_), None) => return,
        };
        let arrived = ModuleEvent::Arrived {
            request,
            stream: parcel.request.stream,
            sent_at: parcel.request.sent_at,
            items: u32::try_from(items.len()).unwrap_or(u32::MAX),
            droppable: parcel.request.droppable,
        };
        let inferences = vec![Inference::default(); items.len()];
        self.held.insert(
            request,
            Held {
                parcel,
                items,
                inferences,
            },
        );
        self.fact(arrived, context);
    }
}

impl Handler<Fact> for ModuleActor {
    type Result = ();

    fn handle(&mut self, Fact(event): Fact, context: &mut Self::Context) {
        if let ModuleEvent::Cancelled { request } = event {
            self.join.cancel(request);
            if self.held.remove(&request).is_none() {
                return;
            }
        }
        self.fact(event, context);
    }
}

impl Handler<BatchBack> for ModuleActor {
    type Result = ();

    fn handle(&mut self, BatchBack(ran): BatchBack, context: &mut Self::Context) {
        self.batch_back(ran, context);
    }
}

impl Handler<Decide> for ModuleActor {
    type Result = ();

    fn handle(&mut self, _: Decide, context: &mut Self::Context) {
        self.decide(context);
    }
}

impl Handler<Laid> for ModuleActor {
    type Result = ();

    fn handle(&mut self, Laid(wire): Laid, _context: &mut Self::Context) {
        self.wire = Some(wire);
    }
}

impl Handler<TellTally> for ModuleActor {
    type Result = ();

    fn handle(&mut self, _: TellTally, _context: &mut Self::Context) {
        self.tally.priority_switches(self.module.priority_switches());
        if let Some(wire) = &self.wire {
            wire.egress.do_send(Tallied {
                module: self.setup.id,
                tally: Box::new(self.tally.clone()),
            });
        }
    }
}

fn reserve(wire: &Wire, event: ReserveEvent) {
    if let Some(reservations) = &wire.reservations {
        reservations.do_send(ReserveFact(event));
    }
}
