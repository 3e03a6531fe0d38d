//! The levels in a closed loop: streams are decoded at their levels, and what exceeds a capacity is dropped unused.

use std::collections::VecDeque;

use proptest::prelude::*;
use weir_types::FrameSkip;

use super::*;

const TICK: Span = Span::from_millis(250);
const SLO: Span = Span::from_millis(400);

/// Streams of 30 frames a second whose decoded frames share a capacity.
struct Machine {
    levels: DecodeLevels,
    streams: Vec<Camera>,
    /// Frames a second that can be used.
    capacity: f64,
    now: Timestamp,
    changes: u32,
    /// Changes to a full decode.
    raises: u32,
}

#[derive(Clone, Copy)]
struct Camera {
    level: DecodeLevel,
    /// Share of non-reference frames, and frames of a group.
    non_reference: f64,
    group: u32,
    /// Requests used and unused and frames offered that are not whole yet, and requests used so far.
    rest: [f64; 3],
    used: u64,
}

const FPS: f64 = 30.0;

impl Machine {
    fn new(count: usize, non_reference: f64, group: u32, capacity: f64) -> Self {
        let mut levels = DecodeLevels::default();
        let mut effects = Vec::new();
        let started = DecodeEvent::Started { cores: 2, slo: SLO };
        levels.step([started], Timestamp::ZERO, &mut effects);
        assert_eq!(effects, []);
        let camera = Camera {
            level: DecodeLevel::ALL,
            non_reference,
            group,
            rest: [0.0; 3],
            used: 0,
        };
        Self {
            levels,
            // Their requests are not dropped at the same moments.
            streams: (0..count)
                .map(|index| Camera {
                    rest: [0.0, index as f64 / count as f64, 0.0],
                    ..camera
                })
                .collect(),
            capacity,
            now: Timestamp::ZERO,
            changes: 0,
            raises: 0,
        }
    }

    /// Frames that are decoded a second.
    fn decoded(&self) -> f64 {
        self.streams.iter().map(|camera| camera.share() * FPS).sum()
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 4 {
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.now = self.now + TICK;
        let usable = (self.capacity / self.decoded()).min(1.0);
        let events: Vec<DecodeEvent> = (0..)
            .zip(&mut self.streams)
            .map(|(stream, camera)| camera.observe(StreamId(stream), usable))
            .collect();
        let mut effects = Vec::new();
        self.levels.step(events, self.now, &mut effects);
        for DecodeEffect::SetLevel { stream, level } in effects {
            assert_ne!(
                self.streams[stream.index()].level,
                level,
                "a change changes something"
            );
            self.streams[stream.index()].level = level;
            self.changes += 1;
            self.raises += u32::from(level == DecodeLevel::ALL);
        }
    }
}

impl Camera {
    fn share(&self) -> f64 {
        let kept = match self.level.skip {
            FrameSkip::Nothing => 1.0,
            FrameSkip::NonReference => 1.0 - self.non_reference,
        };
        let prefix = self.level.prefix.unwrap_or(self.group).min(self.group);
        kept * f64::from(prefix) / f64::from(self.group) / f64::from(self.level.every)
    }

