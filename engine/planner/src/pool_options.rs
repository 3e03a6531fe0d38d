//! What pools each kind of pipeline may have: for one model, by the classes that a pipeline passes, all pools that no
//! others of these classes beat and that waste little.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::column::Column;
use crate::duals::Duals;

/// A pipeline has at most so many stages.
pub(super) const STAGES_MAX: usize = 3;

/// A pipeline with whole pools.
#[derive(Debug, Clone)]
pub(super) struct PoolOption {
    /// Index of the column.
    pub(super) column: usize,
    /// Shares by stage.
    pub(super) pools: [u32; STAGES_MAX],
    /// Devices by stage, in units of the menu.
    pub(super) parts: [u64; STAGES_MAX],
    /// Items a second, of which no more count than the model needs.
    pub(super) rate: f64,
    /// What its devices are worth more than the fares of its rate.
    pub(super) reduced_cost: f64,
}

/// The choices of the pipelines of one model that pass the same classes.
pub(super) struct PipelineClass {
    /// Class by stage.
    pub(super) classes: Vec<usize>,
    /// The choices by which stages share their devices with no other kind, a bit each: these have whole devices.
    by_alone: Vec<OnceCell<Vec<PoolOption>>>,
}

/// What one model may choose from.
pub(super) struct PoolOptions {
    pub(super) kinds: Vec<PipelineClass>,
    /// A device is so many units: every share is a whole number of them.
    pub(super) unit: u64,
    /// Price of a unit, by class.
    duals: Vec<f64>,
    /// Price of an item a second.
    pub(super) unit_cost: f64,
    waste_max: f64,
}

/// What a menu is made for.
pub(super) struct Wanted<'a> {
    pub(super) duals: &'a Duals,
    /// Index of the model.
    pub(super) model: usize,
    /// Items a second that are needed.
    pub(super) rate: f64,
    /// Choices that waste more are left out.
    pub(super) waste_max: f64,
    /// There are no more choices to look at than this.
    pub(super) choices_max: usize,
}

impl PoolOptions {
    /// `None`: there would be too many choices, or shares have no common unit.
    pub(super) fn new(columns: &[Column], wanted: &Wanted) -> Option<Self> {
        let unit = unit(columns)?;
        let mut options = Self {
            kinds: Vec::new(),
            unit,
            duals: wanted
                .duals
                .device
                .iter()
                .map(|price| price / unit as f64)
                .collect(),
            unit_cost: wanted.duals.unit_cost[wanted.model],
            waste_max: wanted.waste_max,
        };
        let mut of_kind: BTreeMap<Vec<usize>, Vec<PoolOption>> = BTreeMap::new();
        let mut left = wanted.choices_max;
        for (at, column) in columns.iter().enumerate() {
            let choices = of_kind.entry(column.classes()).or_default();
            for rate in steps(column, wanted.rate, left)? {
                left = left.checked_sub(1)?;
                choices.extend(options.choice(at, column, rate, wanted));
            }
        }
        for (classes, choices) in of_kind {
            let by_alone: Vec<OnceCell<Vec<PoolOption>>> = vec![OnceCell::new(); 1 << classes.len()];
            let _ = by_alone[0].set(unbeaten(choices));
            options.kinds.push(PipelineClass { classes, by_alone });
        }
        Some(options)
    }

    /// The least pools of a column for a rate, if they waste little enough.
    fn choice(&self, at: usize, column: &Column, rate: f64, wanted: &Wanted) -> Option<PoolOption> {
        let (mut pools, mut parts) = ([0; STAGES_MAX], [0; STAGES_MAX]);
        let mut worth = 0.0;
        let mut reached = wanted.rate;
        for (stage, leg) in column.legs.iter().enumerate() {
            pools[stage] = ((rate / leg.rate - 1e-9).ceil() as u32).max(1);
            parts[stage] = u64::from(pools[stage]) * (self.unit / u64::from(leg.shares));
            worth += parts[stage] as f64 * self.duals[leg.class];
            reached = reached.min(leg.rate * f64::from(pools[stage]));
        }
        let reduced_cost = worth - reached * self.unit_cost;
        (reduced_cost <= wanted.waste_max).then_some(PoolOption {
            column: at,
            pools,
            parts,
            rate: reached,
            reduced_cost,
        })
    }

    /// The choices of a kind, of which the stages in `alone` have whole devices, by ascending rate.
    pub(super) fn choices(&self, kind: usize, alone: usize) -> &[PoolOption] {
        let kind = &self.kinds[kind];
        kind.by_alone[alone].get_or_init(|| {
            let shared = kind.by_alone[0].get().map_or(&[][..], Vec::as_slice);
            let whole = |choice: &PoolOption| {
                let mut choice = choice.clone();
                for (stage, &class) in kind.classes.iter().enumerate() {
                    if alone & (1 << stage) != 0 {
                        let (parts, reduced_cost) = self.completed(choice.parts[stage], class);
                        choice.parts[stage] = parts;
                        choice.reduced_cost += reduced_cost;
                    }
                }
                choice
            };
            unbeaten(
                shared
                    .iter()
                    .map(whole)
                    .filter(|choice| choice.reduced_cost <= self.waste_max)
                    .collect(),
            )
        })
    }

    /// Parts of a class made whole devices, and what that wastes.
    pub(super) fn completed(&self, parts: u64, class: usize) -> (u64, f64) {
        let whole = parts.next_multiple_of(self.unit);
        (whole, (whole - parts) as f64 * self.duals[class])
    }
}

/// Rates at which a pool of a column is just used up, below `rate`, and `rate` itself.
fn steps(column: &Column, rate: f64, most: usize) -> Option<Vec<f64>> {
    let mut steps = vec![rate];
    for leg in &column.legs {
        let shares = rate / leg.rate;
        if shares > most as f64 {
            return None;
        }
        steps.extend(
            (1..)
                .map(|pool| f64::from(pool) * leg.rate)
                .take_while(|&step| step < rate),
        );
    }
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    Some(steps)
}

/// Those that no other one beats: at least its rate with at most its devices in every stage. By ascending rate.
fn unbeaten(mut choices: Vec<PoolOption>) -> Vec<PoolOption> {
    choices.sort_by(|a, b| {
        b.rate
            .total_cmp(&a.rate)
            .then(a.parts.cmp(&b.parts))
            .then(a.column.cmp(&b.column))
    });
    let mut kept: Vec<PoolOption> = Vec::new();
    for choice in choices {
        // The nearest rates are the likeliest to beat it.
        let beaten = kept
            .iter()
            .rev()
            .any(|better| better.parts.iter().zip(&choice.parts).all(|(a, b)| a <= b));
        if !beaten {
            kept.push(choice);
        }
    }
    kept.reverse();
    kept
}

/// The least common multiple of all shares.
fn unit(columns: &[Column]) -> Option<u64> {
    let gcd = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let legs = columns.iter().flat_map(|column| &column.legs);
    legs.map(|leg| u64::from(leg.shares))
        .try_fold(1_u64, |unit, shares| {
            let multiple = unit.checked_mul(shares / gcd(unit, shares))?;
            (multiple < 1 << 40).then_some(multiple)
        })
}
