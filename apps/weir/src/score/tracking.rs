//! Tracks: how often a true thing changes the number that the tracker gave it, and how often its track breaks off.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Observed;

/// Errors in the identity of tracks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Tracking {
    /// Objects that had a track at any time, counted separately for each stream and round.
    pub(crate) tracked: u64,
    /// Changes of an object's track from one number to another.
    pub(crate) identity_switches: u64,
    /// Gaps in an object's track that ended with a track again.
    pub(crate) fragmentations: u64,
}

/// Latest track of an object, and whether frames without a track followed.
struct Last {
    track: i64,
    broken_off: bool,
}

/// Follows every object of the ground truth through its frames; frames in which it is ignored are left out.
pub(super) fn tracking(frames: &[Observed<'_>], pairs: &[Vec<Option<usize>>]) -> Tracking {
    let mut tracking = Tracking::default();
    let mut things: BTreeMap<(u64, u64), Last> = BTreeMap::new();
    for (frame, pairs) in frames.iter().zip(pairs) {
        for (object, pair) in frame.truth.objects.iter().zip(pairs) {
            if object.ignore {
                continue;
            }
            let thing = (frame.sequence, object.id);
            let seen = pair.and_then(|finding| frame.seen?.get(finding));
            match (seen.and_then(|seen| seen.track), things.get_mut(&thing)) {
                (Some(track), None) => {
                    let broken_off = false;
                    things.insert(thing, Last { track, broken_off });
                }
                (Some(track), Some(last)) => {
                    tracking.identity_switches += u64::from(last.track != track);
                    tracking.fragmentations += u64::from(last.broken_off);
                    (last.track, last.broken_off) = (track, false);
                }
                (None, Some(last)) => last.broken_off = true,
                (None, None) => {}
            }
        }
    }
    tracking.tracked = things.len() as u64;
    tracking
}
