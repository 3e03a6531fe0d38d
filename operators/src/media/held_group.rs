//! Packets of a group of pictures that are held back while nothing moves in them.

use std::collections::VecDeque;
use std::sync::Arc;

use ffmpeg_next::Packet;
use weir_flow::PacketGate;

use super::packet_selection::PacketSelection;

/// Bytes and packets of a group that are held at most; of longer ones the rest waits for the next key frame.
const MAX_BYTES: usize = 8 << 20;
const MAX_PACKETS: usize = 1_024;

/// Milliseconds before the packet that ends the holding, of which pictures are given: older ones are of no use any more.
const GIVEN_AGAIN_MS: f64 = 300.0;

/// The gate of a source, once one is set, and the packets that it holds back.
#[derive(Default)]
pub(super) struct GatedPackets {
    gate: Option<Arc<dyn PacketGate>>,
    group: HeldGroup,
    /// Packets that were held back, to be decoded before any other.
    resumed: VecDeque<Packet>,
}

impl GatedPackets {
    pub(super) fn set_gate(&mut self, gate: Arc<dyn PacketGate>) {
        self.gate = Some(gate);
    }

    /// Whether the gate holds the next packet back. If it wants the packet after others that it held back, those are decoded first,
    /// and `selection` is notified.
    pub(super) fn is_held(&mut self, packet: &Packet, tick_ms: f64, selection: &mut PacketSelection) -> bool {
        let Some(gate) = &self.gate else {
            return false;
        };
        let Some(stamp) = packet.pts().or_else(|| packet.dts()) else {
            return false;
        };
        let wanted = gate.wants(packet.size() as u64, packet.is_key(), stamp as f64 * tick_ms);
        match self.group.on_packet(packet, wanted, tick_ms) {
            HeldUse::Decode => false,
            HeldUse::Hold => true,
            HeldUse::Resume(packets) => {
                self.resumed = packets.into();
                selection.on_resumed();
                false
            }
        }
    }

    /// Takes the next packet that is decoded before any other.
    pub(super) fn pop_resumed(&mut self) -> Option<Packet> {
        self.resumed.pop_front()
    }

    /// Queues a packet behind those that are decoded before it. Returns whether there are any.
    pub(super) fn queue_behind_resumed(&mut self, packet: &Packet) -> bool {
        let is_queued = !self.resumed.is_empty();
        if is_queued {
            self.resumed.push_back(packet.clone());
        }
        is_queued
    }

    /// Whether a picture that came out is given on: not if it was given before, or is decoded only for others.
    pub(super) fn gives(&mut self, pts: Option<i64>) -> bool {
        self.gate.is_none() || self.group.gives(pts)
    }
}

/// The group that is being read, from its key frame on, while all of it but that frame is held back.
#[derive(Default)]
struct HeldGroup {
    packets: Vec<Packet>,
    bytes: usize,
    state: State,
    /// Whether its key frame was decoded.
    has_key: bool,
    /// The time of the last picture that came out.
    given: Option<i64>,
    /// Pictures before this time are decoded only for those that follow.
    from: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// The packets of the group are decoded in turn.
    #[default]
    Decoded,
    /// Nothing after its key frame was decoded.
    Held,
    /// There was more of it than is held.
    Lost,
}

/// The use of a packet.
enum HeldUse {
    /// It is decoded.
    Decode,
    /// It is held back, or left out where too much is held already.
    Hold,
    /// These packets of its group are decoded first.
    Resume(Vec<Packet>),
}

impl HeldGroup {
    /// The next packet, which the gate wants decoded or not.
    fn on_packet(&mut self, packet: &Packet, wanted: bool, tick_ms: f64) -> HeldUse {
        if packet.is_key() {
            (self.bytes, self.state, self.has_key) = (0, State::Held, wanted);
            self.packets.clear();
            self.hold(packet);
            return if wanted { HeldUse::Decode } else { HeldUse::Hold };
        }
        match (self.state, wanted) {
            (State::Decoded, _) => HeldUse::Decode,
            (State::Lost, _) => HeldUse::Hold,
            (State::Held, false) => {
                self.hold(packet);
                HeldUse::Hold
            }
            (State::Held, true) => {
                self.state = State::Decoded;
                let held = std::mem::take(&mut self.packets);
                // After a key frame that was decoded, nothing was held.
                if held.len() <= 1 && self.has_key {
                    return HeldUse::Decode;
                }
                let ticks = (GIVEN_AGAIN_MS / tick_ms.max(1e-6)) as i64;
                self.from = packet.pts().map(|pts| pts.saturating_sub(ticks));
                HeldUse::Resume(held)
            }
        }
    }

    fn hold(&mut self, packet: &Packet) {
        self.bytes += packet.size();
        if self.bytes > MAX_BYTES || self.packets.len() >= MAX_PACKETS {
            self.state = State::Lost;
            self.packets.clear();
            return;
        }
        self.packets.push(packet.clone());
    }

    /// A picture came out: whether it is given on. One that is decoded again, or only for others, is not.
    fn gives(&mut self, pts: Option<i64>) -> bool {
        let Some(pts) = pts else { return true };
        if let Some(from) = self.from {
            if pts < from || self.given.is_some_and(|given| pts <= given) {
                return false;
            }
            self.from = None;
        }
        self.given = Some(pts);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use ffmpeg_next::codec::packet::Flags;

    use super::*;

    /// Wants all packets while it is open.
    #[derive(Default)]
    struct Open(AtomicBool);

    impl PacketGate for Open {
        fn wants(&self, _bytes: u64, _key: bool, _at_ms: f64) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn packet(pts: i64) -> Packet {
        let mut packet = Packet::copy(&[0; 4]);
        packet.set_pts(Some(pts));
        if pts % 1_000 == 0 {
            packet.set_flags(Flags::KEY);
        }
        packet
    }

    #[test]
    fn packets_held_back_are_decoded_before_the_one_that_ends_it() {
        let gate = Arc::<Open>::default();
        let (mut gated, mut selection) = (GatedPackets::default(), PacketSelection::default());
        assert!(!gated.is_held(&packet(0), 1.0, &mut selection), "no gate is set");
        assert!(gated.gives(Some(0)) && gated.gives(Some(0)));
        gated.set_gate(Arc::clone(&gate) as _);
        for pts in [1_000, 1_200, 1_400] {
            assert!(gated.is_held(&packet(pts), 1.0, &mut selection), "{pts}");
            assert!(!gated.queue_behind_resumed(&packet(pts)), "{pts}");
        }
        gate.0.store(true, Ordering::Relaxed);
        assert!(!gated.is_held(&packet(1_600), 1.0, &mut selection));
        assert!(gated.queue_behind_resumed(&packet(1_600)));
        let resumed: Vec<i64> = std::iter::from_fn(|| gated.pop_resumed())
            .filter_map(|packet| packet.pts())
            .collect();
        assert_eq!(resumed, [1_000, 1_200, 1_400, 1_600]);
        // Pictures that are too old by now are decoded for the others only.
        let given = resumed.iter().filter(|pts| gated.gives(Some(**pts)));
        assert_eq!(given.collect::<Vec<_>>(), [&1_400, &1_600]);
    }
}
