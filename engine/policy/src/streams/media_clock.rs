//! The media time of one stream: strictly increasing, paced within bounds, and checked against arrival times, whatever the
//! timestamps of the stream are. It reads no clock and never waits: it computes when a frame is due, the driver waits.
//!
//! *Recorded* streams are paced by their timestamps. One that is more than [`MAX_JUMP`] beyond the expected next frame, or
//! decreases by more than [`MAX_FALL`], is a discontinuity (two recordings joined, a flipped byte): media time continues
//! with the next frame time, so that no frame waits an hour. Smaller gaps are pauses of the recording and are kept.
//!
//! *Live* streams are not paced. A live timestamp that agrees with the wall clock is never a discontinuity: a camera that was
//! down for a minute leaves a gap of a minute. One that is ahead of the wall clock by more than [`MAX_LEAD`] is. The lag of a
//! live timestamp behind arrival, beyond the least lag within [`AGE_WINDOW`], is the **age** of the frame: it was buffered on
//! its path. The window bounds the error of a slow clock: 12 ms at 200 ppm, a poor crystal. A lag that grows by more than 1 %
//! throughout the window is clock drift, not age: then ages are zero until it ends.
//!
//! Live streams that come in *bursts* (HLS: a segment of seconds at once) are paced, too: else the first frames of each segment would
//! be as old as the segment is long. A frame that arrives after it was due moves the pace, so that later ones wait for as much longer.

use weir_types::{Span, Timestamp};

/// Greatest gap of a recorded stream: a longer one is a joint of recordings or damage.
pub const MAX_JUMP: Span = Span::from_secs(10);

/// Greatest decrease of a timestamp that counts as reordering.
pub const MAX_FALL: Span = Span::from_secs(1);

/// Greatest lead of a live timestamp over the freshest frame. Players buffer less on a live stream.
pub const MAX_LEAD: Span = Span::from_secs(2);

/// Window of the least lag of a live stream.
pub const AGE_WINDOW: Span = Span::from_secs(60);

/// Cells of the window.
const CELLS: usize = 6;

/// Growth of the least lag from cell to cell that counts as clock drift: 1 % of a cell.
const MIN_DRIFT_MS: f64 = 100.0;

/// Milliseconds between a reordered timestamp, as corrected, and the one before it.
const NUDGE_MS: f64 = 1.0;

/// Consecutive reordered timestamps after which the timestamps are taken to have restarted.
const MAX_NUDGES: u32 = 5;

/// Default frame interval in milliseconds: 25 a second.
const USUAL_INTERVAL_MS: f64 = 40.0;

/// Bounds of a frame interval in milliseconds: 10,000 frames a second to one in 100 s.
const INTERVALS_MS: (f64, f64) = (0.1, 100_000.0);

/// Frames that a source may skip in a row: a time lapse of one picture in a quarter of an hour.
const MAX_STEPS: u64 = 100_000;

/// Steps after which the measured interval replaces the stated one.
const MIN_STEPS: u32 = 10;

/// Weight of the newest step in the measured interval.
const STEP_WEIGHT: f64 = 1.0 / 16.0;

/// Least gap of a live stream, in milliseconds and in frames, that counts as missing frames.
const MIN_GAP: (f64, f64) = (1_000.0, 10.0);

/// Timing properties of an opened source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MediaInfo {
    /// Frames arrive in real time.
    pub live: bool,
    /// Timestamps are from the clock of the source, not counted from a rate.
    pub stamped: bool,
    /// Live frames arrive in bursts, such as the segments of HLS.
    pub bursts: bool,
    /// Stated frames a second.
    pub fps: Option<f64>,
}

/// The times of one frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameTime {
    /// Media time in milliseconds, strictly increasing.
    pub pts_ms: f64,
    /// Time at which the frame is due; `None`: at once.
    pub due: Option<Timestamp>,
    /// Age on arrival; zero for recorded streams.
    pub age: Span,
    /// Missing frames of a live stream before this one, estimated from the gap.
    pub missing: u64,
    /// Whether timestamps jumped, and media time was rebased.
    pub discontinuity: bool,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    pts_ms: f64,
    arrived: Timestamp,
}

/// The media clock of one stream, across reconnections.
#[derive(Debug, Clone)]
pub struct MediaClock {
    /// Playback speed of recorded media; `None`: unpaced.
    speed: Option<f64>,
    info: MediaInfo,
    /// Offset added to a timestamp.
    offset_ms: f64,
    interval: Interval,
    last: Option<Last>,
    nudges: u32,
    /// Timestamps are constant or decreasing: frames follow at the interval.
    stuck: bool,
    /// The source was reopened, and has not delivered a frame since.
    reopened: bool,
    /// Media time of the first frame, and when it was due.
    began: Option<(f64, Timestamp)>,
    lag: Lag,
}

