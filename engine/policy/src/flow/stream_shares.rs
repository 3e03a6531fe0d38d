//! Shares of streams: under overload a module runs requests of streams in proportion to their weights,
//! reserved ones first.
//!
//! Start-time fair queueing (Goyal, Vin, Cheng: SIGCOMM 1996, 2). Among streams with a waiting request, the
//! one with the smallest start tag `S` is next:
//!
//! ```text
//! S = max(V, F)        F = S + 1 / weight        V = S of the one that runs
//! ```
//!
//! So streams that always have a request run in the ratio of their weights. A stream that needs less than its
//! share gets all that it needs, and saves nothing while it has no request. A stream with a reserve has
//! tokens: `reserve` a second, and at most those of [`MAX_SAVED`]. While it has a whole token, it goes before
//! all streams without one, and each request takes one token. Its tag advances too, so it gets the larger of
//! its reserve and its share, not both. The rule needs no estimate of the module's capacity.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use weir_types::{Span, StreamId, Timestamp};

/// Time for which an unused reserve is saved.
const MAX_SAVED: Span = Span::from_secs(1);

/// Share of a stream under overload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StreamShare {
    /// Weight of the stream relative to other streams; above zero.
    pub weight: f64,
    /// Requests a second that are served before all other streams; `None`: no reserve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<f64>,
}

impl StreamShare {
    /// The smallest and largest weight.
    pub const WEIGHTS: RangeInclusive<f64> = 0.001..=1_000.0;

    /// The smallest and largest reserve, in requests a second.
    pub const RESERVES: RangeInclusive<f64> = 0.001..=10_000.0;

    /// Whether weight and reserve lie within their bounds.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let reserve = self
            .reserve
            .is_none_or(|reserve| Self::RESERVES.contains(&reserve));
        Self::WEIGHTS.contains(&self.weight) && reserve
    }

    /// Whether all streams have the default share, so that shares need not be tracked.
    #[must_use]
    pub fn are_alike(shares: &[Self]) -> bool {
        shares.iter().all(|share| *share == Self::default())
    }
}

impl Default for StreamShare {
    fn default() -> Self {
        Self {
            weight: 1.0,
            reserve: None,
        }
    }
}

/// Service that a stream has received.
#[derive(Debug, Clone, Copy)]
struct Account {
    /// Finish tag `F` of the stream's last request.
    finish: f64,
    /// Tokens of its reserve, as of `counted_at`.
    tokens: f64,
    counted_at: Timestamp,
}

/// The shares of all streams in one module.
#[derive(Debug, Clone)]
pub(crate) struct StreamShares {
    /// Shares by stream; a stream that is missing has the default share.
    shares: BTreeMap<StreamId, StreamShare>,
    accounts: BTreeMap<StreamId, Account>,
    /// `V`.
    virtual_time: f64,
}

impl StreamShares {
    /// Returns `None` if all streams have equal shares.
    pub(crate) fn new(shares: &[StreamShare]) -> Option<Self> {
        (!StreamShare::are_alike(shares)).then(|| Self {
            shares: (0..).map(StreamId).zip(shares.iter().copied()).collect(),
            accounts: BTreeMap::new(),
            virtual_time: 0.0,
        })
    }

    /// Returns `shares` with one stream's share changed; service received so far still counts.
    pub(crate) fn with(shares: Option<Self>, stream: StreamId, share: StreamShare) -> Option<Self> {
        let mut shares = shares.unwrap_or_else(|| Self {
            shares: BTreeMap::new(),
            accounts: BTreeMap::new(),
            virtual_time: 0.0,
        });
        shares.shares.insert(stream, share);
        let default = StreamShare::default();
        let differ = shares.shares.values().any(|share| *share != default);
        differ.then_some(shares)
    }

    fn share(&self, stream: StreamId) -> StreamShare {
        self.shares.get(&stream).copied().unwrap_or_default()
    }

    /// Whether something is reserved for a stream.
    pub(crate) fn has_reserve(&self, stream: StreamId) -> bool {
        self.share(stream).reserve.is_some()
    }

    /// Tokens of a stream's reserve; a stream begins with one.
    fn tokens(&self, stream: StreamId, now: Timestamp) -> f64 {
        let Some(reserve) = self.share(stream).reserve else {
            return 0.0;
        };
        let most = (reserve * MAX_SAVED.as_secs_f64()).max(1.0);
        self.accounts.get(&stream).map_or(1.0, |account| {
            let since = now.since(account.counted_at).as_secs_f64();
            (account.tokens + reserve * since).min(most)
        })
    }

    /// Start tag `S` of the stream's next request.
    fn start_tag(&self, stream: StreamId) -> f64 {
        let finish = self.accounts.get(&stream).map_or(0.0, |account| account.finish);
        finish.max(self.virtual_time)
    }

    /// A stream was removed; its id is never used again.
    pub(crate) fn on_removed(&mut self, stream: StreamId) {
        self.accounts.remove(&stream);
        self.shares.remove(&stream);
    }

