//! Time stamps of packets as they are read, before anything is decoded or recorded. One that is far from where it is expected is
//! not believed alone: the next packet is its witness. Where that agrees with the packets before, the stamp was wild and is
//! replaced; where it agrees with the new stamp, the clock jumped, and packets go on without a gap.

use std::collections::VecDeque;

use ffmpeg_next::{Packet, Rational};

/// A step between two packets that needs a witness: forward or back by so many milliseconds.
const MIN_SUSPECT_MS: f64 = 1_000.0;

/// A step forward needs a witness only beyond so many usual steps.
const SUSPECT_STEPS: i64 = 8;

/// Longest pause of a recording: see `timeline`.
const MAX_PAUSE_MS: f64 = 10_000.0;

/// Steps whose median is the usual one.
const RECENT_STEPS: usize = 5;

/// Growth of the least lag of a live stream over time: clocks drift.
const DRIFT: f64 = 0.001;

/// Milliseconds of a tick of a time base.
pub(super) fn tick_ms(base: Rational) -> f64 {
    1_000.0 * f64::from(base.numerator()) / f64::from(base.denominator().max(1))
}

/// Corrects the stamps of one stream, in its ticks.
#[derive(Debug)]
pub(super) struct PacketTimes {
    tick_ms: f64,
    /// Milliseconds of the clock at the arrival of a packet tell of a live stream whether it is ahead of its time.
    is_live: bool,
    stated_step: i64,
    recent_steps: VecDeque<i64>,
    /// The stamp before this one, believed or not.
    previous: Option<i64>,
    /// The last stamp that was believed.
    last: Option<i64>,
    last_out: i64,
    /// Offset that is added to stamps.
    offset: i64,
    /// A suspect stamp that no later one has confirmed yet, and the time that was given for it.
    suspect: Option<(i64, i64)>,
    /// From decoding to presentation, of the last packet where that was plausible.
    shift: i64,
    /// Least lag behind the clock, and when it was found, in milliseconds.
    least_lag: Option<(f64, f64)>,
    /// Wild stamps and jumps.
    discontinuities: u64,
    /// Whether the clock jumped since the last call of [`PacketTimes::take_jump`].
    has_jumped: bool,
}

impl PacketTimes {
    /// For packets at about `fps` and with ticks of `tick_ms`.
    pub(super) fn new(tick_ms: f64, fps: f64, is_live: bool) -> Self {
        let tick_ms = if tick_ms.is_finite() && tick_ms > 0.0 {
            tick_ms
        } else {
            1.0
        };
        let step_ms = if fps.is_finite() && fps > 0.0 {
            1_000.0 / fps
        } else {
            40.0
        };
        Self {
            tick_ms,
            is_live,
            stated_step: ((step_ms / tick_ms) as i64).max(1),
            recent_steps: VecDeque::new(),
            previous: None,
            last: None,
            last_out: 0,
            offset: 0,
            suspect: None,
            shift: 0,
            least_lag: None,
            discontinuities: 0,
            has_jumped: false,
        }
    }

    /// Wild stamps and jumps so far.
    pub(super) fn discontinuities(&self) -> u64 {
        self.discontinuities
    }

    /// Whether a jump of the clock became known since the last call: it was before the last packet, or before the one before it if
    /// that [waited for a witness](PacketTimes::has_suspect).
    pub(super) fn take_jump(&mut self) -> bool {
        std::mem::take(&mut self.has_jumped)
    }

    /// Whether only the next packet shows that the stamp of the last one was wild, or the first after a jump.
    pub(super) fn has_suspect(&self) -> bool {
        self.suspect.is_some()
    }

    /// Correction in milliseconds that packets have now.
    pub(super) fn offset_ms(&self) -> f64 {
        self.offset as f64 * self.tick_ms
    }

    /// Whether the packet that comes next should be known before this one is judged.
    pub(super) fn wants_witness(&self, packet: &Packet) -> bool {
        let stamp = packet.dts().or(packet.pts());
        !self.is_live && stamp.is_some_and(|stamp| self.is_suspect(stamp, 0.0))
    }

    /// Corrects the stamps of the next packet, which arrived at `now_ms` of any clock. `witness` is the stamp of the packet after
    /// it, where that is known.
    pub(super) fn correct(&mut self, packet: &mut Packet, witness: Option<i64>, now_ms: f64) {
        let (dts, pts) = (packet.dts(), packet.pts());
        let Some(stamp) = dts.or(pts) else { return };
        let out = self.judge(stamp, witness, now_ms);
        if dts.is_none() {
            packet.set_pts(Some(out));
            return;
        }
        packet.set_dts(Some(out));
        if let Some(pts) = pts {
            let shift = pts.saturating_sub(stamp);
            let most = self
                .ticks(2.0 * MIN_SUSPECT_MS)
                .max(self.step().saturating_mul(2 * SUSPECT_STEPS));
            if shift.saturating_abs() <= most {
                self.shift = shift;
            } else {
                self.discontinuities += 1;
            }
            packet.set_pts(Some(out.saturating_add(self.shift)));
        }
    }