impl MediaClock {
    /// The clock of a stream that is not open yet.
    #[must_use]
    pub fn new(speed: Option<f64>) -> Self {
        Self {
            speed: speed.filter(|speed| speed.is_finite() && *speed > 0.0),
            info: MediaInfo {
                live: false,
                stamped: false,
                bursts: false,
                fps: None,
            },
            offset_ms: 0.0,
            interval: Interval::default(),
            last: None,
            nudges: 0,
            stuck: false,
            reopened: false,
            began: None,
            lag: Lag::default(),
        }
    }

    /// The source was opened; its timestamps restart. Recorded media continues with the next frame time, live media with the
    /// elapsed time.
    pub fn on_open(&mut self, info: MediaInfo) {
        self.info = info;
        self.interval.stated_ms = info.fps.filter(|fps| *fps > 0.0).map(|fps| 1e3 / fps);
        self.reopened = self.last.is_some();
        self.nudges = 0;
        self.stuck = false;
    }

    /// The timestamps of the open source go on where those of the opening before ended.
    pub fn on_resumption(&mut self) {
        self.reopened = false;
    }

    /// Returns the frame interval: measured once enough frames have arrived, before that as stated by the
    /// source, or 40 ms if it states none.
    #[must_use]
    pub fn interval(&self) -> Span {
        Span::from_secs_f64(self.interval.ms() / 1e3)
    }

    /// A frame with timestamp `stamp_ms` arrived at `now`, `steps` frames after the last: more than one if the source skipped
    /// some.
    pub fn on_frame(&mut self, stamp_ms: f64, steps: u64, now: Timestamp) -> FrameTime {
        let steps = steps.clamp(1, MAX_STEPS) as f64;
        // The interval before a gap in this step.
        let interval_ms = self.interval.ms();
        let (pts_ms, discontinuity) = self.pts(stamp_ms, steps, now);
        let missing = self.missing(pts_ms, steps, interval_ms);
        let age = self.age(pts_ms, now);
        self.last = Some(Last { pts_ms, arrived: now });
        self.reopened = false;
        FrameTime {
            pts_ms,
            due: self.due(pts_ms, now),
            age,
            missing,
            discontinuity,
        }
    }

    fn pts(&mut self, stamp_ms: f64, steps: f64, now: Timestamp) -> (f64, bool) {
        let Some(last) = self.last else {
            // Media time starts near zero; other timestamps are offset.
            let near = (0.0..=MAX_JUMP.as_millis_f64()).contains(&stamp_ms);
            return (
                if near {
                    stamp_ms
                } else {
                    self.rebase(stamp_ms, 0.0)
                },
                false,
            );
        };
        let expected = last.pts_ms + steps * self.interval.ms();
        let next = if self.info.live {
            self.freshest(last, now)
        } else {
            expected
        };
        if self.reopened {
            return (self.rebase(stamp_ms, next), false);
        }
        let pts = stamp_ms + self.offset_ms;
        if !pts.is_finite() {
            return (next, true);
        }
        let step = pts - last.pts_ms;
        if step > 0.0 {
            if self.too_far(pts, expected, last, now) {
                return (self.rebase(stamp_ms, next), true);
            }
            self.nudges = 0;
            self.stuck = false;
            self.interval.on_step(step / steps);
            return (pts, false);
        }
        if self.stuck {
            return (self.rebase(stamp_ms, next), false);
        }
        self.nudges += 1;
        if -step > MAX_FALL.as_millis_f64() || self.nudges > MAX_NUDGES {
            self.stuck = self.nudges > MAX_NUDGES;
            self.nudges = 0;
            return (self.rebase(stamp_ms, next), true);
        }
        (last.pts_ms + NUDGE_MS.min(self.interval.ms() / 2.0), false)
    }

    /// Whether the timestamp is beyond any plausible pause.
    fn too_far(&self, pts_ms: f64, expected_ms: f64, last: Last, now: Timestamp) -> bool {
        let ahead = pts_ms - expected_ms;
        if !self.info.live {
            return ahead > MAX_JUMP.as_millis_f64();
        }
        // Without a frame within the window, the last frame is the reference.
        let before = millis(last.arrived) - last.pts_ms;
        let lead = self.lag.least(now).unwrap_or(before) - (millis(now) - pts_ms);
        let max_lead = MAX_LEAD.as_millis_f64();
        lead > max_lead && ahead > max_lead
    }

    /// The media time of a live frame with the least lag.
    fn freshest(&self, last: Last, now: Timestamp) -> f64 {
        let fresh = match self.lag.least(now) {
            Some(least) => millis(now) - least,
            None => last.pts_ms + now.since(last.arrived).as_millis_f64(),
        };
        fresh.max(last.pts_ms + NUDGE_MS)
    }

