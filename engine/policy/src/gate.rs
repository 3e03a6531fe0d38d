//! The gate of a stream: how many of its requests may be under way.

use serde::{Deserialize, Serialize};

use crate::broker::DropReason;

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

/// Counts the requests of one stream that are under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    overflow: Overflow,
    most: u32,
    under_way: u32,
}

impl Gate {
    /// A gate that lets `most` be under way.
    #[must_use]
    pub fn new(overflow: Overflow, most: u32) -> Self {
        Self {
            overflow,
            most: most.max(1),
            under_way: 0,
        }
    }

    /// A frame has come; `memory` says whether its bytes can be had.
    pub fn admit(&mut self, memory: bool) -> Admission {
        let room = self.under_way < self.most;
        match (room && memory, self.overflow) {
            (true, _) => {
                self.under_way += 1;
                Admission::Enter
            }
            (false, Overflow::Hold) => Admission::Hold,
            (false, Overflow::Drop) if room => Admission::Drop(DropReason::MemoryFull),
            (false, Overflow::Drop) => Admission::Drop(DropReason::StreamFull),
        }
    }

    /// A request of the stream ended.
    pub fn ended(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Requests under way.
    #[must_use]
    pub fn under_way(&self) -> u32 {
        self.under_way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_stream_drops_or_holds() {
        let mut live = Gate::new(Overflow::Drop, 1);
        assert_eq!(live.admit(false), Admission::Drop(DropReason::MemoryFull));
        assert_eq!(live.admit(true), Admission::Enter);
        assert_eq!(live.admit(true), Admission::Drop(DropReason::StreamFull));
        live.ended();
        assert_eq!(live.admit(true), Admission::Enter);
        let mut archive = Gate::new(Overflow::Hold, 1);
        assert_eq!(archive.admit(true), Admission::Enter);
        assert_eq!(archive.admit(true), Admission::Hold);
    }
}
