//! Streams whose groups of pictures begin at the same moments, decoded in turn.
//!
//! A group can only be decoded from its key frame on. Where the key frames of most streams come together, as after a power cut or
//! in copies of one clip, prefixes of all groups would give more pictures than can be used at first, and then none until the
//! next key frames. So of such streams
//!
//! ```text
//! every   = floor(1 / share)      groups of which one is decoded, whole
//! between = 1                     frame of each other group
//! ```
//!
//! and the streams take turns, first those whose last turn was longest ago. They are aligned where `|mean of exp(2 pi i phase)| >= ALIGNED`, the phase being the time since the
//! last key frame over the time of a group.

use std::f64::consts::TAU;

use weir_types::{DecodeLevel, FrameSkip, Span, Timestamp};

/// Mean resultant length of the phases from which on streams are aligned, and below which they no longer are. For three streams or
/// more by chance above the first in 1 case of 5, and of sixteen in 1 of 2,500: then turns do no harm.
const ALIGNED: (f64, f64) = (0.7, 0.5);

/// Streams that can be aligned, at least.
const MIN_STREAMS: usize = 3;

/// Time of a group, at least. When a key frame came is known to a quarter of a second.
const MIN_GROUP: Span = Span::from_secs(2);

/// Ratio of the times of groups up to which they stay aligned for a while.
const MAX_RATIO: f64 = 1.05;

/// Moment at which the last group of a stream began, and its number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GroupBegin {
    pub(super) at: Timestamp,
    pub(super) number: u64,
}

/// A stream that may be decoded in turn with others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// Time of its groups.
    pub(super) group: Span,
    /// The last group that is known of.
    pub(super) began: GroupBegin,
}

/// Whether the groups of these streams begin together; `were`: they did so before.
pub(super) fn are_aligned(streams: &[Candidate], were: bool, now: Timestamp) -> bool {
    let groups = || streams.iter().map(|stream| stream.group);
    let (Some(shortest), Some(longest)) = (groups().min(), groups().max()) else {
        return false;
    };
    if streams.len() < MIN_STREAMS || shortest < MIN_GROUP {
        return false;
    }
    if longest.as_secs_f64() > MAX_RATIO * shortest.as_secs_f64() {
        return false;
    }
    let angles = streams.iter().map(|stream| {
        let since = now.since(stream.began.at).as_secs_f64();
        TAU * since / stream.group.as_secs_f64()
    });
    let (x, y) = angles.fold((0.0, 0.0), |(x, y), angle| (x + angle.cos(), y + angle.sin()));
    let least = if were { ALIGNED.1 } else { ALIGNED.0 };
    x.hypot(y) >= least * streams.len() as f64
}

/// The groups of one stream, as its turns need them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// Number of its last group.
    pub(super) began: u64,
    /// It is decoded whole now, in its turn.
    pub(super) has_turn: bool,
    /// Moment at which its last turn was over; `None` before the first.
    pub(super) had_turn: Option<Timestamp>,
}

/// Levels with which streams take turns, in the order of `streams`, each of which wants `share` of the frames that remain without
/// those of `skip`. `None` where that is more than every other group.
pub(super) fn levels_in_turn(streams: &[Waiting], share: f64, skip: FrameSkip) -> Option<Vec<DecodeLevel>> {
    let count = streams.len() as u64;
    let every = ((1.0 / share.max(1e-6)).floor() as u64).min(count);
    if every < 2 {
        return None;
    }
    let mut order: Vec<usize> = (0..streams.len()).collect();
    order.sort_by_key(|index| (!streams[*index].has_turn, streams[*index].had_turn));
    let mut levels = vec![DecodeLevel::ALL; streams.len()];
    for (place, index) in (0..).zip(order) {
        // The first of them have the present group.
        let turn = (streams[index].began + place * every / count) % every;
        levels[index] = DecodeLevel {
            skip,
            prefix: None,
            every: u32::try_from(every).unwrap_or(u32::MAX),
            turn: u32::try_from(turn).unwrap_or(0),
            between: 1,
        };
    }
    Some(levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_has_its_turn_and_those_that_waited_longest_are_first() {
        let waiting = |began, has_turn, had_turn: Option<u64>| Waiting {
            began,
            has_turn,
            had_turn: had_turn.map(Timestamp::from_micros),
        };
        let streams = [
            waiting(7, false, Some(9)),
            waiting(100, true, Some(2)),
            waiting(3, false, None),
            waiting(8, false, Some(4)),
        ];
        let levels = levels_in_turn(&streams, 0.5, FrameSkip::Nothing).unwrap();
        let has = |later: u64| -> Vec<bool> {
            let each = streams.iter().zip(&levels);
            each.map(|(stream, level)| level.frames_of(stream.began + later) == u32::MAX)
                .collect()
        };
        assert_eq!(
            has(0),
            [false, true, true, false],
            "it keeps its turn, and one had none"
        );
        assert_eq!(has(1), [true, false, false, true]);
        assert_eq!(has(2), has(0));
        let rare = levels_in_turn(&streams, 0.01, FrameSkip::Nothing).unwrap();
        assert!(
            rare.iter().all(|level| level.every == 4),
            "one of them has each group"
        );
        assert_eq!(levels_in_turn(&streams, 0.51, FrameSkip::Nothing), None);
    }

    #[test]
    fn key_frames_that_come_together_are_aligned() {
        let at = |ms: u64| Timestamp::ZERO + Span::from_millis(ms);
        let aligned = |apart: u64, group: u64, were: bool| {
            let streams: Vec<Candidate> = (0..16)
                .map(|stream| Candidate {
                    group: Span::from_millis(group),
                    began: GroupBegin {
                        at: at(60_000 + stream * apart),
                        number: 1,
                    },
                })
                .collect();
            are_aligned(&streams, were, at(71_000))
        };
        assert!(aligned(0, 8_000, false) && aligned(100, 8_000, false));
        assert!(
            !aligned(500, 8_000, false),
            "they are spread over all of the time"
        );
        assert!(!aligned(0, 1_000, false), "short groups are even enough");
        assert!(!aligned(290, 8_000, false) && aligned(290, 8_000, true));
    }
}
