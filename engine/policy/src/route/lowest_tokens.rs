//! Rule `lowest-tokens`: the instance with the fewest tokens of the last minute, prompts and generated ones (LiteLLM,
//! `usage-based-routing`: lowest TPM).
//!
//! With `by_speed`, tokens are weighted by `d` of a sequence alone on the instance. LiteLLM compares plain
//! counts.

use serde::{Deserialize, Serialize};
use weir_types::{InstanceId, Timestamp};

use super::view::{Cluster, Demand, least};

/// Parameters of rule `lowest-tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "snake_case")]
pub struct LowestTokens {
    /// Whether tokens are weighted by the time that one takes on the instance.
    pub by_speed: bool,
}

impl LowestTokens {
    pub(super) fn pick(self, cluster: &Cluster, demand: &Demand, now: Timestamp) -> Option<InstanceId> {
        least(cluster.candidates(demand), |_, view| {
            let weight = if self.by_speed { view.idle_token_s } else { 1.0 };
            weight * view.tokens.sum(now)
        })
    }
}
