//! Share of a stream that is decoded.

use serde::{Deserialize, Serialize};

/// Frames that a decoder skips at any position in a group of pictures, since no decoded picture refers to
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameSkip {
    /// No frames are skipped.
    #[default]
    Nothing,
    /// Frames that no other frame refers to are skipped.
    NonReference,
}

/// Share of a stream that is decoded. A *group* of pictures is a key frame with the frames up to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DecodeLevel {
    /// Frames that are skipped within the decoded part.
    pub skip: FrameSkip,
    /// Number of frames of a group, in decoding order, after which the rest is left out; at least 1. `None`:
    /// whole groups.
    pub prefix: Option<u32>,
    /// One in this many consecutive groups is decoded, the others are left out; at least 1.
    pub every: u32,
}

impl DecodeLevel {
    /// Every frame is decoded.
    pub const ALL: Self = Self {
        skip: FrameSkip::Nothing,
        prefix: None,
        every: 1,
    };

    /// True if it leaves out whole groups, or the rest of them.
    #[must_use]
    pub const fn cuts_groups(&self) -> bool {
        self.prefix.is_some() || self.every > 1
    }
}

impl Default for DecodeLevel {
    fn default() -> Self {
        Self::ALL
    }
}
