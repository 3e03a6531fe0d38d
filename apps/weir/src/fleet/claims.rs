//! Claims of this engine in its reports to the others.

use std::collections::{BTreeMap, BTreeSet};

use weir_policy::fleet::{EngineId, StreamKey};

/// Streams that this engine claims, and the engines that it redirects its home streams to.
#[derive(Debug, Default)]
pub(super) struct Claims {
    streams: BTreeSet<StreamKey>,
    redirects: BTreeMap<StreamKey, EngineId>,
    /// True if the others do not know the claims.
    is_unreported: bool,
}

impl Claims {
    /// Claims a stream, or gives up the claim.
    pub(super) fn set(&mut self, stream: StreamKey, is_claimed: bool) {
        self.is_unreported |= if is_claimed {
            self.streams.insert(stream)
        } else {
            self.streams.remove(&stream)
        };
    }

    /// Redirects a home stream to another engine; `None`: not any more.
    pub(super) fn redirect(&mut self, stream: StreamKey, to: Option<EngineId>) {
        match to {
            Some(to) => self.redirects.insert(stream, to),
            None => self.redirects.remove(&stream),
        };
        self.is_unreported = true;
    }

    /// An engine joined the fleet, and knows nothing of this one yet.
    pub(super) fn on_newcomer(&mut self) {
        self.is_unreported = true;
    }

    /// The claims go into a report now.
    pub(super) fn on_report(&mut self) {
        self.is_unreported = false;
    }

    /// True if a report is due at once.
    pub(super) fn is_unreported(&self) -> bool {
        self.is_unreported
    }

    pub(super) fn contains(&self, stream: StreamKey) -> bool {
        self.streams.contains(&stream)
    }

    /// Streams that this engine claims.
    pub(super) fn streams(&self) -> impl ExactSizeIterator<Item = StreamKey> {
        self.streams.iter().copied()
    }

    /// Home streams that are redirected, and the engines that they are redirected to.
    pub(super) fn redirects(&self) -> impl Iterator<Item = (StreamKey, EngineId)> {
        self.redirects.iter().map(|(stream, to)| (*stream, *to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_reported_at_once_only_if_they_change() {
        let (stream, mut claims) = (StreamKey(7), Claims::default());
        let mut is_due = |change: &dyn Fn(&mut Claims)| {
            change(&mut claims);
            let is_due = claims.is_unreported();
            claims.on_report();
            is_due
        };
        assert!(!is_due(&|claims| claims.set(stream, false)));
        assert!(is_due(&|claims| claims.set(stream, true)));
        assert!(!is_due(&|claims| claims.set(stream, true)));
        assert!(is_due(&|claims| claims.redirect(stream, Some(EngineId(1)))));
        assert!(is_due(&|claims| claims.set(stream, false)));
        assert!(is_due(&Claims::on_newcomer));
        assert!(!claims.contains(stream));
        assert_eq!(claims.redirects().collect::<Vec<_>>(), [(stream, EngineId(1))]);
    }
}
