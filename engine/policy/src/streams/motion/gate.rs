//! The decisions of the gate of one stream: which packets are decoded, and which pictures are looked at.
//!
//! ```text
//! look    where something changed within HOLD, where the last look brought no result, or REFRESH after the last look, and
//!         twice as long after each further one without a change, up to MAX_REFRESH
//! asleep  after SLEEP_AFTER in which nothing changed: one key frame each PROBE is decoded, and the rest is held back
//! awake   where packets grow (what was held back is decoded then), or a key frame shows a change
//! ```
//!
//! A change that only a key frame shows is one that the sizes of packets missed: after it the stream stays awake for a minute, and
//! twice as long after each further one. Where key frames are further apart than PROBE allows, the stream sleeps only once its
//! packets have shown a change that pictures confirmed.

use serde::{Deserialize, Serialize};

use super::camera_signal::CameraSignal;
use super::packet_sizes::PacketSizes;

/// Cells of an area that counts as a change: 8 by 12 pixels of a picture that is 640 wide.
pub(super) const MIN_CHANGED: u32 = 6;

/// Milliseconds of media time for which pictures are looked at after the last change.
pub(super) const HOLD_MS: f64 = 1_000.0;

/// Milliseconds after which a still picture is looked at again, the first time after a change and at most.
pub(super) const REFRESH_MS: f64 = 10_000.0;
const MAX_REFRESH_MS: f64 = 60_000.0;

/// Milliseconds between two packets from which on they are not of one scene.
const MAX_GAP_MS: f64 = 10_000.0;

/// Milliseconds without a change after which packets are held back.
const SLEEP_AFTER_MS: f64 = 2_000.0;

/// Milliseconds between two key frames that are decoded while packets are held back.
const PROBE_MS: f64 = 1_000.0;

/// Length of a group of pictures up to which key frames alone show what happens soon enough.
const SHORT_GROUP_MS: f64 = 2_500.0;

/// Milliseconds between the packets of a change and its picture at most.
const CONFIRM_MS: f64 = 500.0;

/// Milliseconds for which a stream whose packets missed a change stays awake, the first time and at most.
const DISTRUST_MS: f64 = 60_000.0;
const MAX_DISTRUST_MS: f64 = 3_600_000.0;

/// An event of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateEvent {
    /// The source was opened, or other models look: the next picture is looked at.
    Begun,
    /// A packet was read, and is not decoded yet.
    Packet {
        /// Size of the packet.
        bytes: u64,
        /// Whether it begins a group of pictures.
        key: bool,
        /// Its time in the container, in milliseconds.
        at_ms: f64,
    },
    /// A picture was decoded.
    Picture {
        /// Index of the frame.
        frame: u64,
        /// Cells of the largest area that differs from the picture that was looked at last.
        changed: u32,
        /// Media time in milliseconds.
        at_ms: f64,
    },
    /// A frame that was looked at has ended.
    Result {
        /// Index of the frame.
        frame: u64,
        /// Whether it was delivered.
        delivered: bool,
    },
    /// The camera said whether something moves; of a gate by the camera.
    Camera {
        /// Report of the camera, as it arrived among packets and pictures.
        signal: CameraSignal,
    },
    /// The schedule of the gate begins or ends.
    Schedule {
        /// Whether the gate applies from now on; otherwise all packets are decoded and all pictures looked at.
        applies: bool,
    },
}

/// The decision on a packet or a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateDecision {
    /// The packet is decoded, with all of its group that was held back.
    Decode,
    /// The packet is held back: nothing moves in it.
    Hold,
    /// The picture is given to detectors.
    Look,
    /// The picture has the objects of the one that was looked at last.
    Still,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct MotionGate {
    sizes: PacketSizes,
    /// Media time of the last change, and the frame that showed it first.
    changed: Option<(f64, u64)>,
    /// Media time of the last look, and its frame.
    looked: Option<(f64, u64)>,
    /// Looks since the last change for no other reason than the time since the look before.
    refreshes: u32,
    /// The last look brought no result.
    failed: bool,
    /// A result came of a frame at or after the last change.
    answered: bool,
    /// A change began, and nothing was said yet of the packets before it.
    unjudged: bool,
    /// Media time of the last picture.
    last_ms: f64,
    packets: Packets,
}

/// Packets, by their times in the container.
#[derive(Debug, Clone, Default)]
struct Packets {
    asleep: bool,
    /// Since when nothing has changed, or the stream was woken.
    still_since: Option<f64>,
    /// The last key frame that was decoded while asleep.
    probed: Option<f64>,
    /// The last packet, and whether it was a key frame.
    last: Option<(f64, bool)>,
    group_began: Option<f64>,
    group_ms: f64,
    /// The last packet that showed movement.
    active: Option<f64>,
    /// Changes that packets showed before the picture did.
    confirmed: u32,
    distrusted_until: f64,
    distrust_ms: f64,
}

