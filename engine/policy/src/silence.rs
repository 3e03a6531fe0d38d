//! When a source that is waited for counts as silent. The wait is measured by the looks at it: a process that stood still
//! itself, or had no processor, has not waited for its camera.

use crate::time::{Span, Timestamp};

/// What counts of the time between two looks. Readers look every 100 ms while they wait.
const MAX_BETWEEN_LOOKS: Span = Span::from_millis(500);

/// How long a source may take until it is open, and from then on until its first frame.
pub const OPEN_TIMEOUT: Span = Span::from_secs(10);

/// How long a stream may be without a frame that has an interval of `interval`: ten frames, two seconds at least.
#[must_use]
pub fn silence_limit(interval: Span) -> Span {
    (interval * 10).max(Span::from_secs(2))
}

/// A wait for a source, with a limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilenceWatch {
    limit: Option<Span>,
    waited: Span,
    looked_at: Option<Timestamp>,
    expired: bool,
}

impl SilenceWatch {
    /// A wait begins; `None`: one without a limit.
    pub fn begin(&mut self, limit: Option<Span>, now: Timestamp) {
        *self = Self {
            limit,
            waited: Span::ZERO,
            looked_at: Some(now),
            expired: false,
        };
    }

    /// The wait is over.
    pub fn end(&mut self) {
        self.looked_at = None;
    }

    /// Somebody looks; says whether the source is silent.
    pub fn on_look(&mut self, now: Timestamp) -> bool {
        if let (Some(looked_at), Some(limit)) = (self.looked_at, self.limit) {
            self.waited += now.since(looked_at).min(MAX_BETWEEN_LOOKS);
            self.looked_at = Some(now);
            self.expired |= self.waited > limit;
        }
        self.expired
    }

    /// The limit that the last wait went over.
    #[must_use]
    pub fn exceeded(&self) -> Option<Span> {
        self.limit.filter(|_| self.expired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(ms * 1_000)
    }

    #[test]
    fn a_wait_that_was_looked_at_throughout_ends_at_its_limit() {
        let mut watch = SilenceWatch::default();
        assert!(!watch.on_look(at(0)), "nobody waits");
        watch.begin(Some(silence_limit(Span::from_millis(40))), at(0));
        let silent = (0..100).map(|look| look * 100).find(|ms| watch.on_look(at(*ms)));
        assert_eq!(silent, Some(2_100));
        assert_eq!(watch.exceeded(), Some(Span::from_secs(2)));
        watch.begin(Some(Span::from_secs(2)), at(2_100));
        assert_eq!(watch.exceeded(), None);
        watch.end();
        assert!(
            !watch.on_look(at(60_000)),
            "frames are being handled, not waited for"
        );
    }

    #[test]
    fn a_process_that_stood_still_has_not_waited() {
        let mut watch = SilenceWatch::default();
        watch.begin(Some(Span::from_secs(2)), at(0));
        assert!(!watch.on_look(at(60_000)));
        assert!(!watch.on_look(at(60_100)));
    }

    #[test]
    fn slow_streams_have_longer() {
        assert_eq!(silence_limit(Span::from_millis(40)), Span::from_secs(2));
        assert_eq!(silence_limit(Span::from_secs(1)), Span::from_secs(10));
        let mut endless = SilenceWatch::default();
        endless.begin(None, at(0));
        assert!((0..1_000).all(|look| !endless.on_look(at(look * 100))));
    }
}
