//! Times of packets for a muxer: they begin at zero with the first picture, and decoding times grow whatever a camera sends.

use ffmpeg_next::format::context::Output;
use ffmpeg_next::{Packet, Rational, codec};

/// Ticks per second of the time stamps.
pub(super) const TICKS: i32 = 90_000;

/// Ticks of a packet without a duration.
const USUAL_STEP: i64 = 3_600;

/// The clock of one output.
#[derive(Debug)]
pub(super) struct PacketClock {
    /// Time base of the pictures, which are the stream 0 of the output.
    pictures: Rational,
    /// Time base of the sound, which is the stream 1, if the output has sound.
    sound: Option<Rational>,
    /// Decoding time of the first packet, in milliseconds.
    origin_ms: Option<f64>,
    last_dts: i64,
    step: i64,
    /// Decoding time of the last sound, in ticks of its own stream.
    last_sound: i64,
}

impl PacketClock {
    /// The clock of an output whose header is written.
    pub(super) fn new(output: &Output) -> Self {
        let time_base = |index| output.stream(index).map(|stream| stream.time_base());
        Self {
            pictures: time_base(0).unwrap_or(Rational::new(1, TICKS)),
            sound: time_base(1),
            origin_ms: None,
            last_dts: -1,
            step: USUAL_STEP,
            last_sound: -1,
        }
    }

    /// Decoding time of the last picture, in ticks.
    pub(super) fn last_dts(&self) -> i64 {
        self.last_dts
    }

    /// A packet for the muxer; the first has to be a picture. `None` for sound that the output has no place for.
    pub(super) fn stamp(&mut self, packet: &weir_flow::Packet) -> Option<Packet> {
        if packet.sound {
            self.stamp_sound(packet)
        } else {
            Some(self.stamp_picture(packet))
        }
    }

    fn stamp_picture(&mut self, packet: &weir_flow::Packet) -> Packet {
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
        copied.rescale_ts(Rational::new(1, TICKS), self.pictures);
        copied
    }

    /// `None` also for sound before the first picture, or that is not after the sound before it.
    fn stamp_sound(&mut self, packet: &weir_flow::Packet) -> Option<Packet> {
        let (origin_ms, time_base) = (self.origin_ms?, self.sound?);
        let ticks_per_ms =
            f64::from(time_base.denominator()) / f64::from(time_base.numerator().max(1)) / 1000.0;
        let dts = ((packet.dts_ms - origin_ms) * ticks_per_ms).round() as i64;
        if dts <= self.last_sound {
            return None;
        }
        self.last_sound = dts;
        let mut copied = Packet::copy(&packet.data);
        copied.set_stream(1);
        copied.set_dts(Some(dts));
        copied.set_pts(Some(dts));
        copied.set_duration((packet.duration_ms * ticks_per_ms).round().max(1.0) as i64);
        copied.set_flags(codec::packet::Flags::KEY);
        Some(copied)
    }
}
