//! Times of packets for a muxer: they begin at zero, and decoding times grow whatever a camera sends.

use ffmpeg_next::{Packet, Rational, codec};

/// Ticks per second of the time stamps.
pub(super) const TICKS: i32 = 90_000;

/// Ticks of a packet without a duration.
const USUAL_STEP: i64 = 3_600;

/// The clock of one output.
#[derive(Debug)]
pub(super) struct PacketClock {
    /// Decoding time of the first packet, in milliseconds.
    origin_ms: Option<f64>,
    last_dts: i64,
    step: i64,
}

impl PacketClock {
    pub(super) fn new() -> Self {
        Self {
            origin_ms: None,
            last_dts: -1,
            step: USUAL_STEP,
        }
    }

    /// Decoding time of the last packet, in ticks.
    pub(super) fn last_dts(&self) -> i64 {
        self.last_dts
    }

    /// A packet for the stream 0 of a muxer with that time base.
    pub(super) fn stamp(&mut self, packet: &weir_flow::Packet, time_base: Rational) -> Packet {
        let origin_ms = *self.origin_ms.get_or_insert(packet.dts_ms);
        let ticks = |ms: f64| ((ms - origin_ms) * f64::from(TICKS) / 1000.0).round() as i64;
        // Players want times of decoding that grow, and pictures not shown before they are decoded.
        let dts = ticks(packet.dts_ms).max(self.last_dts + 1);
        let pts = ticks(packet.pts_ms).max(dts);
        if packet.duration_ms > 0.0 {
            self.step = ticks(origin_ms + packet.duration_ms).max(1);
        } else if self.last_dts >= 0 {
            self.step = dts - self.last_dts;
        }
        self.last_dts = dts;
        let mut copied = Packet::copy(&packet.data);
        copied.set_stream(0);
        copied.set_dts(Some(dts));
        copied.set_pts(Some(pts));
        copied.set_duration(self.step);
        if packet.key {
            copied.set_flags(codec::packet::Flags::KEY);
        }
        copied.rescale_ts(Rational::new(1, TICKS), time_base);
        copied
    }
}
