//! Features that only words tell: TF-IDF of the tokens of a text (GoodServe 3.2, after Sparck Jones).
//!
//! ```text
//! f_t = n_t ln(N / N_t)        n_t tokens t in the text, of N texts N_t have one
//! h   = f / |f|
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum number of terms: more would make a prediction slow.
pub const MAX_TERMS: usize = 4_096;

/// Reason for which terms cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TermsError {
    /// There are more terms than a prediction may take.
    #[error("{0} terms: give at most {max} in `terms`", max = MAX_TERMS)]
    TooMany(usize),
    /// A token is listed twice.
    #[error("token {0} is listed twice in `terms`: list it once")]
    Twice(u32),
    /// The weight of a token cannot be used.
    #[error("the weight of token {0} in `terms` is not a number of at least 0")]
    Weight(u32),
}

/// A token that is a feature.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// Index of the token in the vocabulary.
    pub token: u32,
    /// Weight of the token: `ln(N / N_t)` over the texts that were trained on.
    pub idf: f32,
}

/// Terms with their weights.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Terms {
    terms: Vec<Term>,
    place_of: BTreeMap<u32, usize>,
}

impl Terms {
    /// Checks terms that were read.
    ///
    /// # Errors
    /// [`TermsError`] if there are too many, one is listed twice, or a weight is not a number of at least 0.
    pub fn new(terms: Vec<Term>) -> Result<Self, TermsError> {
        if terms.len() > MAX_TERMS {
            return Err(TermsError::TooMany(terms.len()));
        }
        let mut place_of = BTreeMap::new();
        for (place, term) in terms.iter().enumerate() {
            if !(term.idf.is_finite() && term.idf >= 0.0) {
                return Err(TermsError::Weight(term.token));
            }
            if place_of.insert(term.token, place).is_some() {
                return Err(TermsError::Twice(term.token));
            }
        }
        Ok(Self { terms, place_of })
    }

    /// Terms of texts: the tokens that most of them have, without those that all have. At most `most`, and at
    /// most [`MAX_TERMS`].
    #[must_use]
    pub fn fit<'a>(texts: impl IntoIterator<Item = &'a [u32]>, most: usize) -> Self {
        let mut texts_with: BTreeMap<u32, u32> = BTreeMap::new();
        let mut count = 0_u32;
        for text in texts {
            count += 1;
            let mut distinct = text.to_vec();
            distinct.sort_unstable();
            distinct.dedup();
            for token in distinct {
                *texts_with.entry(token).or_default() += 1;
            }
        }
        let mut found: Vec<(u32, u32)> = texts_with.into_iter().filter(|(_, with)| *with < count).collect();
        found.sort_by_key(|(token, with)| (std::cmp::Reverse(*with), *token));
        found.truncate(most.min(MAX_TERMS));
        let weighted = found.into_iter().map(|(token, with)| Term {
            token,
            idf: (f64::from(count) / f64::from(with)).ln() as f32,
        });
        let terms: Vec<Term> = weighted.collect();
        let place_of = terms.iter().enumerate().map(|(place, term)| (term.token, place));
        Self {
            place_of: place_of.collect(),
            terms,
        }
    }

    /// Terms in the order of their features.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// A number for each term, from 0 to 1: their squares add up to 1, or all are 0 if the text has none.
    #[must_use]
    pub fn features(&self, text: impl IntoIterator<Item = u32>) -> Vec<f32> {
        // Sums of squares of large weights do not overflow in these numbers.
        let mut weights = vec![0.0_f64; self.terms.len()];
        for token in text {
            if let Some(place) = self.place_of.get(&token) {
                weights[*place] += f64::from(self.terms[*place].idf);
            }
        }
        let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
        let length = if squares > 0.0 { squares.sqrt() } else { 1.0 };
        weights.iter().map(|weight| (weight / length) as f32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_few_texts_weigh_more_than_those_of_many() {
        let texts: [&[u32]; 4] = [&[1, 2, 9], &[1, 2, 2], &[1, 3], &[1, 2]];
        let terms = Terms::fit(texts, 10);
        let tokens: Vec<u32> = terms.terms().iter().map(|term| term.token).collect();
        // All have token 1, so that it tells nothing.
        assert_eq!(tokens, [2, 3, 9]);
        let [two, three] = [0, 1].map(|place: usize| terms.terms()[place].idf);
        assert!((two - (4.0_f32 / 3.0).ln()).abs() < 1e-6 && (three - 4.0_f32.ln()).abs() < 1e-6);
        let features = terms.features([1, 2, 2, 3, 77]);
        let length = (4.0 * two * two + three * three).sqrt();
        for (found, expected) in features.iter().zip([2.0 * two / length, three / length, 0.0]) {
            assert!((found - expected).abs() < 1e-6, "{features:?}");
        }
        assert_eq!(terms.features([1, 77]), [0.0; 3]);
        let large = Terms::new(vec![Term {
            token: 4,
            idf: f32::MAX,
        }])
        .unwrap();
        assert_eq!(large.features([4, 4, 5]), [1.0]);
        assert_eq!(Terms::fit(texts, 1).terms().len(), 1);
        assert_eq!(Terms::fit([], 3), Terms::default());
    }

    #[test]
    fn terms_that_cannot_be_are_refused() {
        let term = |token, idf| Term { token, idf };
        let refused = |terms: Vec<Term>| Terms::new(terms).map(|_| ()).unwrap_err();
        assert_eq!(refused(vec![term(5, 1.0), term(5, 2.0)]), TermsError::Twice(5));
        for idf in [f32::NAN, -1.0] {
            assert_eq!(refused(vec![term(6, idf)]), TermsError::Weight(6));
        }
        let many = (0..=MAX_TERMS as u32).map(|token| term(token, 1.0)).collect();
        assert_eq!(refused(many), TermsError::TooMany(MAX_TERMS + 1));
    }
}
