//! Packets of a group of pictures that are held back while nothing moves in them.

use ffmpeg_next::Packet;

/// Bytes and packets of a group that are held at most; of longer ones the rest waits for the next key frame.
const MAX_BYTES: usize = 8 << 20;
const MAX_PACKETS: usize = 1_024;

/// Milliseconds before the packet that ends the holding, of which pictures are given: older ones are of no use any more.
const GIVEN_AGAIN_MS: f64 = 300.0;

/// The group that is being read, from its key frame on, while all of it but that frame is held back.
#[derive(Default)]
pub(super) struct HeldGroup {
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
pub(super) enum HeldUse {
    /// It is decoded.
    Decode,
    /// It is held back, or left out where too much is held already.
    Hold,
    /// These packets of its group are decoded first.
    Resume(Vec<Packet>),
}

impl HeldGroup {
    /// The next packet, which the gate wants decoded or not.
    pub(super) fn on_packet(&mut self, packet: &Packet, wanted: bool, tick_ms: f64) -> HeldUse {
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
    pub(super) fn gives(&mut self, pts: Option<i64>) -> bool {
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
