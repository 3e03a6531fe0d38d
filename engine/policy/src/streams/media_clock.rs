//! The media time of one stream: strictly growing, paced within bounds, and held against the time of arrival, whatever
//! the stream's own stamps say. It reads no clock and never waits: it says when a frame is due, the driver waits.
//!
//! *Recorded* streams are paced by their stamps. A stamp that lies more than [`MAX_JUMP`] beyond the expected next frame,
//! or falls by more than [`MAX_FALL`], is a discontinuity (two recordings joined, a flipped byte): media time goes on with
//! the next frame time, so nobody waits an hour for a stamp. Smaller gaps are pauses of the recording and are kept.
//!
//! *Live* streams are not paced. A live stamp that agrees with the wall clock is never a discontinuity: a camera that was
//! away for a minute leaves a gap of a minute. One that lies ahead of what the wall clock allows by more than [`MAX_LEAD`]
//! is. What a live stamp lags behind arrival, beyond its least lag within [`AGE_WINDOW`], is the frame's **age**: it lay
//! somewhere on its way. The window bounds what a clock that runs slow can add: at 200 ppm, which is a poor crystal, 12 ms.
//! A lag that grows by more than 1 % through the whole window and never falls is the clock's, not the frames': then no age
//! is claimed until that ends.

use weir_types::{Span, Timestamp};

/// How far a stamp of a recorded stream may lie beyond the expected next frame: longer pauses are joints or damage.
pub const MAX_JUMP: Span = Span::from_secs(10);

/// How far a stamp may fall and still be one out of place.
pub const MAX_FALL: Span = Span::from_secs(1);

/// How far ahead of the freshest frame a live stamp may lie. Players buffer less on a live stream.
pub const MAX_LEAD: Span = Span::from_secs(2);

/// How long the least lag of a live stream is remembered.
pub const AGE_WINDOW: Span = Span::from_secs(60);

/// Cells of the window.
const CELLS: usize = 6;

/// What the least lag must grow from cell to cell for the clock to be at fault: 1 % of a cell.
const MIN_DRIFT_MS: f64 = 100.0;

/// How far a stamp out of place is put behind the one before it, in milliseconds.
const NUDGE_MS: f64 = 1.0;

/// Stamps out of place in a row after which the stamps are held to have started anew.
const MAX_NUDGES: u32 = 5;

/// Milliseconds between frames where nothing says otherwise: 25 a second.
const USUAL_INTERVAL_MS: f64 = 40.0;

/// Bounds of what can be an interval, in milliseconds: 10,000 frames a second to one in 100 s.
const INTERVALS_MS: (f64, f64) = (0.1, 100_000.0);

/// Frames that a source may leave out in a row: a time lapse of one picture in a quarter of an hour.
const MAX_STEPS: u64 = 100_000;

/// Steps after which the measured interval counts and the stated one no longer does.
const MIN_STEPS: u32 = 10;

/// Weight of the newest step in the measured interval.
const STEP_WEIGHT: f64 = 1.0 / 16.0;

/// The least gap of a live stream, in milliseconds and in frames, in which frames are held to be missing.
const MIN_GAP: (f64, f64) = (1_000.0, 10.0);

/// What is known of a source once it is open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MediaInfo {
    /// Frames arrive on their own time.
    pub live: bool,
    /// Stamps are the source's own clock, not counted from a rate.
    pub stamped: bool,
    /// Stated frames a second.
    pub fps: Option<f64>,
}

/// What a frame's stamp means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameTime {
    /// Media time in milliseconds: more than that of the frame before.
    pub pts_ms: f64,
    /// When the frame is to be sent; `None`: at once.
    pub due: Option<Timestamp>,
    /// How old it was when it came; zero for recorded ones.
    pub age: Span,
    /// Frames of a live stream that are missing before this one, estimated from the gap.
    pub missing: u64,
    /// Whether the stamps jumped, and media time was rebased.
    pub discontinuity: bool,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    pts_ms: f64,
    arrived: Timestamp,
}

