//! The decisions of the gate of a stream whose camera says when something moves.
//!
//! ```text
//! look    while the camera says that something moves, or nothing is known of that, and for the hold time after it; where the last
//!         look brought no result; and REFRESH after the last look
//! asleep  after the hold time: one key frame each PROBE is decoded, and the rest is held back, until the camera says that
//!         something moves
//! ```
//!
//! Reports of the camera are ordered among the packets and pictures of the stream by their arrival, and the hold time is media time:
//! the gate reads no clock.

use super::camera_signal::CameraSignal;
use super::gate::{GateDecision, GateEvent, MotionGate};

/// Milliseconds after which a picture is looked at although nothing moves.
const REFRESH_MS: f64 = 60_000.0;

/// Milliseconds between two key frames that are decoded while packets are held back.
const PROBE_MS: f64 = 10_000.0;

/// Milliseconds between two packets from which on they are not of one scene.
const MAX_GAP_MS: f64 = 10_000.0;

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct CameraGate {
    hold_ms: f64,
    signal: CameraSignal,
    packets: Activity,
    pictures: Activity,
    /// Time of the last key frame that was decoded while packets were held back.
    probed_ms: Option<f64>,
    /// Media time of the last look, and its frame.
    looked: Option<(f64, u64)>,
    /// First frame at which the gate was open, of the last time that it was.
    first: u64,
    /// The last look brought no result.
    failed: bool,
    /// A result came of a frame at or after the first.
    answered: bool,
}

/// Times at which something moved, by one clock.
#[derive(Debug, Clone, Copy, Default)]
struct Activity {
    last_ms: Option<f64>,
    /// The last time at which the gate was open.
    open_ms: Option<f64>,
    /// Something happened that has no duration, since the last time.
    has_moment: bool,
}

impl Activity {
    /// Whether that time is before the last one, or more than `max_gap_ms` after it.
    fn has_jumped(&self, at_ms: f64, max_gap_ms: f64) -> bool {
        let within = 0.0..=max_gap_ms;
        self.last_ms
            .is_some_and(|last_ms| !within.contains(&(at_ms - last_ms)))
    }

    /// Whether the gate is open at that time.
    fn is_open(&mut self, at_ms: f64, moves: bool, hold_ms: f64) -> bool {
        // Pictures are far apart while packets are held back.
        let is_new = self.open_ms.is_none() || self.has_jumped(at_ms, f64::INFINITY);
        self.last_ms = Some(at_ms);
        if moves || std::mem::take(&mut self.has_moment) || is_new {
            self.open_ms = Some(at_ms);
        }
        self.open_ms.is_some_and(|open_ms| at_ms - open_ms <= hold_ms)
    }
}

impl CameraGate {
    /// A gate that stays open for so many milliseconds after something moved.
    #[must_use]
    pub fn new(hold_ms: f64) -> Self {
        Self {
            hold_ms,
            ..Self::default()
        }
    }

    /// The decision on a packet or a picture; `None` for other events.
    pub fn on(&mut self, event: GateEvent) -> Option<GateDecision> {
        let moves = matches!(self.signal, CameraSignal::Unknown | CameraSignal::Moves);
        match event {
            GateEvent::Begun => {
                *self = Self {
                    signal: self.signal,
                    ..Self::new(self.hold_ms)
                };
                None
            }
            GateEvent::Camera { signal } => {
                if signal == CameraSignal::Moment {
                    (self.packets.has_moment, self.pictures.has_moment) = (true, true);
                } else {
                    self.signal = signal;
                }
                None
            }
            GateEvent::Packet { key, at_ms, .. } => {
                if self.packets.has_jumped(at_ms, MAX_GAP_MS) {
                    (self.packets.has_moment, self.pictures.has_moment) = (true, true);
                }
                let is_open = self.packets.is_open(at_ms, moves, self.hold_ms);
                if is_open || !self.answered || self.failed {
                    self.probed_ms = None;
                    return Some(GateDecision::Decode);
                }
                let probed_ms = self.probed_ms;
                let is_due = key && probed_ms.is_none_or(|probed_ms| at_ms - probed_ms >= PROBE_MS);
                if is_due {
                    self.probed_ms = Some(at_ms);
                }
                Some(if is_due {
                    GateDecision::Decode
                } else {
                    GateDecision::Hold
                })
            }
            GateEvent::Picture { frame, at_ms, .. } => Some(self.on_picture(frame, at_ms, moves)),
            GateEvent::Result { frame, delivered } => {
                if delivered {
                    self.answered |= frame >= self.first;
                } else {
                    self.failed |= self.looked.is_some_and(|(_, looked)| looked == frame);
                }
                None
            }
            GateEvent::Schedule { .. } => None,
        }
    }

