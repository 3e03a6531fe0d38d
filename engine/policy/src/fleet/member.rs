//! One engine of a fleet as a state machine.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{Span, Timestamp};

use super::api::{EngineId, FleetEffect, FleetEvent, FleetSpec, FleetStats, StreamKey};
use super::rendezvous::{home, score};

/// Least relative change of capacity for which streams move.
const CAPACITY_STEP: f64 = 0.1;
/// Least jump of this engine's clock after which it may count as lost elsewhere: others wait a second for its
/// next heartbeat, of which it sends four a second.
const STOOD_STILL: Span = Span::from_millis(700);
/// Time that it then waits for the claims of others before it takes streams itself.
const HEARING: Span = Span::from_secs(1);

#[derive(Debug, Clone, Copy)]
struct Engine {
    capacity: f64,
    /// Time from which streams of other engines may move to it.
    settled_at: Timestamp,
    is_settled: bool,
    load: f64,
    missed: f64,
    /// Time since which it misses too many frames.
    overloaded_since: Option<Timestamp>,
    /// Work that was redirected there since it last reported its load.
    sent: f64,
}

#[derive(Debug, Clone)]
struct Stream {
    work: f64,
    home: Option<EngineId>,
    /// Redirections by the engine that published them; only that of the home counts.
    redirects: BTreeMap<EngineId, EngineId>,
    /// Engines that have claimed the stream.
    claims: BTreeSet<EngineId>,
    /// Whether this engine has taken it.
    is_taken: bool,
}

/// The fleet as one engine sees it, and this engine's own streams.
#[derive(Debug, Clone)]
pub struct FleetMember {
    me: EngineId,
    spec: FleetSpec,
    engines: BTreeMap<EngineId, Engine>,
    streams: BTreeMap<StreamKey, Stream>,
    /// Streams whose home this engine is and which it has redirected.
    sent_away: BTreeSet<StreamKey>,
    last_redirect: Option<Timestamp>,
    calm_since: Option<Timestamp>,
    /// Time of the latest event.
    notified_at: Option<Timestamp>,
    /// Time at which it continued after standing still.
    stood_still_at: Option<Timestamp>,
    /// Whether it still waits for claims that others made meanwhile.
    is_hearing: bool,
    stats: FleetStats,
    effects: Vec<FleetEffect>,
}

impl FleetMember {
    /// Creates an engine that has seen no member of its fleet yet, itself included.
    #[must_use]
    pub fn new(me: EngineId, spec: FleetSpec) -> Self {
        Self {
            me,
            spec,
            engines: BTreeMap::new(),
            streams: BTreeMap::new(),
            sent_away: BTreeSet::new(),
            last_redirect: None,
            calm_since: None,
            notified_at: None,
            stood_still_at: None,
            is_hearing: false,
            stats: FleetStats::default(),
            effects: Vec::new(),
        }
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> FleetStats {
        self.stats
    }

    /// Engine that a stream is assigned to, as this engine sees the fleet.
    #[must_use]
    pub fn assigned(&self, stream: StreamKey) -> Option<EngineId> {
        self.streams.get(&stream).and_then(|stream| self.target(stream))
    }

    /// Streams that this engine has taken.
    pub fn taken(&self) -> impl Iterator<Item = StreamKey> + '_ {
        self.streams
            .iter()
            .filter(|(_, stream)| stream.is_taken)
            .map(|(key, _)| *key)
    }

