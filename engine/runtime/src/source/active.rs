//! Times of day at which a source is analysed. At other times its packets are read and handed to observers, but few are decoded,
//! and its frames count as still.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_analytics::transforms::Schedule;
use weir_flow::{PacketGate, PacketTap};

use super::{SharedMotionGate, SharedTarget};
use crate::actors::FrameInfo;
use crate::clock::Clock;

/// Milliseconds between two key frames that are decoded outside the schedule: its pictures are seen to arrive.
const PROBE_MS: f64 = 10_000.0;

/// Packets that are decoded behind such a key frame at most, until its picture comes out: those of B-frames come later.
const MAX_FOLLOWING: u32 = 16;

/// Milliseconds of frames outside the schedule that are counted together, with one notice for sinks: some write a line for each
/// notice.
const COUNTED_MS: f64 = 10_000.0;

/// Gate of the packets of an open source with a schedule, before the gate of the source.
#[derive(Debug)]
pub(super) struct ActivePackets {
    active: Arc<Schedule>,
    clock: Clock,
    gate: Option<SharedMotionGate>,
    tap: Arc<PacketTap>,
    target: Arc<SharedTarget>,
    probes: Mutex<Probes>,
}

/// Packets that are decoded outside the schedule.
#[derive(Debug, Default)]
struct Probes {
    /// True once the rate of the source and the offset of its time stamps are known by its first frames.
    is_known: bool,
    /// Time stamp of the last key frame that was decoded.
    last_ms: Option<f64>,
    /// Packets that are decoded behind it, if its picture does not come before.
    following: u32,
}

impl Probes {
    /// The next key frame is decoded, whenever the last one was.
    fn on_request(&mut self) {
        self.last_ms = None;
    }

    fn wants(&mut self, key: bool, at_ms: f64) -> bool {
        if !self.is_known {
            return true;
        }
        let is_recent = |last_ms: f64| (0.0..PROBE_MS).contains(&(at_ms - last_ms));
        let is_due = key && !self.last_ms.is_some_and(is_recent);
        if is_due {
            self.last_ms = Some(at_ms);
            self.following = MAX_FOLLOWING;
            return true;
        }
        let follows = self.following > 0;
        self.following = self.following.saturating_sub(1);
        follows
    }

    /// Takes a picture that came out, by its time stamp; whether it is of the last key frame or follows it, and not of an earlier one.
    fn on_picture(&mut self, stamp_ms: Option<f64>) -> bool {
        let is_new = stamp_ms
            .zip(self.last_ms)
            .is_none_or(|(stamp_ms, last_ms)| stamp_ms >= last_ms);
        if is_new {
            self.following = 0;
        }
        is_new
    }
}

impl ActivePackets {
    pub(super) fn new(
        active: &Arc<Schedule>,
        clock: Clock,
        gate: Option<SharedMotionGate>,
        (tap, target): (&Arc<PacketTap>, &Arc<SharedTarget>),
    ) -> Arc<Self> {
        Arc::new(Self {
            active: Arc::clone(active),
            clock,
            gate,
            tap: Arc::clone(tap),
            target: Arc::clone(target),
            probes: Mutex::default(),
        })
    }

    /// The first frames of the source came.
    pub(super) fn on_known(&self) {
        self.lock().is_known = true;
    }

    fn lock(&self) -> MutexGuard<'_, Probes> {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PacketGate for ActivePackets {
    fn wants(&self, bytes: u64, key: bool, at_ms: f64) -> bool {
        let now_ms = self.clock.utc_ms(self.clock.now());
        if self.target.contains(&self.active, now_ms) {
            return self
                .gate
                .as_ref()
                .is_none_or(|gate| gate.wants(bytes, key, at_ms));
        }
        let mut probes = self.lock();
        if key && self.tap.take_idle_request() {
            probes.on_request();
        }
        probes.wants(key, at_ms)
    }
}

/// Frames outside the schedule that are counted together.
#[derive(Debug, Clone, Copy)]
pub(super) struct SkippedRun {
    pub(super) first: FrameInfo,
    /// Number of frames.
    pub(super) still: u64,
    /// Index of the last. It is further from the first than `still` says if the source samples its frames.
    pub(super) last: u64,
}

/// Frames outside the schedule that are not counted yet, and the gate of the packets that they are decoded from.
#[derive(Debug, Default)]
pub(super) struct SkippedFrames {
    waiting: Option<SkippedRun>,
    packets: Option<Arc<ActivePackets>>,
}

