use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use weir_types::{Span, Timestamp};

use super::*;

fn second(at: u64) -> Timestamp {
    Timestamp::ZERO + Span::from_secs(at)
}

fn up(engine: u64) -> FleetEvent {
    FleetEvent::EngineUp {
        engine: EngineId(engine),
        capacity: 100.0,
    }
}

/// Engines that receive each other's messages at once; a stream that is taken is live at once.
struct Fleet {
    members: BTreeMap<EngineId, FleetMember>,
    claims: BTreeSet<(EngineId, StreamKey)>,
    redirects: BTreeMap<(EngineId, StreamKey), EngineId>,
    streams: BTreeSet<StreamKey>,
    /// Whether streams that are taken deliver frames.
    opens: bool,
    /// Time up to which engines have received ticks.
    now: Timestamp,
}

impl Fleet {
    fn new(engines: u64, streams: u64, opens: bool) -> Self {
        let mut fleet = Self {
            members: BTreeMap::new(),
            claims: BTreeSet::new(),
            redirects: BTreeMap::new(),
            streams: (0..streams).map(StreamKey).collect(),
            opens,
            now: Timestamp::ZERO,
        };
        for engine in 0..engines {
            fleet.start(engine, 0);
        }
        fleet.tick(5);
        fleet
    }

    /// Sends ticks to all engines up to that time.
    fn pass(&mut self, until: u64) -> Timestamp {
        let (until, step) = (second(until), Span::from_millis(500));
        while self.now + step < until {
            self.now = self.now + step;
            self.tell(FleetEvent::Tick, self.now);
        }
        self.now = until;
        until
    }

    fn start(&mut self, engine: u64, at: u64) {
        let at = self.pass(at);
        let id = EngineId(engine);
        let mut member = FleetMember::new(id, FleetSpec::default());
        let mut effects = Vec::new();
        for stream in &self.streams {
            let known = FleetEvent::StreamKnown {
                stream: *stream,
                work: 1.0,
            };
            effects.extend(member.on_event(known, at));
        }
        for other in self.members.keys() {
            effects.extend(member.on_event(up(other.0), at));
        }
        for (engine, stream) in self.claims.clone() {
            effects.extend(member.on_event(FleetEvent::Claimed { engine, stream }, at));
        }
        for ((home, stream), to) in self.redirects.clone() {
            let to = Some(to);
            effects.extend(member.on_event(FleetEvent::Redirected { home, stream, to }, at));
        }
        self.members.insert(id, member);
        self.carry_out(id, effects, at);
        self.tell(up(engine), at);
    }

    fn stop(&mut self, engine: u64, at: u64) {
        let at = self.pass(at);
        let id = EngineId(engine);
        self.members.remove(&id);
        self.claims.retain(|(holder, _)| *holder != id);
        self.redirects.retain(|(home, _), _| *home != id);
        self.tell(FleetEvent::EngineDown { engine: id }, at);
    }

    fn tell(&mut self, event: FleetEvent, at: Timestamp) {
        let ids: Vec<EngineId> = self.members.keys().copied().collect();
        for id in ids {
            if let Some(member) = self.members.get_mut(&id) {
                let effects = member.on_event(event, at);
                self.carry_out(id, effects, at);
            }
        }
    }

    fn tick(&mut self, at: u64) {
        let at = self.pass(at);
        self.tell(FleetEvent::Tick, at);
    }

    fn carry_out(&mut self, engine: EngineId, effects: Vec<FleetEffect>, at: Timestamp) {
        for effect in effects {
            match effect {
                FleetEffect::Take { stream } if self.opens => {
                    let event = FleetEvent::Live { stream };
                    let effects = self.members.get_mut(&engine).expect("up").on_event(event, at);
                    self.carry_out(engine, effects, at);
                }
                FleetEffect::Take { .. } | FleetEffect::Release { .. } => {}
                FleetEffect::Claim { stream } => {
                    self.claims.insert((engine, stream));
                    self.tell(FleetEvent::Claimed { engine, stream }, at);
                }
                FleetEffect::Unclaim { stream } => {
                    self.claims.remove(&(engine, stream));
                    self.tell(FleetEvent::Unclaimed { engine, stream }, at);
                }
                FleetEffect::Redirect { stream, to } => {
                    match to {
                        Some(to) => self.redirects.insert((engine, stream), to),
                        None => self.redirects.remove(&(engine, stream)),
                    };
                    let home = engine;
                    self.tell(FleetEvent::Redirected { home, stream, to }, at);
                }
            }
        }
    }

    /// Engines that have taken each stream.
    fn holders(&self) -> BTreeMap<StreamKey, Vec<EngineId>> {
        let mut holders: BTreeMap<StreamKey, Vec<EngineId>> = BTreeMap::new();
        for (id, member) in &self.members {
            for stream in member.taken() {
                holders.entry(stream).or_default().push(*id);
            }
        }
        holders
    }

    fn status(&mut self, at: u64, loads: &[(u64, f64, f64)]) {
        let at = self.pass(at);
        for (engine, load, missed) in loads {
            let event = FleetEvent::EngineStatus {
                engine: EngineId(*engine),
                load: *load,
                missed: *missed,
            };
            self.tell(event, at);
        }
    }
}

