//! Fallback of requests that a stage of a cascade cannot serve: earlier stages have answered already.

use serde::{Deserialize, Serialize};
use weir_types::DropReason;

/// Condition under which a request continues with the answers that it has, instead of being dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// Never, because there is no answer yet: modules outside cascades, and first stages.
    #[default]
    Never,
    /// If the request's batch failed.
    WhenFailed,
    /// If the batch failed, or the request would be late. Beyond KEN, which drops no requests.
    WhenLate,
}

impl Fallback {
    /// Whether a request that would be dropped for `reason` continues instead.
    #[must_use]
    pub const fn takes(self, reason: DropReason) -> bool {
        match reason {
            DropReason::Failed => !matches!(self, Self::Never),
            DropReason::Infeasible | DropReason::OverBudget | DropReason::Shed => {
                matches!(self, Self::WhenLate)
            }
            DropReason::Superseded
            | DropReason::StreamFull
            | DropReason::MemoryFull
            | DropReason::NotDecoded
            | DropReason::Stopped => false,
        }
    }

    /// Whether the module is optional: no request is dropped for lack of time for it.
    #[must_use]
    pub const fn is_optional(self) -> bool {
        matches!(self, Self::WhenLate)
    }

    /// For serde: most modules have none.
    pub(crate) const fn is_never(&self) -> bool {
        matches!(self, Self::Never)
    }
}