    fn on_picture(&mut self, frame: u64, at_ms: f64, moves: bool) -> GateDecision {
        let was_open = self.pictures;
        let is_open = self.pictures.is_open(at_ms, moves, self.hold_ms);
        let begins = self.pictures.open_ms == Some(at_ms)
            && was_open
                .open_ms
                .is_none_or(|open_ms| at_ms - open_ms > self.hold_ms);
        if begins {
            (self.first, self.answered) = (frame, false);
        }
        let is_fresh = self
            .looked
            .is_some_and(|(looked_ms, _)| at_ms - looked_ms < REFRESH_MS);
        if !is_open && is_fresh && self.answered && !self.failed {
            return GateDecision::Still;
        }
        self.looked = Some((at_ms, frame));
        self.failed = false;
        GateDecision::Look
    }
}

/// The gate of a stream, with the times at which it applies.
#[derive(Debug, Clone)]
pub struct StreamGate {
    gate: AnyGate,
    /// True at times at which it does not apply.
    is_off: bool,
}

#[derive(Debug, Clone)]
enum AnyGate {
    /// By changes of its packets and pictures.
    Motion(Box<MotionGate>),
    /// By reports of its camera.
    Camera(CameraGate),
}

impl StreamGate {
    /// A gate by the camera that stays open for so many milliseconds; without them, one by motion.
    #[must_use]
    pub fn new(hold_ms: Option<f64>) -> Self {
        let gate = match hold_ms {
            Some(hold_ms) => AnyGate::Camera(CameraGate::new(hold_ms)),
            None => AnyGate::Motion(Box::default()),
        };
        Self { gate, is_off: false }
    }

    /// As [`MotionGate::on`] and [`CameraGate::on`] while the gate applies. It begins anew each time that it applies again.
    pub fn on(&mut self, event: GateEvent) -> Option<GateDecision> {
        match event {
            GateEvent::Schedule { applies } => {
                let was_off = std::mem::replace(&mut self.is_off, !applies);
                if applies && was_off {
                    self.gate.on(GateEvent::Begun);
                }
                None
            }
            GateEvent::Packet { .. } if self.is_off => Some(GateDecision::Decode),
            GateEvent::Picture { .. } if self.is_off => Some(GateDecision::Look),
            GateEvent::Result { .. } if self.is_off => None,
            event => self.gate.on(event),
        }
    }
}

