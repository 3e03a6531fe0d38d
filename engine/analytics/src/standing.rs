//! Standing of a track: whether it was an event by itself often enough to confirm its candidates.
//!
//! A detection below the operating threshold of its class is a candidate ([`weir_flow::Object::candidate`]).
//! It counts as an event if its track was an event by itself in at least [`MIN_EVENTS`] frames, and in at
//! least half of its last [`RECENT`] observations. It is then taken for the same object, seen worse for a
//! moment: half hidden, blurred, far away (ByteTrack's second round, for events). A track of candidates alone
//! never gives an event, however long it is followed.

/// Least number of frames in which the track must have been an event by itself.
const MIN_EVENTS: u32 = 2;
/// Number of the latest observations that count.
const RECENT: u32 = u8::BITS;

/// Standing of one track.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Standing {
    /// A bit for each of the last observations, the newest the lowest: whether it was an event by itself.
    recent: u8,
    observed: u32,
    events: u32,
}

impl Standing {
    /// Records an observation, and returns whether it is an event.
    pub(crate) fn on_observed(&mut self, candidate: bool) -> bool {
        let is_event = !candidate || self.confirms();
        self.recent = self.recent << 1 | u8::from(!candidate);
        self.observed = self.observed.saturating_add(1);
        self.events = self.events.saturating_add(u32::from(!candidate));
        is_event
    }

    /// Returns whether a candidate of the track is an event.
    fn confirms(self) -> bool {
        self.events >= MIN_EVENTS && 2 * self.recent.count_ones() >= self.observed.min(RECENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(candidates: &str) -> String {
        let mut standing = Standing::default();
        let seen = candidates.chars().map(|it| standing.on_observed(it == 'c'));
        seen.map(|is_event| if is_event { '+' } else { '-' }).collect()
    }

    #[test]
    fn a_candidate_is_an_event_while_its_track_was_one_often_enough() {
        let check =
            |candidates: &str, expected: &str| assert_eq!(events(candidates), expected, "{candidates}");
        check("eece", "++++");
        check("ece", "+-+");
        check("cccc", "----");
        check("eecccc", "+++++-");
        check("eeeeeeeeccccccc", "+++++++++++++--");
        check("cccceec", "----++-");
        check("cceec", "--+++");
    }
}
