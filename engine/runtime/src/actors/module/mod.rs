//! The actor of one module: carries out what the policy's `Module` decides, and holds what the policy only counts,
//! the parcels, their items and what has come back for them.

mod batches;
mod carry;
mod output_check;
mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, SpawnHandle};
use crossbeam_channel::Sender;
use weir_flow::{Inference, Item, Operator};
use weir_policy::{BatchSlice, Join, Module, ModuleEffect, ModuleEvent, ModuleStats};
use weir_types::{BatchId, ModuleId, RequestId, SlotId};

use output_check::OutputCheck;

use super::egress::{Egress, Tallied};
use super::reservations::ReservationActor;
use super::slots::SlotActor;
use super::supervisor::Supervisor;
use crate::clock::{Clock, duration};
use crate::record::Recorder;
use crate::request::Parcel;
use crate::telemetry::TICK;
use crate::worker::{Job, Ran};

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
    /// Whether its model is one, whose outputs are looked at.
    pub(crate) infers: bool,
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
    running: BTreeMap<BatchId, Vec<BatchSlice>>,
    tally: ModuleStats,
    outputs: OutputCheck,
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
            tally: ModuleStats::default(),
            outputs: OutputCheck::default(),
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
        self.delivered(parcel, of, context);
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
        self.tally.set_priority_switches(self.module.priority_switches());
        if let Some(wire) = &self.wire {
            wire.egress.do_send(Tallied {
                module: self.setup.id,
                tally: Box::new(self.tally.clone()),
            });
        }
    }
}
