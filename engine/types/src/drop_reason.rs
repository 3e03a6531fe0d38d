//! Why a request ends before it comes out.

use serde::{Deserialize, Serialize};

/// Why a request ended before it came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// It would come out after its deadline.
    Infeasible,
    /// It used up its share of the SLO.
    OverBudget,
    /// It was turned away because a module is overloaded.
    Shed,
    /// Its stream has as many requests under way as it may.
    StreamFull,
    /// Decoded frames take as much memory as they may.
    MemoryFull,
    /// Its batch failed.
    Failed,
    /// The run ended before it came out.
    Stopped,
}

impl DropReason {
    /// Its name, as reports have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Infeasible => "infeasible",
            Self::OverBudget => "over-budget",
            Self::Shed => "shed",
            Self::StreamFull => "stream-full",
            Self::MemoryFull => "memory-full",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}
