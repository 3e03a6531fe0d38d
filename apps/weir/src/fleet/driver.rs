//! Drives the decisions of this engine: collects facts, and carries out what follows. It holds no rule.
//!
//! What the decisions want is kept as a set of streams, and the engine is brought to it again and again: a stream that cannot be
//! added or removed now is tried at the next turn.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use weir_fabric::{
    Fabric, FabricError, Kind, MemberChange, Members, Message, Subscription, Urgency, refusals,
};
use weir_flow::StopFlag;
use weir_graph::SourceNode;
use weir_policy::fleet::{EngineId, FleetEffect, FleetEvent, FleetMember, FleetSpec, StreamKey};
use weir_runtime::{Clock, Control, NewStream, Snapshot, StreamError, StreamPhase};
use weir_types::{Span, Timestamp};

use super::claims::Claims;
use super::held_streams::HeldStreams;
use super::meter::{DEFAULT_WORK, Meter, ModuleSample, Sample};
use super::names::{Names, engine_id, stream_key};
use super::report::{EngineReport, TOPIC};
use super::views::Views;
use crate::assemble::source;

/// Time between two turns at most; a report of another engine begins one at once.
const TURN: Duration = Duration::from_millis(100);
/// Time between two reports of this engine where nothing changes, and between two measurements.
const REPORT_INTERVAL: Span = Span::from_secs(1);

/// Configuration that all engines of a fleet share, and the part of this engine in it.
pub(super) struct Shared {
    pub(super) fleet: String,
    pub(super) node: String,
    pub(super) names: Names,
    /// Streams, with what their frames enter.
    pub(super) streams: Vec<(SourceNode, Vec<String>)>,
    pub(super) spec: FleetSpec,
    /// Slots of this machine that run the graph's models, by device.
    pub(super) devices: BTreeMap<String, u32>,
    /// A capacity that is declared instead of measured.
    pub(super) declared: Option<f64>,
}

/// Shows the fleet to clients.
pub(crate) type Board = Arc<Mutex<Value>>;

/// See the module.
pub(super) struct Driver {
    fleet: String,
    node: String,
    devices: BTreeMap<String, u32>,
    me: EngineId,
    names: Names,
    streams: BTreeMap<StreamKey, (SourceNode, Vec<String>)>,
    member: FleetMember,
    views: Views,
    meter: Meter,
    clock: Clock,
    life: u64,
    reports: u64,
    fabric: Arc<Fabric>,
    subscription: Subscription,
    members: Members,
    control: Control,
    board: Board,
    held: HeldStreams,
    /// Streams whose removal has ended: no more messages than streams.
    removed: (Sender<StreamKey>, Receiver<StreamKey>),
    claims: Claims,
}

impl Driver {
    /// Announces this engine.
    pub(super) fn join(
        shared: Shared,
        fabric: Arc<Fabric>,
        control: Control,
        board: Board,
    ) -> Result<Self, FabricError> {
        let Shared {
            fleet,
            node,
            names,
            streams,
            spec,
            devices,
            declared,
        } = shared;
        let clock = Clock::start();
        let subscription = fabric.subscribe(Kind::Engine, TOPIC)?;
        let members = fabric.members()?;
        let me = engine_id(&node);
        let mut driver = Self {
            fleet,
            node,
            devices,
            me,
            streams: streams
                .into_iter()
                .map(|(stream, entered)| (stream_key(&stream.name), (stream, entered)))
                .collect(),
            member: FleetMember::new(me, spec),
            views: Views::new(names.clone()),
            names,
            meter: Meter::new(declared),
            life: clock.utc_ms(clock.now()),
            clock,
            reports: 0,
            subscription,
            members,
            control,
            board,
            held: HeldStreams::default(),
            removed: channel(),
            claims: Claims::default(),
            fabric,
        };
        let now = driver.clock.now();
        let known: Vec<FleetEvent> = driver
            .streams
            .iter()
            .map(|(key, (node, _))| FleetEvent::StreamKnown {
                stream: *key,
                work: node.sample.or(node.fps).unwrap_or(DEFAULT_WORK),
            })
            .collect();
        driver.decide(known, now);
        driver.fabric.announce()?;
        Ok(driver)
    }

