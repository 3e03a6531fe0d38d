//! Health of a stream: its states, outages and their durations, and irregularities of its frames.

use serde::{Deserialize, Serialize};
use weir_types::{Span, StreamState, Timestamp};

use crate::accounting::is_zero;

/// Changes of state that a report has: the newest. A camera that comes and goes for months must not fill the memory.
const MAX_CHANGES: usize = 16;

/// State of a stream at the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamStanding {
    /// Frames arrived until the end of the run.
    Running,
    /// It reached its end, or failed permanently.
    Ended,
    /// It was down at the end of the run.
    Down,
    /// It never delivered a frame.
    #[default]
    NeverReached,
}

/// A state of a stream, and when it began.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StateChange {
    /// Seconds from the start of the stream to the beginning of the state.
    pub since_s: f64,
    /// The state, with its reason.
    #[serde(flatten)]
    pub state: StreamState,
}

/// Health of a stream, as in reports.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamHealth {
    /// State at the end of the run.
    pub state: StreamStanding,
    /// Outages: not reachable at the start, connection lost, or silent.
    pub outages: u64,
    /// Number of outages after which the stream was live again; the first connection does not count.
    pub reconnects: u64,
    /// Seconds of all outages; an outage starts at the last frame before it.
    pub down_s: f64,
    /// Longest outage in seconds.
    pub longest_outage_s: f64,
    /// Seconds of outages in which it was connected and silent, part of `down_s`.
    pub silent_s: f64,
    /// Reason of the first outage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_outage: Option<String>,
    /// Reason of an outage at the end of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down_because: Option<String>,
    /// Frames that the decoder concealed in part.
    pub concealed: u64,
    /// Discontinuities of its media clock.
    pub discontinuities: u64,
    /// Frames skipped by sampling.
    pub not_sampled: u64,
    /// Frames that its decoder left out, since no more of it could be used.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_decoded: u64,
    /// Frames that the CPU decoded although a GPU was to.
    #[serde(skip_serializing_if = "is_zero")]
    pub cpu_decoded: u64,
    /// Unreadable files of a folder.
    pub unreadable: u64,
    /// Frames older than the SLO on arrival.
    pub stale: u64,
    /// The state that the run ended in.
    pub last: StateChange,
    /// The newest changes of state, in their order; that it is opened again after an outage began is none.
    pub changes: Vec<StateChange>,
}

#[derive(Debug, Clone)]
struct Outage {
    since: Timestamp,
    reason: String,
    silent: bool,
}

/// Tracks the health of one stream.
#[derive(Debug, Clone)]
pub struct HealthTracker {
    /// Time at which the stream was first opened.
    began: Timestamp,
    reached: bool,
    ended: bool,
    outage: Option<Outage>,
    health: StreamHealth,
}

impl HealthTracker {
    /// A stream that is opened at `began`.
    #[must_use]
    pub fn new(began: Timestamp) -> Self {
        Self {
            began,
            reached: false,
            ended: false,
            outage: None,
            health: StreamHealth::default(),
        }
    }

    /// It is in another state since `now`; its last frame arrived at `last_frame`. An outage begins with the last frame
    /// before it. Further reasons do not count as further outages; the last one is kept.
    pub fn on_state(&mut self, state: &StreamState, last_frame: Timestamp, now: Timestamp) {
        match state {
            StreamState::Live => self.on_live(now),
            StreamState::Stalled { reason } => self.on_down(reason, true, last_frame),
            StreamState::Waiting { reason } => self.on_down(reason, false, last_frame),
            // No more frames will arrive; a stream that is down stays down.
            StreamState::Gone { .. } => self.ended = true,
            StreamState::Connecting | StreamState::Paused => {}
        }
        self.health.last = StateChange {
            since_s: now.since(self.began).as_secs_f64(),
            state: state.clone(),
        };
        let changes = &mut self.health.changes;
        // The tries of an outage are its count of seconds, not changes.
        let is_retry = *state == StreamState::Connecting && !changes.is_empty();
        if is_retry || changes.last().is_some_and(|last| last.state == *state) {
            return;
        }
        if changes.len() == MAX_CHANGES {
            changes.remove(0);
        }
        changes.push(self.health.last.clone());
    }

