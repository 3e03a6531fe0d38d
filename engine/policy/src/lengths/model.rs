//! Nets of one model, and their features of a text: the number of its tokens of each kind, and of the prompt's
//! tokens; TF-IDF of its terms, if there are any; and the number of tokens that were generated, if the nets were
//! trained on texts so far.
//!
//! ```text
//! h = (ln(1 + tokens of kind 1), .., ln(1 + tokens of kind n), ln(1 + tokens of the prompt),
//!      TF-IDF of term 1, .., TF-IDF of term m, ln(1 + generated))                     length = exp(y(h))
//! ```
//!
//! The text is the prompt. With `so_far` it is the prompt and what was generated after it, and `y` is the
//! logarithm of the length that remains.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Experts, Net, Term, Terms, TermsError};
use crate::generate::LengthSource;
use crate::generate::length::MAX_PREDICTED;

/// Reason for which nets do not fit a model's prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LengthNetsError {
    /// The number of counted features differs from the nets' inputs.
    #[error("{kinds} kinds of tokens and their sum are {} numbers, and the nets take {inputs}: train them again", .kinds + 1)]
    Inputs {
        /// Number of kinds of tokens that are counted.
        kinds: usize,
        /// Number of inputs of a net.
        inputs: usize,
    },
    /// The number of features, with terms and tokens so far, differs from the nets' inputs.
    #[error("a text has {features} features, and the nets take {inputs}: train them again")]
    Features {
        /// Number of features: kinds, tokens of the prompt, terms and tokens so far.
        features: usize,
        /// Number of inputs of a net.
        inputs: usize,
    },
    /// The terms cannot be used.
    #[error(transparent)]
    Terms(#[from] TermsError),
    /// A token is listed in two kinds.
    #[error("token {0} is listed twice in `kinds`: it is of one kind")]
    Twice(u32),
}

/// Serialised form, before it is checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    /// Tokens of each kind, which are counted together.
    kinds: Vec<Vec<u32>>,
    /// Tokens with a feature of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    terms: Vec<Term>,
    /// Whether the nets were trained on prompts with what was generated so far.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    so_far: bool,
    single: Net,
    experts: Experts,
}

/// Nets that predict the lengths of one model's outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct LengthNets {
    parts: Parts,
    kind_of: BTreeMap<u32, usize>,
    terms: Terms,
}

impl TryFrom<Parts> for LengthNets {
    type Error = LengthNetsError;

    fn try_from(parts: Parts) -> Result<Self, LengthNetsError> {
        let kinds = parts.kinds.len();
        let features = kinds + 1 + parts.terms.len() + usize::from(parts.so_far);
        for inputs in [parts.single.inputs(), parts.experts.inputs()] {
            if inputs != features {
                return Err(match features == kinds + 1 {
                    true => LengthNetsError::Inputs { kinds, inputs },
                    false => LengthNetsError::Features { features, inputs },
                });
            }
        }
        let terms = Terms::new(parts.terms.clone())?;
        let mut kind_of = BTreeMap::new();
        for (kind, tokens) in parts.kinds.iter().enumerate() {
            for token in tokens {
                if kind_of.insert(*token, kind).is_some() {
                    return Err(LengthNetsError::Twice(*token));
                }
            }
        }
        Ok(Self {
            parts,
            kind_of,
            terms,
        })
    }
}

impl From<LengthNets> for Parts {
    fn from(nets: LengthNets) -> Self {
        nets.parts
    }
}

impl LengthNets {
    /// Number of tokens expected after this prompt; `None` if the source of lengths is not a net.
    #[must_use]
    pub fn predict(&self, source: LengthSource, prompt: &[u32]) -> Option<u32> {
        self.run(source, prompt, &[])
    }

    /// Number of tokens expected after this prompt and the tokens `generated` so far. `None` if the source of
    /// lengths is not a net, or the nets were trained on prompts alone.
    #[must_use]
    pub fn predict_again(&self, source: LengthSource, prompt: &[u32], generated: &[u32]) -> Option<u32> {
        if !self.parts.so_far {
            return None;
        }
        self.run(source, prompt, generated)
    }

    fn run(&self, source: LengthSource, prompt: &[u32], generated: &[u32]) -> Option<u32> {
        let log = match source {
            LengthSource::Experts => self.parts.experts.log_length(&self.features(prompt, generated)),
            LengthSource::Single => *self.parts.single.run(&self.features(prompt, generated)).first()?,
            LengthSource::Mean | LengthSource::History | LengthSource::Stream => return None,
        };
        // Large weights may overflow within a net.
        let log = Some(f64::from(log)).filter(|log| !log.is_nan())?;
        Some(log.exp().round().clamp(1.0, MAX_PREDICTED) as u32)
    }

    fn features(&self, prompt: &[u32], generated: &[u32]) -> Vec<f32> {
        let mut counts = vec![0_u32; self.parts.kinds.len() + 1];
        let text = || prompt.iter().chain(generated);
        for kind in text().filter_map(|token| self.kind_of.get(token)) {
            counts[*kind] += 1;
        }
        if let Some(all) = counts.last_mut() {
            *all = prompt.len() as u32;
        }
        let logarithm = |count: u32| f64::from(count).ln_1p() as f32;
        let mut features: Vec<f32> = counts.into_iter().map(logarithm).collect();
        features.extend(self.terms.features(text().copied()));
        if self.parts.so_far {
            features.push(logarithm(generated.len() as u32));
        }
        features
    }
}

