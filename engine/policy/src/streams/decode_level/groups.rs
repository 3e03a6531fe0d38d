//! Counts of a stream's groups of pictures, and the level of decoding that leaves a given share of its
//! frames.

use weir_types::{DecodeLevel, FrameSkip};

/// Share of frames that remain without non-reference frames from which on leaving these out gains nothing.
const MIN_GAIN: f64 = 0.95;

/// Frames after which a share is known.
const MIN_FRAMES: u64 = 16;

/// The share that is assumed to remain without non-reference frames, of a stream with bidirectional frames, until it is
/// known: every other frame in the usual order.
const ASSUMED_KEPT: f64 = 0.5;

/// Frames of one stream by kind, and the lengths of its groups.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Groups {
    /// Pictures of a full decode, and how many of them are bidirectional.
    pub(super) full: u64,
    pub(super) bidirectional: u64,
    /// Frames given to the decoder while it left out non-reference frames, and how many it left out.
    pub(super) offered: u64,
    pub(super) left_out: u64,
    /// Mean frames of a group; 0 while that is not known.
    pub(super) mean: u32,
    /// Frames of the longest recent group.
    pub(super) longest: u32,
}

impl Groups {
    /// Share of the frames that remain where non-reference frames are left out.
    fn kept(&self) -> f64 {
        if self.offered >= MIN_FRAMES {
            1.0 - self.left_out as f64 / self.offered as f64
        } else if self.full >= MIN_FRAMES && self.bidirectional == 0 {
            1.0
        } else {
            ASSUMED_KEPT
        }
    }

    /// Frames to leave out first, and the share of the frames that then remain.
    pub(super) fn least_skip(&self) -> (FrameSkip, f64) {
        match self.kept() {
            kept if kept > MIN_GAIN => (FrameSkip::Nothing, 1.0),
            kept => (FrameSkip::NonReference, kept),
        }
    }

    /// Share of the frames that are decoded at `level`.
    pub(super) fn share(&self, level: DecodeLevel) -> f64 {
        let kept = match level.skip {
            FrameSkip::Nothing => 1.0,
            FrameSkip::NonReference => self.kept(),
        };
        let of_group = match level.prefix {
            Some(prefix) if self.mean > 0 => (f64::from(prefix) / f64::from(self.mean)).min(1.0),
            _ => 1.0,
        };
        let between = match self.mean {
            0 => 0.0,
            mean => f64::from(level.between.min(mean)) / f64::from(mean),
        };
        let every = f64::from(level.every.max(1));
        kept * (of_group + between * (every - 1.0)) / every
    }

    /// Frames without a picture at `level`, at most.
    fn gap(&self, level: DecodeLevel) -> u32 {
        let rest = level
            .prefix
            .map_or(0, |prefix| self.longest.saturating_sub(prefix));
        if level.between > 0 {
            return rest.max(self.longest.saturating_sub(level.between));
        }
        rest.saturating_add(self.longest.saturating_mul(level.every.saturating_sub(1)))
    }

    /// Whether no more than `max_gap` frames in a row have no picture at `level`.
    pub(super) fn is_within(&self, level: DecodeLevel, max_gap: u32) -> bool {
        !level.cuts_groups() || self.gap(level) <= max_gap
    }

    /// The least level that leaves at least `share` of the frames, and no more than `max_gap` frames in a row without a
    /// picture. Frames that nothing refers to are left out first, since that leaves the others evenly spaced.
    pub(super) fn level_for(&self, share: f64, max_gap: u32) -> DecodeLevel {
        if share >= 1.0 {
            return DecodeLevel::ALL;
        }
        let (skip, kept) = self.least_skip();
        if share > kept {
            return DecodeLevel::ALL;
        }
        let of_kept = share / kept.max(f64::MIN_POSITIVE);
        let whole = DecodeLevel {
            skip,
            ..DecodeLevel::ALL
        };
        if self.mean == 0 {
            return whole;
        }
        let wanted = of_kept * f64::from(self.mean);
        let least = self.longest.saturating_sub(max_gap).max(1);
        let prefix = (wanted.ceil() as u32).max(least);
        if prefix > 1 {
            return DecodeLevel {
                prefix: (prefix < self.mean).then_some(prefix),
                ..whole
            };
        }
        // Fewer than one picture a group is wanted.
        let max_every = max_gap / self.longest.max(1);
        DecodeLevel {
            prefix: (self.mean > 1).then_some(1),
            every: ((1.0 / wanted.max(1e-3)).floor() as u32).clamp(1, max_every.max(1)),
            ..whole
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Groups of `frames`, in which `left_out` of 100 frames are non-reference frames.
    fn groups(frames: u32, left_out: u64) -> Groups {
        Groups {
            offered: 100,
            left_out,
            mean: frames,
            longest: frames,
            ..Groups::default()
        }
    }

    fn level(skip: FrameSkip, prefix: Option<u32>, every: u32) -> DecodeLevel {
        DecodeLevel {
            skip,
            prefix,
            every,
            ..DecodeLevel::ALL
        }
    }

    #[test]
    fn what_leaves_an_even_stream_is_left_out_first() {
        use FrameSkip::{NonReference, Nothing};
        let check = |of: Groups, share: f64, expected: DecodeLevel| {
            assert_eq!(of.level_for(share, 60), expected, "{share} of {of:?}");
        };
        let b_frames = groups(250, 50);
        check(b_frames, 1.2, DecodeLevel::ALL);
        check(b_frames, 0.6, DecodeLevel::ALL);
        check(b_frames, 0.5, level(NonReference, None, 1));
        check(b_frames, 0.4, level(NonReference, Some(200), 1));
        check(b_frames, 0.1, level(NonReference, Some(190), 1));
        let plain = groups(30, 0);
        check(plain, 0.8, level(Nothing, Some(24), 1));
        check(plain, 0.1, level(Nothing, Some(3), 1));
        check(plain, 0.02, level(Nothing, Some(1), 1));
        check(plain, 0.01, level(Nothing, Some(1), 2));
        let intra = groups(1, 0);
        check(intra, 0.6, DecodeLevel::ALL);
        check(intra, 0.3, level(Nothing, None, 3));
        check(intra, 0.0, level(Nothing, None, 60));
    }

    #[test]
    fn groups_of_unknown_length_are_not_cut() {
        let unknown = Groups {
            full: 100,
            bidirectional: 60,
            ..Groups::default()
        };
        assert_eq!(
            unknown.level_for(0.1, 60),
            level(FrameSkip::NonReference, None, 1)
        );
        let plain = Groups {
            bidirectional: 0,
            ..unknown
        };
        assert_eq!(plain.level_for(0.1, 60), DecodeLevel::ALL);
    }

    proptest! {
        #[test]
        fn a_level_leaves_what_is_wanted_without_long_gaps(
            frames in 0_u32..600,
            left_out in 0_u64..100,
            share in 0.0..1.5_f64,
            max_gap in 0_u32..200,
        ) {
            let groups = groups(frames, left_out);
            let level = groups.level_for(share, max_gap);
            prop_assert!(groups.share(level) >= share.min(1.0) - 1e-9, "{level:?}");
            prop_assert!(groups.is_within(level, max_gap), "{level:?}");
            prop_assert!(level.prefix != Some(0) && level.every >= 1);
        }
    }
}
