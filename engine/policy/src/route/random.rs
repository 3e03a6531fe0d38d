//! Rule `random`: the better of two (Mitzenmacher's power of two choices; Ray Serve's default).
//!
//! Two different instances are drawn, and the one with fewer sequences is picked. The rule only needs the
//! number of sequences of each instance, and keeps the longest queue short if instances are equal.

use weir_types::InstanceId;

use super::view::{Cluster, Demand, View, least};
use crate::queue::tie_break::{GOLDEN_GAMMA, uniform_hash};

pub(super) fn pick(cluster: &Cluster, demand: &Demand) -> Option<InstanceId> {
    let candidates: Vec<(InstanceId, &View)> = cluster.candidates(demand).collect();
    let count = candidates.len();
    if count < 2 {
        return candidates.first().map(|(id, _)| *id);
    }
    let draw = |number: u64, below: usize| {
        let uniform = uniform_hash(cluster.seed ^ number.wrapping_mul(GOLDEN_GAMMA));
        ((uniform * below as f64) as usize).min(below - 1)
    };
    let first = draw(demand.number.wrapping_mul(2), count);
    let second = draw(demand.number.wrapping_mul(2).wrapping_add(1), count - 1);
    // The second draw is among the other instances.
    let second = second + usize::from(second >= first);
    least([candidates[first], candidates[second]].into_iter(), |_, view| {
        f64::from(view.sequences)
    })
}
