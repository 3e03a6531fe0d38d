//! Which answer of a cascade counts (KEN 2): those of its stages are compared by certainty.

use serde::{Deserialize, Serialize};

/// Whose answer counts where several stages gave one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Settle {
    /// The last that gave a valid one: of a certainty above 0.
    #[default]
    Last,
    /// The one of the highest certainty; of equal ones the later.
    Surest,
}

impl Settle {
    /// Whether a later answer takes the place of an earlier one. Certainties are from 0 to 1; `None`: there is no answer.
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

/// Whether an answer of that certainty is accepted, by the least that is. What is not a number is not accepted.
#[must_use]
pub fn is_accepted(certainty: f32, least: f32) -> bool {
    certainty >= least
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_valid_answer_counts_or_the_surest() {
        let cases = [
            // An invalid answer does not take the place of a valid one; of two invalid ones the later counts.
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
        /// Raising what is asked for never lowers what is handed on.
        #[test]
        fn a_higher_threshold_accepts_no_more(certainty in 0.0_f32..=1.0, a in 0.0_f32..=1.0, b in 0.0_f32..=1.0) {
            prop_assert!(!is_accepted(certainty, a.max(b)) || is_accepted(certainty, a.min(b)));
        }
    }
}
