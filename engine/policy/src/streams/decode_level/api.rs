//! Events and effects of the levels of decoding.

use serde::{Deserialize, Serialize};
use weir_types::{DecodeLevel, Span, StreamId};

/// An event for the levels of decoding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum DecodeEvent {
    /// The run begins on a machine with `cores` cores, with an objective of `slo`.
    Started {
        /// Cores of the machine.
        cores: u32,
        /// Latency objective: outcomes of frames are known that much later.
        slo: Span,
    },
    /// Frames and requests of a stream have been counted since its last observation.
    Observed(DecodeObservation),
    /// A stream sends no more frames, or is opened again with others.
    Ended {
        /// Stream that has ended; its counts and its level are forgotten.
        stream: StreamId,
    },
}

/// Counts of the frames and requests of a stream since its last observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecodeObservation {
    /// Stream that the counts belong to.
    pub stream: StreamId,
    /// Time between two of its frames, decoded or not.
    pub interval: Span,
    /// Pictures that were decoded.
    pub pictures: u32,
    /// Processor time that decoding `pictures` took.
    pub processor: Span,
    /// Requests that ended with a result, or after device time was spent on them.
    pub used: u32,
    /// Requests that were rejected or dropped before device time was spent on them.
    pub unused: u32,
    /// Pictures of a full decode.
    pub full: u32,
    /// Those of them that are bidirectional.
    pub bidirectional: u32,
    /// Frames that were given to the decoder while it left out non-reference frames.
    pub offered: u32,
    /// Those of them that it left out.
    pub left_out: u32,
    /// Mean frames of a recent group of pictures; 0 while that is not known.
    pub group: u32,
    /// Frames of the longest recent group.
    pub longest_group: u32,
    /// Groups that had begun when the last picture came, since the source was opened.
    #[serde(default)]
    pub groups: u64,
    /// Frames that had come of the last of them.
    #[serde(default)]
    pub in_group: u32,
}

impl DecodeObservation {
    /// Nothing was seen of the stream.
    #[must_use]
    pub const fn empty(stream: StreamId) -> Self {
        Self {
            stream,
            interval: Span::ZERO,
            pictures: 0,
            processor: Span::ZERO,
            used: 0,
            unused: 0,
            full: 0,
            bidirectional: 0,
            offered: 0,
            left_out: 0,
            group: 0,
            longest_group: 0,
            groups: 0,
            in_group: 0,
        }
    }
}

/// An effect of the levels of decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum DecodeEffect {
    /// Decode the stream at this level from now on.
    SetLevel {
        /// Stream whose level changes.
        stream: StreamId,
        /// Level for the pictures that follow.
        level: DecodeLevel,
    },
}