    /// The next stream among those with a waiting request; ties go to the lower id.
    pub(crate) fn next(&self, streams: impl Iterator<Item = StreamId>, now: Timestamp) -> Option<StreamId> {
        let ranked = streams.map(|stream| (self.tokens(stream, now) < 1.0, self.start_tag(stream), stream));
        let first = ranked.min_by(|(a_waits, a_tag, a), (b_waits, b_tag, b)| {
            a_waits.cmp(b_waits).then(a_tag.total_cmp(b_tag)).then(a.cmp(b))
        });
        first.map(|(_, _, stream)| stream)
    }

    /// A request of a stream is about to run.
    pub(crate) fn on_chosen(&mut self, stream: StreamId, now: Timestamp) {
        let start = self.start_tag(stream);
        let tokens = self.tokens(stream, now);
        // A request served from its reserve does not mean that other streams have had their share of this
        // round.
        if tokens < 1.0 {
            self.virtual_time = start;
        }
        let account = Account {
            finish: start + 1.0 / self.share(stream).weight.max(f64::MIN_POSITIVE),
            tokens: (tokens - 1.0).max(0.0),
            counted_at: now,
        };
        self.accounts.insert(stream, account);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(weight: f64, reserve: Option<f64>) -> StreamShare {
        StreamShare { weight, reserve }
    }

    /// Number of times that each stream is chosen in `turns` turns, one every 10 ms, if the streams of `able`
    /// always have a request.
    fn turns(shares: &mut StreamShares, able: &[u32], turns: u64) -> Vec<u64> {
        let mut ran = vec![0; shares.shares.len()];
        let from = shares.accounts.values().map(|account| account.counted_at).max();
        let from = from.unwrap_or_default();
        for turn in 1..=turns {
            let now = from + Span::from_millis(10) * turn;
            let next = shares
                .next(able.iter().copied().map(StreamId), now)
                .expect("one is able");
            shares.on_chosen(next, now);
            ran[next.index()] += 1;
        }
        ran
    }

    #[test]
    fn streams_run_by_weight_and_what_is_reserved_goes_first() {
        // At 100 turns a second, over 10 s.
        let check = |shares: &[StreamShare], expected: &[u64]| {
            let mut shares = StreamShares::new(shares).expect("they differ");
            let able: Vec<u32> = (0..expected.len() as u32).collect();
            let ran = turns(&mut shares, &able, 1_000);
            let near = ran
                .iter()
                .zip(expected)
                .all(|(ran, expected)| ran.abs_diff(*expected) <= 2);
            assert!(near, "{ran:?} of {shares:?}");
        };
        check(&[share(1.0, None), share(3.0, None)], &[250, 750]);
        check(
            &[share(0.5, None), share(0.5, None), share(4.0, None)],
            &[100, 100, 800],
        );
        // More than its part of 333: the others share the rest.
        check(
            &[share(1.0, Some(50.0)), share(1.0, None), share(1.0, None)],
            &[500, 250, 250],
        );
        // Less than its part: it has that.
        check(&[share(1.0, Some(10.0)), share(1.0, None)], &[500, 500]);
        // Reserves beyond the capacity share it.
        check(&[share(1.0, Some(200.0)), share(1.0, Some(200.0))], &[500, 500]);
    }

    #[test]
    fn a_stream_that_had_nothing_to_run_catches_nothing_up() {
        let mut shares = StreamShares::new(&[share(1.0, None), share(2.0, None)]).expect("they differ");
        assert_eq!(turns(&mut shares, &[1], 300), [0, 300]);
        let ran = turns(&mut shares, &[0, 1], 300);
        assert!(ran[0].abs_diff(100) <= 1, "{ran:?}");
    }

    #[test]
    fn a_reserve_is_saved_for_a_second_and_no_longer() {
        let mut shares =
            StreamShares::new(&[share(1.0, Some(5.0)), share(1_000.0, None)]).expect("they differ");
        turns(&mut shares, &[0, 1], 20);
        turns(&mut shares, &[1], 1_000);
        let ran = turns(&mut shares, &[0, 1], 20);
        assert_eq!(ran[0], 5, "what it did not use for ten seconds: {ran:?}");
    }

    #[test]
    fn a_share_that_is_changed_counts_from_then_on() {
        let mut shares = StreamShares::new(&[share(1.0, None), share(3.0, None)]);
        turns(shares.as_mut().expect("they differ"), &[0, 1], 400);
        let mut shares = StreamShares::with(shares, StreamId(0), share(9.0, None));
        let ran = turns(shares.as_mut().expect("they differ"), &[0, 1], 400);
        assert!(ran[0].abs_diff(300) <= 2, "{ran:?}");
        let shares = StreamShares::with(shares, StreamId(0), StreamShare::default());
        assert!(StreamShares::with(shares, StreamId(1), StreamShare::default()).is_none());
        assert!(StreamShares::with(None, StreamId(7), StreamShare::default()).is_none());
    }

    #[test]
    fn streams_that_are_alike_have_no_shares() {
        assert!(StreamShares::new(&[]).is_none());
        assert!(StreamShares::new(&[StreamShare::default(); 3]).is_none());
    }
}
