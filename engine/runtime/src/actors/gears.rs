//! The gear actor: measures the load of the cascades, passes it to the policy's `GearShift`, and sets their stages to the gear
//! that it decides on.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, ActorContext, AsyncContext, Context, Handler, Message, Recipient};
use weir_graph::{Gears, StageSetting};
use weir_policy::gears::{GearEffect, GearEvent, GearShift, InvocationSize, ShiftScope, ShiftSpec};
use weir_policy::{ModuleEvent, SlotEvent};
use weir_types::{ModuleId, SlotId, Span, StreamId, Timestamp};

use super::burst::{Burst, PolicyActor};
use super::messages::{ArbiterEvent, PolicyEvent, StopActor};
use crate::cascades::{GearTally, StageSwitch};
use crate::clock::{Clock, duration};
use crate::record::Recorder;
use crate::telemetry;

/// How often the load is looked at. Arrivals are counted over a second, so this delays a shift by little.
const INTERVAL: Span = Span::from_millis(50);

/// What the gear actor is made from.
pub(crate) struct GearSetup {
    pub(crate) clock: Clock,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) gears: Option<Gears>,
    /// By module: the switch of the stage, what the graph sets it to, and whether requests enter a cascade there.
    pub(crate) stages: Vec<Option<(Arc<StageSwitch>, StageSetting, bool)>>,
    pub(crate) tally: Arc<GearTally>,
    /// By module: what waits for items where a gear says so.
    pub(crate) modules: Vec<Recipient<PolicyEvent>>,
    /// By module: the slots that the arbiter grants it.
    pub(crate) slots: Vec<Vec<SlotId>>,
    pub(crate) arbiter: Recipient<ArbiterEvent>,
}

pub(crate) struct GearActor {
    burst: Burst<GearShift>,
    clock: Clock,
    gears: Option<Gears>,
    stages: Vec<Option<(Arc<StageSwitch>, StageSetting, bool)>>,
    tally: Arc<GearTally>,
    modules: Vec<Recipient<PolicyEvent>>,
    /// What each module was last set to wait for.
    invocations: Vec<InvocationSize>,
    /// By module: its slots, and the share that each was last set to.
    shares: Vec<Vec<(SlotId, Option<f64>)>>,
    arbiter: Recipient<ArbiterEvent>,
    /// Arrivals that were counted, by module.
    counted: Vec<u64>,
    /// Items that waited, by stream, as they were last seen.
    waiting: BTreeMap<StreamId, u64>,
    looked_at: Timestamp,
}

/// Other gears are in force, or none.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ApplyGears(pub(crate) Option<Box<Gears>>);

/// A stream was removed, and nothing of it is in flight.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ForgetStream(pub(crate) StreamId);

impl GearActor {
    pub(crate) fn new(setup: GearSetup) -> Self {
        let spec = shift_spec(setup.gears.as_ref());
        if let Some(recorder) = &setup.recorder {
            recorder.record_gears(&spec);
        }
        let mut actor = Self {
            burst: Burst::new(GearShift::of(spec), setup.clock, setup.recorder),
            looked_at: setup.clock.now(),
            clock: setup.clock,
            counted: vec![0; setup.stages.len()],
            gears: setup.gears,
            waiting: BTreeMap::new(),
            stages: setup.stages,
            tally: setup.tally,
            invocations: vec![InvocationSize::default(); setup.modules.len()],
            modules: setup.modules,
            shares: (setup.slots.into_iter())
                .map(|slots| slots.into_iter().map(|slot| (slot, None)).collect())
                .collect(),
            arbiter: setup.arbiter,
        };
        actor.begin_plan();
        actor
    }

    /// Sets all stages to the gears in force.
    fn begin_plan(&mut self) {
        self.tally.on_plan(self.gears.as_ref());
        let by_stream = self.scope() == ShiftScope::Stream;
        for (switch, ..) in self.stages.iter().flatten() {
            switch.set_by_stream(by_stream);
        }
        self.set_stages(self.burst.machine().gear(), None);
        if !by_stream {
            self.waiting.clear();
        }
        let gears: Vec<_> = self.burst.machine().stream_gears().collect();
        for (stream, gear) in gears {
            self.set_stages(gear, Some(stream));
        }
    }

    fn scope(&self) -> ShiftScope {
        self.burst.machine().scope()
    }

    /// Sets the stages to a gear, for a stream or for all.
    fn set_stages(&mut self, gear: usize, stream: Option<StreamId>) {
        for (module, stage) in self.stages.iter().enumerate() {
            let Some((switch, own, _)) = stage else { continue };
            let planned = self.gears.as_ref().map(|gears| gears.setting(gear, module, *own));
            let setting = planned.unwrap_or(*own);
            match stream {
                Some(stream) => switch.set_for(stream, setting),
                None => switch.set(setting),
            }
        }
        self.set_invocations();
    }

    /// Sets what the stages wait for to the gear in force; where each stream has one, to the highest of them: batches are of all
    /// streams.
    fn set_invocations(&mut self) {
        let machine = self.burst.machine();
        let of_streams = machine.stream_gears().map(|(_, gear)| gear).max();
        let gear = of_streams.unwrap_or_default().max(machine.gear());
        telemetry::record_gear(gear);
        self.set_shares(gear);
        let stages = self.stages.iter().zip(&mut self.invocations).zip(&self.modules);
        for (module, ((stage, known), actor)) in stages.enumerate() {
            let Some((_, own, _)) = stage else { continue };
            let planned = self.gears.as_ref().map(|gears| gears.setting(gear, module, *own));
            let invocation = planned.unwrap_or(*own).invocation;
            if std::mem::replace(known, invocation) != invocation {
                actor.do_send(PolicyEvent(ModuleEvent::InvocationChanged { invocation }));
            }
        }
    }

