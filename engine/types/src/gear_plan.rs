//! Gear plans (KEN 3 and 4.1): by range of load, the cascade of each operator, which share of its work each replica of a
//! model gets, and how many items a replica waits for.

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// A stage of a cascade in one gear.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StageGear {
    /// Index of its model in the plan.
    pub model: usize,
    /// Least certainty, 0 to 1, of an answer that is accepted; what is less certain is handed on. Of no effect at the last
    /// stage, which takes the rest.
    pub certainty: f64,
}

/// The cascade of one operator in one gear: its stages in order, at least one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CascadeGear {
    /// Stages of the cascade, in the order in which items pass them.
    pub stages: Vec<StageGear>,
}

/// Work of one replica of a model in one gear.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReplicaGear {
    /// Index of the model in the plan.
    pub model: usize,
    /// Index of the slot on which it runs.
    pub slot: usize,
    /// Share of the model's items that it gets, 0 to 1; the shares of a model add up to 1.
    pub share: f64,
    /// Number of items for which it waits before it runs a batch, `bs` in KEN 4.3.3.
    pub size: u32,
    /// Longest wait for these items: the time in which they arrive at the planned rate. The paper has no such
    /// limit, so the last items before a lull would wait for ever.
    pub wait: Span,
}

/// Cascades and replicas for one range of load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gear {
    /// Upper end of the range in requests per second. The last gear also serves higher loads.
    pub up_to: f64,
    /// Cascade of each operator, in the order of [`GearPlan::operators`].
    pub cascades: Vec<CascadeGear>,
    /// Replicas of all models that the cascades use.
    pub replicas: Vec<ReplicaGear>,
}

/// An immutable, numbered plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GearPlan {
    /// Number of the plan; later plans have higher numbers.
    pub number: u64,
    /// Names of the models.
    pub models: Vec<String>,
    /// Names of the operators that have a cascade: the modules of a graph.
    pub operators: Vec<String>,
    /// Models placed on each slot, by index.
    pub placement: Vec<Vec<usize>>,
    /// Gears by ascending load, at least one.
    pub gears: Vec<Gear>,
}

/// Reason why a plan is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GearPlanError {
    /// There is no gear.
    #[error("the plan has no gears; plan again")]
    Empty,
    /// Ranges overlap, are empty, or one has no end.
    #[error(
        "gear {gear} is for up to {up_to} requests a second, the one before it for up to {before}: ranges must ascend"
    )]
    Ranges {
        /// The gear, from 0.
        gear: usize,
        /// Upper end of its range in requests per second.
        up_to: f64,
        /// The upper end of the one before.
        before: f64,
    },
    /// An operator has no cascade, or one without stages.
    #[error("gear {gear} has no stages for operator \"{operator}\"")]
    NoStages {
        /// Index of the gear, from 0.
        gear: usize,
        /// Name of the operator.
        operator: String,
    },
    /// A certainty is outside of 0 to 1.
    #[error("gear {gear} hands on below a certainty of {certainty}; certainties are from 0 to 1")]
    Certainty {
        /// Index of the gear, from 0.
        gear: usize,
        /// Value that was given.
        certainty: f64,
    },
    /// A model is missing in the list, or is not placed on the slot that should run it.
    #[error("gear {gear} runs model {model} on slot {slot}, where it is not placed")]
    NotPlaced {
        /// Index of the gear, from 0.
        gear: usize,
        /// Index of the model.
        model: usize,
        /// Index of the slot.
        slot: usize,
    },
    /// A model that a cascade uses has no replicas, or their shares do not add up to 1.
    #[error("in gear {gear} the replicas of model {model} get {sum} of its work, not all of it")]
    Shares {
        /// Index of the gear, from 0.
        gear: usize,
        /// Index of the model.
        model: usize,
        /// Sum of the shares.
        sum: f64,
    },
    /// A replica would run empty batches.
    #[error("in gear {gear} model {model} on slot {slot} waits for no items; the least is 1")]
    Size {
        /// Index of the gear, from 0.
        gear: usize,
        /// Index of the model.
        model: usize,
        /// Index of the slot.
        slot: usize,
    },
}

/// Tolerance for sums of shares, which are computed in floating point.
const TOLERANCE: f64 = 1e-6;

impl GearPlan {
    /// Checks what every user of a plan relies on.
    ///
    /// # Errors
    /// [`GearPlanError`]: the first thing that is wrong.
    pub fn check(&self) -> Result<(), GearPlanError> {
        if self.gears.is_empty() {
            return Err(GearPlanError::Empty);
        }
        let mut before = 0.0;
        for (index, gear) in self.gears.iter().enumerate() {
            if !(gear.up_to.is_finite() && gear.up_to > before) {
                return Err(GearPlanError::Ranges {
                    gear: index,
                    up_to: gear.up_to,
                    before,
                });
            }
            before = gear.up_to;
            self.check_cascades(index, gear)?;
            self.check_replicas(index, gear)?;
        }
        Ok(())
    }

