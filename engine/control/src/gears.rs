//! The gears of cascades as a machine: it looks at the load of the stages, shifts, and sets stages, invocation sizes and
//! shares of slots to the gear in force.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_policy::gears::{
    GearEffect, GearEvent, GearShift, GearTally, Gears, InvocationSize, ShiftBy, ShiftScope, StageSetting,
};
use weir_policy::{ModuleEvent, SlotEvent};
use weir_types::{DropReason, ModuleId, SlotId, Span, StreamId, Timestamp, Topology};

use crate::backlog::{ModuleWork, SharedSlot, SlotBacklog};
use crate::machine::Outbox;
use crate::message::{Effect, GearMessage, Message};
use crate::stage_load::StageLoad;

/// Time between two looks at the load. Arrivals are counted over a second, so this delays a shift by little.
pub const GEAR_INTERVAL: Span = Span::from_millis(50);

/// A module that gears set: a stage of a cascade, or one that reads tiles.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StageSpec {
    /// Its setting where no gear names it.
    pub own: StageSetting,
    /// Whether requests enter the cascade there.
    pub is_first: bool,
    /// Whether its items are tiles of frames.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_tiles: bool,
}

impl StageSpec {
    /// Of a module that is a stage with that least certainty, at that place in its cascade, or that reads tiles. `None` if it is
    /// neither: no gear sets it.
    #[must_use]
    pub fn new(stage: Option<(f32, u32)>, reads_tiles: bool) -> Option<Self> {
        let (certainty, index) = stage.or_else(|| reads_tiles.then_some((0.0, 0)))?;
        Some(Self {
            own: StageSetting::asked(certainty),
            is_first: index == 0,
            reads_tiles,
        })
    }
}

/// Specification of the cascades of a graph.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GearSpec {
    /// Stage of each module that is one, by module. Cascades are numbered in the order of their first stages.
    pub stages: Vec<Option<StageSpec>>,
    /// The gears in the beginning.
    pub gears: Option<Gears>,
}

impl GearSpec {
    /// By module, the stage that it is. `None` if gears set no module.
    #[must_use]
    pub fn new(stages: Vec<Option<StageSpec>>, gears: Option<Gears>) -> Option<Self> {
        stages
            .iter()
            .any(Option::is_some)
            .then_some(Self { stages, gears })
    }
}

/// Modules at a look at the load.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// Loads of stages since the last look, by module.
    pub(crate) loads: Vec<Option<StageLoad>>,
    /// Work of all modules, by module; empty where gears do not follow the backlog.
    pub(crate) work: Vec<ModuleWork>,
}

/// State machine that shifts the gears of all cascades; see the module.
#[derive(Debug)]
pub struct GearMachine {
    stages: Vec<Option<StageSpec>>,
    gears: Option<Gears>,
    policy: GearShift,
    tally: GearTally,
    /// Invocation size that was set last, by module.
    invocations: Vec<InvocationSize>,
    /// Slots that the arbiter grants, by module.
    slots: Vec<Vec<SharedSlot>>,
    /// Items, or requests, of streams that waited at the last look.
    waiting: BTreeMap<StreamId, u64>,
    backlog: SlotBacklog,
    /// Modules whose items depend on the gear.
    relieved: Vec<bool>,
    /// Requests that were dropped for lack of time since the last look.
    lost: u32,
    looked_at: Timestamp,
}

impl GearMachine {
    /// Creates the machine in the lowest gear. `slots` are those that the arbiter grants, by module.
    #[must_use]
    pub fn new(spec: GearSpec, slots: Vec<Vec<SlotId>>, topology: Topology, slo: Span) -> Self {
        let shared = |slot| SharedSlot {
            slot,
            share: None,
            trigger: InvocationSize::default(),
        };
        Self {
            policy: GearShift::of(spec.gears.as_ref().map(Gears::shift_spec).unwrap_or_default()),
            tally: GearTally::default(),
            invocations: vec![InvocationSize::default(); spec.stages.len()],
            slots: slots
                .into_iter()
                .map(|slots| slots.into_iter().map(shared).collect())
                .collect(),
            stages: spec.stages,
            gears: spec.gears,
            waiting: BTreeMap::new(),
            backlog: SlotBacklog::new(topology, slo),
            relieved: Vec::new(),
            lost: 0,
            looked_at: Timestamp::ZERO,
        }
    }

    /// Whether the work of modules is asked for at a look.
    pub(crate) fn follows_backlog(&self) -> bool {
        matches!(self.policy.by(), ShiftBy::Backlog(_))
    }

    /// A slot can be used, or not.
    pub(crate) fn on_slot(&mut self, slot: SlotId, is_up: bool) {
        self.backlog.on_slot(slot, is_up);
    }

    /// A module dropped a request.
    pub(crate) fn on_dropped(&mut self, reason: DropReason) {
        let lacks_time = matches!(
            reason,
            DropReason::Infeasible | DropReason::OverBudget | DropReason::Shed | DropReason::Superseded
        );
        self.lost = self.lost.saturating_add(u32::from(lacks_time));
    }

