//! Rule `round-robin`: each instance in turn.

use weir_types::InstanceId;

use super::view::{Cluster, Demand};

pub(super) fn pick(cluster: &Cluster, demand: &Demand) -> Option<InstanceId> {
    let count = cluster.instances.len() as u64;
    let first = demand.number.checked_rem(count)?;
    let distance = |(id, _): &(InstanceId, _)| (u64::from(id.0) + count - first) % count;
    cluster.candidates(demand).min_by_key(distance).map(|(id, _)| id)
}
