//! Rule `prefix` (Preble 3.2, "E2": exploit or explore).
//!
//! If some cache holds more than `exploit` of a prompt (a fraction), the request goes to the instance that
//! holds most of it; among several, to the one with the least cost. Otherwise it goes to the instance with
//! the least cost:
//!
//! ```text
//! cost = work put there within three minutes + p (in - reused)        seconds by the profile of that instance
//! ```
//!
//! Preble's third term, the cost of evicted prefixes, is left out: instances do not report which prefixes
//! they would lose.

use serde::{Deserialize, Serialize};
use weir_types::{InstanceId, Timestamp};

use super::view::{Cluster, Demand, least};

/// Parameters of rule `prefix`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "snake_case")]
pub struct LongestPrefix {
    /// Fraction of a prompt that must be in a cache to decide the route alone.
    pub exploit: f64,
}

impl Default for LongestPrefix {
    fn default() -> Self {
        Self { exploit: 0.5 }
    }
}

impl LongestPrefix {
    pub(super) fn pick(self, cluster: &Cluster, demand: &Demand, now: Timestamp) -> Option<InstanceId> {
        let reused = cluster
            .candidates(demand)
            .map(|(_, view)| view.reused(demand.prefix));
        let most = reused.max().unwrap_or(0);
        let exploits = most > 0 && f64::from(most) > self.exploit * f64::from(demand.prompt);
        let candidates = cluster
            .candidates(demand)
            .filter(|(_, view)| !exploits || view.reused(demand.prefix) == most);
        least(candidates, |_, view| {
            let prompt = demand.prompt.saturating_sub(view.reused(demand.prefix));
            view.work_s.sum(now) + view.state.prompt_token_s * f64::from(prompt)
        })
    }
}
