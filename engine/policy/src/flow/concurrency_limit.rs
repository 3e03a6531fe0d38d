//! The concurrency limit of a stream: the maximum number of its requests in flight.

use serde::{Deserialize, Serialize};
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{DropReason, ModuleId, Span};

use crate::module::{ModuleSpec, Pool};

/// Action on a frame of a stream that is at its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// The frame is dropped.
    Drop,
    /// The source blocks.
    Backpressure,
}

/// The decision on a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It becomes a request.
    Enter,
    /// The frame waits until a request of its stream ends.
    Wait,
    /// The frame becomes a request that is dropped at once.
    Drop(DropReason),
}

/// Parameters of a concurrency limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConcurrencyLimitSpec {
    /// Action on a frame at the limit.
    pub overflow: Overflow,
    /// Initial limit in requests.
    pub initial: u32,
    /// Maximum limit in requests.
    pub max: u32,
    /// Latency objective: with backpressure the limit is adapted to keep latencies within it.
    pub slo: Span,
}

impl ConcurrencyLimitSpec {
    /// Limit of a live stream: a fast camera for seconds. Memory is bounded by the bytes of all frames together.
    pub const LIVE: u32 = 256;
    /// Minimum initial limit of a lossless stream: results wait for their turn and for the sinks.
    const MIN_LOSSLESS: u32 = 4;

    /// Limit of a live stream.
    #[must_use]
    pub const fn live(slo: Span) -> Self {
        Self {
            overflow: Overflow::Drop,
            initial: Self::LIVE,
            max: Self::LIVE,
            slo,
        }
    }

    /// Number of requests that all lossless streams of a graph together may have in flight at first, with so many
    /// slots on all devices: every slot is busy with some in reserve, at the batch sizes that frames will run in.
    /// More would only wait, and count as late.
    #[must_use]
    pub fn initial_lossless<'a>(modules: impl Iterator<Item = &'a ModuleSpec> + Clone, slots: u32) -> u32 {
        let is_first = |module: ModuleId| {
            let mut others = modules.clone();
            !others.any(|other| other.topology.has_path(other.id, module))
        };
        let batch = |spec: &ModuleSpec| {
            if is_first(spec.id) {
                spec.profile.batch_size(&spec.batch, spec.slo / 2)
            } else {
                1
            }
        };
        let batch = modules.clone().map(batch).max().unwrap_or(1);
        let pipelines = modules.filter(|spec| spec.pool == Pool::Pipelines);
        let slots = pipelines.map(|spec| spec.slots.len() as u32).sum::<u32>() + slots;
        4 * slots.max(1) * batch + 4
    }

    /// Limit of one lossless stream of `streams` streams; `together` is the initial limit of all lossless
    /// streams.
    #[must_use]
    pub fn lossless(together: u32, streams: usize, slo: Span) -> Self {
        let streams = u32::try_from(streams.max(1)).unwrap_or(u32::MAX);
        let initial = together.div_ceil(streams).max(Self::MIN_LOSSLESS);
        Self {
            overflow: Overflow::Backpressure,
            initial,
            max: 4 * initial,
            slo,
        }
    }
}

/// Limits the number of requests of one stream in flight.
///
/// With backpressure the limit is adapted to the capacity of the graph: one less when a request was in flight for more than
/// half the SLO, one more when it took less than a quarter although the limit was reached. The limit of a live stream is
/// constant: its overload is handled by drop rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConcurrencyLimit {
    spec: ConcurrencyLimitSpec,
    limit: u32,
    in_flight: u32,
}

impl ConcurrencyLimit {
    /// Minimum limit with backpressure: one request in flight and the next one ready.
    const MIN_LIMIT: u32 = 2;

    /// Creates a limit without requests in flight.
    #[must_use]
    pub fn new(spec: ConcurrencyLimitSpec) -> Self {
        Self {
            spec,
            limit: spec.initial.max(1),
            in_flight: 0,
        }
    }

    /// Decides on a frame; `memory`: whether memory for it is available.
    pub fn admit(&mut self, memory: bool) -> Admission {
        let has_capacity = self.has_room();
        match (has_capacity && memory, self.spec.overflow) {
            (true, _) => {
                self.in_flight += 1;
                Admission::Enter
            }
            (false, Overflow::Backpressure) => Admission::Wait,
            (false, Overflow::Drop) if has_capacity => Admission::Drop(DropReason::MemoryFull),
            (false, Overflow::Drop) => Admission::Drop(DropReason::StreamFull),
        }
    }

    /// Whether another frame may become a request, if there is memory for it.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.in_flight < self.limit
    }

    /// A request of the stream ended, `held` after its admission.
    pub fn on_ended(&mut self, held: Span) {
        let full = !self.has_room();
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

    /// The stream has another latency objective.
    pub fn set_slo(&mut self, slo: Span) {
        self.spec.slo = slo;
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Requests that may be in flight.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::violation::assert_violates;

    fn limit(overflow: Overflow, initial: u32) -> ConcurrencyLimit {
        ConcurrencyLimit::new(ConcurrencyLimitSpec {
            overflow,
            initial,
            max: 8,
            slo: Span::from_millis(400),
        })
    }

    #[test]
    fn a_stream_at_its_limit_drops_or_waits() {
        let mut live = limit(Overflow::Drop, 1);
        assert_eq!(live.admit(false), Admission::Drop(DropReason::MemoryFull));
        assert_eq!(live.admit(true), Admission::Enter);
        assert_eq!(live.admit(true), Admission::Drop(DropReason::StreamFull));
        live.on_ended(Span::ZERO);
        assert_eq!(live.admit(true), Admission::Enter);
        let mut archive = limit(Overflow::Backpressure, 1);
        assert_eq!(archive.admit(true), Admission::Enter);
        assert_eq!(archive.admit(true), Admission::Wait);
    }

    #[test]
    fn a_place_that_is_given_back_twice_is_a_violation_and_makes_no_room() {
        let mut live = assert_violates(Kind::StreamLimit, || {
            let mut live = limit(Overflow::Drop, 1);
            live.admit(true);
            live.on_ended(Span::ZERO);
            live.on_ended(Span::ZERO);
            live
        });
        assert_eq!((live.in_flight(), live.admit(true)), (0, Admission::Enter));
        assert_eq!(live.admit(true), Admission::Drop(DropReason::StreamFull));
    }

    #[test]
    fn the_limit_of_a_lossless_stream_follows_the_latency() {
        let mut archive = limit(Overflow::Backpressure, 4);
        let mut rounds = |held_ms: u64| {
            for _ in 0..20 {
                while archive.admit(true) == Admission::Enter {}
                archive.on_ended(Span::from_millis(held_ms));
            }
            archive.limit()
        };
        assert_eq!(rounds(300), 2, "too slow: reduced to the minimum");
        assert_eq!(rounds(150), 2, "within the objective: unchanged");
        assert_eq!(rounds(20), 8, "fast: raised to the maximum");
    }
}
