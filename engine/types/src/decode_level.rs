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
    /// One in this many consecutive groups is decoded so far; at least 1.
    pub every: u32,
    /// Number of that group: those whose number leaves this remainder when divided by `every`. Groups are counted from 1 on since
    /// the source was opened.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turn: u32,
    /// Frames that are decoded of each of the other groups; 0 leaves them out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub between: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl DecodeLevel {
    /// Every frame is decoded.
    pub const ALL: Self = Self {
        skip: FrameSkip::Nothing,
        prefix: None,
        every: 1,
        turn: 0,
        between: 0,
    };

    /// Frames, in decoding order, that are decoded of the group with this number, before any are skipped within it.
    #[must_use]
    pub fn frames_of(&self, group: u64) -> u32 {
        let every = u64::from(self.every.max(1));
        if group % every == u64::from(self.turn) % every {
            self.prefix.map_or(u32::MAX, |prefix| prefix.max(1))
        } else {
            self.between
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_decoded_in_turn() {
        let frames =
            |level: DecodeLevel| -> Vec<u32> { (1..=4).map(|group| level.frames_of(group)).collect() };
        assert_eq!(frames(DecodeLevel::ALL), [u32::MAX; 4]);
        let every_other = DecodeLevel {
            prefix: Some(9),
            every: 2,
            ..DecodeLevel::ALL
        };
        assert_eq!(frames(every_other), [0, 9, 0, 9]);
        let in_turn = DecodeLevel {
            turn: 1,
            between: 1,
            ..every_other
        };
        assert_eq!(frames(in_turn), [9, 1, 9, 1]);
    }
}