    fn rebase(&mut self, stamp_ms: f64, pts_ms: f64) -> f64 {
        if (pts_ms - stamp_ms).is_finite() {
            self.offset_ms = pts_ms - stamp_ms;
        }
        pts_ms
    }

    fn missing(&self, pts_ms: f64, steps: f64, interval: f64) -> u64 {
        let Some(last) = self.last.filter(|_| self.info.live) else {
            return 0;
        };
        // Frames skipped by the source are in `steps`.
        let gap = pts_ms - last.pts_ms - steps * interval;
        if self.reopened || gap > MIN_GAP.0.max(MIN_GAP.1 * interval) {
            // Bounded by the clock, so it fits.
            (gap / interval).round().max(0.0) as u64
        } else {
            0
        }
    }

    fn age(&mut self, pts_ms: f64, now: Timestamp) -> Span {
        if !self.info.live || !self.info.stamped {
            return Span::ZERO;
        }
        let lag = millis(now) - pts_ms;
        self.lag.observe(lag, now);
        match self.lag.least(now) {
            _ if self.is_paced_live() => Span::ZERO,
            Some(least) if !self.lag.drifts => Span::from_secs_f64((lag - least) / 1e3),
            _ => Span::ZERO,
        }
    }

    fn due(&mut self, pts_ms: f64, now: Timestamp) -> Option<Timestamp> {
        if self.is_paced_live() {
            return Some(self.due_in_burst(pts_ms, now));
        }
        let speed = self.speed.filter(|_| !self.info.live)?;
        let (first_ms, began) = *self.began.get_or_insert((pts_ms, now));
        Some(began + Span::from_secs_f64((pts_ms - first_ms) / 1e3 / speed))
    }
}

impl MediaClock {
    fn is_paced_live(&self) -> bool {
        self.info.live && self.info.bursts && self.speed.is_some()
    }

    /// Time at which a frame of a burst is due. The pace begins anew with a frame that is late, or far ahead.
    fn due_in_burst(&mut self, pts_ms: f64, now: Timestamp) -> Timestamp {
        let due = self
            .began
            .map(|(first_ms, began)| began + Span::from_secs_f64((pts_ms - first_ms).max(0.0) / 1e3));
        match due.filter(|due| *due >= now && due.since(now) <= MAX_JUMP) {
            Some(due) => due,
            None => {
                self.began = Some((pts_ms, now));
                now
            }
        }
    }
}

fn millis(at: Timestamp) -> f64 {
    at.since(Timestamp::ZERO).as_millis_f64()
}

/// Frame interval: measured, stated, or the default.
#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    stated_ms: Option<f64>,
    measured_ms: f64,
    steps: u32,
}

impl Interval {
    fn on_step(&mut self, step_ms: f64) {
        if step_ms > MAX_JUMP.as_millis_f64() {
            return;
        }
        self.steps = self.steps.saturating_add(1);
        let weight = STEP_WEIGHT.max(1.0 / f64::from(self.steps));
        self.measured_ms += weight * (step_ms - self.measured_ms);
    }

    fn ms(&self) -> f64 {
        let known = if self.steps >= MIN_STEPS {
            self.measured_ms
        } else {
            self.stated_ms.unwrap_or(USUAL_INTERVAL_MS)
        };
        known.clamp(INTERVALS_MS.0, INTERVALS_MS.1)
    }
}

/// Least lag of a live stream within the window, and whether it drifts.
#[derive(Debug, Clone, Default)]
struct Lag {
    /// Cell number and least lag in the cell, ascending, at most a window of them.
    cells: Vec<(u64, f64)>,
    drifts: bool,
}

impl Lag {
    fn cell(now: Timestamp) -> u64 {
        now.micros() / (AGE_WINDOW.micros() / CELLS as u64)
    }

    fn observe(&mut self, lag_ms: f64, now: Timestamp) {
        let cell = Self::cell(now);
        match self.cells.last_mut() {
            Some((last, least)) if *last == cell => *least = least.min(lag_ms),
            _ => {
                self.drifts = self.only_grows();
                self.cells.push((cell, lag_ms));
                self.cells.retain(|(number, _)| number + CELLS as u64 > cell);
            }
        }
    }

    fn only_grows(&self) -> bool {
        let grows = |pair: &[(u64, f64)]| pair[0].0 + 1 == pair[1].0 && pair[1].1 - pair[0].1 >= MIN_DRIFT_MS;
        self.cells.len() == CELLS && self.cells.windows(2).all(grows)
    }

    /// Least lag; `None` without a frame within the window, so that a returning stream is compared with itself.
    fn least(&self, now: Timestamp) -> Option<f64> {
        let oldest = (Self::cell(now) + 1).saturating_sub(CELLS as u64);
        let recent = self.cells.iter().filter(|(cell, _)| *cell >= oldest);
        recent.map(|(_, least)| *least).reduce(f64::min)
    }
}

#[cfg(test)]
mod tests;