    /// The time that gears were in force.
    #[must_use]
    pub fn tally(&self) -> &GearTally {
        &self.tally
    }

    /// The gear by which the modules batch: where each stream has a gear, the highest of them, since batches are of all
    /// streams.
    #[must_use]
    pub fn highest(&self) -> usize {
        let of_streams = self.policy.stream_gears().map(|(_, gear)| gear).max();
        of_streams.unwrap_or_default().max(self.policy.gear())
    }

    /// Takes a message in, and decides on it at once. `look`: the modules at a look.
    pub(crate) fn on(&mut self, message: GearMessage, look: Look, now: Timestamp, out: &mut Outbox) {
        match message {
            GearMessage::Begun => {
                self.looked_at = now;
                self.begin_plan(out);
            }
            GearMessage::Applied(gears) => {
                self.gears = gears.map(|gears| *gears);
                let spec = self.gears.as_ref().map(Gears::shift_spec).unwrap_or_default();
                if spec.rule.by != self.policy.by() {
                    self.waiting.clear();
                    self.backlog.forget();
                }
                self.step(vec![GearEvent::PlanApplied { spec }], now, out);
                self.begin_plan(out);
            }
            GearMessage::StreamRemoved(stream) => {
                self.waiting.remove(&stream);
                out.act(Effect::StagesUnset(Some(stream)));
                if self.policy.scope() == ShiftScope::Stream {
                    self.step(vec![GearEvent::StreamRemoved { stream }], now, out);
                    self.set_invocations(out);
                }
            }
            GearMessage::Look => self.look(look, now, out),
        }
    }

    /// Sets all stages to the gears in force.
    fn begin_plan(&mut self, out: &mut Outbox) {
        self.tally.on_plan(self.gears.as_ref());
        self.relieved = (0..self.stages.len())
            .map(|module| self.is_relieved(module))
            .collect();
        if self.policy.scope() == ShiftScope::Graph {
            self.waiting.clear();
        }
        out.act(Effect::StagesUnset(None));
        self.set_stages(self.policy.gear(), None, out);
        let of_streams: Vec<(StreamId, usize)> = self.policy.stream_gears().collect();
        for (stream, gear) in of_streams {
            self.set_stages(gear, Some(stream), out);
        }
        self.set_invocations(out);
    }

    fn step(&mut self, events: Vec<GearEvent>, now: Timestamp, out: &mut Outbox) {
        let mut effects = Vec::new();
        self.policy.step(events, now, &mut effects);
        for GearEffect::Shift { gear, rate, stream } in effects {
            self.tally.on_shift();
            out.act(Effect::Shifted { gear, rate, stream });
            self.set_stages(gear, stream, out);
        }
    }

    fn setting(&self, gear: usize, module: usize, stage: &StageSpec) -> StageSetting {
        let gears = self.gears.as_ref();
        gears.map_or(stage.own, |gears| gears.setting(gear, module, stage.own))
    }

    /// Whether the items of a module depend on the gear: of a later stage always, of a first one where gears differ in it.
    fn is_relieved(&self, module: usize) -> bool {
        let Some(stage) = self.stages[module] else {
            return false;
        };
        let gears = self.gears.as_ref().map_or(0, |gears| gears.gears.len());
        let settings = (0..gears).map(|gear| self.setting(gear, module, &stage));
        let mut settings = settings.map(|setting| (setting.is_used, setting.tiles));
        let first = settings.next();
        !stage.is_first || settings.any(|setting| Some(setting) != first)
    }

    /// Sets the stages to a gear, for a stream or for all.
    fn set_stages(&self, gear: usize, stream: Option<StreamId>, out: &mut Outbox) {
        for (module, stage) in self.stages.iter().enumerate() {
            let Some(stage) = stage else { continue };
            out.act(Effect::StageSet {
                module: ModuleId(module as u32),
                stream,
                setting: self.setting(gear, module, stage),
            });
        }
    }

    /// Sets invocation sizes of stages, and the part of their work that each of their slots does.
    fn set_invocations(&mut self, out: &mut Outbox) {
        let gear = self.highest();
        for (module, slots) in self.slots.iter_mut().enumerate() {
            for (place, slot) in slots.iter_mut().enumerate() {
                let gears = self.gears.as_ref();
                let share = gears.and_then(|gears| gears.share(gear, module, place));
                if std::mem::replace(&mut slot.share, share) != share {
                    out.send(Message::Slots(SlotEvent::ShareSet {
                        module: ModuleId(module as u32),
                        slot: slot.slot,
                        share,
                    }));
                }
                let invocation = gears.map_or_else(InvocationSize::default, |gears| {
                    gears.trigger(gear, module, place)
                });
                if std::mem::replace(&mut slot.trigger, invocation) != invocation {
                    let fact = ModuleEvent::SlotInvocationSet {
                        slot: slot.slot,
                        invocation,
                    };
                    out.send(Message::fact(ModuleId(module as u32), fact));
                }
            }
        }
        for module in 0..self.stages.len() {
            let Some(stage) = self.stages[module] else {
                continue;
            };
            let invocation = self.setting(gear, module, &stage).invocation;
            if std::mem::replace(&mut self.invocations[module], invocation) != invocation {
                let fact = ModuleEvent::InvocationChanged { invocation };
                out.send(Message::fact(ModuleId(module as u32), fact));
            }
        }
    }

