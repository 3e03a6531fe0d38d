//! Clock synchronization. Engine and workers each have a monotonic clock with its own origin; timestamps on
//! the wire are on the engine's clock.
//!
//! The engine pings, a worker answers with its own time, and the answer with the shortest round trip gives
//! the best estimate of the offset (Cristian's algorithm). Its error is at most half of that round trip, some
//! tens of microseconds over loopback. The next ping sends the offset to the worker. So nothing relies on two
//! processes, or two machines, having a common clock.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_types::{Span, Timestamp};

/// Injected clock: microseconds since some origin, never going back.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Number of recent answers that are evaluated. At five a second they cover 13 seconds, in which clocks drift
/// apart by less than a millisecond.
const SAMPLES: usize = 64;

/// Offset between a worker's clock and the engine's, estimated from recent pings.
#[derive(Debug, Default)]
pub struct Timebase {
    /// Round trip and offset in microseconds of each recent answer.
    samples: VecDeque<(Span, i64)>,
}

impl Timebase {
    /// Evaluates an answer: the ping left at `sent` and the answer arrived at `now` on the engine's clock;
    /// the worker's clock was at `at`.
    pub fn on_pong(&mut self, sent: Timestamp, at: Timestamp, now: Timestamp) {
        let trip = now.since(sent);
        let middle = sent.micros().saturating_add(trip.micros() / 2);
        let offset = i128::from(middle) - i128::from(at.micros());
        // A peer may say anything; what no clock can be apart is left out.
        if let Ok(offset) = i64::try_from(offset) {
            self.samples.push_back((trip, offset));
        }
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    /// Offset in microseconds that is added to the worker's time to get the engine's; `None` before the first
    /// answer.
    #[must_use]
    pub fn offset(&self) -> Option<i64> {
        self.samples.iter().min().map(|(_, offset)| *offset)
    }

    /// Largest error of that offset.
    #[must_use]
    pub fn uncertainty(&self) -> Option<Span> {
        self.samples.iter().min().map(|(trip, _)| *trip / 2)
    }

    /// Number of answers in the window, at most 64.
    #[must_use]
    pub fn sample_count(&self) -> usize {
        self.samples.len()
    }
}

/// A worker's moment on the engine's clock.
pub(crate) fn to_engine_clock(at: Timestamp, offset: i64) -> Timestamp {
    Timestamp::from_micros(at.micros().saturating_add_signed(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_answer_tells_the_difference() {
        let at = Timestamp::from_micros;
        let mut base = Timebase::default();
        assert_eq!(base.offset(), None);
        // The worker's clock is 1000 behind; the way there took 10, the way back 30.
        base.on_pong(at(5_000), at(4_010), at(5_040));
        assert_eq!(
            (base.offset(), base.uncertainty()),
            (Some(1_010), Some(Span::from_micros(20)))
        );
        base.on_pong(at(6_000), at(5_002), at(6_004));
        assert_eq!(base.offset(), Some(1_000));
        base.on_pong(at(7_000), at(6_900), at(8_000));
        assert_eq!(base.offset(), Some(1_000), "a slow one says less");
        assert_eq!(to_engine_clock(at(5_002), 1_000), at(6_002));
        assert_eq!(to_engine_clock(at(5), -10), at(0));
    }

    #[test]
    fn a_peer_may_say_anything() {
        let mut base = Timebase::default();
        base.on_pong(Timestamp::MAX, Timestamp::ZERO, Timestamp::MAX);
        base.on_pong(Timestamp::ZERO, Timestamp::MAX, Timestamp::ZERO);
        assert_eq!(base.offset(), None);
        assert_eq!(to_engine_clock(Timestamp::MAX, i64::MAX), Timestamp::MAX);
    }
}