    fn ticks(&self, ms: f64) -> i64 {
        (ms / self.tick_ms) as i64
    }

    /// The usual step.
    fn step(&self) -> i64 {
        if self.recent_steps.len() < RECENT_STEPS {
            return self.stated_step;
        }
        let mut sorted: Vec<i64> = self.recent_steps.iter().copied().collect();
        sorted.sort_unstable();
        sorted[RECENT_STEPS / 2].max(1)
    }

    fn max_step(&self) -> i64 {
        let steps = self.step().saturating_mul(SUSPECT_STEPS);
        self.ticks(MIN_SUSPECT_MS).max(steps)
    }

    /// Whether `to` may follow `from`.
    fn follows(&self, from: i64, to: i64) -> bool {
        let step = to.saturating_sub(from);
        step > -self.ticks(MIN_SUSPECT_MS) && step <= self.max_step()
    }

    fn is_suspect(&self, stamp: i64, now_ms: f64) -> bool {
        let Some(last) = self.last else { return false };
        if self.follows(last, stamp) {
            return false;
        }
        if stamp < last || !self.is_live {
            return true;
        }
        // A camera that was away has a gap, but is not ahead of the clock.
        let lag = self.lag(stamp.saturating_add(self.offset), now_ms);
        self.least_lag(now_ms)
            .is_none_or(|least| lag < least - self.max_step() as f64 * self.tick_ms)
    }

    fn lag(&self, out: i64, now_ms: f64) -> f64 {
        now_ms - out as f64 * self.tick_ms
    }

    fn least_lag(&self, now_ms: f64) -> Option<f64> {
        self.least_lag
            .map(|(least, at_ms)| least + (now_ms - at_ms).max(0.0) * DRIFT)
    }

    fn judge(&mut self, stamp: i64, witness: Option<i64>, now_ms: f64) -> i64 {
        let expected = self.last_out.saturating_add(self.step());
        let suspect = self.suspect.take();
        let out = match self.last {
            None => self.believe(stamp),
            Some(last) if self.is_suspect(stamp, now_ms) => match (suspect, witness) {
                // The stamp before was wild, too, or it was the first after a jump.
                (Some((before, given)), _) if self.follows(before, stamp) => {
                    self.go_on(last, before, given);
                    self.believe(stamp)
                }
                (Some(_), _) => {
                    self.rebase(stamp, expected);
                    self.believe(stamp)
                }
                (None, Some(witness)) if self.follows(last, witness) => {
                    self.discontinuities += 1;
                    self.last_out
                        .saturating_add((witness.saturating_sub(last) / 2).max(1))
                }
                (None, Some(_)) => {
                    self.go_on(last, stamp, expected);
                    self.believe(stamp)
                }
                (None, None) => {
                    self.suspect = Some((stamp, expected));
                    expected
                }
            },
            Some(_) => {
                self.discontinuities += u64::from(suspect.is_some());
                self.believe(stamp)
            }
        };
        let step = self.previous.map(|previous| stamp.saturating_sub(previous));
        if let Some(step) = step.filter(|step| *step > 0) {
            self.recent_steps.push_back(step);
            if self.recent_steps.len() > RECENT_STEPS {
                self.recent_steps.pop_front();
            }
        }
        self.previous = Some(stamp);
        self.last_out = out;
        let lag = self.lag(out, now_ms);
        if self.least_lag(now_ms).is_none_or(|least| lag < least) {
            self.least_lag = Some((lag, now_ms));
        }
        out
    }

    /// The clock jumped to `stamp`, for which `given` is given; a pause of a recording is none.
    fn go_on(&mut self, last: i64, stamp: i64, given: i64) {
        let step = stamp.saturating_sub(last);
        let most = self.ticks(MAX_PAUSE_MS).max(self.step().saturating_mul(3));
        if !self.is_live && step > 0 && step <= most {
            return;
        }
        self.rebase(stamp, given);
    }

    /// Media time continues with `given` at `stamp`.
    fn rebase(&mut self, stamp: i64, given: i64) {
        self.discontinuities += 1;
        self.has_jumped = true;
        self.offset = given.saturating_sub(stamp);
    }

