//! Rule `least-requests`: the instance with the fewest sequences that have not ended (AIBrix, `least-request`).

use weir_types::InstanceId;

use super::view::{Cluster, Demand, least};

pub(super) fn pick(cluster: &Cluster, demand: &Demand) -> Option<InstanceId> {
    least(cluster.candidates(demand), |_, view| f64::from(view.sequences))
}
