//! Text: exact reads and the character error rate, in bands of the thing's width.

use serde::Serialize;
use weir_truth::TruthAttribute;

use super::attributes::{Claim, Coverage, RightCount};
use super::event::AttributeValue;
use super::share::share;

/// Accuracy of text, by the width of the objects.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TextReading {
    /// On things of any width.
    pub(crate) any_width: TextBand,
    /// On things at least 40 px wide.
    pub(crate) from_40_px: TextBand,
    /// On things at least 80 px wide.
    pub(crate) from_80_px: TextBand,
}

/// Accuracy of text on objects of a range of widths.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TextBand {
    #[serde(flatten)]
    pub(crate) asked: Coverage,
    /// Texts that equal the true text exactly.
    pub(crate) exact: RightCount,
    /// Character error rate over found objects; an object without a reported text counts with all of its
    /// characters.
    pub(crate) cer_of_found: Option<f64>,
    /// Character error rate over all objects.
    pub(crate) cer_of_all: Option<f64>,
}

impl TextReading {
    pub(super) fn new(claims: &[Claim<'_>]) -> Self {
        Self {
            any_width: TextBand::new(claims, 0.0),
            from_40_px: TextBand::new(claims, 40.0),
            from_80_px: TextBand::new(claims, 80.0),
        }
    }
}

impl TextBand {
    fn new(claims: &[Claim<'_>], width_least: f32) -> Self {
        let mut asked = Coverage::default();
        let (mut exact, mut all, mut found) = (0, Characters::default(), Characters::default());
        for claim in claims {
            let [left, _, right, _] = claim.object.r#box;
            let TruthAttribute::Text { text } = claim.truth else {
                continue;
            };
            if right - left < width_least {
                continue;
            }
            let said = match claim.said {
                Some(AttributeValue::Text(said)) => Some(said),
                _ => None,
            };
            asked.add(claim.found, said.is_some());
            exact += u64::from(said == Some(text));
            let length = text.chars().count() as u64;
            let errors = said.map_or(length, |said| strsim::levenshtein(text, said) as u64);
            all.add(length, errors);
            if claim.found {
                found.add(length, errors);
            }
        }
        Self {
            asked,
            exact: RightCount::new(exact, &asked),
            cer_of_found: share(found.errors, found.length),
            cer_of_all: share(all.errors, all.length),
        }
    }
}

#[derive(Default)]
struct Characters {
    length: u64,
    errors: u64,
}

impl Characters {
    fn add(&mut self, length: u64, errors: u64) {
        self.length += length;
        self.errors += errors;
    }
}
