//! Whether what a tracker follows stands on its own: how often it was an event by itself, and not a candidate alone.
//!
//! A detection below the operating threshold of its class is a candidate ([`weir_flow::Object::candidate`]). Where a track has
//! it that was an event by itself in [`MIN_EVENTS`] frames, and in at least half of its last [`RECENT`] observations, it is
//! taken for the same object, seen worse for a moment: half hidden, blurred, far away (ByteTrack's second round, for events).
//! What never was an event by itself is none by its track either, however long it is followed.

/// Frames in which it must have been an event by itself.
const MIN_EVENTS: u32 = 2;
/// Observations that are looked back at.
const RECENT: u32 = u8::BITS;

/// Of one track.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Standing {
    /// A bit for each of the last observations, the newest the lowest: whether it was an event by itself.
    recent: u8,
    observed: u32,
    events: u32,
}

impl Standing {
    /// It was seen, as a candidate alone or not. Whether that is an event.
    pub(crate) fn on_observed(&mut self, candidate: bool) -> bool {
        let is_event = !candidate || self.confirms();
        self.recent = self.recent << 1 | u8::from(!candidate);
        self.observed = self.observed.saturating_add(1);
        self.events = self.events.saturating_add(u32::from(!candidate));
        is_event
    }

    /// Whether a candidate of it is an event.
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