    /// Looks at the load since the last look.
    fn look(&mut self, look: Look, now: Timestamp, out: &mut Outbox) {
        let time = now.since(self.looked_at);
        self.looked_at = now;
        let lost = std::mem::take(&mut self.lost);
        let gears = match self.policy.scope() {
            ShiftScope::Graph => vec![self.policy.gear()],
            ShiftScope::Stream => self.policy.stream_gears().map(|(_, gear)| gear).collect(),
        };
        gears.into_iter().for_each(|gear| self.tally.on_time(gear, time));
        let Some(window) = self.gears.as_ref().map(|gears| gears.rule.window) else {
            return;
        };
        let by = self.policy.by();
        let mut arrived = Vec::new();
        let mut waiting: BTreeMap<StreamId, u64> = BTreeMap::new();
        for (stage, load) in self.stages.iter().zip(look.loads) {
            let (Some(stage), Some(load)) = (stage, load) else {
                continue;
            };
            let counted = match by {
                ShiftBy::InFlight => load.requests,
                ShiftBy::Rate | ShiftBy::Backlog(_) => load.waiting,
            };
            for (stream, count) in counted {
                *waiting.entry(stream).or_default() += count;
            }
            if stage.is_first {
                arrived.push(load.arrived);
            }
        }
        let events: Vec<GearEvent> = match (by, self.policy.scope()) {
            (ShiftBy::Rate, ShiftScope::Graph) => {
                let items = waiting.values().sum();
                of_all(&arrived).chain([GearEvent::Waiting { items }]).collect()
            }
            (ShiftBy::Rate, ShiftScope::Stream) => self.of_streams(&arrived, waiting),
            (ShiftBy::InFlight, ShiftScope::Graph) => {
                let load = waiting.values().sum::<u64>() as f64;
                vec![GearEvent::Load { load }]
            }
            (ShiftBy::InFlight, ShiftScope::Stream) => self.in_flight(waiting),
            // Queues of slots are those of all streams.
            (ShiftBy::Backlog(_), _) => {
                let placed = (&self.slots[..], &self.relieved[..]);
                let backlog = self.backlog.part(&look.work, placed, time, window);
                let lost = (lost > 0).then_some(GearEvent::Lost { requests: lost });
                of_all(&arrived)
                    .chain(lost)
                    .chain([GearEvent::Queued { backlog }])
                    .collect()
            }
        };
        self.step(events, now, out);
        self.set_invocations(out);
    }

    /// Gives the requests in flight by stream, also of streams that have none any more.
    fn in_flight(&mut self, waiting: BTreeMap<StreamId, u64>) -> Vec<GearEvent> {
        let mut loads = waiting.clone();
        for (stream, _) in std::mem::replace(&mut self.waiting, waiting) {
            loads.entry(stream).or_default();
        }
        let load = |(stream, requests): (StreamId, u64)| GearEvent::StreamLoad {
            stream,
            load: requests as f64,
        };
        let loads = loads.into_iter().map(load);
        loads.chain([GearEvent::Tick]).collect()
    }

    /// Gives the load by stream. A count of waiting items that has not changed is no event.
    fn of_streams(
        &mut self,
        arrived: &[BTreeMap<StreamId, u64>],
        waiting: BTreeMap<StreamId, u64>,
    ) -> Vec<GearEvent> {
        let mut events = Vec::new();
        let mut streams: Vec<StreamId> = arrived.iter().flat_map(BTreeMap::keys).copied().collect();
        streams.extend(waiting.keys().chain(self.waiting.keys()));
        streams.sort_unstable();
        streams.dedup();
        for stream in streams {
            for (cascade, arrived) in (0..).zip(arrived) {
                if let Some(requests) = arrived.get(&stream) {
                    events.push(GearEvent::StreamArrived {
                        stream,
                        cascade,
                        requests: u32::try_from(*requests).unwrap_or(u32::MAX),
                    });
                }
            }
            let of = |waiting: &BTreeMap<StreamId, u64>| waiting.get(&stream).copied().unwrap_or_default();
            let items = of(&waiting);
            if of(&self.waiting) != items {
                events.push(GearEvent::StreamWaiting { stream, items });
            }
        }
        self.waiting = waiting;
        events.push(GearEvent::Tick);
        events
    }
}

/// Gives the arrivals of all streams together.
fn of_all(arrived: &[BTreeMap<StreamId, u64>]) -> impl Iterator<Item = GearEvent> {
    (0..).zip(arrived).map(|(cascade, arrived)| GearEvent::Arrived {
        cascade,
        requests: u32::try_from(arrived.values().sum::<u64>()).unwrap_or(u32::MAX),
    })
}