impl MotionGate {
    /// The decision on a packet or a picture; `None` for other events.
    pub fn on(&mut self, event: GateEvent) -> Option<GateDecision> {
        match event {
            GateEvent::Begun => {
                *self = Self {
                    sizes: std::mem::take(&mut self.sizes),
                    packets: Packets {
                        confirmed: self.packets.confirmed,
                        ..Packets::default()
                    },
                    ..Self::default()
                };
                None
            }
            GateEvent::Packet { bytes, key, at_ms } => Some(self.on_packet(bytes, key, at_ms)),
            GateEvent::Picture {
                frame,
                changed,
                at_ms,
            } => Some(self.on_picture(frame, changed, at_ms)),
            GateEvent::Result { frame, delivered } => {
                if delivered {
                    self.answered |= self.changed.is_none_or(|(_, first)| frame >= first);
                } else {
                    self.failed |= self.looked.is_some_and(|(_, looked)| looked == frame);
                }
                None
            }
            GateEvent::Camera { .. } | GateEvent::Schedule { .. } => None,
        }
    }

    fn on_packet(&mut self, bytes: u64, key: bool, at_ms: f64) -> GateDecision {
        let packets = &mut self.packets;
        let (before_ms, after_key) = packets.last.replace((at_ms, key)).unwrap_or((at_ms, false));
        if key {
            packets.group_ms = at_ms - packets.group_began.replace(at_ms).unwrap_or(at_ms);
        }
        // Of streams of key frames alone, such as MJPEG, every packet tells.
        let is_active = (!key || after_key) && self.sizes.observe(bytes);
        if is_active {
            packets.active = Some(at_ms);
        }
        let jumped = at_ms < before_ms - CONFIRM_MS || at_ms > before_ms + MAX_GAP_MS;
        if is_active || jumped {
            (packets.asleep, packets.still_since) = (false, None);
        }
        if !key {
            return if packets.asleep {
                GateDecision::Hold
            } else {
                GateDecision::Decode
            };
        }
        if !packets.asleep && self.may_sleep(at_ms) {
            (self.packets.asleep, self.packets.probed) = (true, None);
        }
        let packets = &mut self.packets;
        if packets.asleep
            && packets
                .probed
                .is_some_and(|probed| (0.0..PROBE_MS).contains(&(at_ms - probed)))
        {
            return GateDecision::Hold;
        }
        packets.probed = Some(at_ms);
        GateDecision::Decode
    }

    fn may_sleep(&self, at_ms: f64) -> bool {
        let packets = &self.packets;
        let is_still = packets
            .still_since
            .is_some_and(|since| at_ms - since >= SLEEP_AFTER_MS);
        let shows_soon = packets.group_ms <= SHORT_GROUP_MS || packets.confirmed > 0;
        is_still
            && shows_soon
            && self.sizes.is_learned()
            && self.answered
            && !self.failed
            && at_ms >= packets.distrusted_until
    }

    fn on_picture(&mut self, frame: u64, changed: u32, at_ms: f64) -> GateDecision {
        let is_first = self.looked.is_none();
        let jumped = at_ms < self.last_ms;
        self.last_ms = at_ms;
        if changed >= MIN_CHANGED || jumped || is_first {
            let was_still = self.changed.is_none_or(|(last_ms, _)| at_ms - last_ms > HOLD_MS);
            if was_still || jumped {
                self.unjudged = !is_first && !jumped;
                self.changed = Some((at_ms, frame));
                self.answered = false;
            } else if let Some((last_ms, _)) = &mut self.changed {
                *last_ms = at_ms;
            }
            if self.unjudged {
                self.judge_packets();
            }
        }
        let holds = self.changed.is_some_and(|(last_ms, _)| at_ms - last_ms < HOLD_MS);
        let packets = &mut self.packets;
        if holds {
            (packets.asleep, packets.still_since) = (false, None);
        } else if !packets.asleep {
            self.sizes.on_still();
            if packets.still_since.is_none() {
                packets.still_since = packets.last.map(|(last_ms, _)| last_ms);
            }
        }
        let refresh_ms = (REFRESH_MS * f64::from(self.refreshes).exp2()).min(MAX_REFRESH_MS);
        let is_old = self
            .looked
            .is_none_or(|(looked_ms, _)| at_ms - looked_ms >= refresh_ms);
        if holds {
            self.refreshes = 0;
        } else if self.answered && !self.failed {
            if !is_old {
                return GateDecision::Still;
            }
            self.refreshes = self.refreshes.saturating_add(1);
        }
        self.looked = Some((at_ms, frame));
        self.failed = false;
        GateDecision::Look
    }

