//! Rule `most-free` (Llumnix 4.4): the instance with the most free memory for each of its sequences.
//!
//! ```text
//! freeness = (free blocks - blocks of waiting sequences) / sequences
//! ```
//!
//! If an instance has fewer than `move_below` free blocks a sequence, one sequence moves to the instance with
//! the most, if that has at least twice as many. The sequence with the fewest tokens moves, since it is the
//! cheapest to move. Llumnix moves caches between equal devices almost without interruption; here the driver
//! determines the cost.

use serde::{Deserialize, Serialize};
use weir_types::InstanceId;

use super::view::{Cluster, Demand, View, least};

/// Parameters of rule `most-free`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "snake_case")]
pub struct MostFree {
    /// Freeness, in blocks a sequence, below which sequences are moved away; 0 for never.
    pub move_below: f64,
}

impl Default for MostFree {
    fn default() -> Self {
        // Value published with Llumnix.
        Self { move_below: 3.0 }
    }
}

fn freeness(view: &View) -> f64 {
    f64::from(view.free_blocks()) / f64::from(view.sequences.max(1))
}

impl MostFree {
    pub(super) fn pick(self, cluster: &Cluster, demand: &Demand) -> Option<InstanceId> {
        least(cluster.candidates(demand), |_, view| -freeness(view))
    }

    /// Instance that one sequence of `from` should move to, if any.
    pub(super) fn relief(self, cluster: &Cluster, from: InstanceId) -> Option<InstanceId> {
        let view = cluster.instances.get(from.index())?;
        if freeness(view) >= self.move_below || view.sequences < 2 {
            return None;
        }
        let others = (0..).map(InstanceId).zip(&cluster.instances);
        let others = others.filter(|(id, other)| other.is_up && *id != from);
        let freest = least(others, |_, other| -freeness(other))?;
        let gain = freeness(&cluster.instances[freest.index()]);
        (gain >= 2.0 * freeness(view) && gain > 0.0).then_some(freest)
    }
}
