//! What becomes of a request that a stage of a cascade cannot serve: the stages before it have answered already.

use serde::{Deserialize, Serialize};
use weir_types::DropReason;

/// When a request goes on with the answers that it has, instead of being dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// Never: there is no answer yet. Of modules that are in no cascade, and of first stages.
    #[default]
    Never,
    /// Where its batch failed.
    WhenFailed,
    /// Also where it would be late. Beyond KEN, which drops nothing.
    WhenLate,
}

impl Fallback {
    /// Whether a request that would be dropped for `reason` goes on.
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

    /// Whether nothing is lost where requests have no time for the module.
    #[must_use]
    pub const fn is_optional(self) -> bool {
        matches!(self, Self::WhenLate)
    }

    /// For serde: most modules have none.
    pub(crate) const fn is_never(&self) -> bool {
        matches!(self, Self::Never)
    }
}
