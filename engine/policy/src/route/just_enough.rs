//! Rule `just-enough` (GoodServe 3.4, A.2): the slowest instance that is in time.
//!
//! ```text
//! T = q + p (in - reused) + d out
//! among those with T <= time left and with memory: the largest d;    else, of all, the least T - D
//! ```
//!
//! A sequence is looked at again every so many tokens: it is late where `d` times the tokens that are expected yet exceeds
//! the time left. Then it goes on elsewhere by the same rule, its present instance excluded, `max_moves` times at most. What
//! the paper leaves open is as in its authors' code: the gain of `q`, and that it moves even where that helps nothing;
//! `moves = "better"` moves only where the sequence should end earlier, `"never"` not at all.

use serde::{Deserialize, Serialize};
use weir_types::InstanceId;

use super::view::{Cluster, Demand, View, least};

/// When a sequence that is late goes on elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moves {
    /// Whenever it is late.
    #[default]
    Late,
    /// Where it is late and should end earlier elsewhere.
    Better,
    /// Never.
    Never,
}

/// Its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "snake_case")]
pub struct JustEnough {
    /// When sequences move.
    pub moves: Moves,
    /// Most moves of a sequence.
    pub max_moves: u32,
}

impl Default for JustEnough {
    fn default() -> Self {
        Self {
            moves: Moves::Late,
            max_moves: 10,
        }
    }
}

impl JustEnough {
    pub(super) fn pick(self, cluster: &Cluster, demand: &Demand) -> Option<InstanceId> {
        let in_time = cluster
            .candidates(demand)
            .filter(|(_, view)| view.estimate_s(demand) <= demand.left_s && view.has_memory(demand));
        // The deadline is the same everywhere: the least T - D is the least T.
        least(in_time, |_, view| -view.token_s())
            .or_else(|| least(cluster.candidates(demand), |_, view| view.estimate_s(demand)))
    }

    /// Where a sequence goes on whose present instance is `from`, if elsewhere. `demand` excludes that.
    pub(super) fn reconsider(
        self,
        cluster: &Cluster,
        from: &View,
        demand: &Demand,
        moves: u32,
    ) -> Option<InstanceId> {
        let rest_s = from.token_s() * f64::from(demand.expected);
        if self.moves == Moves::Never || moves >= self.max_moves || rest_s <= demand.left_s {
            return None;
        }
        let to = self.pick(cluster, demand)?;
        let is_better = || cluster.instances[to.index()].estimate_s(demand) < rest_s;
        (self.moves == Moves::Late || is_better()).then_some(to)
    }
}
