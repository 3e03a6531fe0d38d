//! Conditions that hold for a while, by key: they begin, go on and end, each with a delay against jitter.
//!
//! ```text
//!  holds for `after`, or clearly        ceases for `end_after`, or clearly
//! (none) -> Pending -----------> Open -----------> Doubtful -----------> (none)
//!    ^---------'  ceases             ^----------------'  holds again
//! ```
//! An episode begins when the condition began to hold, and ends when it ceased: the delays decide whether it is reported,
//! not when it was.

use std::collections::BTreeMap;

use weir_flow::Phase;

use crate::track::FrameTime;

/// Delays of episodes, in milliseconds of media time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Delays {
    /// Time for which the condition must hold to begin an episode.
    pub(crate) after_ms: f64,
    /// Time for which the condition may cease before the episode has begun.
    pub(crate) pending_ms: f64,
    /// Time for which the condition must not hold to end the episode.
    pub(crate) end_after_ms: f64,
    /// Interval between two updates.
    pub(crate) every_ms: f64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Pending {
        since: FrameTime,
        ceased: Option<FrameTime>,
    },
    Open {
        number: u64,
        began: FrameTime,
        updated: FrameTime,
        /// Time from which on the condition has not held.
        ceased: Option<FrameTime>,
    },
}

/// Begin, update or end of an episode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Change {
    pub(crate) number: u64,
    pub(crate) phase: Phase,
    pub(crate) began: FrameTime,
    pub(crate) at: FrameTime,
}

/// A condition at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observed {
    pub(crate) holds: bool,
    /// Whether the condition is so clear that no delay is needed.
    pub(crate) is_clear: bool,
    /// Time of the change, if there was one since the observation before.
    pub(crate) changed: FrameTime,
    pub(crate) now: FrameTime,
}

/// Episodes by key.
#[derive(Debug)]
pub(crate) struct Episodes<K> {
    delays: Delays,
    states: BTreeMap<K, State>,
    begun: u64,
}

impl<K: Ord + Copy> Episodes<K> {
    pub(crate) fn new(delays: Delays) -> Self {
        Self {
            delays,
            states: BTreeMap::new(),
            begun: 0,
        }
    }

    /// Whether an episode of `key` is reported as begun and not as ended.
    pub(crate) fn is_open(&self, key: K) -> bool {
        matches!(self.states.get(&key), Some(State::Open { .. }))
    }

    /// Returns the begin of the open episode of `key`.
    pub(crate) fn began(&self, key: K) -> Option<FrameTime> {
        match self.states.get(&key)? {
            State::Open { began, .. } => Some(*began),
            State::Pending { .. } => None,
        }
    }

    pub(crate) fn on_observed(&mut self, key: K, observed: Observed) -> Option<Change> {
        let Observed {
            holds,
            is_clear,
            changed,
            now,
        } = observed;
        let delays = self.delays;
        match self.states.get_mut(&key) {
            None if !holds => None,
            None => {
                self.states.insert(
                    key,
                    State::Pending {
                        since: changed,
                        ceased: None,
                    },
                );
                self.begin_if_due(key, is_clear, now)
            }
            Some(State::Pending { ceased, .. }) if holds => {
                *ceased = None;
                self.begin_if_due(key, is_clear, now)
            }
            Some(State::Pending { ceased, .. }) => {
                let since = *ceased.get_or_insert(changed);
                if since.until(now) >= delays.pending_ms {
                    self.states.remove(&key);
                }
                None
            }
            Some(State::Open {
                number,
                began,
                updated,
                ceased,
            }) => {
                if holds {
                    *ceased = None;
                    if updated.until(now) < delays.every_ms {
                        return None;
                    }
                    *updated = now;
                    return Some(Change {
                        number: *number,
                        phase: Phase::Updated,
                        began: *began,
                        at: now,
                    });
                }
                let since = *ceased.get_or_insert(changed);
                if !is_clear && since.until(now) < delays.end_after_ms {
                    return None;
                }
                let change = Change {
                    number: *number,
                    phase: Phase::Ended,
                    began: *began,
                    at: since,
                };
                self.states.remove(&key);
                Some(change)
            }
        }
    }

    fn begin_if_due(&mut self, key: K, is_clear: bool, now: FrameTime) -> Option<Change> {
        let Some(State::Pending { since, .. }) = self.states.get(&key).copied() else {
            return None;
        };
        if !is_clear && since.until(now) < self.delays.after_ms {
            return None;
        }
        let number = self.begun;
        self.begun += 1;
        let state = State::Open {
            number,
            began: since,
            updated: now,
            ceased: None,
        };
        self.states.insert(key, state);
        Some(Change {
            number,
            phase: Phase::Began,
            began: since,
            at: now,
        })
    }

    /// Ends the episode of `key`, whose condition was seen last at `last`.
    pub(crate) fn close(&mut self, key: K, last: FrameTime) -> Option<Change> {
        match self.states.remove(&key)? {
            State::Pending { .. } => None,
            State::Open {
                number,
                began,
                ceased,
                ..
            } => Some(Change {
                number,
                phase: Phase::Ended,
                began,
                at: ceased.unwrap_or(last),
            }),
        }
    }

    /// Moves an episode to another key, unless that has one.
    pub(crate) fn rename(&mut self, from: K, to: K) {
        if !self.is_open(to)
            && let Some(state) = self.states.remove(&from)
        {
            self.states.insert(to, state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(pts_ms: f64) -> FrameTime {
        FrameTime {
            pts_ms,
            time_ms: pts_ms as u64,
        }
    }

    fn check(after_ms: f64, end_after_ms: f64, observed: &[(f64, bool)], expected: &[(Phase, f64, f64)]) {
        let mut episodes = Episodes::new(Delays {
            after_ms,
            pending_ms: 0.0,
            end_after_ms,
            every_ms: 1000.0,
        });
        let mut found = Vec::new();
        for (pts_ms, holds) in observed {
            let now = moment(*pts_ms);
            let change = episodes.on_observed(
                7,
                Observed {
                    holds: *holds,
                    is_clear: false,
                    changed: now,
                    now,
                },
            );
            found.extend(change.map(|change| (change.phase, change.began.pts_ms, change.at.pts_ms)));
        }
        assert_eq!(found, expected, "{observed:?}");
    }

    #[test]
    fn an_episode_lasts_from_when_it_held_to_when_it_ceased() {
        check(
            200.0,
            300.0,
            &[
                (0.0, true),
                (200.0, true),
                (900.0, false),
                (1000.0, false),
                (1200.0, false),
            ],
            &[(Phase::Began, 0.0, 200.0), (Phase::Ended, 0.0, 900.0)],
        );
    }

    #[test]
    fn what_holds_for_a_moment_or_ceases_for_a_moment_changes_nothing() {
        check(200.0, 300.0, &[(0.0, true), (100.0, false), (300.0, true)], &[]);
        check(
            0.0,
            300.0,
            &[(0.0, true), (500.0, false), (700.0, true), (1500.0, true)],
            &[(Phase::Began, 0.0, 0.0), (Phase::Updated, 0.0, 1500.0)],
        );
    }
}
