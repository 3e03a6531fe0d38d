//! Drives the decisions of this engine: collects facts, and carries out what follows. It holds no rule.
//!
//! What the decisions want is kept as a set of streams, and the engine is brought to it again and again: a stream that cannot be
//! added or removed now is tried at the next turn.

use std::collections::{BTreeMap, BTreeSet};
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
    /// Streams that this engine is to have.
    wanted: BTreeSet<StreamKey>,
    /// Streams that were added to the engine.
    added: BTreeSet<StreamKey>,
    /// Streams of which frames arrive.
    live: BTreeSet<StreamKey>,
    /// Streams that are being removed, and where it is said of each that it is gone: no more messages than streams.
    removing: BTreeSet<StreamKey>,
    removed: (Sender<StreamKey>, Receiver<StreamKey>),
    /// Streams that this engine claims in its reports, and the engines that it redirects its home streams to.
    claims: BTreeSet<StreamKey>,
    redirects: BTreeMap<StreamKey, EngineId>,
    /// The last reason why a stream could not be added.
    problems: BTreeMap<StreamKey, String>,
    /// True if a report is due at once.
    is_changed: bool,
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
            wanted: BTreeSet::new(),
            added: BTreeSet::new(),
            live: BTreeSet::new(),
            removing: BTreeSet::new(),
            removed: channel(),
            claims: BTreeSet::new(),
            redirects: BTreeMap::new(),
            problems: BTreeMap::new(),
            is_changed: true,
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
            if is_due || self.wanted.iter().any(|key| !self.live.contains(key)) {
                self.look(is_due, now);
            }
            self.add_and_remove();
            if is_due || self.is_changed {
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
                    // It knows nothing of this engine yet.
                    self.is_changed = true;
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
            FleetEffect::Take { stream } => {
                self.wanted.insert(stream);
            }
            FleetEffect::Release { stream } => {
                self.wanted.remove(&stream);
                self.live.remove(&stream);
                self.problems.remove(&stream);
            }
            FleetEffect::Claim { stream } => self.is_changed |= self.claims.insert(stream),
            FleetEffect::Unclaim { stream } => self.is_changed |= self.claims.remove(&stream),
            FleetEffect::Redirect { stream, to } => {
                match to {
                    Some(to) => self.redirects.insert(stream, to),
                    None => self.redirects.remove(&stream),
                };
                self.is_changed = true;
            }
        }
    }

    /// Looks at the engine: which streams have frames, and, where a report is due, how it fares.
    fn look(&mut self, is_due: bool, now: Timestamp) {
        let Ok(snapshot) = self.control.snapshot() else {
            return;
        };
        let has = |name: &str| snapshot.streams.iter().any(|stream| stream.name == name);
        let names = &self.names;
        // A client may have removed one.
        self.added.retain(|key| names.stream(*key).is_some_and(has));
        let mut events = Vec::new();
        for stream in &snapshot.streams {
            let key = stream_key(&stream.name);
            let is_wanted = self.wanted.contains(&key) && self.added.contains(&key);
            let has_frames = stream.state == StreamPhase::Live && stream.requests.arrived > 0;
            if is_wanted && has_frames && self.live.insert(key) {
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
            let works = self.live.iter().filter_map(|key| {
                let work = self.meter.work(self.names.stream(*key)?);
                Some(FleetEvent::StreamKnown { stream: *key, work })
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
        let is_own = |name: &str| self.added.contains(&stream_key(name));
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
            self.removing.remove(&key);
        }
        let missing = self.wanted.difference(&self.added).copied();
        let missing: Vec<StreamKey> = missing.filter(|key| !self.removing.contains(key)).collect();
        for key in missing {
            self.add(key);
        }
        let left: Vec<StreamKey> = self.added.difference(&self.wanted).copied().collect();
        for key in left {
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
            Ok(()) => {
                self.added.insert(key);
                self.problems.remove(&key);
            }
            Err(StreamError::Stopping) => {}
            Err(error) => {
                let reason = error.to_string();
                if self.problems.get(&key) != Some(&reason) {
                    tracing::error!(stream = %node.name, %reason, "the stream cannot be taken over; retrying");
                    self.problems.insert(key, reason);
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
            self.added.remove(&key);
            self.live.remove(&key);
            self.removing.insert(key);
        }
    }

    /// Reports this engine to the others.
    fn report(&mut self) {
        self.is_changed = false;
        self.reports += 1;
        let named = |key: &StreamKey| self.names.stream(*key).map(str::to_owned);
        let report = EngineReport {
            life: self.life,
            number: self.reports,
            capacity: self.meter.capacity(),
            load: self.meter.load(),
            missed: self.meter.missed(),
            devices: self.devices.clone(),
            streams: self
                .claims
                .iter()
                .filter_map(|key| {
                    let name = named(key)?;
                    let work = self.meter.work(&name);
                    Some((name, work))
                })
                .collect(),
            redirects: self
                .redirects
                .iter()
                .filter_map(|(key, to)| Some((named(key)?, self.names.engine(*to)?.to_owned())))
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
                    "missed": self.meter.missed(), "streams": self.claims.len(), "devices": self.devices,
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
            let here = self.claims.contains(&key).then_some(self.node.as_str());
            let mut held: Vec<&str> = elsewhere.chain(here).collect();
            held.sort_unstable();
            let assigned = self.member.assigned(key).and_then(|id| self.names.engine(id));
            let mut shown = json!({ "name": name, "assigned": assigned, "engines": held });
            if let Some(problem) = self.problems.get(&key) {
                shown["problem"] = problem.as_str().into();
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
