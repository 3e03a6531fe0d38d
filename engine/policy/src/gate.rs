//! The gate of a stream: how many of its requests may be under way.

use serde::{Deserialize, Serialize};

use crate::broker::DropReason;
use crate::time::Span;

/// What a stream does with a frame for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// It is let go.
    Drop,
    /// The source is held back.
    Hold,
}

/// What becomes of a frame at the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It becomes a request.
    Enter,
    /// It waits at the gate.
    Hold,
    /// It becomes a request that ends at once.
    Drop(DropReason),
}

/// How many requests of a stream may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateSpec {
    /// What happens to a frame for which there is no room.
    pub overflow: Overflow,
    /// How many at the beginning.
    pub begin: u32,
    /// How many at the most.
    pub most: u32,
    /// The latency objective: a stream that is held back is held so that its requests come out in time.
    pub slo: Span,
}

/// Counts the requests of one stream that are under way.
///
/// A stream that holds its source back fits their number to what the graph can do: one less when a request was under way
/// for more than half the SLO, one more when it took less than a quarter although the stream was full. A request that is
/// dropped instead is dropped for a reason of its own, so a live stream's number stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    spec: GateSpec,
    room: u32,
    under_way: u32,
}

impl Gate {
    /// The least room of a stream that is held back: one request under way and the next one ready.
    const LEAST: u32 = 2;

    /// An open gate.
    #[must_use]
    pub fn new(spec: GateSpec) -> Self {
        Self {
            spec,
            room: spec.begin.max(1),
            under_way: 0,
        }
    }

    /// A frame has come; `memory` says whether its bytes can be had.
    pub fn admit(&mut self, memory: bool) -> Admission {
        let room = self.under_way < self.room;
        match (room && memory, self.spec.overflow) {
            (true, _) => {
                self.under_way += 1;
                Admission::Enter
            }
            (false, Overflow::Hold) => Admission::Hold,
            (false, Overflow::Drop) if room => Admission::Drop(DropReason::MemoryFull),
            (false, Overflow::Drop) => Admission::Drop(DropReason::StreamFull),
        }
    }

    /// A request of the stream ended, `held` after it was let in.
    pub fn ended(&mut self, held: Span) {
        let full = self.under_way >= self.room;
        self.under_way = self.under_way.saturating_sub(1);
        if self.spec.overflow == Overflow::Drop {
            return;
        }
        if held > self.spec.slo / 2 {
            self.room = (self.room - 1).max(Self::LEAST.min(self.spec.begin.max(1)));
        } else if full && held < self.spec.slo / 4 {
            self.room = (self.room + 1).min(self.spec.most.max(self.spec.begin));
        }
    }

    /// Requests under way.
    #[must_use]
    pub fn under_way(&self) -> u32 {
        self.under_way
    }

    /// How many may be.
    #[must_use]
    pub fn room(&self) -> u32 {
        self.room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(overflow: Overflow, begin: u32) -> Gate {
        Gate::new(GateSpec {
            overflow,
            begin,
            most: 8,
            slo: Span::from_millis(400),
        })
    }

    #[test]
    fn a_full_stream_drops_or_holds() {
        let mut live = gate(Overflow::Drop, 1);
        assert_eq!(live.admit(false), Admission::Drop(DropReason::MemoryFull));
        assert_eq!(live.admit(true), Admission::Enter);
        assert_eq!(live.admit(true), Admission::Drop(DropReason::StreamFull));
        live.ended(Span::ZERO);
        assert_eq!(live.admit(true), Admission::Enter);
        let mut archive = gate(Overflow::Hold, 1);
        assert_eq!(archive.admit(true), Admission::Enter);
        assert_eq!(archive.admit(true), Admission::Hold);
    }

    #[test]
    fn a_held_stream_fits_itself_to_what_the_graph_can_do() {
        let mut archive = gate(Overflow::Hold, 4);
        let mut rounds = |held_ms: u64| {
            for _ in 0..20 {
                while archive.admit(true) == Admission::Enter {}
                archive.ended(Span::from_millis(held_ms));
            }
            archive.room()
        };
        assert_eq!(rounds(300), 2, "too slow: held back to the least");
        assert_eq!(rounds(150), 2, "in time: left as it is");
        assert_eq!(rounds(20), 8, "there is room for more");
    }
}