impl SkippedFrames {
    /// A source was opened, with a gate if it has a schedule.
    pub(super) fn on_open(&mut self, packets: Option<Arc<ActivePackets>>) {
        self.packets = packets;
    }

    /// The first frames of the source came.
    pub(super) fn on_known(&self) {
        if let Some(packets) = &self.packets {
            packets.on_known();
        }
    }

    /// Takes a picture that came out, by its time stamp in milliseconds; whether watchers may see it as the newest one.
    pub(super) fn is_newest(&self, stamp_ms: Option<f64>) -> bool {
        self.packets
            .as_ref()
            .is_none_or(|packets| packets.lock().on_picture(stamp_ms))
    }

    /// Adds `count` frames, one after another, of which `first` is the first. Returns true if the waiting ones are to be counted, at
    /// the media time `now_ms`.
    pub(super) fn add(&mut self, first: FrameInfo, count: u64, now_ms: f64) -> bool {
        let last = first.index;
        let run = self.waiting.get_or_insert(SkippedRun {
            first,
            still: 0,
            last,
        });
        run.still += count;
        run.last = run.last.max(first.index + count.saturating_sub(1));
        !(0.0..COUNTED_MS).contains(&(now_ms - run.first.pts_ms))
    }

    /// Takes the frames that wait, if there are any.
    pub(super) fn take(&mut self) -> Option<SkippedRun> {
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
        let counted = counted.iter().map(|run| (run.first.index, run.still, run.last));
        let counted: Vec<_> = counted.collect();
        assert_eq!(counted, [(0, 251, 250), (251, 251, 501), (502, 198, 699)]);
        assert!(skipped.take().is_none());
        assert!(!skipped.add(frame(900), 1, 36_000.0));
        assert!(skipped.add(frame(10), 1, 400.0), "the time stamps began anew");
    }

    #[test]
    fn sampled_frames_are_counted_without_those_between_them() {
        let frame = |index: u64| FrameInfo {
            index,
            pts_ms: index as f64 * 40.0,
            sent_at: Timestamp::from_micros(index * 40_000),
        };
        let mut skipped = SkippedFrames::default();
        for index in (5..30).step_by(5) {
            assert!(!skipped.add(frame(index), 1, index as f64 * 40.0));
        }
        // Before a frame, the source left out two.
        assert!(!skipped.add(frame(38), 3, 1_600.0));
        let run = skipped.take().unwrap();
        assert_eq!((run.first.index, run.still, run.last), (5, 8, 40));
    }

    #[test]
    fn one_key_frame_in_ten_seconds_is_decoded_once_the_source_is_known() {
        let mut probes = Probes::default();
        assert!(probes.wants(true, 0.0) && probes.wants(false, 40.0));
        probes.is_known = true;
        assert!(!probes.wants(false, 80.0));
        // Its picture comes at once.
        let wants =
            |probes: &mut Probes, at_ms: f64| probes.wants(true, at_ms) && probes.on_picture(Some(at_ms));
        let decoded = |probes: &mut Probes, seconds: std::ops::Range<u32>| {
            let wanted = seconds.filter(|second| wants(probes, f64::from(*second) * 1e3));
            wanted.collect::<Vec<_>>()
        };
        assert_eq!(decoded(&mut probes, 1..25), [1, 11, 21]);
        assert!(!probes.wants(false, 60_000.0), "no other packet is decoded alone");
        assert_eq!(decoded(&mut probes, 5..7), [5], "the time stamps began anew");
        probes.on_request();
        assert_eq!(decoded(&mut probes, 7..12), [7], "a watcher asks for a picture");
    }

    #[test]
    fn packets_behind_a_key_frame_are_decoded_until_its_picture_comes() {
        let mut probes = Probes {
            is_known: true,
            ..Probes::default()
        };
        assert!(probes.wants(true, 1_000.0) && probes.wants(false, 1_120.0));
        assert!(
            !probes.on_picture(Some(40.0)),
            "a picture of the last time came out"
        );
        assert!(probes.wants(false, 1_040.0));
        assert!(probes.on_picture(Some(1_000.0)));
        assert!(!probes.wants(false, 1_080.0));
        // A decoder that gives no picture costs a bounded number of packets.
        let packets =
            (0..250).filter(|number| probes.wants(*number == 0, 20_000.0 + f64::from(*number) * 40.0));
        assert_eq!(packets.count(), 1 + MAX_FOLLOWING as usize);
    }
}
