//! Nets of one model, and their features of a prompt: the number of its tokens of each kind, and of all its
//! tokens.
//!
//! ```text
//! h = (ln(1 + tokens of kind 1), .., ln(1 + tokens of kind n), ln(1 + tokens))        length = exp(y(h))
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Experts, Net};
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
    single: Net,
    experts: Experts,
}

/// Nets that predict the lengths of one model's outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct LengthNets {
    parts: Parts,
    kind_of: BTreeMap<u32, usize>,
}

impl TryFrom<Parts> for LengthNets {
    type Error = LengthNetsError;

    fn try_from(parts: Parts) -> Result<Self, LengthNetsError> {
        let kinds = parts.kinds.len();
        for inputs in [parts.single.inputs(), parts.experts.inputs()] {
            if inputs != kinds + 1 {
                return Err(LengthNetsError::Inputs { kinds, inputs });
            }
        }
        let mut kind_of = BTreeMap::new();
        for (kind, tokens) in parts.kinds.iter().enumerate() {
            for token in tokens {
                if kind_of.insert(*token, kind).is_some() {
                    return Err(LengthNetsError::Twice(*token));
                }
            }
        }
        Ok(Self { parts, kind_of })
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
        let log = match source {
            LengthSource::Experts => self.parts.experts.log_length(&self.features(prompt)),
            LengthSource::Single => *self.parts.single.run(&self.features(prompt)).first()?,
            LengthSource::Mean | LengthSource::History | LengthSource::Stream => return None,
        };
        Some(f64::from(log).exp().round().clamp(1.0, MAX_PREDICTED) as u32)
    }

    fn features(&self, prompt: &[u32]) -> Vec<f32> {
        let mut counts = vec![0_u32; self.parts.kinds.len() + 1];
        for kind in prompt.iter().filter_map(|token| self.kind_of.get(token)) {
            counts[*kind] += 1;
        }
        if let Some(all) = counts.last_mut() {
            *all = prompt.len() as u32;
        }
        let logarithms = counts.iter().map(|count| f64::from(*count).ln_1p() as f32);
        logarithms.collect()
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