    /// Takes in one event; effects are to be carried out in their order.
    pub fn on_event(&mut self, event: FleetEvent, now: Timestamp) -> Vec<FleetEffect> {
        self.watch_time(now);
        match event {
            FleetEvent::EngineUp { engine, capacity } => self.on_up(engine, capacity, now),
            FleetEvent::EngineDown { engine } => self.on_down(engine),
            FleetEvent::EngineStatus { engine, load, missed } => self.on_status(engine, load, missed, now),
            FleetEvent::StreamKnown { stream, work } => self.on_known(stream, work),
            FleetEvent::StreamGone { stream } => self.on_gone(stream),
            FleetEvent::Claimed { engine, stream } => {
                if let Some(known) = self.streams.get_mut(&stream) {
                    known.claims.insert(engine);
                    self.settle(stream);
                    self.on_claim(engine);
                }
            }
            FleetEvent::Unclaimed { engine, stream } => {
                if let Some(known) = self.streams.get_mut(&stream) {
                    known.claims.remove(&engine);
                    self.settle(stream);
                }
            }
            FleetEvent::Redirected { home, stream, to } => {
                // The engine's own redirections are in force as soon as it makes them.
                if home != self.me
                    && let Some(known) = self.streams.get_mut(&stream)
                {
                    match to {
                        Some(to) => known.redirects.insert(home, to),
                        None => known.redirects.remove(&home),
                    };
                    self.settle(stream);
                }
            }
            FleetEvent::Live { stream } => {
                let me = self.me;
                if let Some(known) = self.streams.get_mut(&stream).filter(|known| known.is_taken) {
                    known.claims.insert(me);
                    self.effects.push(FleetEffect::Claim { stream });
                    self.settle(stream);
                    self.on_claim(me);
                }
            }
            FleetEvent::Tick => self.on_tick(now),
        }
        std::mem::take(&mut self.effects)
    }

    /// Detects that this engine stood still: others may have its streams by now, and will claim them when
    /// they are heard again. It keeps the streams that it has, since others may not know of them. It takes no
    /// stream until there was time to hear from others. An engine that is slow all the time is delayed by
    /// this at most half of the time.
    fn watch_time(&mut self, now: Timestamp) {
        let before = self.notified_at.replace(now);
        let has_jumped = before.is_some_and(|before| now.since(before) > STOOD_STILL);
        let since = self.stood_still_at.map(|at| now.since(at));
        if has_jumped && since.is_none_or(|since| since >= HEARING + HEARING) {
            self.stood_still_at = Some(now);
            self.is_hearing = true;
        } else if self.is_hearing && since.is_some_and(|since| since >= HEARING) {
            self.is_hearing = false;
            self.rehome_all();
        }
    }

    /// An engine that claims streams is settled, no matter how recently this one first saw it. So two engines
    /// that lost sight of each other agree again as soon as each hears the other's claims.
    fn on_claim(&mut self, engine: EngineId) {
        let Some(known) = self.engines.get_mut(&engine).filter(|known| !known.is_settled) else {
            return;
        };
        known.is_settled = true;
        let capacity = known.capacity;
        // The engine becomes the home of the streams that it wins; other streams stay.
        let won: Vec<StreamKey> = self
            .streams
            .iter()
            .filter(|(key, stream)| {
                let homes = stream
                    .home
                    .and_then(|home| Some((home, self.engines.get(&home)?.capacity)));
                home(**key, homes.into_iter().chain([(engine, capacity)])) == Some(engine)
            })
            .map(|(key, _)| *key)
            .collect();
        for stream in won {
            self.move_home(stream, Some(engine));
        }
    }

    fn on_up(&mut self, engine: EngineId, capacity: f64, now: Timestamp) {
        if !(capacity.is_finite() && capacity > 0.0) {
            return;
        }
        if let Some(known) = self.engines.get_mut(&engine) {
            if (known.capacity - capacity).abs() > CAPACITY_STEP * known.capacity {
                known.capacity = capacity;
                self.rehome_all();
            }
            return;
        }
        let entry = Engine {
            capacity,
            settled_at: now + self.spec.settle,
            is_settled: false,
            load: 0.0,
            missed: 0.0,
            overloaded_since: None,
            sent: 0.0,
        };
        self.engines.insert(engine, entry);
    }

    fn on_down(&mut self, engine: EngineId) {
        if self.engines.remove(&engine).is_none() {
            return;
        }
        let concerned: Vec<StreamKey> = self
            .streams
            .iter_mut()
            .filter_map(|(key, stream)| {
                let had = stream.claims.remove(&engine);
                let said = stream.redirects.remove(&engine).is_some();
                let was_target = stream.redirects.values().any(|to| *to == engine);
                (had || said || was_target || stream.home == Some(engine)).then_some(*key)
            })
            .collect();
        if self.engines.values().any(|engine| engine.is_settled) {
            for stream in concerned {
                self.rehome(stream);
            }
        } else {
            // No settled engine is left: those in use take all streams.
            self.engines
                .values_mut()
                .for_each(|engine| engine.is_settled = true);
            self.rehome_all();
        }
    }