    /// Sets which part of a stage's work each of its slots does in a gear.
    fn set_shares(&mut self, gear: usize) {
        for (module, slots) in self.shares.iter_mut().enumerate() {
            for (place, (slot, known)) in slots.iter_mut().enumerate() {
                let gears = self.gears.as_ref();
                let share = gears.and_then(|gears| gears.share(gear, module, place));
                if std::mem::replace(known, share) != share {
                    self.arbiter.do_send(ArbiterEvent(SlotEvent::ShareSet {
                        module: ModuleId(module as u32),
                        slot: *slot,
                        share,
                    }));
                }
            }
        }
    }

    /// The load since it was looked at last.
    fn look(&mut self, context: &mut Context<Self>) {
        let now = self.clock.now();
        let time = now.since(self.looked_at);
        self.looked_at = now;
        match self.scope() {
            ShiftScope::Graph => self.tally.on_time(self.burst.machine().gear(), time),
            ShiftScope::Stream => {
                for (_, gear) in self.burst.machine().stream_gears() {
                    self.tally.on_time(gear, time);
                }
            }
        }
        if self.gears.is_none() {
            return;
        }
        match self.scope() {
            ShiftScope::Graph => self.look_at_all(context),
            ShiftScope::Stream => self.look_at_streams(context),
        }
    }

    /// Arrivals by cascade, and what waits.
    fn look_at_all(&mut self, context: &mut Context<Self>) {
        let mut waiting = 0;
        let mut cascade = 0;
        for (stage, counted) in self.stages.iter().zip(&mut self.counted) {
            let Some((switch, _, is_first)) = stage else {
                continue;
            };
            waiting += switch.waiting();
            if *is_first {
                let all = switch.arrived();
                let arrived = all.saturating_sub(*counted);
                let requests = u32::try_from(arrived).unwrap_or(u32::MAX);
                self.burst.push(GearEvent::Arrived { cascade, requests });
                (*counted, cascade) = (all, cascade + 1);
            }
        }
        self.on_event(GearEvent::Waiting { items: waiting }, context);
    }

    /// As [`GearActor::look_at_all`], by stream. What has not changed is no event.
    fn look_at_streams(&mut self, context: &mut Context<Self>) {
        let mut loads: BTreeMap<StreamId, u64> = BTreeMap::new();
        let mut cascade = 0;
        for (switch, _, is_first) in self.stages.iter().flatten() {
            for (stream, stage) in switch.take_streams() {
                *loads.entry(stream).or_default() += stage.waiting;
                if *is_first && stage.arrived > 0 {
                    self.burst.push(GearEvent::StreamArrived {
                        stream,
                        cascade,
                        requests: u32::try_from(stage.arrived).unwrap_or(u32::MAX),
                    });
                }
            }
            cascade += u32::from(*is_first);
        }
        for (stream, items) in loads {
            if self.waiting.insert(stream, items).unwrap_or_default() != items {
                self.burst.push(GearEvent::StreamWaiting { stream, items });
            }
        }
        self.on_event(GearEvent::Tick, context);
    }
}

fn shift_spec(gears: Option<&Gears>) -> ShiftSpec {
    gears.map(Gears::shift_spec).unwrap_or_default()
}

impl PolicyActor for GearActor {
    type Machine = GearShift;

    fn burst(&mut self) -> &mut Burst<GearShift> {
        &mut self.burst
    }

    fn apply(&mut self, effect: GearEffect, _context: &mut Context<Self>) {
        let GearEffect::Shift { gear, rate, stream } = effect;
        let of = stream.map(|stream| stream.0);
        tracing::info!(gear, rate, stream = of, "another gear is in force");
        self.tally.on_shift();
        self.set_stages(gear, stream);
    }
}

impl Actor for GearActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.run_interval(duration(INTERVAL), Self::look);
    }
}

impl Handler<ApplyGears> for GearActor {
    type Result = ();

    fn handle(&mut self, ApplyGears(gears): ApplyGears, context: &mut Self::Context) {
        self.gears = gears.map(|gears| *gears);
        let spec = shift_spec(self.gears.as_ref());
        self.burst.push(GearEvent::PlanApplied { spec });
        self.decide(context);
        self.begin_plan();
    }
}

impl Handler<ForgetStream> for GearActor {
    type Result = ();

    fn handle(&mut self, ForgetStream(stream): ForgetStream, context: &mut Self::Context) {
        self.waiting.remove(&stream);
        for (switch, ..) in self.stages.iter().flatten() {
            switch.remove_stream(stream);
        }
        if self.scope() == ShiftScope::Stream {
            self.on_event(GearEvent::StreamRemoved { stream }, context);
            self.set_invocations();
        }
    }
}

impl Handler<StopActor> for GearActor {
    type Result = ();

    fn handle(&mut self, _: StopActor, context: &mut Self::Context) {
        context.stop();
    }
}