/// The media clock of one stream, over all its openings.
#[derive(Debug, Clone)]
pub struct MediaClock {
    /// Recorded media is played so many times as fast as it was recorded; `None`: as fast as it goes.
    speed: Option<f64>,
    info: MediaInfo,
    /// What is added to a stamp.
    offset_ms: f64,
    interval: Interval,
    last: Option<Last>,
    nudges: u32,
    /// The stamps stand still or fall: frames follow each other by the interval.
    stuck: bool,
    /// The source was opened (again), and has not given a frame since.
    reopened: bool,
    /// Media time of the first frame and when it was due.
    began: Option<(f64, Timestamp)>,
    lag: Lag,
}

impl MediaClock {
    /// A clock before its stream is open.
    #[must_use]
    pub fn new(speed: Option<f64>) -> Self {
        Self {
            speed: speed.filter(|speed| speed.is_finite() && *speed > 0.0),
            info: MediaInfo {
                live: false,
                stamped: false,
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

    /// The source is open; its stamps begin anew. Recorded media goes on with the next frame time, live media with the
    /// time that went by.
    pub fn on_open(&mut self, info: MediaInfo) {
        self.info = info;
        self.interval.stated_ms = info.fps.filter(|fps| *fps > 0.0).map(|fps| 1e3 / fps);
        self.reopened = self.last.is_some();
        self.nudges = 0;
        self.stuck = false;
    }

    /// The time between frames.
    #[must_use]
    pub fn interval(&self) -> Span {
        Span::from_secs_f64(self.interval.ms() / 1e3)
    }

    /// A frame came at `now`, is stamped `stamp_ms`, and is `steps` frames after the one before: more than one where the
    /// source left some out.
    pub fn on_frame(&mut self, stamp_ms: f64, steps: u64, now: Timestamp) -> FrameTime {
        let steps = steps.clamp(1, MAX_STEPS) as f64;
        // As it was before a gap that may be in this step.
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
            // Stamps count from the first frame; what begins elsewhere is moved there.
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

    /// Whether no pause explains the stamp.
    fn too_far(&self, pts_ms: f64, expected_ms: f64, last: Last, now: Timestamp) -> bool {
        let ahead = pts_ms - expected_ms;
        if !self.info.live {
            return ahead > MAX_JUMP.as_millis_f64();
        }
        // Where nothing came within the window, the last frame is what there is to compare with.
        let before = millis(last.arrived) - last.pts_ms;
        let lead = self.lag.least(now).unwrap_or(before) - (millis(now) - pts_ms);
        let most = MAX_LEAD.as_millis_f64();
        lead > most && ahead > most
    }

    /// The media time of a live frame that was on its way no longer than the freshest ones.
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
        // What the source left out by itself is in its numbers.
        let gap = pts_ms - last.pts_ms - steps * interval;
        if self.reopened || gap > MIN_GAP.0.max(MIN_GAP.1 * interval) {
            // At most by the clock's own bounds, so it fits.
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
            Some(least) if !self.lag.drifts => Span::from_secs_f64((lag - least) / 1e3),
            _ => Span::ZERO,
        }
    }

    fn due(&mut self, pts_ms: f64, now: Timestamp) -> Option<Timestamp> {
        let speed = self.speed.filter(|_| !self.info.live)?;
        let (first_ms, began) = *self.began.get_or_insert((pts_ms, now));
        Some(began + Span::from_secs_f64((pts_ms - first_ms) / 1e3 / speed))
    }
}

fn millis(at: Timestamp) -> f64 {
    at.since(Timestamp::ZERO).as_millis_f64()
}

/// The time between frames: as measured, as stated, or as is usual.
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

/// The least lag of a live stream within a window, and whether it only ever grows.
#[derive(Debug, Clone, Default)]
struct Lag {
    /// Number of a cell since the beginning, and the least lag in it; ascending, at most as many as a window has.
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

    /// The least; `None` where nothing came within the window, so that a stream that returns is held against itself.
    fn least(&self, now: Timestamp) -> Option<f64> {
        let oldest = (Self::cell(now) + 1).saturating_sub(CELLS as u64);
        let recent = self.cells.iter().filter(|(cell, _)| *cell >= oldest);
        recent.map(|(_, least)| *least).reduce(f64::min)
    }
}

#[cfg(test)]
mod tests;
