//! Times of day at which a source is analysed. At other times its packets are read and handed to observers, but few are decoded,
//! and its frames count as still.

use std::sync::{Arc, Mutex, PoisonError};

use weir_analytics::transforms::Schedule;
use weir_flow::PacketGate;

use super::SharedMotionGate;
use crate::actors::FrameInfo;
use crate::clock::Clock;

/// Milliseconds between two key frames that are decoded outside the schedule: its pictures are seen to arrive.
const PROBE_MS: f64 = 10_000.0;

/// Milliseconds of frames outside the schedule that are counted together, with one notice for sinks: some write a line for each
/// notice.
const COUNTED_MS: f64 = 10_000.0;

/// Gate of the packets of an open source with a schedule, before the gate of the source.
#[derive(Debug)]
pub(super) struct ActivePackets {
    active: Arc<Schedule>,
    clock: Clock,
    gate: Option<SharedMotionGate>,
    probes: Mutex<Probes>,
}

/// Packets that are decoded outside the schedule.
#[derive(Debug, Default)]
struct Probes {
    /// True once the rate of the source and the offset of its time stamps are known by its first frames.
    is_known: bool,
    /// Time of the last key frame that was decoded.
    last_ms: Option<f64>,
}

impl Probes {
    fn wants(&mut self, key: bool, at_ms: f64) -> bool {
        if !self.is_known {
            return true;
        }
        let is_recent = |last_ms: f64| (0.0..PROBE_MS).contains(&(at_ms - last_ms));
        let is_due = key && !self.last_ms.is_some_and(is_recent);
        if is_due {
            self.last_ms = Some(at_ms);
        }
        is_due
    }
}

impl ActivePackets {
    pub(super) fn new(active: &Arc<Schedule>, clock: Clock, gate: Option<SharedMotionGate>) -> Arc<Self> {
        Arc::new(Self {
            active: Arc::clone(active),
            clock,
            gate,
            probes: Mutex::default(),
        })
    }

    /// The first frames of the source came.
    pub(super) fn on_known(&self) {
        let mut probes = self.probes.lock().unwrap_or_else(PoisonError::into_inner);
        probes.is_known = true;
    }
}

impl PacketGate for ActivePackets {
    fn wants(&self, bytes: u64, key: bool, at_ms: f64) -> bool {
        if self.active.contains(self.clock.utc_ms(self.clock.now())) {
            return self
                .gate
                .as_ref()
                .is_none_or(|gate| gate.wants(bytes, key, at_ms));
        }
        let mut probes = self.probes.lock().unwrap_or_else(PoisonError::into_inner);
        probes.wants(key, at_ms)
    }
}

/// Frames outside the schedule that are not counted yet.
#[derive(Debug, Default)]
pub(super) struct SkippedFrames {
    /// The first of them, and their number.
    waiting: Option<(FrameInfo, u64)>,
}

impl SkippedFrames {
    /// Adds `count` frames of which `first` is the first. Returns true if the waiting ones are to be counted, at the media time
    /// `now_ms`.
    pub(super) fn add(&mut self, first: FrameInfo, count: u64, now_ms: f64) -> bool {
        let (first, waiting) = self.waiting.get_or_insert((first, 0));
        *waiting += count;
        !(0.0..COUNTED_MS).contains(&(now_ms - first.pts_ms))
    }

    /// Takes the first waiting frame and the number of waiting frames, if there are any.
    pub(super) fn take(&mut self) -> Option<(FrameInfo, u64)> {
        self.waiting.take()
    }
}

#[cfg(test)]
mod tests {
    use weir_types::Timestamp;

    use super::*;

    #[test]
    fn skipped_frames_are_counted_together_every_ten_seconds() {
        let frame = |index: u64| FrameInfo {
            index,
            pts_ms: index as f64 * 40.0,
            sent_at: Timestamp::from_micros(index * 40_000),
        };
        let mut skipped = SkippedFrames::default();
        let mut counted = Vec::new();
        for index in 0..700 {
            let first = frame(index);
            if skipped.add(first, 1, first.pts_ms) {
                counted.extend(skipped.take());
            }
        }
        counted.extend(skipped.take());
        let counted = counted.iter().map(|(first, count)| (first.index, *count));
        let counted: Vec<(u64, u64)> = counted.collect();
        assert_eq!(counted, [(0, 251), (251, 251), (502, 198)]);
        assert!(skipped.take().is_none());
        assert!(!skipped.add(frame(900), 1, 36_000.0));
        assert!(skipped.add(frame(10), 1, 400.0), "the time stamps began anew");
    }

    #[test]
    fn one_key_frame_in_ten_seconds_is_decoded_once_the_source_is_known() {
        let mut probes = Probes::default();
        assert!(probes.wants(true, 0.0) && probes.wants(false, 40.0));
        probes.is_known = true;
        assert!(!probes.wants(false, 80.0));
        let decoded = |probes: &mut Probes, seconds: std::ops::Range<u32>| {
            let wanted = seconds.filter(|second| probes.wants(true, f64::from(*second) * 1e3));
            wanted.collect::<Vec<_>>()
        };
        assert_eq!(decoded(&mut probes, 1..25), [1, 11, 21]);
        assert!(!probes.wants(false, 60_000.0), "no other packet is decoded alone");
        assert_eq!(decoded(&mut probes, 5..7), [5], "the time stamps began anew");
    }
}
