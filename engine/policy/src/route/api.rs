//! Interface of the router: events and effects.

use serde::{Deserialize, Serialize};
use weir_types::{DropReason, InstanceId, SequenceId, Span, Timestamp};

use super::transfer::Transfer;
use crate::generate::{InstanceState, Prefix};

/// A fact about sequences or instances.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteEvent {
    /// A sequence arrived; the router routes or drops it.
    Arrived {
        /// Sequence that arrived.
        sequence: SequenceId,
        /// Number of tokens of its prompt.
        prompt: u32,
        /// Number of tokens that it is expected to generate.
        expected: u32,
        /// Deadline of its last token.
        deadline: Timestamp,
        /// Known beginning of its prompt, if any.
        prefix: Option<Prefix>,
    },
    /// A sequence generated further tokens; the router checks whether it should move or be dropped.
    Progressed {
        /// Sequence that progressed.
        sequence: SequenceId,
        /// Number of tokens that it has generated so far.
        generated: u32,
        /// Number of tokens that it is still expected to generate.
        expected: u32,
    },
    /// The length of a sequence was predicted again, from its text so far.
    Predicted {
        /// Sequence whose length was predicted.
        sequence: SequenceId,
        /// Number of tokens that it is predicted to have generated when it ends.
        total: u32,
    },
    /// A sequence has arrived on the instance that it was to move to.
    Moved {
        /// Sequence that moved.
        sequence: SequenceId,
    },
    /// A sequence ended with its last token.
    Ended {
        /// Sequence that ended.
        sequence: SequenceId,
        /// Number of tokens that it generated.
        generated: u32,
    },
    /// A sequence ended without its last token, by a decision outside the router: its whole length stays
    /// unknown.
    Dropped {
        /// Sequence that ended.
        sequence: SequenceId,
        /// Number of tokens that it generated.
        generated: u32,
    },
    /// An instance reports its measurements and its load.
    Reported {
        /// Instance that reports.
        instance: InstanceId,
        /// Measured step times, queue and free memory.
        state: InstanceState,
    },
    /// An instance has lost the prefixes in its cache, and nothing else.
    PrefixesLost {
        /// Instance whose cache of prefixes is empty.
        instance: InstanceId,
    },
    /// An instance is lost; its sequences are routed again.
    Down {
        /// Instance that gets no more sequences.
        instance: InstanceId,
    },
    /// An instance that was lost can be used again.
    Up {
        /// Instance that returned.
        instance: InstanceId,
    },
}

/// An action that the router requests from its driver.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteEffect {
    /// Put a sequence on an instance.
    Route {
        /// Sequence to be placed.
        sequence: SequenceId,
        /// Instance that runs it.
        to: InstanceId,
        /// Number of tokens of its prompt that are expected to be in the cache there when it joins.
        reused: u32,
        /// Expected time until its last token.
        estimate: Span,
    },
    /// Move a sequence from one instance to another. The instance hands it over once no step uses it.
    Move {
        /// Sequence to be moved.
        sequence: SequenceId,
        /// Instance that the sequence leaves.
        from: InstanceId,
        /// Instance that continues the sequence.
        to: InstanceId,
        /// Data that is transferred: tokens alone, or the cache.
        by: Transfer,
    },
    /// Drop a sequence: no instance can finish it in time, or none can be used.
    Drop {
        /// Sequence that ends.
        sequence: SequenceId,
        /// Instance that the sequence is on; `None` if it was never placed.
        from: Option<InstanceId>,
        /// Reason that is reported for the drop.
        reason: DropReason,
    },
}
