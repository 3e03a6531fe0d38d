//! Lengths of texts, predicted beside the policy: numbers that come into it with the requests, and again with
//! steps, from the text so far.

use weir_flow::SequenceSpec;
use weir_graph::{LengthPredictor, ModelNode};
use weir_policy::GenerateSpec;
use weir_policy::generate::{LengthSource, emulated_length, emulated_prediction, emulated_remaining};

/// Predictor of the lengths of a module's texts, in tokens.
pub(crate) struct LengthPrediction {
    source: LengthSource,
    predictor: LengthPredictor,
    /// Number of tokens between two predictions of a sequence's length.
    check_tokens: u32,
}

impl LengthPrediction {
    /// `None` where the policy has lengths from elsewhere, or nothing predicts those of this model.
    pub(crate) fn new(generate: &GenerateSpec, model: &ModelNode) -> Option<Self> {
        let source = generate.length;
        let predictor = model.predictor.clone().filter(|_| source.is_predicted())?;
        Some(Self {
            source,
            predictor,
            check_tokens: generate.router.check_tokens.max(1),
        })
    }

    /// Number of tokens that a sequence is expected to generate after those that it has. `None` where its
    /// length is not predicted again after so many, or its text says no more than its prompt.
    pub(crate) fn predict_again(&self, spec: &SequenceSpec, generated: &[u32]) -> Option<u32> {
        let count = generated.len() as u32;
        if count == 0 || !count.is_multiple_of(self.check_tokens) {
            return None;
        }
        match &self.predictor {
            LengthPredictor::Nets(nets) => nets.predict_again(self.source, &spec.prompt, generated),
            LengthPredictor::Emulated { error } => {
                let drawn = (spec.sampling.seed, spec.max_tokens);
                Some(emulated_remaining(drawn, count, *error))
            }
        }
    }

    /// Tokens that each is expected to generate.
    pub(crate) fn predict(&self, sequences: &[SequenceSpec]) -> Vec<u32> {
        let length = |spec: &SequenceSpec| match &self.predictor {
            LengthPredictor::Nets(nets) => nets.predict(self.source, &spec.prompt),
            LengthPredictor::Emulated { error } => {
                let seed = spec.sampling.seed;
                let length = emulated_length(seed, spec.max_tokens);
                Some(emulated_prediction(length, seed, *error))
            }
        };
        let all: Option<Vec<u32>> = sequences.iter().map(length).collect();
        all.unwrap_or_default()
    }
}
