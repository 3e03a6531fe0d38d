//! Engines that fail and return, streams whose work oscillates, and messages with delays.

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};
use weir_policy::fleet::{EngineId, FleetEffect, FleetEvent, FleetMember, FleetSpec, StreamKey};
use weir_policy::{GOLDEN_GAMMA, uniform_hash};
use weir_types::{Span, Timestamp};

use super::result::FleetResult;
use crate::event_queue::EventQueue;

/// Engines tell how they fare.
const STATUS_INTERVAL: Span = Span::from_secs(1);
/// Time passes for them.
const TURN: Span = Span::from_millis(250);
/// Time within which a stream's return to the engine that it left counts as a swing.
const SWING: Span = Span::from_secs(60);

/// A fleet of engines with its streams and fault schedule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FleetWorld {
    /// Rules by which streams are spread over engines.
    pub fleet: FleetSpec,
    /// Number of engines.
    pub engines: u32,
    /// Capacity of an engine is drawn between 1 and this, in the unit of work.
    pub largest_capacity: f64,
    /// Number of streams.
    pub streams: u32,
    /// Mean work of all streams, as a fraction of the capacity of all engines.
    pub load: f64,
    /// Amplitude of a stream's work, as a fraction of its mean. One half of the streams swings in phase, the
    /// other half against it.
    pub swing: f64,
    /// Period of the swing.
    pub period: Span,
    /// Mean time between two failures of any engine; zero: no engine fails.
    pub failure_every: Span,
    /// Time from an engine's failure to its return.
    pub down_for: Span,
    /// Time for which the token of an engine stays valid after its failure.
    pub lease: Span,
    /// Upper limit of a message's delay; the lower limit is a fifth of it.
    pub delay: Span,
    /// Upper limit of the time from opening a stream to its first frame; the lower limit is a fifth of it.
    pub opening: Span,
    /// Time at the beginning that results leave out.
    pub start_up: Span,
    /// Time that results cover, after `start_up`.
    pub duration: Span,
    /// Seed of all random draws.
    pub seed: u64,
}

