//! Pool options of one model: for each pipeline class (sequence of device classes), all undominated pools of low reduced
//! cost.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::column::Column;
use crate::duals::Duals;

/// Stages of a pipeline at most.
pub(super) const MAX_STAGES: usize = 3;

/// A pipeline with whole pools.
#[derive(Debug, Clone)]
pub(super) struct PoolOption {
    /// Index of the column.
    pub(super) column: usize,
    /// Shares by stage.
    pub(super) pools: [u32; MAX_STAGES],
    /// Devices by stage, in units of 1/`units_per_device`.
    pub(super) units: [u64; MAX_STAGES],
    /// Items a second, at most the required rate.
    pub(super) rate: f64,
    /// Price of its devices less the cost of its rate at the duals.
    pub(super) reduced_cost: f64,
}

/// The options of the pipelines of one model over the same sequence of device classes.
pub(super) struct PipelineClass {
    /// Device class by stage.
    pub(super) classes: Vec<usize>,
    /// Options by the set of stages (one bit each) whose devices no other pipeline class shares; these stages
    /// need whole devices.
    by_exclusive: Vec<OnceCell<Vec<PoolOption>>>,
}

/// Pool options of one model.
pub(super) struct PoolOptions {
    pub(super) pipeline_classes: Vec<PipelineClass>,
    /// Units of a device, such that every share is an integral number of units.
    pub(super) units_per_device: u64,
    /// Price of a unit, by device class.
    unit_prices: Vec<f64>,
    /// Price of an item a second.
    pub(super) unit_cost: f64,
    max_reduced_cost: f64,
}

/// Requirements of the options.
pub(super) struct OptionRequirement<'a> {
    pub(super) duals: &'a Duals,
    /// Index of the model.
    pub(super) model: usize,
    /// Required items a second.
    pub(super) rate: f64,
    /// Options of higher reduced cost are left out.
    pub(super) max_reduced_cost: f64,
    /// Options that are enumerated at most.
    pub(super) max_options: usize,
}

impl PoolOptions {
    /// Enumerates the options. `None` if there are too many, or if the shares have no common unit.
    pub(super) fn new(columns: &[Column], requirement: &OptionRequirement) -> Option<Self> {
        let units_per_device = units_per_device(columns)?;
        let duals = requirement.duals;
        let mut all = Self {
            pipeline_classes: Vec::new(),
            units_per_device,
            unit_prices: duals
                .device_prices
                .iter()
                .map(|price| price / units_per_device as f64)
                .collect(),
            unit_cost: duals.unit_costs[requirement.model],
            max_reduced_cost: requirement.max_reduced_cost,
        };
        let mut by_classes: BTreeMap<Vec<usize>, Vec<PoolOption>> = BTreeMap::new();
        let mut remaining = requirement.max_options;
        for (at, column) in columns.iter().enumerate() {
            let options = by_classes.entry(column.classes()).or_default();
            for rate in rate_steps(column, requirement.rate, remaining)? {
                remaining = remaining.checked_sub(1)?;
                options.extend(all.option(at, column, rate, requirement));
            }
        }
        for (classes, options) in by_classes {
            let by_exclusive: Vec<OnceCell<Vec<PoolOption>>> = vec![OnceCell::new(); 1 << classes.len()];
            let _ = by_exclusive[0].set(undominated(options));
            all.pipeline_classes.push(PipelineClass {
                classes,
                by_exclusive,
            });
        }
        Some(all)
    }

    /// The smallest pools of a column for a rate, if their reduced cost is within the maximum.
    fn option(
        &self,
        index: usize,
        column: &Column,
        rate: f64,
        requirement: &OptionRequirement,
    ) -> Option<PoolOption> {
        let (mut pools, mut units) = ([0; MAX_STAGES], [0; MAX_STAGES]);
        let mut price = 0.0;
        let mut reached = requirement.rate;
        for (at, stage) in column.stages.iter().enumerate() {
            pools[at] = ((rate / stage.rate - 1e-9).ceil() as u32).max(1);
            units[at] = u64::from(pools[at]) * (self.units_per_device / u64::from(stage.shares));
            price += units[at] as f64 * self.unit_prices[stage.class];
            reached = reached.min(stage.rate * f64::from(pools[at]));
        }
        let reduced_cost = price - reached * self.unit_cost;
        (reduced_cost <= requirement.max_reduced_cost).then_some(PoolOption {
            column: index,
            pools,
            units,
            rate: reached,
            reduced_cost,
        })
    }

    /// The options of a pipeline class with whole devices in the stages of `exclusive`, by ascending rate.
    pub(super) fn options(&self, pipeline_class: usize, exclusive: usize) -> &[PoolOption] {
        let pipeline_class = &self.pipeline_classes[pipeline_class];
        pipeline_class.by_exclusive[exclusive].get_or_init(|| {
            let shared = pipeline_class.by_exclusive[0]
                .get()
                .map_or(&[][..], Vec::as_slice);
            let whole = |option: &PoolOption| {
                let mut option = option.clone();
                for (stage, &class) in pipeline_class.classes.iter().enumerate() {
                    if exclusive & (1 << stage) != 0 {
                        let (units, reduced_cost) = self.round_up_devices(option.units[stage], class);
                        option.units[stage] = units;
                        option.reduced_cost += reduced_cost;
                    }
                }
                option
            };
            undominated(
                shared
                    .iter()
                    .map(whole)
                    .filter(|option| option.reduced_cost <= self.max_reduced_cost)
                    .collect(),
            )
        })
    }

    /// Units of a class rounded up to whole devices, and the price of the difference.
    pub(super) fn round_up_devices(&self, units: u64, class: usize) -> (u64, f64) {
        let whole = units.next_multiple_of(self.units_per_device);
        (whole, (whole - units) as f64 * self.unit_prices[class])
    }
}

/// The rates below `rate` at which a pool of the column is saturated, and `rate` itself.
fn rate_steps(column: &Column, rate: f64, max_steps: usize) -> Option<Vec<f64>> {
    let mut steps = vec![rate];
    for stage in &column.stages {
        let shares = rate / stage.rate;
        if shares > max_steps as f64 {
            return None;
        }
        steps.extend(
            (1..)
                .map(|pool| f64::from(pool) * stage.rate)
                .take_while(|&step| step < rate),
        );
    }
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    Some(steps)
}

/// The undominated options, by ascending rate. An option dominates with at least the rate on at most the devices of each
/// stage.
fn undominated(mut options: Vec<PoolOption>) -> Vec<PoolOption> {
    options.sort_by(|a, b| {
        b.rate
            .total_cmp(&a.rate)
            .then(a.units.cmp(&b.units))
            .then(a.column.cmp(&b.column))
    });
    let mut kept: Vec<PoolOption> = Vec::new();
    for option in options {
        // Options of similar rate are the most likely to dominate.
        let dominated = kept
            .iter()
            .rev()
            .any(|better| better.units.iter().zip(&option.units).all(|(a, b)| a <= b));
        if !dominated {
            kept.push(option);
        }
    }
    kept.reverse();
    kept
}

/// The least common multiple of all shares.
fn units_per_device(columns: &[Column]) -> Option<u64> {
    let gcd = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let stages = columns.iter().flat_map(|column| &column.stages);
    stages
        .map(|stage| u64::from(stage.shares))
        .try_fold(1_u64, |units_per_device, shares| {
            let multiple = units_per_device.checked_mul(shares / gcd(units_per_device, shares))?;
            (multiple < 1 << 40).then_some(multiple)
        })
}
