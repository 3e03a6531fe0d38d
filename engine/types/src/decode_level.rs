//! How much of a stream is decoded.

use serde::{Deserialize, Serialize};

/// Frames that a decoder leaves out wherever they are in a group of pictures, since no picture that it gives needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameSkip {
    /// None.
    #[default]
    Nothing,
    /// Frames that no other frame refers to.
    NonReference,
}

/// How much of a stream is decoded: a *group* of pictures is a key frame with the frames up to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DecodeLevel {
    /// What is left out of the frames that are decoded.
    pub skip: FrameSkip,
    /// Frames of a group, in decoding order, after which the rest of it is left out; at least 1. `None`: whole groups.
    pub prefix: Option<u32>,
    /// Of so many groups in a row one is decoded and the others are left out; at least 1.
    pub every: u32,
}

impl DecodeLevel {
    /// Every frame is decoded.
    pub const ALL: Self = Self {
        skip: FrameSkip::Nothing,
        prefix: None,
        every: 1,
    };

    /// Whether it leaves out groups, or the rest of them.
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
