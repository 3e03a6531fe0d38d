//! Rule `just-enough` (GoodServe 3.4, A.2): the slowest instance that is in time.
//!
//! ```text
//! T = q + p (in - reused) + d out
//! among those with T <= time left and with memory: the largest d;    else, of all, the least T - D
//! ```
//!
//! A sequence is checked after every `check_tokens` tokens. It is late if `d` times its expected further
//! tokens exceeds the time left. Then the same rule picks another instance, at most `max_moves` times.
//! Details that the paper leaves open are as in its authors' code: the gain of `q`, and a move even if it
//! does not help. `moves = "better"` moves only if the sequence should end earlier, `"never"` never moves.

use serde::{Deserialize, Serialize};
use weir_types::InstanceId;

use super::view::{Cluster, Demand, View, least};

/// Condition for moving a sequence to another instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moves {
    /// The sequence is late.
    #[default]
    Late,
    /// The sequence is late and should end earlier on the other instance.
    Better,
    /// Sequences are never moved.
    Never,
}

/// Parameters of rule `just-enough`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "snake_case")]
pub struct JustEnough {
    /// Condition for moves.
    pub moves: Moves,
    /// Maximum number of moves of a sequence.
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

    /// Instance that a sequence on `from` should move to, if any; `demand` excludes `from`.
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
