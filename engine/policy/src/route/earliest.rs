//! Rule `earliest`: the instance with the least estimated finish, `min T` of GoodServe's equation 2. Not among the paper's
//! baselines.

use weir_types::InstanceId;

use super::view::{Cluster, Demand, least};

pub(super) fn pick(cluster: &Cluster, demand: &Demand) -> Option<InstanceId> {
    least(cluster.candidates(demand), |_, view| view.estimate_s(demand))
}