    /// Goes on until `stop` is raised, and leaves the fleet.
    pub(super) fn run(mut self, stop: &StopFlag) {
        let mut report_at = self.clock.now();
        while !stop.is_raised() {
            let now = self.clock.now();
            // Before all else: where this engine stood still, what is to be heard now is judged by that.
            self.decide(vec![FleetEvent::Tick], now);
            self.follow_members(now);
            let is_due = now >= report_at;
            if is_due {
                report_at = now + REPORT_INTERVAL;
            }
            if is_due || self.held.lacks_frames() {
                self.look(is_due, now);
            }
            self.add_and_remove();
            if is_due || self.claims.is_unreported() {
                self.report();
                self.show();
            }
            if let Some(first) = self.subscription.next(TURN) {
                self.take_reports(first);
            }
        }
        if !self.fabric.close() {
            tracing::warn!("this engine left its fleet without an answer from the others");
        }
    }

    fn follow_members(&mut self, now: Timestamp) {
        for change in self.members.changes() {
            match change {
                MemberChange::Joined(member) if member.kind == Kind::Engine && member.id != self.node => {
                    self.views.on_joined(&member.id);
                    self.claims.on_newcomer();
                }
                MemberChange::Left(member) if member.kind == Kind::Engine && member.id != self.node => {
                    let events = self.views.on_left(&member.id);
                    self.decide(events, now);
                }
                MemberChange::Joined(_) | MemberChange::Left(_) => {}
            }
        }
    }

    fn take_reports(&mut self, first: Message) {
        let now = self.clock.now();
        // Who is there is known before what it says.
        self.follow_members(now);
        let others: Vec<Message> = self.subscription.waiting().collect();
        for message in std::iter::once(first).chain(others) {
            match EngineReport::read(&message.payload()) {
                Some(report) => {
                    let events = self.views.on_report(&message.from.id, report);
                    self.decide(events, now);
                }
                None => self.views.on_garbage(),
            }
        }
    }

    /// Gives facts to the decisions, and takes in what they want.
    fn decide(&mut self, events: Vec<FleetEvent>, now: Timestamp) {
        for event in events {
            for effect in self.member.on_event(event, now) {
                self.take_in(effect);
            }
        }
    }

    fn take_in(&mut self, effect: FleetEffect) {
        match effect {
            FleetEffect::Take { stream } => self.held.take(stream),
            FleetEffect::Release { stream } => self.held.release(stream),
            FleetEffect::Claim { stream } => self.claims.set(stream, true),
            FleetEffect::Unclaim { stream } => self.claims.set(stream, false),
            FleetEffect::Redirect { stream, to } => self.claims.redirect(stream, to),
        }
    }

    /// Looks at the engine: which streams have frames, and, where a report is due, how it fares.
    fn look(&mut self, is_due: bool, now: Timestamp) {
        let Ok(snapshot) = self.control.snapshot() else {
            return;
        };
        let has = |name: &str| snapshot.streams.iter().any(|stream| stream.name == name);
        let names = &self.names;
        self.held.on_streams(|key| names.stream(key).is_some_and(has));
        let mut events = Vec::new();
        for stream in &snapshot.streams {
            let key = stream_key(&stream.name);
            // Frames outside the schedule of a camera are counted later, many together.
            let has_arrived = stream.requests.arrived > 0 || stream.outside_schedule;
            let has_frames = stream.state == StreamPhase::Live && has_arrived;
            if has_frames && self.held.on_frames(key) {
                events.push(FleetEvent::Live { stream: key });
            }
        }
        if is_due {
            let sample = self.sample(&snapshot, now);
            self.meter.on_sample(sample);
            events.push(FleetEvent::EngineUp {
                engine: self.me,
                capacity: self.meter.capacity(),
            });
            let works = self.held.live().filter_map(|key| {
                let work = self.meter.work(self.names.stream(key)?);
                Some(FleetEvent::StreamKnown { stream: key, work })
            });
            events.extend(works);
            events.push(FleetEvent::EngineStatus {
                engine: self.me,
                load: self.meter.load(),
                missed: self.meter.missed(),
            });
        }
        self.decide(events, now);
    }

    fn sample(&self, snapshot: &Snapshot, now: Timestamp) -> Sample {
        let is_own = |name: &str| self.held.is_added(stream_key(name));
        let is_module = |name: &str| snapshot.modules.iter().any(|module| module.name == name);
        Sample {
            at: now,
            streams: snapshot
                .streams
                .iter()
                .filter(|stream| is_own(&stream.name))
                .map(|stream| (stream.name.clone(), stream.requests))
                .collect(),
            modules: snapshot
                .modules
                .iter()
                .map(|module| ModuleSample {
                    input_rate: module.input_rate,
                    throughput: module.throughput,
                    is_first: !module.inputs.iter().any(|input| is_module(input)),
                })
                .collect(),
        }
    }

