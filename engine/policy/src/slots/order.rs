//! A planned order of work on slots whose devices do not hold all models (QLM, sections 4 and 7, for batches of plain models).
//!
//! An order is kept from step to step, and what was expected of it is held against what came. How it is made: `planning.rs`
//! beside this file.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use weir_types::{ModuleId, SlotId, Timestamp};

use super::api::DeviceMemory;
use crate::strategy::SlotQueues;

/// A place in the order of what is not planned on a slot: behind all that is.
pub(super) const UNPLANNED: u64 = u64::MAX;

/// What planning the order of work came to.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct QueuesReport {
    /// Groups that waited at once, at most.
    pub groups: u64,
    /// Plans that were made.
    pub replans: u64,
    /// Mean microseconds of a step in which a plan was made; of live runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_us: Option<f64>,
    /// How well the ends of batches were foreseen when they were asked for: 1 less the part of the variance that was not; `None`
    /// where nothing was planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r2: Option<f64>,
    /// Times that work was expected to be late which the last plan had in time.
    pub violations_predicted: u64,
}

/// Sums for the part of the variance that estimates explain.
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

/// The order in force, and what it was made from.
#[derive(Debug, Clone)]
pub(super) struct SlotPlan {
    pub(super) rule: SlotQueues,
    /// Slots of devices with limited memory.
    pub(super) slots: Vec<SlotId>,
    /// By place in `slots`; a module stands there once for each of its groups.
    pub(super) orders: Vec<Vec<ModuleId>>,
    pub(super) planned_at: Option<Timestamp>,
    /// Items that were expected to be late by the last plan.
    pub(super) late: f64,
    /// When each module asked, and in how many seconds its batch was expected to end.
    pub(super) expected: BTreeMap<ModuleId, (Timestamp, f64)>,
    /// The same of batches that have their slots.
    pub(super) running: BTreeMap<SlotId, (Timestamp, f64)>,
    pub(super) fit: Fit,
    pub(super) report: QueuesReport,
}

impl SlotPlan {
    /// `None` where the rule does not plan or no memory is limited.
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

    /// The order that there is, in groups of the problem, of each module as many as it has; without those that can no longer run
    /// where they stand.
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
