//! Branch shedding: requests whose branch downstream is overloaded are deprioritized here. With exclusive branches or
//! varying fan-out, one branch may be overloaded while another has unused capacity.

use weir_types::{StreamId, Timestamp};

use super::branch_load::{BranchLoad, BranchLoadSpec};
use crate::pard::state_planner::StatePlanner;

/// Load about to arrive at each module downstream, by module id.
#[derive(Debug, Clone)]
pub(crate) struct BranchShedding {
    spec: BranchLoadSpec,
    loads: Vec<BranchLoad>,
}

impl BranchShedding {
    /// Starts without arrivals.
    pub(crate) fn new(spec: BranchLoadSpec) -> Self {
        Self {
            spec,
            loads: Vec::new(),
        }
    }

    /// Counts a request of `stream`; not needed if streams do not differ.
    pub(crate) fn observe(&mut self, stream: StreamId, planner: &StatePlanner, now: Timestamp) {
        if !planner.is_stream_dependent() {
            return;
        }
        let downstream = planner.modules_downstream();
        self.loads
            .resize_with(downstream.len(), || BranchLoad::new(self.spec));
        for (load, &module) in self.loads.iter_mut().zip(downstream) {
            if let Some(items) = planner.expected_items(stream, module) {
                load.observe(items, planner.throughput(module), now);
            }
        }
    }

    /// Probability with which a request of `stream` is deprioritized: the largest excess over the modules
    /// downstream, or 1 above a cost limit.
    pub(crate) fn shed_probability(&self, stream: StreamId, planner: &StatePlanner) -> f64 {
        if !planner.is_stream_dependent() {
            return 0.0;
        }
        let downstream = planner.modules_downstream().iter().zip(&self.loads);
        let probabilities = downstream.map(|(&module, load)| {
            let Some(items) = planner.expected_items(stream, module) else {
                return 0.0;
            };
            let limit = planner.cost_limit(module);
            if limit.is_some_and(|limit| items > f64::from(limit)) {
                return 1.0;
            }
            load.excess_probability(items)
        });
        probabilities.fold(0.0, f64::max)
    }
}