#[test]
fn streams_are_spread_by_capacity() {
    let engines = [(EngineId(1), 1.0), (EngineId(2), 2.0), (EngineId(3), 5.0)];
    let mut won = BTreeMap::new();
    for stream in 0..8_000 {
        let found = home(StreamKey(stream), engines.iter().copied()).expect("there are engines");
        *won.entry(found).or_insert(0_u32) += 1;
    }
    let won: Vec<u32> = won.into_values().collect();
    for (found, expected) in won.iter().zip([1_000, 2_000, 5_000]) {
        assert!(found.abs_diff(expected) < 150, "{won:?}");
    }
    assert_eq!(home(StreamKey(1), std::iter::empty()), None);
}

#[test]
fn each_stream_is_taken_once_and_a_lost_engine_moves_only_its_own() {
    let mut fleet = Fleet::new(5, 200, true);
    let before = fleet.holders();
    assert_eq!(before.len(), 200);
    assert!(before.values().all(|holders| holders.len() == 1));
    fleet.stop(3, 20);
    let after = fleet.holders();
    for (stream, holders) in &before {
        if *holders == [EngineId(3)] {
            assert_eq!(after[stream].len(), 1);
        } else {
            assert_eq!(
                &after[stream], holders,
                "it had nothing to do with the engine that was lost"
            );
        }
    }
    fleet.start(3, 30);
    assert_eq!(
        fleet.holders(),
        after,
        "an engine that has just come gets nothing yet"
    );
    fleet.tick(35);
    assert_eq!(fleet.holders(), before, "and then what it had");
}

#[test]
fn the_old_engine_closes_a_stream_when_the_new_one_has_frames() {
    let mut fleet = Fleet::new(2, 40, true);
    fleet.opens = false;
    fleet.start(2, 10);
    fleet.tick(15);
    let holders = fleet.holders();
    let moving: Vec<StreamKey> = holders
        .iter()
        .filter(|(_, holders)| holders.contains(&EngineId(2)))
        .map(|(stream, _)| *stream)
        .collect();
    assert!(!moving.is_empty());
    assert!(
        moving.iter().all(|stream| holders[stream].len() == 2),
        "nobody releases it before"
    );
    for stream in &moving {
        let event = FleetEvent::Live { stream: *stream };
        let effects = fleet
            .members
            .get_mut(&EngineId(2))
            .expect("up")
            .on_event(event, second(16));
        fleet.carry_out(EngineId(2), effects, second(16));
    }
    assert!(fleet.holders().values().all(|holders| holders.len() == 1));
}

#[test]
fn an_overloaded_engine_sheds_until_it_is_not_and_takes_back_when_it_is_calm() {
    let mut fleet = Fleet::new(3, 60, true);
    let before = fleet.holders();
    for at in 10..16 {
        fleet.status(at, &[(0, 1.2, 0.2), (1, 0.5, 0.0), (2, 0.95, 0.0)]);
        fleet.tick(at);
    }
    let moved: Vec<StreamKey> = fleet.redirects.keys().map(|(_, stream)| *stream).collect();
    assert_eq!(moved.len(), 1, "one at a time, after three seconds");
    assert_eq!(before[&moved[0]], [EngineId(0)]);
    assert_eq!(fleet.holders()[&moved[0]], [EngineId(1)], "to whom has room");
    for at in 16..75 {
        fleet.status(at, &[(0, 0.8, 0.0), (1, 0.5, 0.0), (2, 0.95, 0.0)]);
        fleet.tick(at);
    }
    assert_eq!(fleet.redirects.len(), 1, "it stays while its home is busy");
    for at in 75..137 {
        fleet.status(at, &[(0, 0.4, 0.0), (1, 0.5, 0.0), (2, 0.95, 0.0)]);
        fleet.tick(at);
    }
    assert_eq!(fleet.holders(), before);
    assert!(fleet.redirects.is_empty());
}

#[test]
fn a_redirection_ends_with_its_home_or_its_target() {
    for lost in [0, 1] {
        let mut fleet = Fleet::new(3, 60, true);
        for at in 10..16 {
            fleet.status(at, &[(0, 1.2, 0.2), (1, 0.5, 0.0), (2, 0.95, 0.0)]);
            fleet.tick(at);
        }
        assert_eq!(fleet.redirects.len(), 1);
        fleet.stop(lost, 20);
        assert!(fleet.redirects.is_empty());
        assert!(fleet.holders().values().all(|holders| holders.len() == 1));
    }
}

proptest! {
    #[test]
    fn whatever_comes_and_goes_each_stream_has_one_engine_in_the_end(
        steps in proptest::collection::vec((0_u64..6, any::<bool>(), 0.0_f64..1.5), 1..40),
    ) {
        let mut fleet = Fleet::new(3, 30, true);
        let mut at = 10;
        for (engine, goes, load) in steps {
            let is_up = fleet.members.contains_key(&EngineId(engine));
            if goes && is_up && fleet.members.len() > 1 {
                fleet.stop(engine, at);
            } else if !is_up {
                fleet.start(engine, at);
            }
            fleet.status(at, &[(engine, load, (load - 1.0).max(0.0))]);
            fleet.tick(at);
            at += 2;
        }
        fleet.tick(at + 10);
        let holders = fleet.holders();
        prop_assert_eq!(holders.len(), 30);
        for (stream, holders) in holders {
            prop_assert_eq!(holders.len(), 1, "{:?} has {:?}", stream, holders);
            for member in fleet.members.values() {
                prop_assert_eq!(member.assigned(stream), Some(holders[0]));
            }
        }
    }
}