    fn on_live(&mut self, now: Timestamp) {
        if let Some(outage) = self.outage.take() {
            self.health.reconnects += u64::from(self.reached);
            close(&mut self.health, &outage, now);
        }
        self.reached = true;
    }

    fn on_down(&mut self, reason: &str, silent: bool, since: Timestamp) {
        if let Some(outage) = &mut self.outage {
            reason.clone_into(&mut outage.reason);
            return;
        }
        self.health.outages += 1;
        self.health.first_outage.get_or_insert_with(|| reason.to_owned());
        self.outage = Some(Outage {
            since: if self.reached { since } else { self.began },
            reason: reason.to_owned(),
            silent,
        });
    }

    /// The stream is paused: what comes until frames arrive again is no outage.
    pub fn on_paused(&mut self, now: Timestamp) {
        if let Some(outage) = self.outage.take() {
            close(&mut self.health, &outage, now);
        }
    }

    /// The state that it is in, and since when.
    #[must_use]
    pub fn last(&self) -> StateChange {
        self.health.last.clone()
    }

    /// Start of the outage that lasts, and its latest reason; `None` while frames arrive. Retries do not move the start.
    #[must_use]
    pub fn outage(&self) -> Option<(Timestamp, &str)> {
        let outage = self.outage.as_ref()?;
        Some((outage.since, &outage.reason))
    }

    /// Whether it is down and reconnecting.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.outage.is_some() && !self.ended
    }

    /// Health until `now`.
    #[must_use]
    pub fn health(&self, now: Timestamp) -> StreamHealth {
        let mut health = self.health.clone();
        if let Some(outage) = &self.outage {
            close(&mut health, outage, now);
            health.down_because = Some(outage.reason.clone());
        }
        health.state = match (&self.outage, self.reached) {
            (_, false) => StreamStanding::NeverReached,
            (Some(_), true) => StreamStanding::Down,
            (None, true) if self.ended => StreamStanding::Ended,
            (None, true) => StreamStanding::Running,
        };
        health
    }
}