impl Default for FleetWorld {
    fn default() -> Self {
        Self {
            fleet: FleetSpec::default(),
            engines: 10,
            largest_capacity: 2.0,
            streams: 200,
            load: 0.6,
            swing: 0.0,
            period: Span::from_secs(120),
            failure_every: Span::ZERO,
            down_for: Span::from_secs(30),
            lease: Span::from_secs(1),
            delay: Span::from_millis(20),
            opening: Span::from_secs(1),
            start_up: Span::from_secs(15),
            duration: Span::from_secs(300),
            seed: 1,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Due {
    /// A member is notified; the number of its engine's life.
    Notified(usize, u32, FleetEvent),
    /// A stream that an engine opens gives frames; lives of the engine and of the opening.
    Opened(usize, u32, StreamKey, u64),
    Second,
    Turn,
    Fails,
    Back(usize),
}

struct Engine {
    capacity: f64,
    member: Option<FleetMember>,
    life: u32,
    /// Streams of which it has frames.
    live: BTreeSet<StreamKey>,
    /// Streams that it opens, with the number of the opening.
    opening: BTreeMap<StreamKey, u64>,
    /// Redirections that it published with its token.
    redirects: BTreeMap<StreamKey, EngineId>,
}

struct Stream {
    work: f64,
    phase: f64,
    holders: u32,
    since: Timestamp,
    last_holder: Option<usize>,
    /// Engine that it left last, and the time.
    left: Option<(usize, Timestamp)>,
}

struct World {
    spec: FleetWorld,
    engines: Vec<Engine>,
    streams: Vec<Stream>,
    queue: EventQueue<Due>,
    result: FleetResult,
    drawn: u64,
    openings: u64,
    last_failure: Timestamp,
    unseen: Span,
    twice: Span,
    longest: Span,
    work: f64,
    done: f64,
    possible: f64,
    moves: u64,
    swings: u64,
}

/// Runs a fleet.
#[must_use]
pub fn simulate_fleet(spec: &FleetWorld) -> FleetResult {
    World::new(*spec).run()
}

impl World {
    fn new(spec: FleetWorld) -> Self {
        let mut world = Self {
            spec,
            engines: Vec::new(),
            streams: Vec::new(),
            queue: EventQueue::default(),
            result: FleetResult::default(),
            drawn: spec.seed.wrapping_mul(GOLDEN_GAMMA),
            openings: 0,
            last_failure: Timestamp::ZERO,
            unseen: Span::ZERO,
            twice: Span::ZERO,
            longest: Span::ZERO,
            work: 0.0,
            done: 0.0,
            possible: 0.0,
            moves: 0,
            swings: 0,
        };
        for _ in 0..spec.engines {
            let capacity = 1.0 + world.draw() * (spec.largest_capacity - 1.0).max(0.0);
            world.engines.push(Engine {
                capacity,
                member: None,
                life: 0,
                live: BTreeSet::new(),
                opening: BTreeMap::new(),
                redirects: BTreeMap::new(),
            });
        }
        let capacity: f64 = world.engines.iter().map(|engine| engine.capacity).sum();
        let mean = spec.load * capacity / f64::from(spec.streams.max(1));
        for number in 0..spec.streams {
            // Mean work of each stream: 0.5 to 1.5 times the mean of all.
            let work = mean * (0.5 + world.draw());
            world.streams.push(Stream {
                work,
                phase: if number % 2 == 0 { 0.0 } else { 0.5 },
                holders: 0,
                since: Timestamp::ZERO,
                last_holder: None,
                left: None,
            });
        }
        world
    }

    fn draw(&mut self) -> f64 {
        self.drawn = self.drawn.wrapping_add(GOLDEN_GAMMA);
        uniform_hash(self.drawn)
    }

    /// Between a fifth of it and all of it.
    fn about(&mut self, span: Span) -> Span {
        let part = 0.2 + 0.8 * self.draw();
        span.scale(part)
    }

    fn ends_at(&self) -> Timestamp {
        Timestamp::ZERO + self.spec.start_up + self.spec.duration
    }

    fn counts(&self, now: Timestamp) -> bool {
        now.since(Timestamp::ZERO) >= self.spec.start_up
    }

    fn run(mut self) -> FleetResult {
        for engine in 0..self.engines.len() {
            self.start(engine, Timestamp::ZERO);
        }
        self.queue.push(Timestamp::ZERO + STATUS_INTERVAL, Due::Second);
        self.queue.push(Timestamp::ZERO + TURN, Due::Turn);
        if self.spec.failure_every > Span::ZERO {
            let first = self.next_failure(Timestamp::ZERO + self.spec.start_up);
            self.queue.push(first, Due::Fails);
        }
        let end = self.ends_at();
        while let Some((now, due)) = self.queue.pop() {
            if now >= end {
                break;
            }
            match due {
                Due::Notified(engine, life, event) => {
                    if self.engines[engine].life == life {
                        self.notify(engine, event, now);
                    }
                }
                Due::Opened(engine, life, stream, number) => self.opened((engine, life), stream, number, now),
                Due::Second => self.second(now),
                Due::Turn => self.turn(now),
                Due::Fails => self.fail(now),
                Due::Back(engine) => {
                    self.last_failure = now;
                    self.start(engine, now);
                }
            }
        }
        self.finish(end)
    }

    fn next_failure(&mut self, now: Timestamp) -> Timestamp {
        let mean = self.spec.failure_every.as_secs_f64();
        now + Span::from_secs_f64(-mean * (1.0 - self.draw()).max(1e-9).ln())
    }

    /// An engine comes, sees what the others have said, and is seen.
    fn start(&mut self, engine: usize, now: Timestamp) {
        let id = id_of(engine);
        self.engines[engine].member = Some(FleetMember::new(id, self.spec.fleet));
        for number in 0..self.streams.len() {
            let work = self.work_of(number, now);
            let stream = StreamKey(number as u64);
            self.notify(engine, FleetEvent::StreamKnown { stream, work }, now);
        }
        for other in 0..self.engines.len() {
            if self.engines[other].member.is_none() {
                continue;
            }
            let capacity = self.engines[other].capacity;
            let up = |engine| FleetEvent::EngineUp { engine, capacity };
            self.notify(engine, up(id_of(other)), now);
            let claims: Vec<StreamKey> = self.engines[other].live.iter().copied().collect();
            for stream in claims {
                let engine_id = id_of(other);
                self.notify(
                    engine,
                    FleetEvent::Claimed {
                        engine: engine_id,
                        stream,
                    },
                    now,
                );
            }
            let redirects: Vec<(StreamKey, EngineId)> = self.engines[other]
                .redirects
                .iter()
                .map(|(stream, to)| (*stream, *to))
                .collect();
            for (stream, to) in redirects {
                let event = FleetEvent::Redirected {
                    home: id_of(other),
                    stream,
                    to: Some(to),
                };
                self.notify(engine, event, now);
            }
        }
        let capacity = self.engines[engine].capacity;
        self.tell_others(
            engine,
            FleetEvent::EngineUp { engine: id, capacity },
            Span::ZERO,
            now,
        );
    }

    /// Sends an event to all engines but the sender.
    fn tell_others(&mut self, from: usize, event: FleetEvent, after: Span, now: Timestamp) {
        for to in 0..self.engines.len() {
            if to != from && self.engines[to].member.is_some() {
                let delay = self.about(self.spec.delay);
                let life = self.engines[to].life;
                self.queue
                    .push(now + after + delay, Due::Notified(to, life, event));
            }
        }
    }

    fn notify(&mut self, engine: usize, event: FleetEvent, now: Timestamp) {
        let Some(member) = &mut self.engines[engine].member else {
            return;
        };
        self.result.events += 1;
        let effects = member.on_event(event, now);
        for effect in effects {
            self.carry_out(engine, effect, now);
        }
    }

    fn carry_out(&mut self, engine: usize, effect: FleetEffect, now: Timestamp) {
        let id = id_of(engine);
        match effect {
            FleetEffect::Take { stream } => {
                self.openings += 1;
                let number = self.openings;
                let opening = self.about(self.spec.opening);
                let life = self.engines[engine].life;
                self.engines[engine].opening.insert(stream, number);
                self.queue
                    .push(now + opening, Due::Opened(engine, life, stream, number));
            }
            FleetEffect::Release { stream } => {
                self.engines[engine].opening.remove(&stream);
                if self.engines[engine].live.remove(&stream) {
                    self.holds(stream, -1, now);
                    if let Some(known) = self.streams.get_mut(stream.0 as usize) {
                        known.left = Some((engine, now));
                    }
                }
            }
            FleetEffect::Claim { stream } => {
                self.tell_others(
                    engine,
                    FleetEvent::Claimed { engine: id, stream },
                    Span::ZERO,
                    now,
                );
            }
            FleetEffect::Unclaim { stream } => {
                self.tell_others(
                    engine,
                    FleetEvent::Unclaimed { engine: id, stream },
                    Span::ZERO,
                    now,
                );
            }
            FleetEffect::Redirect { stream, to } => {
                match to {
                    Some(to) => self.engines[engine].redirects.insert(stream, to),
                    None => self.engines[engine].redirects.remove(&stream),
                };
                self.result.redirections += u64::from(self.counts(now));
                self.tell_others(
                    engine,
                    FleetEvent::Redirected { home: id, stream, to },
                    Span::ZERO,
                    now,
                );
            }
        }
    }

    fn opened(&mut self, (engine, life): (usize, u32), stream: StreamKey, number: u64, now: Timestamp) {
        let own = &mut self.engines[engine];
        if own.life != life || own.opening.get(&stream) != Some(&number) {
            return;
        }
        own.opening.remove(&stream);
        own.live.insert(stream);
        self.holds(stream, 1, now);
        self.moved(stream, engine, now);
        self.notify(engine, FleetEvent::Live { stream }, now);
    }

    fn moved(&mut self, stream: StreamKey, engine: usize, now: Timestamp) {
        let counts = self.counts(now);
        let last_failure = self.last_failure;
        let Some(known) = self.streams.get_mut(stream.0 as usize) else {
            return;
        };
        if known.last_holder.is_some_and(|last| last != engine) && counts {
            self.moves += 1;
            let came_back = known
                .left
                .is_some_and(|(left, at)| left == engine && now.since(at) < SWING && last_failure < at);
            self.swings += u64::from(came_back);
        }
        known.last_holder = Some(engine);
    }

    /// Changes the number of engines that receive frames of a stream.
    fn holds(&mut self, stream: StreamKey, change: i32, now: Timestamp) {
        self.count_time(stream, now);
        if let Some(known) = self.streams.get_mut(stream.0 as usize) {
            known.holders = known.holders.saturating_add_signed(change);
        }
    }

    /// Adds the time since the number of holders of a stream last changed.
    fn count_time(&mut self, stream: StreamKey, now: Timestamp) {
        let begin = Timestamp::ZERO + self.spec.start_up;
        let Some(known) = self.streams.get_mut(stream.0 as usize) else {
            return;
        };
        let lasted = now.since(known.since.max(begin));
        known.since = now;
        match known.holders {
            0 => {
                self.unseen += lasted;
                self.longest = self.longest.max(lasted);
            }
            1 => {}
            _ => self.twice += lasted,
        }
    }

    fn work_of(&self, number: usize, now: Timestamp) -> f64 {
        let stream = &self.streams[number];
        let turn = now.since(Timestamp::ZERO).as_secs_f64() / self.spec.period.as_secs_f64().max(1e-6);
        stream.work * (1.0 + self.spec.swing * (TAU * (turn + stream.phase)).sin())
    }

    fn turn(&mut self, now: Timestamp) {
        for engine in 0..self.engines.len() {
            self.notify(engine, FleetEvent::Tick, now);
        }
        self.queue.push(now + TURN, Due::Turn);
    }

    /// Work is done, and engines tell how they fare.
    fn second(&mut self, now: Timestamp) {
        let works: Vec<f64> = (0..self.streams.len())
            .map(|number| self.work_of(number, now))
            .collect();
        let counts = self.counts(now);
        let (mut all_done, mut capacity) = (0.0, 0.0);
        for engine in 0..self.engines.len() {
            let own = &self.engines[engine];
            if own.member.is_none() {
                continue;
            }
            let work = |stream: &StreamKey| Some((*stream, *works.get(stream.0 as usize)?));
            let held: Vec<(StreamKey, f64)> = own.live.iter().filter_map(work).collect();
            let offered: f64 = held.iter().map(|(_, work)| work).sum();
            capacity += own.capacity;
            all_done += offered.min(own.capacity);
            let load = offered / own.capacity;
            let missed = (1.0 - 1.0 / load.max(1.0)).max(0.0);
            // An engine knows the work of its own streams; others learn it from its messages.
            for (stream, work) in held {
                self.notify(engine, FleetEvent::StreamKnown { stream, work }, now);
            }
            let id = id_of(engine);
            let status = FleetEvent::EngineStatus {
                engine: id,
                load,
                missed,
            };
            self.notify(engine, status, now);
            self.tell_others(engine, status, Span::ZERO, now);
        }
        if counts {
            let wanted: f64 = works.iter().sum();
            self.work += wanted;
            self.done += all_done.min(wanted);
            self.possible += wanted.min(capacity);
        }
        self.queue.push(now + STATUS_INTERVAL, Due::Second);
    }

    fn fail(&mut self, now: Timestamp) {
        let next = self.next_failure(now);
        self.queue.push(next, Due::Fails);
        let up: Vec<usize> = (0..self.engines.len())
            .filter(|engine| self.engines[*engine].member.is_some())
            .collect();
        // The last one stays.
        if up.len() < 2 {
            return;
        }
        let engine = up[(self.draw() * up.len() as f64) as usize % up.len()];
        self.result.failures += 1;
        self.last_failure = now;
        let own = &mut self.engines[engine];
        own.member = None;
        own.life += 1;
        own.opening.clear();
        own.redirects.clear();
        let lost = std::mem::take(&mut own.live);
        for stream in lost {
            self.holds(stream, -1, now);
        }
        self.tell_others(
            engine,
            FleetEvent::EngineDown {
                engine: id_of(engine),
            },
            self.spec.lease,
            now,
        );
        let back = now
            + self
                .spec
                .down_for
                .max(self.spec.lease + self.spec.delay + self.spec.delay);
        self.queue.push(back, Due::Back(engine));
    }

    fn finish(mut self, end: Timestamp) -> FleetResult {
        for number in 0..self.streams.len() {
            self.count_time(StreamKey(number as u64), end);
        }
        let all = self.spec.duration.as_secs_f64() * self.streams.len().max(1) as f64;
        let minutes = self.spec.duration.as_secs_f64() / 60.0;
        FleetResult {
            unseen: self.unseen.as_secs_f64() / all,
            seen_twice: self.twice.as_secs_f64() / all,
            longest_unseen_s: self.longest.as_secs_f64(),
            done: self.done / self.work.max(f64::MIN_POSITIVE),
            possible: self.possible / self.work.max(f64::MIN_POSITIVE),
            moves_per_minute: self.moves as f64 / minutes,
            swings_per_minute: self.swings as f64 / minutes,
            ..self.result
        }
    }
}

fn id_of(engine: usize) -> EngineId {
    EngineId(engine as u64)
}