    fn observe(&mut self, stream: StreamId, usable: f64) -> DecodeEvent {
        let frames = FPS * TICK.as_secs_f64();
        let sent = frames * self.share();
        let mut whole = |index: usize, amount: f64| {
            self.rest[index] += amount;
            let count = self.rest[index].floor();
            self.rest[index] -= count;
            count as u32
        };
        let (used, unused) = (whole(0, sent * usable), whole(1, sent * (1.0 - usable)));
        let pictures = used + unused;
        let skips = self.level.skip == FrameSkip::NonReference;
        let offered = whole(2, if skips { frames } else { 0.0 });
        let full = if self.level == DecodeLevel::ALL {
            pictures
        } else {
            0
        };
        self.used += u64::from(used);
        DecodeEvent::Observed(DecodeObservation {
            stream,
            interval: Span::from_secs_f64(1.0 / FPS),
            pictures,
            processor: Span::from_micros(1_300) * u64::from(pictures),
            used,
            unused,
            full,
            bidirectional: (f64::from(full) * self.non_reference) as u32,
            offered,
            left_out: (f64::from(offered) * self.non_reference) as u32,
            group: self.group,
            longest_group: self.group,
            groups: 0,
            in_group: 0,
        })
    }
}

/// Requests used a second, and the least of a stream over their mean, of 16 streams of 50 frames a second with a key frame each
/// five seconds, on a machine that can use 60 frames a second and keeps those of the last 400 ms. The key frames of two streams
/// are `apart` frames apart.
fn used_in_phase(apart: u64) -> (f64, f64) {
    const FRAMES: u64 = 250;
    let mut levels = DecodeLevels::default();
    let started = DecodeEvent::Started { cores: 2, slo: SLO };
    levels.step([started], Timestamp::ZERO, &mut Vec::new());
    let mut of_stream = [DecodeLevel::ALL; 16];
    let (mut used, mut waiting, mut room) = ([0_u32; 16], VecDeque::new(), 0.0);
    let interval = Span::from_millis(20);
    let mut seen: Vec<_> = (0..16).map(|id| DecodeObservation::empty(StreamId(id))).collect();
    // Two minutes, the second of which counts.
    for frame in 0..120 * 50_u64 {
        let now = Timestamp::ZERO + interval * frame;
        for (id, level) in of_stream.iter().enumerate() {
            let at = frame + id as u64 * apart;
            let (groups, in_group) = (at / FRAMES + 1, at % FRAMES);
            if in_group < u64::from(level.frames_of(groups)) {
                waiting.push_back((id, now));
                let seen = &mut seen[id];
                (seen.groups, seen.in_group) = (groups, in_group as u32 + 1);
                (seen.pictures, seen.processor) = (seen.pictures + 1, seen.processor + Span::from_millis(3));
                seen.full += u32::from(*level == DecodeLevel::ALL);
            }
        }
        while waiting.front().is_some_and(|(_, sent)| now.since(*sent) > SLO) {
            let (id, _) = waiting.pop_front().unwrap();
            seen[id].unused += 1;
        }
        room = f64::min(room + 60.0 / 50.0, 2.0);
        while room >= 1.0 && !waiting.is_empty() {
            // Streams in turn, as a fair policy has it.
            let next = (0..waiting.len())
                .min_by_key(|place| used[waiting[*place].0])
                .unwrap();
            let (id, _) = waiting.remove(next).unwrap();
            (seen[id].used, room) = (seen[id].used + 1, room - 1.0);
            used[id] += 1;
        }
        if frame == 60 * 50 {
            used = [0; 16];
        }
        if frame % 12 == 11 {
            let observed = seen.iter_mut().map(|seen| {
                let lengths = |seen: DecodeObservation| DecodeObservation {
                    interval,
                    group: FRAMES as u32,
                    longest_group: FRAMES as u32,
                    ..seen
                };
                let next = DecodeObservation::empty(seen.stream);
                DecodeEvent::Observed(lengths(std::mem::replace(seen, next)))
            });
            let (observed, mut effects): (Vec<_>, _) = (observed.collect(), Vec::new());
            levels.step(observed, now, &mut effects);
            for DecodeEffect::SetLevel { stream, level } in effects {
                of_stream[stream.index()] = level;
            }
        }
    }
    let sum: u32 = used.iter().sum();
    let least = *used.iter().min().unwrap();
    (f64::from(sum) / 60.0, f64::from(least) * 16.0 / f64::from(sum))
}

#[test]
fn streams_whose_key_frames_come_together_take_turns() {
    let (used, fairness) = used_in_phase(0);
    assert!(used > 45.0 && fairness > 0.4, "{used} a second, {fairness}");
    let (nearly, _) = used_in_phase(2);
    assert!(nearly > 45.0, "{nearly} a second");
    let (spread, fairness) = used_in_phase(15);
    assert!(spread > 50.0 && fairness > 0.7, "{spread} a second, {fairness}");
}

/// After a while of `capacity`: the frames that are decoded a second, and the changes of levels in the next minute.
fn settled(count: usize, non_reference: f64, group: u32, capacity: f64) -> (f64, u32) {
    let mut machine = Machine::new(count, non_reference, group, capacity);
    machine.run(60);
    machine.changes = 0;
    let decoded = machine.decoded();
    machine.run(60);
    (decoded, machine.changes)
}

#[test]
fn what_is_decoded_follows_what_can_be_used() {
    // Groups of a second without bidirectional frames, of eight seconds with them, and key frames alone.
    for (non_reference, group, capacity, range) in [
        (0.0, 30, 75.0, 85.0..125.0),
        (0.5, 30, 75.0, 85.0..125.0),
        // Key frames are far apart: pictures at least every two seconds, or every four where that would cost too much.
        (0.5, 250, 75.0, 180.0..200.0),
        (0.0, 250, 75.0, 245.0..255.0),
        (0.0, 1, 75.0, 85.0..130.0),
        (0.5, 30, 1e6, 480.0..481.0),
    ] {
        let (decoded, changes) = settled(16, non_reference, group, capacity);
        let case = format!("{non_reference} {group} {capacity}: {decoded} decoded, {changes} changes");
        assert!(range.contains(&decoded), "{case}");
        assert!(changes <= 16, "{case}");
    }
}

#[test]
fn the_rest_of_long_groups_is_decoded_only_as_far_as_the_machine_can() {
    let load = |count: usize| settled(count, 0.5, 250, 110.0).0 * 0.0013;
    // Cores of two. With pictures every two seconds these would be 0.24, 0.95 and 3.8.
    assert!((0.2..0.26).contains(&load(16)), "{}", load(16));
    assert!((0.1..0.5).contains(&load(64)), "{}", load(64));
    assert!((0.1..0.5).contains(&load(256)), "{}", load(256));
}

#[test]
fn nothing_is_left_out_where_everything_can_be_used_or_decoding_costs_little() {
    let mut few = Machine::new(4, 0.5, 30, 1e6);
    few.run(60);
    let mut cheap = Machine::new(4, 0.5, 30, 20.0);
    let started = DecodeEvent::Started { cores: 64, slo: SLO };
    cheap.levels.step([started], Timestamp::ZERO, &mut Vec::new());
    cheap.run(60);
    assert_eq!((few.changes, cheap.changes), (0, 0));
}

#[test]
fn all_is_decoded_within_a_group_when_there_is_room_again() {
    let mut machine = Machine::new(16, 0.0, 30, 75.0);
    machine.run(30);
    assert!(machine.decoded() < 125.0);
    machine.capacity = 1e6;
    machine.run(2);
    assert_eq!(machine.decoded(), 480.0);
    machine.capacity = 75.0;
    machine.run(20);
    assert!(machine.decoded() < 140.0, "{}", machine.decoded());
}

#[test]
fn capacity_that_comes_and_goes_is_tried_less_and_less() {
    let mut machine = Machine::new(16, 0.0, 30, 75.0);
    machine.run(30);
    let mut raises = Vec::new();
    for _ in 0..4 {
        let before = machine.raises;
        for _ in 0..6 {
            machine.capacity = 1e6;
            machine.run(2);
            machine.capacity = 75.0;
            machine.run(3);
        }
        raises.push(machine.raises - before);
    }
    assert!(raises[3] * 2 <= raises[0], "{raises:?}");
}

#[test]
fn a_stream_that_was_unlucky_gets_its_share_again() {
    let mut machine = Machine::new(16, 0.0, 30, 75.0);
    machine.run(30);
    machine.streams[3].level.prefix = Some(1);
    machine.levels.streams.get_mut(&StreamId(3)).unwrap().level = machine.streams[3].level;
    machine.levels.streams.get_mut(&StreamId(3)).unwrap().used = 0.1;
    machine.run(2);
    assert!(
        machine.streams[3].share() * FPS > 5.0,
        "{:?}",
        machine.streams[3].level
    );
    for camera in &mut machine.streams {
        camera.used = 0;
    }
    machine.run(60);
    let used = machine.streams.iter().map(|camera| camera.used);
    assert!(used.clone().min() >= used.max().map(|most| most * 3 / 4));
}

#[test]
fn a_stream_that_returns_after_an_outage_is_decoded_as_a_new_one() {
    let mut machine = Machine::new(16, 0.5, 30, 75.0);
    machine.run(30);
    assert_ne!(machine.streams[0].level, DecodeLevel::ALL);
    machine.now = machine.now + Span::from_secs(60);
    machine.tick();
    assert_eq!(machine.decoded(), 480.0);
    let ended = (0..16).map(|stream| DecodeEvent::Ended {
        stream: StreamId(stream),
    });
    machine.levels.step(ended, machine.now, &mut Vec::new());
    assert!(machine.levels.streams.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever can be used, at least as much is decoded once levels have settled, and levels stay as they are.
    #[test]
    fn what_can_be_used_is_decoded_and_levels_settle(
        count in 1_usize..40,
        non_reference in prop_oneof![Just(0.0), 0.2..0.8_f64],
        group in 1_u32..300,
        capacity in 5.0..1_000.0_f64,
    ) {
        let (decoded, changes) = settled(count, non_reference, group, capacity);
        let frames = count as f64 * FPS;
        prop_assert!(decoded >= frames.min(capacity) * 0.999, "{decoded} of {capacity}");
        prop_assert!(f64::from(changes) <= 2.0 * count as f64, "{changes} changes");
    }
}