impl AnyGate {
    fn on(&mut self, event: GateEvent) -> Option<GateDecision> {
        match self {
            Self::Motion(gate) => gate.on(event),
            Self::Camera(gate) => gate.on(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD_MS: f64 = 5_000.0;

    /// A camera of ten frames a second, with a key frame each second.
    struct Camera {
        gate: CameraGate,
        frame: u64,
        looks: Vec<u64>,
        decoded: u64,
        /// Packets of the group that are held back.
        held: u64,
        /// Whether frames that are looked at are delivered.
        delivers: bool,
    }

    impl Camera {
        fn new() -> Self {
            Self {
                gate: CameraGate::new(HOLD_MS),
                frame: 0,
                looks: Vec::new(),
                decoded: 0,
                held: 0,
                delivers: true,
            }
        }

        fn says(&mut self, signal: CameraSignal) {
            assert_eq!(self.gate.on(GateEvent::Camera { signal }), None);
        }

        fn run(&mut self, seconds: u64) {
            for _ in 0..seconds * 10 {
                let (frame, at_ms) = (self.frame, self.frame as f64 * 100.0);
                let key = frame.is_multiple_of(10);
                self.frame += 1;
                let packet = GateEvent::Packet {
                    bytes: 1_000,
                    key,
                    at_ms,
                };
                if key {
                    self.held = 0;
                }
                if self.gate.on(packet) == Some(GateDecision::Hold) {
                    self.held += 1;
                    continue;
                }
                self.decoded += 1 + std::mem::take(&mut self.held);
                let picture = GateEvent::Picture {
                    frame,
                    changed: 0,
                    at_ms,
                };
                if self.gate.on(picture) == Some(GateDecision::Look) {
                    self.looks.push(frame);
                    let delivered = self.delivers;
                    self.gate.on(GateEvent::Result { frame, delivered });
                }
            }
        }

        fn looks_between(&self, from_s: u64, to_s: u64) -> usize {
            let is_within = |frame: &&u64| (from_s * 10..to_s * 10).contains(*frame);
            self.looks.iter().filter(is_within).count()
        }
    }

    #[test]
    fn a_gate_without_reports_is_open() {
        let mut camera = Camera::new();
        camera.run(30);
        assert_eq!((camera.looks.len(), camera.decoded), (300, 300));
        camera.says(CameraSignal::Still);
        camera.run(60);
        assert!(camera.looks_between(40, 90) <= 1, "{:?}", camera.looks);
        camera.says(CameraSignal::Unknown);
        camera.run(10);
        assert_eq!(camera.looks_between(90, 100), 100);
    }

    #[test]
    fn frames_are_looked_at_while_something_moves_and_for_the_hold_time() {
        let mut camera = Camera::new();
        camera.says(CameraSignal::Still);
        camera.run(20);
        let decoded = camera.decoded;
        camera.says(CameraSignal::Moves);
        camera.run(10);
        camera.says(CameraSignal::Still);
        camera.run(20);
        assert_eq!(camera.looks_between(20, 30), 100, "from the report on");
        assert_eq!(camera.looks_between(30, 36), 50, "for the hold time");
        assert_eq!(camera.looks_between(36, 50), 0);
        assert!(decoded < 80, "held back: {decoded}");
    }

    #[test]
    fn a_moment_opens_the_gate_for_the_hold_time() {
        let mut camera = Camera::new();
        camera.says(CameraSignal::Still);
        camera.run(20);
        camera.says(CameraSignal::Moment);
        camera.run(20);
        assert_eq!(camera.looks_between(20, 40), 51);
    }

    #[test]
    fn looks_that_bring_nothing_are_repeated_and_old_ones_refreshed() {
        let mut camera = Camera::new();
        camera.says(CameraSignal::Still);
        camera.delivers = false;
        camera.run(20);
        assert_eq!(camera.looks.len(), 200, "no result came");
        camera.delivers = true;
        camera.run(200);
        let refreshed = camera.looks_between(30, 220);
        assert!((2..=4).contains(&refreshed), "{refreshed}");
    }

    #[test]
    fn a_jump_of_the_time_opens_the_gate() {
        let mut camera = Camera::new();
        camera.says(CameraSignal::Still);
        camera.run(20);
        camera.frame += 3_600;
        let before = camera.looks.len();
        camera.run(2);
        assert_eq!(camera.looks.len() - before, 20);
        camera.gate.on(GateEvent::Begun);
        camera.run(1);
        assert_eq!(camera.looks.len() - before, 30);
    }

    #[test]
    fn a_gate_outside_its_schedule_lets_everything_through_and_begins_anew_within() {
        let mut gate = StreamGate::new(Some(HOLD_MS));
        let mut frame = 0_u64;
        // Decisions about a second of packets and pictures: packets that are held back, and still pictures.
        let mut second = |gate: &mut StreamGate| {
            let (mut held, mut still) = (0, 0);
            for _ in 0..10 {
                let at_ms = frame as f64 * 100.0;
                let key = frame.is_multiple_of(10);
                let bytes = 1_000;
                held +=
                    u32::from(gate.on(GateEvent::Packet { bytes, key, at_ms }) == Some(GateDecision::Hold));
                let changed = 0;
                let picture = GateEvent::Picture {
                    frame,
                    changed,
                    at_ms,
                };
                still += u32::from(gate.on(picture) == Some(GateDecision::Still));
                gate.on(GateEvent::Result {
                    frame,
                    delivered: true,
                });
                frame += 1;
            }
            (held, still)
        };
        let signal = CameraSignal::Still;
        gate.on(GateEvent::Camera { signal });
        for _ in 0..7 {
            second(&mut gate);
        }
        assert_eq!(second(&mut gate), (10, 10));
        assert_eq!(gate.on(GateEvent::Schedule { applies: false }), None);
        assert_eq!(second(&mut gate), (0, 0));
        gate.on(GateEvent::Schedule { applies: false });
        assert_eq!(second(&mut gate), (0, 0));
        gate.on(GateEvent::Schedule { applies: true });
        assert_eq!(second(&mut gate), (0, 0), "the first pictures are looked at");
        for _ in 0..6 {
            second(&mut gate);
        }
        assert_eq!(second(&mut gate).1, 10, "the camera still reports no motion");
    }
}
