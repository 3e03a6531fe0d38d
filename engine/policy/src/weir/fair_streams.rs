//! Fair streams: under overload, a stream that got less than others in the last seconds goes first (rule
//! `weir`).
//!
//! Cameras that are decoded by groups of pictures have a few requests with each key frame and none in
//! between. By chance, the phases of some streams meet a full queue each time, and these streams get nothing.
//! So the rule counts the requests that each stream got, `F`, against an equal share so far, `V`:
//!
//! ```text
//! each request that runs:    V = V + 1 / streams        F = max(F, V - window * rate) + 1
//! a stream is behind if     V - F >= max(1, tolerance * window * rate)
//! ```
//!
//! `rate` is the rate of `V`, and `streams` the number of streams with a request within the window. A
//! stream's deficit from before the window is forgotten. Among streams that are behind and have a request
//! that can be in time, the one furthest behind goes first. If none is behind, urgency decides, so that the
//! rule costs little when random variation gives every stream its share.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{Span, StreamId, Timestamp};

/// Time between two counts of the streams.
const COUNTED: Span = Span::from_secs(1);

/// Weight of the newest second in the smoothed rate.
const RATE_WEIGHT: f64 = 0.3;

/// Condition under which a stream is behind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FairStreamsSpec {
    /// Time over which streams are to get equal shares.
    pub window: Span,
    /// Fraction of that time by whose requests a stream must be behind.
    pub tolerance: f64,
}

impl Default for FairStreamsSpec {
    fn default() -> Self {
        Self {
            window: Span::from_secs(5),
            tolerance: 0.4,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Account {
    /// `F`: requests that the stream got, at least `V` less the window's share.
    had: f64,
    /// Time of its latest request.
    came_at: Timestamp,
}

/// Requests that each stream got from one module, compared with an equal share.
#[derive(Debug, Clone)]
pub(crate) struct FairStreams {
    spec: FairStreamsSpec,
    accounts: BTreeMap<StreamId, Account>,
    /// `V`, the equal share so far; `counted` is its value when the streams were counted last.
    equal_part: f64,
    counted: (Timestamp, f64),
    streams: usize,
    /// Smoothed rate of `V`, in requests a second.
    rate: f64,
}

impl FairStreams {
    pub(crate) fn new(spec: FairStreamsSpec) -> Self {
        Self {
            spec,
            accounts: BTreeMap::new(),
            equal_part: 0.0,
            counted: (Timestamp::ZERO, 0.0),
            streams: 0,
            rate: 0.0,
        }
    }

    pub(crate) fn spec(&self) -> FairStreamsSpec {
        self.spec
    }

    /// Number of requests in an equal share of the window.
    fn of_window(&self) -> f64 {
        self.rate * self.spec.window.as_secs_f64()
    }

    /// A request of a stream arrived.
    pub(crate) fn on_arrived(&mut self, stream: StreamId, now: Timestamp) {
        let new = Account {
            had: self.equal_part,
            came_at: now,
        };
        self.accounts.entry(stream).or_insert(new).came_at = now;
        let (at, part) = self.counted;
        let since = now.since(at);
        if since < COUNTED && self.streams > 0 {
            return;
        }
        let window = self.spec.window;
        let recent = self
            .accounts
            .values()
            .filter(|account| now.since(account.came_at) <= window);
        self.streams = recent.count();
        let rate = (self.equal_part - part) / since.max(COUNTED).as_secs_f64();
        self.rate += RATE_WEIGHT * (rate - self.rate);
        self.counted = (now, self.equal_part);
    }

    /// A request of a stream is about to run.
    pub(crate) fn on_chosen(&mut self, stream: StreamId) {
        self.equal_part += 1.0 / self.streams.max(1) as f64;
        let least = self.equal_part - self.of_window();
        if let Some(account) = self.accounts.get_mut(&stream) {
            account.had = account.had.max(least) + 1.0;
        }
    }

    /// The stream furthest behind among these, if any is behind.
    pub(crate) fn behind(&self, streams: impl Iterator<Item = StreamId>) -> Option<StreamId> {
        let had = streams.filter_map(|stream| Some((self.accounts.get(&stream)?.had, stream)));
        let (had, stream) = had.min_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)))?;
        let least = (self.spec.tolerance * self.of_window()).max(1.0);
        (self.equal_part - had >= least).then_some(stream)
    }

    /// A stream was removed; its id is never used again.
    pub(crate) fn on_removed(&mut self, stream: StreamId) {
        self.accounts.remove(&stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 streams, each with two requests at once every second, at its own phase. A request waits 400 ms at
    /// most, and 70 of the 128 can run. Returns the smallest number of requests that a stream got in a
    /// minute, divided by the mean.
    fn least_of_bursts(fair: bool) -> f64 {
        const STREAMS: u32 = 64;
        let mut streams = FairStreams::new(FairStreamsSpec::default());
        let mut waiting: Vec<(u64, StreamId)> = Vec::new();
        let mut ran = vec![0_u32; STREAMS as usize];
        for ms in 0..60_000 {
            let now = Timestamp::ZERO + Span::from_millis(ms);
            // Phases are at equal distances, except for 20 streams together at the beginning of each second.
            let place = |stream: u32| u64::from(stream.saturating_sub(20)) * 22;
            for stream in (0..STREAMS)
                .filter(|stream| place(*stream) == ms % 1_000)
                .map(StreamId)
            {
                streams.on_arrived(stream, now);
                waiting.extend([(ms, stream); 2]);
            }
            waiting.retain(|(came, _)| ms - came < 400);
            if ms * 70 / 1_000 == (ms + 1) * 70 / 1_000 {
                continue;
            }
            let Some(&(_, first)) = waiting.first() else {
                continue;
            };
            let behind = streams.behind(waiting.iter().map(|(_, stream)| *stream));
            let next = behind.filter(|_| fair).unwrap_or(first);
            streams.on_chosen(next);
            ran[next.index()] += 1;
            let at = waiting.iter().position(|(_, stream)| *stream == next);
            waiting.remove(at.expect("it waits"));
        }
        let mean = f64::from(ran.iter().sum::<u32>()) / f64::from(STREAMS);
        f64::from(*ran.iter().min().expect("there are some")) / mean
    }

    #[test]
    fn streams_with_requests_now_and_then_get_equal_parts() {
        let (without, fair) = (least_of_bursts(false), least_of_bursts(true));
        assert!(without < 0.5 && fair > 0.85, "{without} and {fair}");
    }

    #[test]
    fn a_stream_that_was_silent_catches_up_a_window_at_most() {
        let mut streams = FairStreams::new(FairStreamsSpec::default());
        let (busy, silent) = (StreamId(0), StreamId(1));
        let at = |ms: u64| Timestamp::ZERO + Span::from_millis(ms);
        streams.on_arrived(silent, at(0));
        for turn in 0..6_000 {
            streams.on_arrived(busy, at(turn * 10));
            streams.on_chosen(busy);
        }
        // With 100 requests a second: the stream catches up at most five seconds of its deficit, then gets
        // its half.
        let mut parts = [0; 3];
        for turn in 6_000..9_000 {
            let now = at(turn * 10);
            streams.on_arrived(busy, now);
            streams.on_arrived(silent, now);
            let next = streams.behind([busy, silent].into_iter()).unwrap_or(busy);
            parts[(turn as usize - 6_000) / 1_000] += u32::from(next == silent);
            streams.on_chosen(next);
        }
        assert!((500..900).contains(&parts[0]), "{parts:?}");
        assert!((400..600).contains(&parts[2]), "{parts:?}");
    }
}
