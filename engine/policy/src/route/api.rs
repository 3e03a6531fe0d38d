//! What a router is notified of, and what it asks for.

use serde::{Deserialize, Serialize};
use weir_types::{DropReason, InstanceId, SequenceId, Span, Timestamp};

use super::transfer::Transfer;
use crate::generate::InstanceState;

/// What prompts begin with that have a beginning in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefix {
    /// Names it: a hash of its tokens, or of the template that it comes from.
    pub id: u64,
    /// Its tokens.
    pub tokens: u32,
}

/// What a router is notified of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteEvent {
    /// A sequence arrived. It is routed or dropped.
    Arrived {
        /// Which.
        sequence: SequenceId,
        /// Tokens of its prompt.
        prompt: u32,
        /// Tokens that it is expected to generate.
        expected: u32,
        /// When it must have its last token.
        deadline: Timestamp,
        /// What its prompt begins with.
        prefix: Option<Prefix>,
    },
    /// A sequence has gone on: it is looked at again.
    Progressed {
        /// Which.
        sequence: SequenceId,
        /// Tokens that it has generated.
        generated: u32,
        /// Tokens that it is expected to generate yet.
        expected: u32,
    },
    /// A sequence is on the instance that it was to move to.
    Moved {
        /// Which.
        sequence: SequenceId,
    },
    /// A sequence ended: with its last token, or dropped.
    Ended {
        /// Which.
        sequence: SequenceId,
        /// Tokens that it generated.
        generated: u32,
    },
    /// An instance says what it measured and holds.
    Reported {
        /// Which.
        instance: InstanceId,
        /// What it says.
        state: InstanceState,
    },
    /// An instance is lost. Its sequences are routed again.
    Down {
        /// Which.
        instance: InstanceId,
    },
    /// An instance is there again.
    Up {
        /// Which.
        instance: InstanceId,
    },
}

/// What a router asks for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteEffect {
    /// Put this sequence on an instance.
    Route {
        /// Which.
        sequence: SequenceId,
        /// Where.
        to: InstanceId,
        /// Tokens of its prompt that should be in the cache there.
        reused: u32,
        /// How long it should take.
        estimate: Span,
    },
    /// Take it from one instance to another: the instance is to hand it on once no step has it.
    Move {
        /// Which.
        sequence: SequenceId,
        /// Where it is.
        from: InstanceId,
        /// Where to.
        to: InstanceId,
        /// What goes over the link.
        by: Transfer,
    },
    /// End it: no instance can finish it in time, or none is there.
    Drop {
        /// Which.
        sequence: SequenceId,
        /// Where it is, if on an instance.
        from: Option<InstanceId>,
        /// Why.
        reason: DropReason,
    },
}
