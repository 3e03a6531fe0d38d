//! Scene in front of a simulated camera, and its motion gate: a cycle of motion and stillness.

use weir_policy::{GateDecision, GateEvent, MotionGate};
use weir_types::{Span, Timestamp};

use crate::spec::SceneSpec;

/// Sizes of packets in bytes: key frames, frames with motion, and still frames.
const KEY_BYTES: u64 = 20_000;
const MOVING_BYTES: u64 = 4_000;
const STILL_BYTES: u64 = 300;

/// Number of grid cells that change in a frame with motion.
const MOVING_CELLS: u32 = 40;

#[derive(Debug, Clone)]
pub(super) struct Scene {
    spec: SceneSpec,
    /// Offset of the camera in the cycle, so that cameras do not see motion at the same time.
    shift: Span,
    gate: MotionGate,
    /// Frames of the current group that were held back.
    held: u32,
}

impl Scene {
    /// The scene of camera `number` of `cameras`.
    pub(super) fn new(spec: SceneSpec, number: u32, cameras: u32) -> Self {
        let shift = (spec.moves + spec.rests).scale(f64::from(number) / f64::from(cameras.max(1)));
        Self {
            spec,
            shift,
            gate: MotionGate::default(),
            held: 0,
        }
    }

    fn moves(&self, at: Timestamp) -> bool {
        let cycle = (self.spec.moves + self.spec.rests).micros().max(1);
        (at.micros() + self.shift.micros()) % cycle < self.spec.moves.micros()
    }

    /// The packet of the frame that was sent then: the pictures that are decoded by it, or `None` where it is held back.
    pub(super) fn on_packet(&mut self, key: bool, sent_at: Timestamp) -> Option<u32> {
        let bytes = match (key, self.moves(sent_at)) {
            (true, _) => KEY_BYTES,
            (false, true) => MOVING_BYTES,
            (false, false) => STILL_BYTES,
        };
        let at_ms = sent_at.since(Timestamp::ZERO).as_millis_f64();
        let decision = self.gate.on(GateEvent::Packet { bytes, key, at_ms });
        if key {
            self.held = 0;
        }
        if decision == Some(GateDecision::Hold) {
            self.held += 1;
            return None;
        }
        Some(1 + std::mem::take(&mut self.held))
    }

    /// The picture of that frame: whether nothing changed in it.
    pub(super) fn is_still(&mut self, sent_at: Timestamp) -> bool {
        let changed = if self.moves(sent_at) { MOVING_CELLS } else { 0 };
        let picture = GateEvent::Picture {
            frame: sent_at.micros(),
            changed,
            at_ms: sent_at.since(Timestamp::ZERO).as_millis_f64(),
        };
        self.gate.on(picture) == Some(GateDecision::Still)
    }

    /// The request of that frame has ended.
    pub(super) fn on_request_ended(&mut self, sent_at: Timestamp, delivered: bool) {
        let frame = sent_at.micros();
        self.gate.on(GateEvent::Result { frame, delivered });
    }
}
