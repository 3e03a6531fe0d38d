//! Choice among the answers of a cascade (KEN 2): answers of its stages are compared by certainty.

use serde::{Deserialize, Serialize};
use weir_types::DropReason;

use crate::accounting::report::StageCounts;

/// Rule that chooses the answer if several stages gave one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Settle {
    /// The latest valid answer, with a certainty above 0.
    #[default]
    Last,
    /// The answer with the highest certainty; among equals the latest.
    Surest,
}

impl Settle {
    /// Whether a later answer replaces an earlier one. Certainties are from 0 to 1; `None`: there is no
    /// answer.
    #[must_use]
    pub fn replaces(self, earlier: Option<f32>, later: Option<f32>) -> bool {
        match (earlier, later) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(earlier), Some(later)) => match self {
                Self::Last => later > 0.0 || earlier <= 0.0,
                Self::Surest => later >= earlier,
            },
        }
    }
}

/// Whether an answer with that certainty is accepted by a stage whose threshold is `least`. NaN is not
/// accepted.
#[must_use]
pub fn is_accepted(certainty: f32, least: f32) -> bool {
    certainty >= least
}

/// Rule of a stage for its answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageRule {
    /// Whether the stage is the last one, which accepts all answers.
    pub is_last: bool,
    /// Rule that chooses among answers of several stages.
    pub settle: Settle,
    /// Least certainty of an accepted answer; above 1, all items are handed on.
    pub certainty: f32,
}

/// Decision on one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it replaces the earlier answer.
    pub replaces: bool,
    /// Whether it is accepted, so that no further stage is asked.
    pub is_accepted: bool,
}

impl StageRule {
    /// Decides on an answer with certainty `later`, after an earlier one or none, and counts the outcome.
    pub fn on_answer(&self, earlier: Option<f32>, later: f32, counts: &mut StageCounts) -> Verdict {
        let is_accepted = self.is_last || is_accepted(later, self.certainty);
        counts.accepted += u64::from(is_accepted);
        counts.handed_on += u64::from(!is_accepted);
        Verdict {
            replaces: self.settle.replaces(earlier, Some(later)),
            is_accepted,
        }
    }

    /// The stage did not answer an item, for the reason `fallback`; returns whether no further stage is
    /// asked. If there is no time left for this stage, there is none for later ones either.
    pub fn on_unanswered(&self, fallback: Option<DropReason>, counts: &mut StageCounts) -> bool {
        let is_late = fallback.is_some_and(|reason| reason != DropReason::Failed);
        counts.accepted_late += u64::from(is_late);
        counts.failed += u64::from(!is_late);
        is_late || self.is_last
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_valid_answer_counts_or_the_surest() {
        let cases = [
            // An invalid answer does not replace a valid one; of two invalid ones the later counts.
            (Some(0.3), Some(0.0), false, false),
            (Some(0.0), Some(0.0), true, true),
            (Some(0.8), Some(0.5), true, false),
            (Some(0.5), Some(0.5), true, true),
            (Some(0.2), None, false, false),
            (None, Some(0.0), true, true),
        ];
        for (earlier, later, last, surest) in cases {
            assert_eq!(
                Settle::Last.replaces(earlier, later),
                last,
                "{earlier:?} {later:?}"
            );
            assert_eq!(
                Settle::Surest.replaces(earlier, later),
                surest,
                "{earlier:?} {later:?}"
            );
        }
    }

    proptest! {
        /// A higher threshold never accepts more answers.
        #[test]
        fn a_higher_threshold_accepts_no_more(certainty in 0.0_f32..=1.0, a in 0.0_f32..=1.0, b in 0.0_f32..=1.0) {
            prop_assert!(!is_accepted(certainty, a.max(b)) || is_accepted(certainty, a.min(b)));
        }
    }
}
