//! Rule `earliest`: the instance with the least estimated finish, `min T` of GoodServe's equation 2 with the work that was
//! routed since the latest report ([`View::estimate_with_routed_s`]). Not among the paper's baselines.

use weir_types::InstanceId;

use super::view::{Cluster, Demand, View, least};

pub(super) fn pick(cluster: &Cluster, demand: &Demand) -> Option<InstanceId> {
    least(cluster.candidates(demand), |_, view: &View| {
        view.estimate_with_routed_s(demand)
    })
}