#[cfg(test)]
mod tests {
    use super::super::net::tests::net;
    use super::*;

    /// `single` predicts one more than the number of tokens 5 and 7, `experts` one more than that of tokens
    /// 3.
    fn parts() -> Parts {
        Parts {
            kinds: vec![vec![5, 7], vec![3]],
            terms: Vec::new(),
            so_far: false,
            single: net(&[1.0, 0.0, 0.0], &[0.0]),
            experts: Experts::new(net(&[0.0; 3], &[0.0]), vec![net(&[0.0, 1.0, 0.0], &[0.0])]).unwrap(),
        }
    }

    #[test]
    fn tokens_of_a_prompt_are_counted_by_kind() {
        let nets = LengthNets::try_from(parts()).unwrap();
        let check = |prompt: &[u32], single, experts| {
            let predicted = [LengthSource::Single, LengthSource::Experts].map(|by| nets.predict(by, prompt));
            assert_eq!(predicted, [Some(single), Some(experts)], "{prompt:?}");
        };
        check(&[], 1, 1);
        check(&[5, 9, 7, 7, 3], 4, 2);
        check(&[u32::MAX, 3, 3, 3], 1, 4);
        for source in [LengthSource::Mean, LengthSource::History, LengthSource::Stream] {
            assert_eq!(nets.predict(source, &[5]), None);
        }
    }

    #[test]
    fn what_no_sequence_can_have_is_a_number_all_the_same() {
        for (bias, length) in [(-50.0, 1), (500.0, 1_000_000_000)] {
            let nets = Parts {
                single: net(&[0.0; 3], &[bias]),
                ..parts()
            };
            let nets = LengthNets::try_from(nets).unwrap();
            assert_eq!(nets.predict(LengthSource::Single, &[5]), Some(length));
        }
    }

    /// Nets with one kind, the token 5; one term, the token 8; and the tokens so far: `single` gives the
    /// exponential of the term's feature, `experts` one more than the tokens so far.
    fn so_far() -> Parts {
        let of = |weights: &[f32; 4]| net(weights, &[0.0]);
        Parts {
            kinds: vec![vec![5]],
            terms: vec![Term { token: 8, idf: 2.0 }],
            so_far: true,
            single: of(&[0.0, 0.0, 3.0, 0.0]),
            experts: Experts::new(of(&[0.0; 4]), vec![of(&[0.0, 0.0, 0.0, 1.0])]).unwrap(),
        }
    }

    #[test]
    fn lengths_are_predicted_again_from_terms_and_tokens_so_far() {
        let nets = LengthNets::try_from(so_far()).unwrap();
        let again = |generated: &[u32]| {
            [LengthSource::Single, LengthSource::Experts].map(|by| nets.predict_again(by, &[5, 6], generated))
        };
        assert_eq!(again(&[]), [Some(1), Some(1)]);
        // The feature of the only term is 1 once the text has it: exp(3) is 20.1.
        assert_eq!(again(&[1, 8, 2]), [Some(20), Some(4)]);
        assert_eq!(nets.predict(LengthSource::Single, &[5, 8]), Some(20));
        assert_eq!(nets.predict_again(LengthSource::Mean, &[5], &[8]), None);
        let text = serde_json::to_string(&nets).unwrap();
        assert_eq!(serde_json::from_str::<LengthNets>(&text).unwrap(), nets);
        let of_prompts = LengthNets::try_from(parts()).unwrap();
        assert_eq!(of_prompts.predict_again(LengthSource::Single, &[5], &[8]), None);
    }

    #[test]
    fn output_that_is_no_number_is_no_prediction() {
        let overflows = Parts {
            single: net(&[f32::MAX, -f32::MAX, 0.0], &[0.0]),
            ..parts()
        };
        let nets = LengthNets::try_from(overflows).unwrap();
        let prompt = [[5_u32; 20], [3; 20]].concat();
        assert_eq!(nets.predict(LengthSource::Single, &prompt), None);
        assert_eq!(nets.predict(LengthSource::Experts, &prompt), Some(21));
    }

    #[test]
    fn nets_without_inputs_for_terms_are_refused() {
        let fewer = Parts {
            terms: Vec::new(),
            ..so_far()
        };
        let error = LengthNetsError::Features {
            features: 3,
            inputs: 4,
        };
        assert_eq!(LengthNets::try_from(fewer).map(|_| ()), Err(error));
        let twice = Parts {
            kinds: Vec::new(),
            terms: vec![Term { token: 8, idf: 2.0 }; 2],
            ..so_far()
        };
        assert_eq!(
            LengthNets::try_from(twice).map(|_| ()),
            Err(LengthNetsError::Terms(TermsError::Twice(8)))
        );
    }

    #[test]
    fn they_are_read_as_they_are_written() {
        let nets = LengthNets::try_from(parts()).unwrap();
        let text = serde_json::to_string(&nets).unwrap();
        assert_eq!(serde_json::from_str::<LengthNets>(&text).unwrap(), nets);
    }

    #[test]
    fn nets_that_do_not_fit_what_is_counted_are_refused() {
        let refused = |parts: Parts| LengthNets::try_from(parts).map(|_| ()).unwrap_err();
        let fewer = Parts {
            kinds: vec![vec![5]],
            ..parts()
        };
        assert_eq!(refused(fewer), LengthNetsError::Inputs { kinds: 1, inputs: 3 });
        let twice = Parts {
            kinds: vec![vec![5], vec![3, 5]],
            ..parts()
        };
        assert_eq!(refused(twice), LengthNetsError::Twice(5));
    }
}