    fn check_cascades(&self, index: usize, gear: &Gear) -> Result<(), GearPlanError> {
        for (place, operator) in self.operators.iter().enumerate() {
            let cascade = gear.cascades.get(place);
            let Some(cascade) = cascade.filter(|cascade| !cascade.stages.is_empty()) else {
                return Err(GearPlanError::NoStages {
                    gear: index,
                    operator: operator.clone(),
                });
            };
            let impossible = |stage: &&StageGear| !(0.0..=1.0).contains(&stage.certainty);
            if let Some(stage) = cascade.stages.iter().find(impossible) {
                return Err(GearPlanError::Certainty {
                    gear: index,
                    certainty: stage.certainty,
                });
            }
        }
        Ok(())
    }

    fn check_replicas(&self, index: usize, gear: &Gear) -> Result<(), GearPlanError> {
        let is_placed = |replica: &ReplicaGear| {
            replica.model < self.models.len()
                && (self.placement.get(replica.slot)).is_some_and(|placed| placed.contains(&replica.model))
        };
        for replica in &gear.replicas {
            let (model, slot) = (replica.model, replica.slot);
            if !is_placed(replica) {
                return Err(GearPlanError::NotPlaced {
                    gear: index,
                    model,
                    slot,
                });
            }
            if replica.size == 0 {
                return Err(GearPlanError::Size {
                    gear: index,
                    model,
                    slot,
                });
            }
        }
        for model in gear.models() {
            let shares = gear.replicas.iter().filter(|replica| replica.model == model);
            let sum = shares
                .clone()
                .map(|replica| replica.share)
                .fold(0.0, |sum, share| sum + share);
            let negative = shares.clone().any(|replica| replica.share < 0.0);
            if negative || (sum - 1.0).abs() > TOLERANCE || sum.is_nan() {
                return Err(GearPlanError::Shares {
                    gear: index,
                    model,
                    sum,
                });
            }
        }
        Ok(())
    }

    /// The gear for a load of `rate` requests a second, by index.
    #[must_use]
    pub fn gear_for(&self, rate: f64) -> usize {
        let within = self.gears.partition_point(|gear| gear.up_to < rate);
        within.min(self.gears.len().saturating_sub(1))
    }
}

impl Gear {
    /// The models that its cascades use, ascending.
    #[must_use]
    pub fn models(&self) -> Vec<usize> {
        let stages = self.cascades.iter().flat_map(|cascade| &cascade.stages);
        let mut models: Vec<usize> = stages.map(|stage| stage.model).collect();
        models.sort_unstable();
        models.dedup();
        models
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> GearPlan {
        let gear = |up_to, model| Gear {
            up_to,
            cascades: vec![CascadeGear {
                stages: vec![
                    StageGear {
                        model: 0,
                        certainty: 0.9,
                    },
                    StageGear {
                        model,
                        certainty: 0.0,
                    },
                ],
            }],
            replicas: vec![
                ReplicaGear {
                    model: 0,
                    slot: 0,
                    share: 1.0,
                    size: 1,
                    wait: Span::ZERO,
                },
                ReplicaGear {
                    model: 1,
                    slot: 0,
                    share: 0.25,
                    size: 2,
                    wait: Span::from_millis(5),
                },
                ReplicaGear {
                    model: 1,
                    slot: 1,
                    share: 0.75,
                    size: 4,
                    wait: Span::from_millis(5),
                },
            ],
        };
        GearPlan {
            number: 1,
            models: vec!["small".to_owned(), "large".to_owned()],
            operators: vec!["read".to_owned()],
            placement: vec![vec![0, 1], vec![1]],
            gears: vec![gear(10.0, 1), gear(20.0, 1)],
        }
    }

    #[test]
    fn the_gear_is_that_of_the_range_and_the_last_one_above_all() {
        let plan = plan();
        assert_eq!(plan.check(), Ok(()));
        assert_eq!(
            [0.0, 10.0, 10.1, 20.0, 1e9].map(|rate| plan.gear_for(rate)),
            [0, 0, 1, 1, 1]
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |damage: fn(&mut GearPlan), said: &str| {
            let mut plan = plan();
            damage(&mut plan);
            let error = plan.check().map_err(|error| error.to_string());
            assert!(error.clone().is_err_and(|text| text.contains(said)), "{error:?}");
        };
        check(|plan| plan.gears.clear(), "no gears");
        check(|plan| plan.gears[1].up_to = 10.0, "ascend");
        check(|plan| plan.gears[1].up_to = f64::INFINITY, "ascend");
        check(|plan| plan.gears[0].up_to = f64::NAN, "ascend");
        check(
            |plan| plan.gears[0].cascades.clear(),
            "no stages for operator \"read\"",
        );
        check(
            |plan| plan.gears[0].cascades[0].stages[0].certainty = 1.5,
            "certainty of 1.5",
        );
        check(|plan| plan.gears[0].replicas[1].slot = 7, "not placed");
        check(|plan| plan.gears[0].replicas[0].slot = 1, "not placed");
        check(
            |plan| plan.gears[0].replicas[1].share = 0.5,
            "get 1.25 of its work",
        );
        check(|plan| plan.gears[0].replicas[2].size = 0, "waits for no items");
        check(|plan| plan.gears[0].replicas.clear(), "get 0 of its work");
    }
}