    /// Brings the engine to the streams that it is to have.
    fn add_and_remove(&mut self) {
        for key in self.removed.1.try_iter() {
            self.held.on_removed(key);
        }
        for key in self.held.to_add() {
            self.add(key);
        }
        for key in self.held.to_remove() {
            self.remove(key);
        }
    }

    fn add(&mut self, key: StreamKey) {
        let Some((node, entered)) = self.streams.get(&key) else {
            return;
        };
        let stream = NewStream {
            factory: source(node),
            node: node.clone(),
            like: None,
        };
        match self.control.add_stream_into(stream, entered.clone()) {
            Ok(()) => self.held.on_added(key),
            Err(StreamError::Stopping) => {}
            Err(error) => {
                let reason = error.to_string();
                if self.held.on_not_added(key, &reason) {
                    tracing::error!(stream = %node.name, %reason, "the stream cannot be taken over; retrying");
                }
            }
        }
    }

    /// Removes the stream on a thread of its own, because frames in flight are finished first, which takes
    /// time.
    fn remove(&mut self, key: StreamKey) {
        let Some(name) = self.names.stream(key).map(str::to_owned) else {
            return;
        };
        let (control, removed) = (self.control.clone(), self.removed.0.clone());
        let remove = move || {
            if let Err(error) = control.remove_stream(&name) {
                tracing::debug!(stream = %name, %error, "it was not removed");
            }
            // The other end is gone where the program ends.
            let _ = removed.send(key);
        };
        let thread = std::thread::Builder::new().name("weir-fleet-remove".to_owned());
        if thread.spawn(remove).is_ok() {
            self.held.on_removing(key);
        }
    }

    /// Reports this engine to the others.
    fn report(&mut self) {
        self.claims.on_report();
        self.reports += 1;
        let named = |key| self.names.stream(key).map(str::to_owned);
        let report = EngineReport {
            life: self.life,
            number: self.reports,
            capacity: self.meter.capacity(),
            load: self.meter.load(),
            missed: self.meter.missed(),
            devices: self.devices.clone(),
            streams: self
                .claims
                .streams()
                .filter_map(|key| {
                    let name = named(key)?;
                    let work = self.meter.work(&name);
                    Some((name, work))
                })
                .collect(),
            redirects: self
                .claims
                .redirects()
                .filter_map(|(key, to)| Some((named(key)?, self.names.engine(to)?.to_owned())))
                .collect(),
        };
        if let Err(error) = self.fabric.publish(TOPIC, Urgency::Control, &[], report.bytes()) {
            tracing::warn!(%error, "the other engines were not informed");
        }
    }

    /// Shows the fleet to clients.
    fn show(&self) {
        let others: BTreeMap<&str, &EngineReport> = self.views.reports().collect();
        let engine = |name: &str| {
            if name == self.node {
                return json!({
                    "name": name, "up": true, "capacity": self.meter.capacity(), "load": self.meter.load(),
                    "missed": self.meter.missed(), "streams": self.claims.streams().len(), "devices": self.devices,
                });
            }
            match others.get(name) {
                Some(report) => json!({
                    "name": name, "up": true, "capacity": report.capacity, "load": report.load,
                    "missed": report.missed, "streams": report.streams.len(), "devices": report.devices,
                }),
                None => json!({ "name": name, "up": false, "streams": 0 }),
            }
        };
        let stream = |(key, name): (StreamKey, &str)| {
            let elsewhere = others
                .iter()
                .filter(|(_, report)| report.streams.contains_key(name))
                .map(|(engine, _)| *engine);
            let here = self.claims.contains(key).then_some(self.node.as_str());
            let mut held: Vec<&str> = elsewhere.chain(here).collect();
            held.sort_unstable();
            let assigned = self.member.assigned(key).and_then(|id| self.names.engine(id));
            let mut shown = json!({ "name": name, "assigned": assigned, "engines": held });
            if let Some(problem) = self.held.problem(key) {
                shown["problem"] = problem.into();
            }
            shown
        };
        let shown = json!({
            "fleet": self.fleet,
            "node": self.node,
            "engines": self.names.engines().map(engine).collect::<Vec<_>>(),
            "streams": self.names.streams().map(stream).collect::<Vec<_>>(),
            "moves": self.member.stats(),
            "messages": self.fabric.counts(),
            "refused": {
                "connections": refusals().connections,
                "messages": refusals().messages,
                "reports": self.views.refused(),
            },
        });
        *self.board.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }
}
