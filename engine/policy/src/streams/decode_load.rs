//! Whether decoding alone needs more than the machine has: then no policy helps, and the user must be told.
//!
//! Each stream needs its processor time of a frame over the time between its frames. Where these add up to more than the
//! processors there are, and streams lag behind their own times throughout, decoding is saturated. Both are asked for:
//! the sum alone may be a bad estimate, and lag alone may be the models' doing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{Span, StreamId, Timestamp};

/// How long a look at the lag of all streams takes.
const WINDOW: Span = Span::from_secs(1);

/// Windows in a row in which most frames lag.
const MIN_WINDOWS: u32 = 3;

/// What a frame may lag behind its time: more is no jitter.
const MAX_LAG: Span = Span::from_millis(500);

/// Weight of the newest frame in a stream's share of a processor.
const FRAME_WEIGHT: f64 = 1.0 / 16.0;

/// What decoding needs and what there is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DecodingReport {
    /// Processors that decoding would take to keep up with all streams.
    pub needed_cores: f64,
    /// Processors there are.
    pub cores: u32,
}

/// A stream's share of a processor.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    mean: f64,
    frames: u32,
}

/// Watches the decoding of all streams.
#[derive(Debug, Clone)]
pub struct DecodeLoad {
    cores: u32,
    shares: BTreeMap<StreamId, Share>,
    window_began: Option<Timestamp>,
    frames: u64,
    lagging: u64,
    windows: u32,
    saturation: Option<DecodingReport>,
}

impl DecodeLoad {
    /// On so many processors.
    #[must_use]
    pub fn new(cores: u32) -> Self {
        Self {
            cores: cores.max(1),
            shares: BTreeMap::new(),
            window_began: None,
            frames: 0,
            lagging: 0,
            windows: 0,
            saturation: None,
        }
    }

    /// A frame of `stream`, one each `interval`, took `processor` time and came `lag` behind its own time. Gives what is
    /// to be said when decoding is found to be saturated, once.
    pub fn on_frame(
        &mut self,
        stream: StreamId,
        processor: Span,
        interval: Span,
        lag: Span,
        now: Timestamp,
    ) -> Option<DecodingReport> {
        let share = self.shares.entry(stream).or_default();
        share.frames = share.frames.saturating_add(1);
        let weight = FRAME_WEIGHT.max(1.0 / f64::from(share.frames));
        let seen = processor.as_secs_f64() / interval.as_secs_f64().max(1e-6);
        share.mean += weight * (seen - share.mean);

        let began = *self.window_began.get_or_insert(now);
        if now.since(began) >= WINDOW {
            let lags = self.lagging * 2 >= self.frames && self.needed_cores() > f64::from(self.cores);
            self.windows = if lags { self.windows + 1 } else { 0 };
            (self.window_began, self.frames, self.lagging) = (Some(now), 0, 0);
        }
        self.frames += 1;
        self.lagging += u64::from(lag > MAX_LAG);
        if self.windows < MIN_WINDOWS || self.saturation.is_some() {
            return None;
        }
        self.saturation = Some(DecodingReport {
            needed_cores: self.needed_cores(),
            cores: self.cores,
        });
        self.saturation
    }

    /// The stream decodes no more.
    pub fn on_ended(&mut self, stream: StreamId) {
        self.shares.remove(&stream);
    }

    /// What was found, where decoding was saturated at any time.
    #[must_use]
    pub fn saturation(&self) -> Option<DecodingReport> {
        self.saturation
    }

    fn needed_cores(&self) -> f64 {
        self.shares.values().map(|share| share.mean).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds of `streams` at 25 frames a second; what is said, and when.
    fn check(streams: u32, processor_ms: u64, lag: impl Fn(u64) -> u64, said: Option<f64>) {
        let mut load = DecodeLoad::new(2);
        let mut found = Vec::new();
        for frame in 0..250_u64 {
            let now = Timestamp::from_micros(frame * 40_000);
            for stream in (0..streams).map(StreamId) {
                let spans = (Span::from_millis(processor_ms), Span::from_millis(40));
                let lag = Span::from_millis(lag(frame * 40));
                found.extend(load.on_frame(stream, spans.0, spans.1, lag, now));
            }
        }
        let needed_cores: Vec<f64> = found.iter().map(|report| report.needed_cores.round()).collect();
        assert_eq!(needed_cores, said.into_iter().collect::<Vec<f64>>());
        assert_eq!(load.saturation(), found.first().copied());
    }

    #[test]
    fn decoding_saturation_is_reported_once() {
        check(160, 2, |now| now / 2, Some(8.0));
    }

    #[test]
    fn lag_without_decoding_load_is_not_saturation() {
        check(4, 2, |now| now / 2, None);
    }

    #[test]
    fn a_short_stall_is_not_saturation() {
        check(
            150,
            2,
            |now| if (2_000..4_000).contains(&now) { 900 } else { 0 },
            None,
        );
        check(150, 2, |_| 100, None);
    }

    #[test]
    fn ended_streams_need_no_cores() {
        let mut load = DecodeLoad::new(1);
        let second = Span::from_secs(1);
        load.on_frame(StreamId(0), second, second, Span::ZERO, Timestamp::ZERO);
        assert_eq!(load.needed_cores(), 1.0);
        load.on_ended(StreamId(0));
        assert_eq!(load.needed_cores(), 0.0);
    }
}
