//! The gear actor: measures the load of the cascades, passes it to the policy's `GearShift`, and sets their stages to the gear
//! that it decides on.

use std::sync::Arc;

use actix::{Actor, ActorContext, AsyncContext, Context, Handler, Message};
use weir_graph::{Gears, StageSetting};
use weir_policy::gears::{GearEffect, GearEvent, GearShift, ShiftSpec};
use weir_types::{Span, Timestamp};

use super::burst::{Burst, PolicyActor};
use super::messages::StopActor;
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
}

pub(crate) struct GearActor {
    burst: Burst<GearShift>,
    clock: Clock,
    gears: Option<Gears>,
    stages: Vec<Option<(Arc<StageSwitch>, StageSetting, bool)>>,
    tally: Arc<GearTally>,
    /// Arrivals that were counted, by module.
    counted: Vec<u64>,
    looked_at: Timestamp,
}

/// Other gears are in force, or none.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ApplyGears(pub(crate) Option<Box<Gears>>);

impl GearActor {
    pub(crate) fn new(setup: GearSetup) -> Self {
        let spec = shift_spec(setup.gears.as_ref());
        if let Some(recorder) = &setup.recorder {
            recorder.record_gears(&spec);
        }
        let actor = Self {
            burst: Burst::new(GearShift::of(spec), setup.clock, setup.recorder),
            looked_at: setup.clock.now(),
            clock: setup.clock,
            counted: vec![0; setup.stages.len()],
            gears: setup.gears,
            stages: setup.stages,
            tally: setup.tally,
        };
        actor.begin_plan();
        actor
    }

    fn begin_plan(&self) {
        self.tally.on_plan(self.gears.as_ref());
        self.set_stages(self.burst.machine().gear());
    }

    fn set_stages(&self, gear: usize) {
        for (module, stage) in self.stages.iter().enumerate() {
            let Some((switch, own, _)) = stage else { continue };
            let planned = self.gears.as_ref().map(|gears| gears.setting(gear, module, *own));
            switch.set(planned.unwrap_or(*own));
        }
        telemetry::record_gear(self.burst.machine().gear());
    }

    /// The load since it was looked at last: of several cascades, that of the one with the most requests.
    fn look(&mut self, context: &mut Context<Self>) {
        let now = self.clock.now();
        self.tally
            .on_time(self.burst.machine().gear(), now.since(self.looked_at));
        self.looked_at = now;
        if self.gears.is_none() {
            return;
        }
        let (mut arrived, mut waiting) = (0, 0);
        for (stage, counted) in self.stages.iter().zip(&mut self.counted) {
            let Some((switch, _, is_first)) = stage else {
                continue;
            };
            waiting += switch.waiting();
            if *is_first {
                let all = switch.arrived();
                arrived = arrived.max(all.saturating_sub(*counted));
                *counted = all;
            }
        }
        let requests = u32::try_from(arrived).unwrap_or(u32::MAX);
        self.burst.push(GearEvent::Arrived { requests });
        self.on_event(GearEvent::Waiting { items: waiting }, context);
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
        let GearEffect::Shift { gear, rate } = effect;
        tracing::info!(gear, rate, "another gear is in force");
        self.tally.on_shift();
        self.set_stages(gear);
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

impl Handler<StopActor> for GearActor {
    type Result = ();

    fn handle(&mut self, _: StopActor, context: &mut Self::Context) {
        context.stop();
    }
}
