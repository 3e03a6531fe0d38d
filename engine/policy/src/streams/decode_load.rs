//! Detection of decoding saturation: if decoding alone needs more cores than the machine has, no policy helps, and it is
//! reported.
//!
//! A stream needs the processor time of a frame over its frame interval. Decoding is saturated if these add up to more than
//! the cores and frames lag persistently. Both are required: the sum alone may be a bad estimate, and lag alone may be
//! caused by the models.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{Span, StreamId, Timestamp};

/// Window over which lagging frames are counted.
const WINDOW: Span = Span::from_secs(1);

/// Consecutive windows in which most frames must lag.
const MIN_WINDOWS: u32 = 3;

/// Lag of a frame up to which it counts as jitter.
const MAX_LAG: Span = Span::from_millis(500);

/// Weight of the newest frame in the mean load of a stream.
const FRAME_WEIGHT: f64 = 1.0 / 16.0;

/// Cores needed by decoding, and cores available.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DecodingReport {
    /// Cores that decoding all streams in real time needs.
    pub needed_cores: f64,
    /// Cores of the machine.
    pub cores: u32,
}

/// Mean decoding load of a stream, in cores.
#[derive(Debug, Clone, Copy, Default)]
struct StreamLoad {
    mean: f64,
    frames: u32,
}

/// Tracks the decoding load of all streams.
#[derive(Debug, Clone)]
pub struct DecodeLoad {
    cores: u32,
    loads: BTreeMap<StreamId, StreamLoad>,
    window_began: Option<Timestamp>,
    frames: u64,
    lagging: u64,
    windows: u32,
    saturation: Option<DecodingReport>,
}

impl DecodeLoad {
    /// For a machine with `cores` cores.
    #[must_use]
    pub fn new(cores: u32) -> Self {
        Self {
            cores: cores.max(1),
            loads: BTreeMap::new(),
            window_began: None,
            frames: 0,
            lagging: 0,
            windows: 0,
            saturation: None,
        }
    }

    /// A frame of `stream` took `processor` time and arrived `lag` after its media time, at one frame per `interval`. Returns
    /// a report once, when saturation is detected.
    pub fn on_frame(
        &mut self,
        stream: StreamId,
        processor: Span,
        interval: Span,
        lag: Span,
        now: Timestamp,
    ) -> Option<DecodingReport> {
        let load = self.loads.entry(stream).or_default();
        load.frames = load.frames.saturating_add(1);
        let weight = FRAME_WEIGHT.max(1.0 / f64::from(load.frames));
        let seen = processor.as_secs_f64() / interval.as_secs_f64().max(1e-6);
        load.mean += weight * (seen - load.mean);

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

    /// The stream ended.
    pub fn on_ended(&mut self, stream: StreamId) {
        self.loads.remove(&stream);
    }

    /// The report, if decoding was saturated at any time.
    #[must_use]
    pub fn saturation(&self) -> Option<DecodingReport> {
        self.saturation
    }

    fn needed_cores(&self) -> f64 {
        self.loads.values().map(|load| load.mean).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds of `streams` at 25 frames a second, and the cores reported.
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
