//! A planned order of work on slots whose devices do not hold all models (QLM, sections 4 and 7, for
//! batches).
//!
//! The order is kept from step to step, and its estimates are compared with the actual ends of batches.
//! `planning.rs` beside this file makes the order.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use weir_types::{ModuleId, SlotId, Timestamp};

use super::api::DeviceMemory;
use crate::strategy::SlotQueues;

/// Rank of work that is not planned on a slot: behind all that is.
pub(super) const UNPLANNED: u64 = u64::MAX;

/// Statistics of planning the order of work.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct QueuesReport {
    /// Largest number of groups that waited at the same time.
    pub groups: u64,
    /// Plans that were made.
    pub replans: u64,
    /// Mean duration of a step that made a plan, in microseconds; only live runs measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_us: Option<f64>,
    /// Coefficient of determination of estimated against actual ends of batches: 1 is exact, 0 no better than
    /// the mean. `None` if nothing was planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r2: Option<f64>,
    /// Number of times that the current order was expected to make more items late than the last plan.
    pub violations_predicted: u64,
}

/// Sums for the coefficient of determination of estimates.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fit {
    count: f64,
    sum: f64,
    squares: f64,
    residuals: f64,
}

impl Fit {
    pub(super) fn add(&mut self, estimated_s: f64, actual_s: f64) {
        self.count += 1.0;
        self.sum += actual_s;
        self.squares += actual_s * actual_s;
        self.residuals += (actual_s - estimated_s).powi(2);
    }

    pub(super) fn r2(&self) -> Option<f64> {
        let variance = self.squares - self.sum * self.sum / self.count.max(1.0);
        (self.count > 1.0 && variance > 0.0).then(|| 1.0 - self.residuals / variance)
    }
}

/// The order in force, with the estimates behind it.
#[derive(Debug, Clone)]
pub(super) struct SlotPlan {
    pub(super) rule: SlotQueues,
    /// Slots of devices with limited memory.
    pub(super) slots: Vec<SlotId>,
    /// Planned modules by place in `slots`; a module is listed once for each of its groups.
    pub(super) orders: Vec<Vec<ModuleId>>,
    pub(super) planned_at: Option<Timestamp>,
    /// Items that the last plan expected to be late.
    pub(super) late: f64,
    /// Time of each module's bid, and seconds from then to the expected end of its batch.
    pub(super) expected: BTreeMap<ModuleId, (Timestamp, f64)>,
    /// The same for batches that were granted their slots.
    pub(super) running: BTreeMap<SlotId, (Timestamp, f64)>,
    pub(super) fit: Fit,
    pub(super) report: QueuesReport,
}

impl SlotPlan {
    /// Returns `None` if the rule does not plan or no device has limited memory.
    pub(super) fn new(rule: SlotQueues, memory: &[DeviceMemory]) -> Option<Self> {
        let models = memory.iter().flat_map(|device| &device.models);
        let mut slots: Vec<SlotId> = models.flat_map(|model| model.slots.iter().copied()).collect();
        slots.sort_unstable();
        slots.dedup();
        (rule.plans() && !slots.is_empty()).then(|| Self {
            rule,
            orders: vec![Vec::new(); slots.len()],
            slots,
            planned_at: None,
            late: 0.0,
            expected: BTreeMap::new(),
            running: BTreeMap::new(),
            fit: Fit::default(),
            report: QueuesReport::default(),
        })
    }

    pub(super) fn place(&self, module: ModuleId, slot: SlotId) -> u64 {
        let order = self.slots.binary_search(&slot).ok().map(|at| &self.orders[at]);
        let place = order.and_then(|order| order.iter().position(|other| *other == module));
        place.map_or(UNPLANNED, |place| place as u64)
    }

    /// Translates the order in force into groups of the problem, of each module as many as it has now. Groups
    /// that can no longer run on their slot are left out.
    pub(super) fn current(
        &self,
        modules: &[ModuleId],
        can_run: impl Fn(usize, usize) -> bool,
    ) -> Vec<Vec<usize>> {
        let mut free: BTreeMap<ModuleId, VecDeque<usize>> = BTreeMap::new();
        for (group, module) in modules.iter().enumerate() {
            free.entry(*module).or_default().push_back(group);
        }
        let mut next = |module: ModuleId, instance: usize| {
            let groups = free.get_mut(&module)?;
            let at = groups.iter().position(|group| can_run(*group, instance))?;
            groups.remove(at)
        };
        let mut of_instance = |(instance, order): (usize, &Vec<ModuleId>)| {
            let groups = order.iter().filter_map(|module| next(*module, instance));
            groups.collect()
        };
        self.orders.iter().enumerate().map(&mut of_instance).collect()
    }
}
