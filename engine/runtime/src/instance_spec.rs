//! Specification of an instance of a generative model: its bounds come from the keys of the model, its step
//! times from a declared profile or a measurement.

use weir_flow::GenerativeModel;
use weir_graph::ModelNode;
use weir_policy::generate::{InstanceSpec, InstanceSpecError};
use weir_types::{Span, StepCurve, StepCurveError, StepProfile};

/// Tokens that a block of the cache holds.
const BLOCK_TOKENS: u32 = 16;

/// Bounds of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InstanceBounds {
    pub(crate) max_step_tokens: u32,
    pub(crate) max_sequences: u32,
    pub(crate) max_sequence_tokens: u32,
    pub(crate) cache_tokens: u32,
    pub(crate) prefix_tokens: u32,
}

impl InstanceBounds {
    /// As the keys of the model say: steps of 256 tokens and 32 sequences, and a cache for as many whole sequences, where they
    /// do not. Of a declared profile steps are no larger than it is known for.
    pub(crate) fn new(node: &ModelNode, declared: &[(u32, Span)], model: &dyn GenerativeModel) -> Self {
        let limits = model.limits();
        let whole = |key: &str, default: u32| node.settings.number(key, f64::from(default)) as u32;
        let known = declared.last().map_or(u32::MAX, |(tokens, _)| *tokens);
        let max_sequences = whole("max_sequences", 32);
        Self {
            max_step_tokens: whole("max_step_tokens", 256.min(known)),
            max_sequences,
            max_sequence_tokens: limits.max_sequence_tokens,
            cache_tokens: whole(
                "cache_tokens",
                max_sequences.saturating_mul(limits.max_sequence_tokens),
            ),
            prefix_tokens: model.prefix_tokens(),
        }
    }
}

/// An instance with these bounds and step times.
///
/// # Errors
/// [`InstanceSpecError`] where they do not fit each other.
pub(crate) fn instance_spec(
    bounds: &InstanceBounds,
    steps: StepProfile,
) -> Result<InstanceSpec, InstanceSpecError> {
    let spec = InstanceSpec {
        steps,
        max_step_tokens: bounds.max_step_tokens,
        max_sequences: bounds.max_sequences,
        max_sequence_tokens: bounds.max_sequence_tokens,
        blocks: bounds.cache_tokens.div_ceil(BLOCK_TOKENS),
        block_tokens: BLOCK_TOKENS,
        reserve_blocks: 0,
        prompt_gives_token: true,
        prefix_tokens: bounds.prefix_tokens,
    };
    spec.check()?;
    Ok(spec)
}

/// The step times that a graph declares of a model on a device: durations by tokens.
pub(crate) fn declared_steps(declared: &[(u32, Span)]) -> Option<Result<StepCurve, StepCurveError>> {
    (!declared.is_empty()).then(|| StepCurve::from_points(declared))
}