fn close(health: &mut StreamHealth, outage: &Outage, now: Timestamp) {
    let length: Span = now.since(outage.since);
    health.down_s += length.as_secs_f64();
    health.longest_outage_s = health.longest_outage_s.max(length.as_secs_f64());
    if outage.silent {
        health.silent_s += length.as_secs_f64();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    fn stalled(reason: &str) -> StreamState {
        StreamState::Stalled {
            reason: reason.to_owned(),
        }
    }

    fn waiting(reason: &str) -> StreamState {
        StreamState::Waiting {
            reason: reason.to_owned(),
        }
    }

    /// A stream opened at `began` that went through states, each with its time, and with the time of the last frame before
    /// it.
    fn tracker(began: u64, states: &[(StreamState, u64, u64)]) -> HealthTracker {
        let mut tracker = HealthTracker::new(at(began));
        for (state, now, last_frame) in states {
            tracker.on_state(state, at(*last_frame), at(*now));
        }
        tracker
    }

    const GONE: StreamState = StreamState::Gone { reason: None };

    #[test]
    fn outages_are_counted_and_timed_from_the_last_frame() {
        let mut tracker = tracker(
            0,
            &[
                (StreamState::Live, 1, 1),
                (stalled("silent"), 12, 10),
                (waiting("refused"), 14, 10),
                (StreamState::Live, 16, 16),
                (waiting("closed"), 20, 20),
                (StreamState::Live, 22, 22),
            ],
        );
        let health = tracker.health(at(30));
        assert_eq!(health.state, StreamStanding::Running);
        assert_eq!((health.outages, health.reconnects), (2, 2));
        assert_eq!(
            (health.down_s, health.longest_outage_s, health.silent_s),
            (8.0, 6.0, 6.0)
        );
        assert_eq!(health.first_outage.as_deref(), Some("silent"));
        assert_eq!(health.down_because, None);
        tracker.on_state(&GONE, at(29), at(30));
        assert_eq!(tracker.health(at(30)).state, StreamStanding::Ended);
    }

    #[test]
    fn a_pause_ends_an_outage() {
        let mut tracker = tracker(0, &[(StreamState::Live, 1, 1), (waiting("closed"), 2, 2)]);
        tracker.on_paused(at(5));
        tracker.on_state(&StreamState::Live, at(60), at(60));
        let health = tracker.health(at(61));
        assert_eq!((health.outages, health.reconnects, health.down_s), (1, 0, 3.0));
    }

    #[test]
    fn a_stream_that_never_opened_was_down_all_the_time() {
        let mut tracker = HealthTracker::new(at(2));
        assert_eq!(tracker.health(at(5)).state, StreamStanding::NeverReached);
        tracker.on_state(&waiting("refused"), at(2), at(3));
        tracker.on_state(&waiting("no route"), at(2), at(4));
        tracker.on_state(&GONE, at(2), at(5));
        let health = tracker.health(at(62));
        assert_eq!(health.state, StreamStanding::NeverReached);
        assert_eq!((health.outages, health.reconnects, health.down_s), (1, 0, 60.0));
        assert_eq!(health.first_outage.as_deref(), Some("refused"));
        assert_eq!(health.down_because.as_deref(), Some("no route"));
    }

    #[test]
    fn a_stream_down_at_the_end_is_reported_down() {
        let states = [(StreamState::Live, 1, 1), (waiting("closed"), 5, 5), (GONE, 6, 5)];
        let health = tracker(0, &states).health(at(9));
        assert_eq!((health.state, health.down_s), (StreamStanding::Down, 4.0));
    }

    #[test]
    fn a_late_first_open_is_an_outage_and_no_reconnect() {
        let states = [(waiting("refused"), 1, 0), (StreamState::Live, 7, 7)];
        let health = tracker(0, &states).health(at(9));
        assert_eq!((health.outages, health.reconnects, health.down_s), (1, 0, 7.0));
    }

    #[test]
    fn changes_have_their_times_and_reasons_and_tries_are_none() {
        let mut states = vec![
            (StreamState::Connecting, 10, 10),
            (StreamState::Live, 11, 11),
            (stalled("no data"), 20, 18),
            (waiting("no data"), 21, 18),
        ];
        for again in 0..50 {
            states.push((StreamState::Connecting, 22 + 2 * again, 18));
            states.push((waiting("refused"), 23 + 2 * again, 18));
        }
        states.push((StreamState::Connecting, 122, 18));
        let mut tracker = tracker(10, &states);
        assert_eq!(tracker.outage(), Some((at(18), "refused")));
        let health = tracker.health(at(130));
        let since: Vec<(f64, &str, Option<&str>)> = health
            .changes
            .iter()
            .map(|change| (change.since_s, change.state.name(), change.state.reason()))
            .collect();
        assert_eq!(
            since,
            [
                (0.0, "connecting", None),
                (1.0, "live", None),
                (10.0, "stalled", Some("no data")),
                (11.0, "waiting", Some("no data")),
                (13.0, "waiting", Some("refused")),
            ]
        );
        assert_eq!(
            (health.last.since_s, &health.last.state),
            (112.0, &StreamState::Connecting)
        );
        for again in 0..50 {
            let state = if again % 2 == 0 {
                StreamState::Live
            } else {
                waiting("closed")
            };
            tracker.on_state(&state, at(200), at(200 + again));
        }
        let health = tracker.health(at(300));
        assert_eq!(health.changes.len(), MAX_CHANGES);
        assert_eq!(health.changes.last(), Some(&health.last));
    }
}