    fn on_status(&mut self, engine: EngineId, load: f64, missed: f64, now: Timestamp) {
        let limit = self.spec.overloaded;
        let Some(known) = self.engines.get_mut(&engine) else {
            return;
        };
        (known.load, known.missed, known.sent) = (load, missed, 0.0);
        known.overloaded_since = (missed > limit).then(|| known.overloaded_since.unwrap_or(now));
    }

    fn on_known(&mut self, stream: StreamKey, work: f64) {
        if let Some(known) = self.streams.get_mut(&stream) {
            known.work = work;
            return;
        }
        self.streams.insert(
            stream,
            Stream {
                work,
                home: None,
                redirects: BTreeMap::new(),
                claims: BTreeSet::new(),
                is_taken: false,
            },
        );
        self.rehome(stream);
    }

    fn on_gone(&mut self, stream: StreamKey) {
        self.sent_away.remove(&stream);
        if self.streams.remove(&stream).is_some_and(|stream| stream.is_taken) {
            self.stats.released += 1;
            self.effects.push(FleetEffect::Release { stream });
            self.effects.push(FleetEffect::Unclaim { stream });
        }
    }

    fn on_tick(&mut self, now: Timestamp) {
        let mut has_new = false;
        for engine in self.engines.values_mut() {
            if !engine.is_settled && now >= engine.settled_at {
                engine.is_settled = true;
                has_new = true;
            }
        }
        if has_new {
            self.rehome_all();
        }
        if self.spec.redirect {
            self.relieve(now);
            self.recall(now);
        }
    }

