//! Progress of a run for display: the current step of the preparation, then counts and streams.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use weir_policy::StateChange;
use weir_types::StreamId;

use crate::lock::lock;
use crate::timeline::{Timeline, TimelineSnapshot};

/// Counters that another thread may read while the run goes on.
#[derive(Debug, Default)]
pub struct Progress {
    arrived: AtomicU64,
    delivered: AtomicU64,
    late: AtomicU64,
    dropped: AtomicU64,
    preparing: Mutex<Option<Preparation>>,
    /// Empty until sources begin.
    streams: Mutex<BTreeMap<StreamId, Stream>>,
    timeline: Arc<Timeline>,
}

/// A step of the preparation, before sources begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preparation {
    /// Name of the step, such as "opening models".
    pub step: &'static str,
    /// Number of the current model or device in this step, from 1.
    pub number: usize,
    /// Number of models or devices in this step.
    pub total: usize,
    /// Name of the current model or device.
    pub name: String,
}

/// Progress of one stream.
#[derive(Debug, Clone, Default)]
struct Stream {
    arrived: u64,
    /// Frames that it has in all, where that is known.
    frames: Option<u64>,
    ended: bool,
    state: StateChange,
}

/// [`Progress`] at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProgressSnapshot {
    /// Current step of the preparation; `None` once sources have begun.
    pub preparing: Option<Preparation>,
    /// Frames that became requests.
    pub arrived: u64,
    /// Requests completed within the SLO.
    pub delivered: u64,
    /// Requests completed after it.
    pub late: u64,
    /// Requests dropped, for any reason.
    pub dropped: u64,
    /// Streams of the run.
    pub streams: usize,
    /// Streams that have not ended.
    pub running: usize,
    /// The share of its frames that the stream furthest from its end has sent; `None` where a stream has no known end.
    pub done: Option<f64>,
}

impl Progress {
    /// Occupation of slots, shares and links over the last seconds, with current bookings.
    #[must_use]
    pub fn timeline(&self) -> TimelineSnapshot {
        self.timeline.snapshot()
    }

    pub(crate) fn shared_timeline(&self) -> Arc<Timeline> {
        Arc::clone(&self.timeline)
    }

    /// The state now.
    #[must_use]
    pub fn snapshot(&self) -> ProgressSnapshot {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let streams = lock(&self.streams);
        let done = |stream: &Stream| match stream.frames {
            _ if stream.ended => Some(1.0),
            // A container may only estimate its count of frames, which can be exceeded.
            Some(frames) if frames > 0 => Some((stream.arrived as f64 / frames as f64).min(1.0)),
            _ => None,
        };
        let min = |a: Option<f64>, b: Option<f64>| Some(a?.min(b?));
        ProgressSnapshot {
            preparing: lock(&self.preparing).clone(),
            arrived: count(&self.arrived),
            delivered: count(&self.delivered),
            late: count(&self.late),
            dropped: count(&self.dropped),
            streams: streams.len(),
            running: streams.values().filter(|stream| !stream.ended).count(),
            done: streams.values().map(done).reduce(min).flatten(),
        }
    }

    /// The state of each stream, in the order of their numbers, with its reason and since when; empty until sources begin.
    #[must_use]
    pub fn stream_states(&self) -> Vec<StateChange> {
        let streams = lock(&self.streams);
        streams.values().map(|stream| stream.state.clone()).collect()
    }

    /// Sets what is being prepared: number `number`, from 1, of `total`.
    pub fn set_preparing(&self, step: &'static str, number: usize, total: usize, name: &str) {
        *lock(&self.preparing) = Some(Preparation {
            step,
            number,
            total,
            name: name.to_owned(),
        });
    }

    /// Sources begin to send.
    pub(crate) fn on_started(&self, streams: usize) {
        *lock(&self.preparing) = None;
        *lock(&self.streams) = (0..streams as u32)
            .map(|stream| (StreamId(stream), Stream::default()))
            .collect();
    }

    pub(crate) fn on_stream_added(&self, stream: StreamId) {
        lock(&self.streams).insert(stream, Stream::default());
    }

    pub(crate) fn on_stream_removed(&self, stream: StreamId) {
        lock(&self.streams).remove(&stream);
    }

    /// Sets how many frames a stream has in all, where that is known.
    pub(crate) fn set_expected_frames(&self, stream: StreamId, frames: Option<u64>) {
        if let Some(stream) = lock(&self.streams).get_mut(&stream) {
            stream.frames = frames;
        }
    }

    pub(crate) fn on_arrived(&self, stream: StreamId) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        if let Some(stream) = lock(&self.streams).get_mut(&stream) {
            stream.arrived += 1;
        }
    }

    /// Frames of a stream arrived that are dropped without becoming requests.
    pub(crate) fn on_left_out(&self, stream: StreamId, count: u64) {
        self.arrived.fetch_add(count, Ordering::Relaxed);
        self.dropped.fetch_add(count, Ordering::Relaxed);
        if let Some(stream) = lock(&self.streams).get_mut(&stream) {
            stream.arrived += count;
        }
    }

    /// Frames of a stream arrived that no module was to see: nothing had changed, or they came outside its schedule.
    pub(crate) fn on_still(&self, stream: StreamId, count: u64) {
        self.arrived.fetch_add(count, Ordering::Relaxed);
        if let Some(stream) = lock(&self.streams).get_mut(&stream) {
            stream.arrived += count;
        }
    }

    pub(crate) fn on_stream_ended(&self, stream: StreamId) {
        if let Some(stream) = lock(&self.streams).get_mut(&stream) {
            stream.ended = true;
        }
    }

    pub(crate) fn on_stream_state(&self, stream: StreamId, state: StateChange) {
        if let Some(stream) = lock(&self.streams).get_mut(&stream) {
            stream.state = state;
        }
    }

    pub(crate) fn on_completed(&self, late: bool) {
        let counter = if late { &self.late } else { &self.delivered };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn on_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_of_a_run_is_that_of_the_stream_furthest_from_its_end() {
        let progress = Progress::default();
        progress.set_preparing("measuring models", 1, 2, "detector");
        assert_eq!(progress.snapshot().preparing.map(|step| step.number), Some(1));

        let [one, other] = [0, 1].map(StreamId);
        progress.on_started(2);
        progress.set_expected_frames(one, Some(4));
        (0..2).for_each(|_| progress.on_arrived(one));
        let now = progress.snapshot();
        assert_eq!(
            (now.preparing, now.streams, now.running, now.done),
            (None, 2, 2, None)
        );

        progress.set_expected_frames(other, Some(10));
        progress.on_arrived(other);
        assert_eq!(progress.snapshot().done, Some(0.1));
        let gone = StateChange {
            since_s: 2.0,
            state: weir_types::StreamState::Gone { reason: None },
        };
        progress.on_stream_state(other, gone.clone());
        assert_eq!(progress.stream_states(), [StateChange::default(), gone]);
        progress.on_stream_ended(other);
        let now = progress.snapshot();
        assert_eq!((now.running, now.done, now.arrived), (1, Some(0.5), 3));
        (0..9).for_each(|_| progress.on_arrived(one));
        assert_eq!(progress.snapshot().done, Some(1.0));
    }
}
