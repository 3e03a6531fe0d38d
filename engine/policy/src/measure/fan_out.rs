//! Expected items of a stream's requests at a module, from its recent requests. Consecutive frames of one
//! camera are similar, so recent ones predict the number of crops of the next, and the exclusive branch that
//! it takes (left open in PARD 7).

use serde::{Deserialize, Serialize};
use weir_types::StreamId;

/// Weight of a new request. Large: a scene changes within a few frames, and a branch at once.
const GAIN: f32 = 0.4;

/// Streams that are tracked; further ones count as the mean.
const MAX_STREAMS: usize = 1_024;

/// Mean items of recent requests, by stream.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FanOut {
    /// Negative: unknown.
    streams: Vec<f32>,
}

impl FanOut {
    /// Records that a request of `stream` had `items` items.
    pub(crate) fn on_items(&mut self, stream: StreamId, items: u32) {
        let index = stream.index();
        if index >= MAX_STREAMS {
            return;
        }
        if index >= self.streams.len() {
            self.streams.resize(index + 1, -1.0);
        }
        let mean = &mut self.streams[index];
        if *mean < 0.0 {
            *mean = items as f32;
        } else {
            *mean += GAIN * (items as f32 - *mean);
        }
    }

    /// The stream was removed.
    pub(crate) fn remove(&mut self, stream: StreamId) {
        if let Some(mean) = self.streams.get_mut(stream.index()) {
            *mean = -1.0;
        }
        let known = self.streams.iter().rposition(|&mean| mean >= 0.0);
        self.streams.truncate(known.map_or(0, |last| last + 1));
    }

    /// Whether the requests of some stream do not have exactly one item.
    pub(crate) fn varies(&self) -> bool {
        self.streams.iter().any(|&mean| mean >= 0.0 && mean != 1.0)
    }

    /// Items by stream for publication; empty if every request has one item.
    pub(crate) fn summary(&self) -> Self {
        if self.varies() {
            self.clone()
        } else {
            Self::default()
        }
    }

    /// Expected items of the next request of `stream`; `None` if unknown.
    #[must_use]
    pub fn expected_items(&self, stream: StreamId) -> Option<f64> {
        let mean = self.streams.get(stream.index()).copied()?;
        (mean >= 0.0).then_some(f64::from(mean))
    }

    /// Size in bytes when published.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.streams.len() * size_of::<f32>()
    }

    /// Number of tracked streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_items_follow_each_stream_separately() {
        let mut fan_out = FanOut::default();
        for _ in 0..30 {
            fan_out.on_items(StreamId(0), 4);
            fan_out.on_items(StreamId(2), 0);
        }
        let summary = fan_out.summary();
        assert!((summary.expected_items(StreamId(0)).unwrap() - 4.0).abs() < 0.01);
        assert_eq!(summary.expected_items(StreamId(2)), Some(0.0));
        assert_eq!(
            (
                summary.expected_items(StreamId(1)),
                summary.expected_items(StreamId(9))
            ),
            (None, None)
        );
        for _ in 0..4 {
            fan_out.on_items(StreamId(0), 0);
        }
        assert!(
            fan_out.expected_items(StreamId(0)).unwrap() < 1.0,
            "a change takes effect within a few frames"
        );
        fan_out.remove(StreamId(2));
        assert_eq!(
            (fan_out.expected_items(StreamId(2)), fan_out.streams()),
            (None, 1)
        );
        fan_out.remove(StreamId(0));
        assert!(!fan_out.varies());
    }
}