    /// Settled engines with their capacities.
    fn homes(&self) -> impl Iterator<Item = (EngineId, f64)> + '_ {
        let settled = self.engines.iter().filter(|(_, engine)| engine.is_settled);
        settled.map(|(id, engine)| (*id, engine.capacity))
    }

    fn rehome_all(&mut self) {
        let streams: Vec<StreamKey> = self.streams.keys().copied().collect();
        for stream in streams {
            self.rehome(stream);
        }
    }

    /// Determines the home of a stream again and acts on a change.
    fn rehome(&mut self, key: StreamKey) {
        let found = home(key, self.homes());
        self.move_home(key, found);
    }

    fn move_home(&mut self, key: StreamKey, found: Option<EngineId>) {
        let me = self.me;
        let Some(stream) = self.streams.get_mut(&key) else {
            return;
        };
        stream.home = found;
        let is_void = |to: &EngineId| found != Some(me) || !self.engines.contains_key(to);
        if stream.redirects.get(&me).is_some_and(is_void) {
            stream.redirects.remove(&me);
            self.sent_away.remove(&key);
            self.effects.push(FleetEffect::Redirect {
                stream: key,
                to: None,
            });
        }
        self.settle(key);
    }

    fn target(&self, stream: &Stream) -> Option<EngineId> {
        let home = stream.home?;
        let redirected = stream
            .redirects
            .get(&home)
            .filter(|to| self.engines.contains_key(to));
        Some(redirected.copied().unwrap_or(home))
    }

    /// Takes a stream that is assigned to this engine, or releases one that its engine has claimed.
    fn settle(&mut self, key: StreamKey) {
        let me = self.me;
        let Some(stream) = self.streams.get(&key) else {
            return;
        };
        let target = self.target(stream);
        let is_mine = target == Some(me);
        let is_elsewhere = target.is_some_and(|target| target != me && stream.claims.contains(&target));
        if is_mine && !stream.is_taken {
            if self.is_hearing {
                return;
            }
            self.stats.taken += 1;
            self.effects.push(FleetEffect::Take { stream: key });
        } else if is_elsewhere && stream.is_taken {
            self.stats.released += 1;
            self.effects.push(FleetEffect::Release { stream: key });
            self.effects.push(FleetEffect::Unclaim { stream: key });
        } else if !is_mine && stream.is_taken && !stream.claims.contains(&me) {
            // The stream was still being opened here, and its new engine opens it too: releasing it loses
            // nothing.
            self.stats.released += 1;
            self.effects.push(FleetEffect::Release { stream: key });
        } else {
            return;
        }
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.is_taken = is_mine;
            if !is_mine {
                stream.claims.remove(&me);
            }
        }
    }

    /// Redirects one stream of which this engine is the home, if this engine or the stream's engine is
    /// overloaded.
    fn relieve(&mut self, now: Timestamp) {
        let patience = self.spec.patience;
        if self.last_redirect.is_some_and(|last| now.since(last) < patience) {
            return;
        }
        let is_overloaded = |engine: &Engine| {
            let since = engine.overloaded_since;
            since.is_some_and(|since| now.since(since) >= patience)
        };
        let overloaded: BTreeSet<EngineId> = self
            .engines
            .iter()
            .filter(|(_, engine)| is_overloaded(engine))
            .map(|(id, _)| *id)
            .collect();
        if overloaded.is_empty() {
            return;
        }
        // Candidates are the overloaded engine's streams of which this engine is the home; the largest one
        // that fits anywhere is moved.
        let mut movable: Vec<(StreamKey, f64, EngineId)> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.home == Some(self.me))
            .filter_map(|(key, stream)| Some((*key, stream.work, self.target(stream)?)))
            .filter(|(_, _, at)| overloaded.contains(at))
            .collect();
        movable.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        for (key, work, at) in movable {
            if let Some(to) = self.with_room(key, work, at) {
                self.redirect(key, work, to, now);
                return;
            }
        }
    }

    /// Among engines that have room for a stream, the one with the highest rendezvous score.
    fn with_room(&self, stream: StreamKey, work: f64, at: EngineId) -> Option<EngineId> {
        let fits = |engine: &Engine| {
            let load = engine.load + (engine.sent + work) / engine.capacity;
            engine.overloaded_since.is_none() && load <= self.spec.room
        };
        let with_room = self
            .engines
            .iter()
            .filter(|(id, engine)| **id != at && engine.is_settled && fits(engine));
        let scored = with_room.map(|(id, engine)| {
            (
                score(stream, *id, engine.capacity * (1.0 - engine.load).max(0.01)),
                *id,
            )
        });
        let best = scored.max_by(|one, other| one.0.total_cmp(&other.0).then_with(|| other.1.cmp(&one.1)));
        best.map(|(_, id)| id)
    }

    fn redirect(&mut self, key: StreamKey, work: f64, to: EngineId, now: Timestamp) {
        let is_back = to == self.me;
        let me = self.me;
        if let Some(stream) = self.streams.get_mut(&key) {
            if is_back {
                stream.redirects.remove(&me);
            } else {
                stream.redirects.insert(me, to);
            }
        }
        if is_back {
            self.sent_away.remove(&key);
            self.stats.recalled += 1;
        } else {
            self.sent_away.insert(key);
            self.stats.redirected += 1;
        }
        if let Some(engine) = self.engines.get_mut(&to) {
            engine.sent += work;
        }
        self.last_redirect = Some(now);
        self.calm_since = None;
        self.effects.push(FleetEffect::Redirect {
            stream: key,
            to: (!is_back).then_some(to),
        });
        self.settle(key);
    }

    /// Takes back one stream if this engine has had plenty of room for a while.
    fn recall(&mut self, now: Timestamp) {
        let Some(own) = self.engines.get(&self.me).copied() else {
            return;
        };
        let first = self
            .sent_away
            .iter()
            .find_map(|key| Some((*key, self.streams.get(key)?.work)));
        let Some((key, work)) = first else {
            self.calm_since = None;
            return;
        };
        let is_calm =
            own.overloaded_since.is_none() && own.load + (own.sent + work) / own.capacity <= self.spec.calm;
        self.calm_since = is_calm.then(|| self.calm_since.unwrap_or(now));
        let dwell = self.spec.dwell;
        if self.calm_since.is_some_and(|since| now.since(since) >= dwell) {
            self.redirect(key, work, self.me, now);
        }
    }
}
