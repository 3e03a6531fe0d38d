//! Health of a stream: its state, outages and their durations, and irregularities of its frames.

use serde::{Deserialize, Serialize};
use weir_types::{Span, Timestamp};

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

/// Health of a stream, as in reports.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamHealth {
    /// State at the end of the run.
    pub state: StreamStanding,
    /// Outages: not reachable at the start, connection lost, or silent.
    pub outages: u64,
    /// Reconnections.
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
    /// Unreadable files of a folder.
    pub unreadable: u64,
    /// Frames older than the SLO on arrival.
    pub stale: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
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
    /// When the stream was first opened.
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

    /// A frame arrived.
    pub fn on_running(&mut self, now: Timestamp) {
        if let Some(outage) = self.outage.take() {
            self.health.reconnects += u64::from(self.reached);
            close(&mut self.health, &outage, now);
        }
        self.reached = true;
    }

    /// No frame has arrived since `since`. Further reasons do not count as further outages; the last one is kept.
    pub fn on_down(&mut self, reason: &str, silent: bool, since: Timestamp) {
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

    /// No more frames will arrive. A stream that is down stays down.
    pub fn on_ended(&mut self) {
        self.ended = true;
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

    #[test]
    fn outages_are_counted_and_timed_from_the_last_frame() {
        let mut tracker = HealthTracker::new(at(0));
        tracker.on_running(at(1));
        tracker.on_down("silent", true, at(10));
        tracker.on_down("refused", false, at(12));
        tracker.on_running(at(16));
        tracker.on_down("closed", false, at(20));
        tracker.on_running(at(22));
        let health = tracker.health(at(30));
        assert_eq!(health.state, StreamStanding::Running);
        assert_eq!((health.outages, health.reconnects), (2, 2));
        assert_eq!(
            (health.down_s, health.longest_outage_s, health.silent_s),
            (8.0, 6.0, 6.0)
        );
        assert_eq!(health.first_outage.as_deref(), Some("silent"));
        assert_eq!(health.down_because, None);
        tracker.on_ended();
        assert_eq!(tracker.health(at(30)).state, StreamStanding::Ended);
    }

    #[test]
    fn a_pause_ends_an_outage() {
        let mut tracker = HealthTracker::new(at(0));
        tracker.on_running(at(1));
        tracker.on_down("closed", false, at(2));
        tracker.on_paused(at(5));
        tracker.on_running(at(60));
        let health = tracker.health(at(61));
        assert_eq!((health.outages, health.reconnects, health.down_s), (1, 0, 3.0));
    }

    #[test]
    fn a_stream_that_never_opened_was_down_all_the_time() {
        let mut tracker = HealthTracker::new(at(2));
        assert_eq!(tracker.health(at(5)).state, StreamStanding::NeverReached);
        tracker.on_down("refused", false, at(3));
        tracker.on_down("no route", false, at(4));
        tracker.on_ended();
        let health = tracker.health(at(62));
        assert_eq!(health.state, StreamStanding::NeverReached);
        assert_eq!((health.outages, health.reconnects, health.down_s), (1, 0, 60.0));
        assert_eq!(health.first_outage.as_deref(), Some("refused"));
        assert_eq!(health.down_because.as_deref(), Some("no route"));
    }

    #[test]
    fn a_stream_down_at_the_end_is_reported_down() {
        let mut tracker = HealthTracker::new(at(0));
        tracker.on_running(at(1));
        tracker.on_down("closed", false, at(5));
        tracker.on_ended();
        let health = tracker.health(at(9));
        assert_eq!((health.state, health.down_s), (StreamStanding::Down, 4.0));
    }

    #[test]
    fn a_late_first_open_is_an_outage_and_no_reconnect() {
        let mut tracker = HealthTracker::new(at(0));
        tracker.on_down("refused", false, at(1));
        tracker.on_running(at(7));
        let health = tracker.health(at(9));
        assert_eq!((health.outages, health.reconnects, health.down_s), (1, 0, 7.0));
    }
}