    /// Something changes after it was still: whether the sizes of packets showed it.
    fn judge_packets(&mut self) {
        let packets = &mut self.packets;
        let Some((last_ms, key)) = packets.last.filter(|_| self.sizes.is_learned()) else {
            return;
        };
        // The size of a key frame tells nothing: the next packet does.
        if key && !packets.asleep {
            return;
        }
        self.unjudged = false;
        if packets
            .active
            .is_some_and(|active| (0.0..=CONFIRM_MS).contains(&(last_ms - active)))
        {
            packets.confirmed = packets.confirmed.saturating_add(1);
            return;
        }
        packets.distrust_ms = (packets.distrust_ms * 2.0).clamp(DISTRUST_MS, MAX_DISTRUST_MS);
        packets.distrusted_until = last_ms + packets.distrust_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A camera of 25 frames a second whose pictures change as `moves` says, with a key frame each `group` frames.
    struct Camera {
        gate: MotionGate,
        frame: u64,
        group: u64,
        /// Whether packets grow with movement.
        tells: bool,
        held: u64,
        decoded: u64,
        looks: Vec<u64>,
    }

    impl Camera {
        fn new(group: u64, tells: bool) -> Self {
            Self {
                gate: MotionGate::default(),
                frame: 0,
                group,
                tells,
                held: 0,
                decoded: 0,
                looks: Vec::new(),
            }
        }

        fn run(&mut self, seconds: f64, moves: bool, delivered: bool) {
            for _ in 0..(seconds * 25.0) as u64 {
                let (frame, at_ms) = (self.frame, self.frame as f64 * 40.0);
                self.frame += 1;
                let key = frame.is_multiple_of(self.group);
                let bytes = match (key, moves && self.tells) {
                    (true, _) => 20_000,
                    (false, true) => 4_000,
                    (false, false) => 300 + frame % 50,
                };
                if self.gate.on(GateEvent::Packet { bytes, key, at_ms }) == Some(GateDecision::Hold) {
                    self.held += 1;
                    continue;
                }
                self.decoded += 1;
                let changed = if moves { 40 } else { 0 };
                let picture = GateEvent::Picture {
                    frame,
                    changed,
                    at_ms,
                };
                if self.gate.on(picture) == Some(GateDecision::Look) {
                    self.looks.push(frame);
                    self.gate.on(GateEvent::Result { frame, delivered });
                }
            }
        }

        fn looks_within(&self, from: u64, to: u64) -> usize {
            self.looks
                .iter()
                .filter(|frame| (from..to).contains(frame))
                .count()
        }
    }

    #[test]
    fn a_still_camera_is_looked_at_ever_more_rarely_and_decoded_each_second() {
        let mut camera = Camera::new(25, true);
        camera.run(60.0, false, true);
        assert!(camera.looks_within(0, 25) >= 20, "it begins by looking");
        assert_eq!(
            camera.looks_within(250, 1_500),
            2,
            "10 and 30 s after the last one"
        );
        assert!(camera.decoded < 5 * 25 + 60, "{} decoded", camera.decoded);
    }

    #[test]
    fn every_frame_is_looked_at_while_something_moves_and_for_a_second_more() {
        let mut camera = Camera::new(25, true);
        camera.run(20.0, false, true);
        camera.run(4.0, true, true);
        assert_eq!(camera.looks_within(500, 600), 100, "from the first packet on");
        camera.run(8.0, false, true);
        let after = camera.looks_within(600, 800);
        assert!((20..30).contains(&after), "{after}");
    }

    #[test]
    fn a_camera_whose_packets_do_not_tell_is_decoded_whole_after_its_first_change() {
        let mut camera = Camera::new(25, false);
        camera.run(20.0, false, true);
        assert!(camera.held > 300);
        camera.run(4.0, true, true);
        assert!(camera.looks_within(500, 600) > 75, "the next key frame shows it");
        let held = camera.held;
        camera.run(50.0, false, true);
        assert_eq!(camera.held, held, "for a minute nothing is held back");
    }

    #[test]
    fn long_groups_are_held_back_only_once_packets_were_confirmed() {
        let mut camera = Camera::new(200, true);
        camera.run(40.0, false, true);
        assert_eq!(camera.held, 0);
        camera.run(2.0, true, true);
        camera.run(40.0, false, true);
        assert!(camera.held > 500);
    }

    #[test]
    fn nothing_is_still_until_a_look_after_the_change_was_delivered() {
        let mut camera = Camera::new(25, true);
        camera.run(10.0, false, false);
        assert_eq!(camera.looks.len(), 250, "no result came");
        camera.run(10.0, false, true);
        assert!(camera.looks.len() < 260);
    }

    #[test]
    fn time_that_jumps_back_begins_anew() {
        let mut camera = Camera::new(25, true);
        camera.run(20.0, false, true);
        let looks = camera.looks.len();
        camera.frame = 0;
        camera.run(2.0, false, true);
        assert!(camera.looks.len() >= looks + 20);
    }
}
