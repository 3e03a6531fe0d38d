//! Moves of one camera, decided from alarms and the time: no clock, no network.

use std::sync::Arc;

/// Milliseconds after which a return that failed is tried again, and the number of tries.
const RETRY_HOME_MS: u64 = 30_000;
const MAX_HOME_TRIES: u32 = 3;

/// A move that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Move {
    /// To the preset of the sink, for the incident of that id.
    Preset(Arc<str>),
    /// Back to the preset where it stands otherwise.
    Home,
}

/// Decides which move comes next. At most one alarm waits: the newest.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Time without an alarm after which it returns, in milliseconds; `None`: it stays.
    home_after_ms: Option<u64>,
    waiting: Option<Arc<str>>,
    home_at_ms: Option<u64>,
    home_tries: u32,
}

impl Plan {
    pub(super) fn new(home_after_ms: Option<u64>) -> Self {
        Self {
            home_after_ms,
            ..Self::default()
        }
    }

    /// An alarm began; true if it takes the place of one that waited.
    pub(super) fn on_alarm(&mut self, incident: &Arc<str>) -> bool {
        self.home_at_ms = None;
        self.waiting.replace(Arc::clone(incident)).is_some()
    }

    /// An alarm goes on, or ends: the time until the return begins again.
    pub(super) fn on_follow_up(&mut self, now_ms: u64) {
        if self.home_at_ms.is_some() {
            self.home_at_ms = self.return_at(now_ms);
        }
    }

    /// Takes the move that is due.
    pub(super) fn next(&mut self, now_ms: u64) -> Option<Move> {
        if let Some(incident) = self.waiting.take() {
            return Some(Move::Preset(incident));
        }
        self.home_at_ms.take_if(|at_ms| *at_ms <= now_ms)?;
        Some(Move::Home)
    }

    /// Milliseconds until the next move is due; `None`: none is, until an alarm comes.
    pub(super) fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        if self.waiting.is_some() {
            return Some(0);
        }
        self.home_at_ms.map(|at_ms| at_ms.saturating_sub(now_ms))
    }

    /// A move has ended, at the preset or not.
    pub(super) fn on_moved(&mut self, done: &Move, succeeded: bool, now_ms: u64) {
        match done {
            Move::Preset(_) if succeeded && self.waiting.is_none() => {
                (self.home_at_ms, self.home_tries) = (self.return_at(now_ms), 0);
            }
            Move::Home if !succeeded && self.waiting.is_none() => {
                self.home_tries += 1;
                self.home_at_ms = (self.home_tries < MAX_HOME_TRIES).then_some(now_ms + RETRY_HOME_MS);
            }
            Move::Preset(_) | Move::Home => {}
        }
    }

    fn return_at(&self, now_ms: u64) -> Option<u64> {
        self.home_after_ms.map(|after_ms| now_ms.saturating_add(after_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(incident: &str) -> Move {
        Move::Preset(incident.into())
    }

    #[test]
    fn the_newest_alarm_moves_it_and_it_returns_after_the_last() {
        let mut plan = Plan::new(Some(60_000));
        assert_eq!((plan.next(0), plan.wait_ms(0)), (None, None));
        assert!(!plan.on_alarm(&"a".into()));
        assert!(plan.on_alarm(&"b".into()), "the first waits no more");
        assert_eq!(plan.next(1_000), Some(to("b")));
        assert_eq!(plan.next(1_000), None);
        plan.on_moved(&to("b"), true, 2_000);
        assert_eq!(plan.wait_ms(2_000), Some(60_000));
        plan.on_follow_up(50_000);
        assert_eq!(plan.next(62_000), None);
        assert_eq!(plan.next(110_000), Some(Move::Home));
        plan.on_moved(&Move::Home, true, 111_000);
        assert_eq!(plan.wait_ms(111_000), None);
    }

    #[test]
    fn an_alarm_during_a_move_keeps_it_from_returning() {
        let mut plan = Plan::new(Some(1_000));
        plan.on_alarm(&"a".into());
        assert_eq!(plan.next(0), Some(to("a")));
        plan.on_alarm(&"b".into());
        plan.on_moved(&to("a"), true, 500);
        assert_eq!(plan.next(5_000), Some(to("b")));
        plan.on_moved(&to("b"), false, 5_500);
        assert_eq!(plan.wait_ms(5_500), None, "it did not move");
    }

    #[test]
    fn a_return_that_fails_is_tried_three_times() {
        let mut plan = Plan::new(Some(0));
        plan.on_alarm(&"a".into());
        plan.next(0);
        plan.on_moved(&to("a"), true, 0);
        let mut now_ms = 0;
        let mut tries = 0;
        while let Some(wait_ms) = plan.wait_ms(now_ms) {
            now_ms += wait_ms;
            assert_eq!(plan.next(now_ms), Some(Move::Home));
            plan.on_moved(&Move::Home, false, now_ms);
            tries += 1;
        }
        assert_eq!((tries, now_ms), (3, 60_000));
        let mut stays = Plan::new(None);
        stays.on_alarm(&"a".into());
        stays.next(0);
        stays.on_moved(&to("a"), true, 0);
        assert_eq!(stays.wait_ms(0), None);
    }
}
