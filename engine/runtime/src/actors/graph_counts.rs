//! Counts of graphs, which the egress adds up over graphs that take each other's place.

use std::collections::BTreeMap;

use weir_policy::ModuleStats;
use weir_policy::gears::GearTally;
use weir_policy::reservations::ReserveReport;
use weir_types::ModuleId;

use crate::control_times::ControlTimes;

/// Counts of a graph.
#[derive(Debug, Default)]
pub(crate) struct GraphStats {
    /// By module, with their numbers in reports.
    pub(crate) modules: Vec<(ModuleId, ModuleStats)>,
    /// Times of its gears, if it has cascades.
    pub(crate) gears: Option<GearTally>,
    /// Report of its reservations, if models are partitioned.
    pub(crate) reservations: Option<ReserveReport>,
    pub(crate) control: ControlTimes,
}

/// Counts of graphs together.
#[derive(Debug, Clone, Default)]
pub(crate) struct GraphCounts {
    pub(crate) modules: BTreeMap<ModuleId, ModuleStats>,
    pub(crate) gears: Option<GearTally>,
    pub(crate) reservations: Option<ReserveReport>,
    pub(crate) control: ControlTimes,
}

impl GraphCounts {
    /// Adds those of another graph, which came later than those that are in it.
    pub(crate) fn add(&mut self, later: GraphStats) {
        for (module, stats) in later.modules {
            self.modules.entry(module).or_default().merge(&stats);
        }
        if let Some(mut gears) = later.gears {
            if let Some(earlier) = &self.gears {
                gears.add_earlier(earlier);
            }
            self.gears = Some(gears);
        }
        self.reservations = later.reservations.or(self.reservations.take());
        self.control.merge(&later.control);
    }
}
