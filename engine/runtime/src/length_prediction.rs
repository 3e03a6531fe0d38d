//! Lengths of texts, predicted beside the policy: numbers that come into it with the requests.

use weir_flow::SequenceSpec;
use weir_graph::{LengthPredictor, ModelNode};
use weir_policy::generate::{LengthSource, emulated_length, emulated_prediction};

/// Predictor of the lengths of a module's texts, in tokens.
pub(crate) struct LengthPrediction {
    source: LengthSource,
    predictor: LengthPredictor,
}

impl LengthPrediction {
    /// `None` where the policy has lengths from elsewhere, or nothing predicts those of this model.
    pub(crate) fn new(source: LengthSource, model: &ModelNode) -> Option<Self> {
        let predictor = model.predictor.clone().filter(|_| source.is_predicted())?;
        Some(Self { source, predictor })
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
