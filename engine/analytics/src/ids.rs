//! Ids of tracks: unique among the streams of a run, and over restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_flow::TrackState;

/// Ids are whole numbers that every JSON reader holds exactly.
const MAX_ID: u64 = (1 << 53) - 1;

/// Ids in a row that a stream takes at a time.
const BLOCK: u64 = 256;

/// Blocks of ids, which the streams of a run share.
#[derive(Debug, Clone, Default)]
pub struct TrackIdBlocks(Arc<AtomicU64>);

impl TrackIdBlocks {
    /// First id of a block that no stream has; blocks begin with the second of `time_ms` (UTC), or after the newest one.
    fn take(&self, time_ms: u64) -> u64 {
        let second = (time_ms / 1000) << TrackState::NUMBER_BITS;
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
            Some(free.max(second).saturating_add(BLOCK))
        });
        taken.map_or(second, |free| free.max(second)) & MAX_ID
    }
}

/// Gives ids to the tracks of one stream; all trackers of the stream share it.
#[derive(Debug, Clone, Default)]
pub struct TrackIds {
    blocks: TrackIdBlocks,
    next: u64,
    /// Ids of the block that are left, from `next` on.
    left: u64,
}

impl TrackIds {
    /// Creates the ids of a stream that shares these blocks with others.
    #[must_use]
    pub fn new(blocks: &TrackIdBlocks) -> Self {
        Self {
            blocks: blocks.clone(),
            next: 0,
            left: 0,
        }
    }

    /// The next id; `time_ms` (UTC) is that of the frame.
    pub fn next(&mut self, time_ms: u64) -> u64 {
        if self.left == 0 {
            (self.next, self.left) = (self.blocks.take(time_ms), BLOCK);
        }
        let id = self.next;
        (self.next, self.left) = (id + 1, self.left - 1);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_begin_in_one_second_have_no_id_in_common() {
        let blocks = TrackIdBlocks::default();
        let mut streams = [(); 40].map(|()| TrackIds::new(&blocks));
        let mut seen = std::collections::BTreeSet::new();
        let mut newest = [0; 40];
        for round in 0..1_000 {
            for (ids, newest) in streams.iter_mut().zip(&mut newest) {
                let id = ids.next(1_763_859_724_000 + round);
                assert!(seen.insert(id), "{id} twice");
                assert!(id > *newest, "ids of a stream go up");
                *newest = id;
            }
        }
        // A clock that is set back gives none again.
        assert!(seen.insert(streams[0].next(1_000)));
        assert!(seen.insert(TrackIds::new(&blocks).next(1_000)));
    }

    #[test]
    fn ids_go_up_from_the_second_at_which_the_stream_began_and_stay_exact_in_json() {
        let mut ids = TrackIds::default();
        let first = ids.next(1_763_859_724_011);
        assert_eq!(first, 1_763_859_724 << 20);
        assert_eq!(ids.next(1_763_859_999_000), first + 1);
        assert!(first < 1 << 53);
        let later = TrackIds::default().next(1_763_859_725_000);
        assert!(
            later > first + 1_000_000,
            "a restart a second later has room before it"
        );
    }
}
