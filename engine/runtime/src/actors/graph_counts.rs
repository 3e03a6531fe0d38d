//! Counts of graphs, which the egress adds up over graphs that take each other's place.

use std::collections::BTreeMap;

use weir_policy::ModuleStats;
use weir_policy::gears::GearTally;
use weir_policy::reservations::{Accuracy, ReserveReport, WorkerReport};
use weir_types::ModuleId;

use crate::control_times::ControlTimes;

/// Counts of a graph.
#[derive(Debug, Default)]
pub(crate) struct GraphStats {
    /// By module, with their numbers in reports.
    pub(crate) modules: Vec<(ModuleId, ModuleStats)>,
    /// Times of its gears, if it has cascades.
    pub(crate) gears: Option<GearTally>,
    /// Counts of its reservations, if models are partitioned.
    pub(crate) reservations: Option<ReservationCounts>,
    pub(crate) control: ControlTimes,
}

/// Counts of reservations.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReservationCounts {
    pub(crate) accuracy: Accuracy,
    /// By name of the partition worker.
    pub(crate) workers: BTreeMap<String, WorkerReport>,
}

impl ReservationCounts {
    /// Adds those of a later graph on the same workers.
    fn merge(&mut self, later: Self) {
        self.accuracy.merge(&later.accuracy);
        for (name, later) in later.workers {
            let worker = self.workers.entry(name).or_default();
            *worker = WorkerReport {
                runs: worker.runs + later.runs,
                busy_s: worker.busy_s + later.busy_s,
                ..later
            };
        }
    }

    /// The report; the relay of their events knows how often workers were lost.
    pub(crate) fn report(&self) -> ReserveReport {
        ReserveReport {
            workers: self.workers.clone(),
            ..self.accuracy.report()
        }
    }
}

/// Counts of graphs together.
#[derive(Debug, Clone, Default)]
pub(crate) struct GraphCounts {
    pub(crate) modules: BTreeMap<ModuleId, ModuleStats>,
    pub(crate) gears: Option<GearTally>,
    pub(crate) reservations: Option<ReservationCounts>,
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
        if let Some(later) = later.reservations {
            self.reservations.get_or_insert_default().merge(later);
        }
        self.control.merge(&later.control);
    }
}