    fn believe(&mut self, stamp: i64) -> i64 {
        self.last = Some(stamp);
        stamp.saturating_add(self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times given for stamps in milliseconds at 25 frames a second, with a look at the packet after a suspect one or without.
    fn corrected(stamps: &[i64], is_live: bool, looks_ahead: bool) -> (Vec<i64>, u64) {
        let mut times = PacketTimes::new(1.0, 25.0, is_live);
        let mut out = Vec::new();
        for (index, stamp) in stamps.iter().enumerate() {
            let mut packet = Packet::empty();
            packet.set_dts(Some(*stamp));
            packet.set_pts(Some(*stamp));
            let witness = stamps.get(index + 1).copied();
            let witness = witness.filter(|_| looks_ahead && times.wants_witness(&packet));
            times.correct(&mut packet, witness, 7.0 + 40.0 * index as f64);
            assert_eq!(packet.pts(), packet.dts());
            out.extend(packet.dts());
        }
        (out, times.discontinuities())
    }

    fn even(count: i64) -> Vec<i64> {
        (0..count).map(|index| index * 40).collect()
    }

    #[test]
    fn a_wild_stamp_is_replaced_and_moves_nothing_else() {
        for (wild, is_live) in [37_600_000, -9_800_000, 15_000, 5_000, -3_000, i64::MAX, i64::MIN]
            .into_iter()
            .flat_map(|wild| [(wild, false), (wild, true)])
        {
            let mut stamps = even(200);
            for index in [40, 90, 140] {
                stamps[index] = stamps[index].saturating_add(wild);
            }
            assert_eq!(
                corrected(&stamps, is_live, !is_live),
                (even(200), 3),
                "{wild} {is_live}"
            );
        }
    }

    #[test]
    fn a_jump_with_a_witness_is_taken_and_leaves_no_gap() {
        for (jump, is_live, looks_ahead) in [3_600_000, -1_000_000, 60_000]
            .into_iter()
            .flat_map(|jump| [(jump, false, true), (jump, false, false), (jump, true, false)])
        {
            let mut stamps = even(100);
            for stamp in &mut stamps[50..] {
                *stamp += jump;
            }
            assert_eq!(
                corrected(&stamps, is_live, looks_ahead),
                (even(100), 1),
                "{jump} {is_live} {looks_ahead}"
            );
        }
    }

    /// Numbers of the packets after which a jump became known, for stamps as [`corrected`] has them.
    fn jumps(stamps: &[i64], is_live: bool) -> Vec<usize> {
        let mut times = PacketTimes::new(1.0, 25.0, is_live);
        let mut found = Vec::new();
        for (index, stamp) in stamps.iter().enumerate() {
            let mut packet = Packet::empty();
            packet.set_dts(Some(*stamp));
            let witness = stamps.get(index + 1).copied();
            let witness = witness.filter(|_| times.wants_witness(&packet));
            times.correct(&mut packet, witness, 7.0 + 40.0 * index as f64);
            found.extend(times.take_jump().then_some(index));
            assert!(!times.has_suspect() || is_live);
        }
        found
    }

    #[test]
    fn a_jump_is_reported_at_its_packet_or_the_one_after_and_a_wild_stamp_never() {
        let mut stamps = even(200);
        for index in [40, 90] {
            stamps[index] += 37_600_000;
        }
        for stamp in &mut stamps[150..] {
            *stamp -= 1_000_000;
        }
        assert_eq!(jumps(&stamps, false), [150]);
        assert_eq!(jumps(&stamps, true), [151]);
        for stamp in &mut stamps[150..] {
            *stamp += 1_000_000 + 6_000;
        }
        assert_eq!(jumps(&stamps, false), [0; 0], "a pause of a recording");
    }

    #[test]
    fn a_pause_of_a_recording_is_kept() {
        let mut stamps = even(100);
        for stamp in &mut stamps[50..] {
            *stamp += 6_000;
        }
        assert_eq!(corrected(&stamps, false, true), (stamps, 0));
    }

    #[test]
    fn a_camera_that_was_away_leaves_its_gap() {
        let mut times = PacketTimes::new(1.0, 25.0, true);
        let mut given = Vec::new();
        for stamp in [0, 40, 80, 30_000, 30_040] {
            let mut packet = Packet::empty();
            packet.set_dts(Some(stamp));
            times.correct(&mut packet, None, stamp as f64);
            given.extend(packet.dts());
        }
        assert_eq!(
            (given, times.discontinuities()),
            (vec![0, 40, 80, 30_000, 30_040], 0)
        );
    }

    #[test]
    fn a_slow_camera_keeps_its_stamps_and_noise_never_panics() {
        let slow: Vec<i64> = (0..50).map(|index| index * 3_000).collect();
        assert_eq!(corrected(&slow, false, true), (slow, 0));
        let mut state = 1_u64;
        let noise: Vec<i64> = (0..2_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state.cast_signed() >> (state % 60)
            })
            .collect();
        for (is_live, looks_ahead) in [(true, false), (false, true), (false, false)] {
            assert_eq!(corrected(&noise, is_live, looks_ahead).0.len(), noise.len());
        }
    }

    #[test]
    fn a_wild_presentation_time_is_replaced() {
        let mut times = PacketTimes::new(1.0, 25.0, false);
        let mut shown = Vec::new();
        for (dts, pts) in [(0, 80), (40, 120), (80, 9_000_000), (120, 200)] {
            let mut packet = Packet::empty();
            packet.set_dts(Some(dts));
            packet.set_pts(Some(pts));
            times.correct(&mut packet, None, 0.0);
            shown.extend(packet.pts());
        }
        assert_eq!(shown, [80, 120, 160, 200]);
    }
}
