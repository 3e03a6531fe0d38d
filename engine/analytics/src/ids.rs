//! Ids of tracks and incidents of one stream: unique also over restarts.

use weir_flow::TrackState;

/// Ids are whole numbers that every JSON reader holds exactly.
const MAX_ID: u64 = (1 << 53) - 1;

/// Gives ids to the tracks and incidents of one stream; all trackers of the stream share it.
#[derive(Debug, Clone, Default)]
pub struct TrackIds {
    newest: Option<u64>,
}

impl TrackIds {
    /// The next id; `time_ms` (UTC) is that of the frame, of which the first begins the numbering.
    pub fn next(&mut self, time_ms: u64) -> u64 {
        let first = || (time_ms / 1000) << TrackState::NUMBER_BITS;
        let id = self.newest.map_or_else(first, |newest| newest + 1) & MAX_ID;
        self.newest = Some(id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
