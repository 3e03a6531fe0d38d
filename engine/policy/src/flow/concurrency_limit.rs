//! The gate of a stream: how many of its requests may be under way.

use serde::{Deserialize, Serialize};
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{DropReason, Span};

/// What a stream does with a frame for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// It is let go.
    Drop,
    /// The source is held back.
    Backpressure,
}

/// What becomes of a frame at the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It becomes a request.
    Enter,
    /// It waits until a request of its stream ends.
    Wait,
    /// It becomes a request that ends at once.
    Drop(DropReason),
}

/// How many requests of a stream may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConcurrencyLimitSpec {
    /// What happens to a frame for which there is no room.
    pub overflow: Overflow,
    /// How many at the beginning.
    pub initial: u32,
    /// How many at the most.
    pub max: u32,
    /// The latency objective: a stream that is held back is held so that its requests come out in time.
    pub slo: Span,
}

/// Counts the requests of one stream that are under way.
///
/// A stream that holds its source back fits their number to what the graph can do: one less when a request was under way
/// for more than half the SLO, one more when it took less than a quarter although the stream was full. A request that is
/// dropped instead is dropped for a reason of its own, so a live stream's number stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConcurrencyLimit {
    spec: ConcurrencyLimitSpec,
    limit: u32,
    in_flight: u32,
}

impl ConcurrencyLimit {
    /// The least room of a stream that is held back: one request under way and the next one ready.
    const MIN_LIMIT: u32 = 2;

    /// An open gate.
    #[must_use]
    pub fn new(spec: ConcurrencyLimitSpec) -> Self {
        Self {
            spec,
            limit: spec.initial.max(1),
            in_flight: 0,
        }
    }

    /// A frame has come; `memory` says whether its bytes can be had.
    pub fn admit(&mut self, memory: bool) -> Admission {
        let room = self.in_flight < self.limit;
        match (room && memory, self.spec.overflow) {
            (true, _) => {
                self.in_flight += 1;
                Admission::Enter
            }
            (false, Overflow::Backpressure) => Admission::Wait,
            (false, Overflow::Drop) if room => Admission::Drop(DropReason::MemoryFull),
            (false, Overflow::Drop) => Admission::Drop(DropReason::StreamFull),
        }
    }

    /// A request of the stream ended, `held` after it was let in.
    pub fn on_ended(&mut self, held: Span) {
        let full = self.in_flight >= self.limit;
        invariant!(
            self.in_flight > 0,
            Kind::StreamLimit,
            "a request ended and none is in flight"
        );
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.spec.overflow == Overflow::Drop {
            return;
        }
        if held > self.spec.slo / 2 {
            self.limit = (self.limit - 1).max(Self::MIN_LIMIT.min(self.spec.initial.max(1)));
        } else if full && held < self.spec.slo / 4 {
            self.limit = (self.limit + 1).min(self.spec.max.max(self.spec.initial));
        }
    }

    /// Requests under way.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// How many may be.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::violation::assert_violates;

    fn gate(overflow: Overflow, initial: u32) -> ConcurrencyLimit {
        ConcurrencyLimit::new(ConcurrencyLimitSpec {
            overflow,
            initial,
            max: 8,
            slo: Span::from_millis(400),
        })
    }

    #[test]
    fn a_full_stream_drops_or_holds() {
        let mut live = gate(Overflow::Drop, 1);
        assert_eq!(live.admit(false), Admission::Drop(DropReason::MemoryFull));
        assert_eq!(live.admit(true), Admission::Enter);
        assert_eq!(live.admit(true), Admission::Drop(DropReason::StreamFull));
        live.on_ended(Span::ZERO);
        assert_eq!(live.admit(true), Admission::Enter);
        let mut archive = gate(Overflow::Backpressure, 1);
        assert_eq!(archive.admit(true), Admission::Enter);
        assert_eq!(archive.admit(true), Admission::Wait);
    }

    #[test]
    fn a_place_that_is_given_back_twice_is_a_violation_and_makes_no_room() {
        let mut live = assert_violates(Kind::StreamLimit, || {
            let mut live = gate(Overflow::Drop, 1);
            live.admit(true);
            live.on_ended(Span::ZERO);
            live.on_ended(Span::ZERO);
            live
        });
        assert_eq!((live.in_flight(), live.admit(true)), (0, Admission::Enter));
        assert_eq!(live.admit(true), Admission::Drop(DropReason::StreamFull));
    }

    #[test]
    fn a_held_stream_fits_itself_to_what_the_graph_can_do() {
        let mut archive = gate(Overflow::Backpressure, 4);
        let mut rounds = |held_ms: u64| {
            for _ in 0..20 {
                while archive.admit(true) == Admission::Enter {}
                archive.on_ended(Span::from_millis(held_ms));
            }
            archive.limit()
        };
        assert_eq!(rounds(300), 2, "too slow: held back to the least");
        assert_eq!(rounds(150), 2, "in time: left as it is");
        assert_eq!(rounds(20), 8, "there is room for more");
    }
}
