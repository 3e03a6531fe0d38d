//! Reasons for which a request is dropped.

use serde::{Deserialize, Serialize};

/// The reason for which a request was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// The request would miss its deadline.
    Infeasible,
    /// The request exceeded its share of the SLO.
    OverBudget,
    /// Admission control: a module is overloaded.
    Shed,
    /// A newer frame of its stream took its place.
    Superseded,
    /// Its stream has reached the limit of requests in flight.
    StreamFull,
    /// Decoded frames have reached their memory limit.
    MemoryFull,
    /// The frame was not decoded, because its stream has more frames than can be used.
    NotDecoded,
    /// Its batch failed.
    Failed,
    /// The run ended while it was in flight.
    Stopped,
}

impl DropReason {
    /// The name in reports and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Infeasible => "infeasible",
            Self::OverBudget => "over-budget",
            Self::Shed => "shed",
            Self::Superseded => "superseded",
            Self::StreamFull => "stream-full",
            Self::MemoryFull => "memory-full",
            Self::NotDecoded => "not-decoded",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}
