//! Nets for tiers of lengths under a gate (GoodServe 3.2, Figure 4).
//!
//! ```text
//! p = softmax(R(h))    y = sum over k of p_k E_k(h)        logarithm of the length
//! ```

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::net::Net;

/// Reason for which nets do not form experts under a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ExpertsError {
    /// The number of the gate's outputs differs from the number of experts.
    #[error("the gate chooses among {gate} experts, and there are {experts}: train them together")]
    Gate {
        /// Number of outputs of the gate.
        gate: usize,
        /// Number of expert nets.
        experts: usize,
    },
    /// An expert takes other features than the gate, or gives more than one number.
    #[error(
        "expert {0} does not take what the gate takes, or gives more than one number: train them together"
    )]
    Expert(usize),
}

/// Serialised form, before it is checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    gate: Net,
    experts: Vec<Net>,
}

/// A gate net that chooses among expert nets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Experts {
    parts: Parts,
}

impl TryFrom<Parts> for Experts {
    type Error = ExpertsError;

    fn try_from(parts: Parts) -> Result<Self, ExpertsError> {
        Self::new(parts.gate, parts.experts)
    }
}

impl From<Experts> for Parts {
    fn from(experts: Experts) -> Self {
        experts.parts
    }
}

impl Experts {
    /// Combines nets that were trained together.
    ///
    /// # Errors
    /// [`ExpertsError`] if they do not fit together.
    pub fn new(gate: Net, experts: Vec<Net>) -> Result<Self, ExpertsError> {
        if gate.outputs() != experts.len() {
            return Err(ExpertsError::Gate {
                gate: gate.outputs(),
                experts: experts.len(),
            });
        }
        let fits = |net: &Net| net.inputs() == gate.inputs() && net.outputs() == 1;
        match experts.iter().position(|net| !fits(net)) {
            Some(index) => Err(ExpertsError::Expert(index)),
            None => Ok(Self {
                parts: Parts { gate, experts },
            }),
        }
    }

    /// Number of features that the nets take.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.parts.gate.inputs()
    }

    /// Predicted natural logarithm of the length for these features.
    #[must_use]
    pub fn log_length(&self, features: &[f32]) -> f32 {
        let scores = self.parts.gate.run(features);
        let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f32> = scores.iter().map(|score| (score - most).exp()).collect();
        let sum: f32 = weights.iter().sum();
        let weighted = weights.iter().zip(&self.parts.experts);
        weighted
            // Experts with almost no weight are not run.
            .filter(|(weight, _)| **weight > 1e-4 * sum)
            .map(|(weight, expert)| weight / sum * expert.run(features).first().copied().unwrap_or(0.0))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::net::tests::net;
    use super::*;

    #[test]
    fn the_gate_weights_its_experts() {
        let experts = vec![net(&[0.0], &[2.0]), net(&[0.0], &[6.0])];
        let of = Experts::new(net(&[100.0, -100.0], &[0.0, 0.0]), experts).unwrap();
        for (feature, log) in [(1.0, 2.0), (-1.0, 6.0), (0.0, 4.0)] {
            assert!((of.log_length(&[feature]) - log).abs() < 1e-5, "{feature}");
        }
    }

    #[test]
    fn nets_that_were_not_trained_together_are_refused() {
        let one = || net(&[0.0], &[2.0]);
        let found = Experts::new(net(&[1.0, 1.0], &[0.0, 0.0]), vec![one()]);
        assert_eq!(found.map(|_| ()), Err(ExpertsError::Gate { gate: 2, experts: 1 }));
        let found = Experts::new(net(&[1.0], &[0.0]), vec![net(&[0.0; 2], &[2.0])]);
        assert_eq!(found.map(|_| ()), Err(ExpertsError::Expert(0)));
    }
}
