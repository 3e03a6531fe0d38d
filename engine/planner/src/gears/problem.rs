//! Problem for which a gear plan is made.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use weir_types::{Profile, StageGear};

/// A model that stages run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GearModel {
    /// Unique name within the problem.
    pub name: String,
    /// Memory in bytes that a session takes on a slot.
    pub memory: u64,
    /// Durations by batch size.
    pub profile: Profile,
    /// Batch sizes that it may run, ascending, at least one.
    pub batch: Vec<u32>,
    /// Slots on which it may be placed: those of its device.
    pub slots: Range<usize>,
}

/// A cascade that an operator may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CascadeChoice {
    /// Stages of the cascade, with their certainty thresholds.
    pub stages: Vec<StageGear>,
    /// Part of the operator's items that reaches each stage; 1 for the first.
    pub reach: Vec<f64>,
    /// Part of its answers that is right.
    pub accuracy: f64,
}

impl CascadeChoice {
    /// Mean slot time of an item in seconds, with batches of one.
    #[must_use]
    pub fn work(&self, models: &[GearModel]) -> f64 {
        let stages = self.stages.iter().zip(&self.reach);
        let cost = |stage: &StageGear| models[stage.model].profile.duration(1).as_secs_f64();
        stages.map(|(stage, reach)| reach * cost(stage)).sum()
    }
}

/// An operator with the cascades that it may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorChoices {
    /// Name of the operator, which is a module of the graph.
    pub name: String,
    /// Items of a request, on average.
    pub items: f64,
    /// Pareto-optimal cascades of work and accuracy, the most expensive first.
    pub cascades: Vec<CascadeChoice>,
}

/// Score by which the next step of the frontier walk is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scoring {
    /// Accuracy divided by latency, as printed in the paper (KEN 4.3.1).
    Ratio,
    /// Latency gained per accuracy lost.
    #[default]
    Trade,
}

/// Order in which the cascades of several operators are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operators {
    /// Each step may change any operator.
    #[default]
    Together,
    /// Operators are planned one after the other, while the rest keep their cascades (KEN 3).
    OneByOne,
}

/// Rule for cascades at higher loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadOrder {
    /// Never (the invariant of KEN 4.3.1).
    #[default]
    Falling,
    /// Allowed: if a range has few requests, an expensive cascade there does not affect a quantile of
    /// latency.
    Free,
}

/// Treatment of a plan that cannot sustain a range of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overload {
    /// The plan is discarded (KEN 4.3.3).
    #[default]
    Prune,
    /// The plan is evaluated like others, since a burst may be short enough to wait out.
    Evaluate,
}

/// Size of the placement search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beam {
    /// Placements that are kept, `bw`.
    pub width: usize,
    /// Replicas that are tried on each, `k`.
    pub tries: usize,
}

impl Default for Beam {
    fn default() -> Self {
        Self { width: 4, tries: 8 }
    }
}

/// Problem for which a gear plan is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GearProblem {
    /// The models of all cascades.
    pub models: Vec<GearModel>,
    /// Operators with the cascades from which to choose.
    pub operators: Vec<OperatorChoices>,
    /// Number of slots; the slots of one device are equal.
    pub slots: usize,
    /// Memory in bytes for the sessions of one slot.
    pub memory: u64,
    /// Upper end of each load range in requests per second, ascending.
    pub ranges: Vec<f64>,
    /// Score by which steps of the walk are chosen.
    pub scoring: Scoring,
    /// Order in which operators are planned.
    pub together: Operators,
    /// Treatment of a plan that cannot sustain a range of load.
    pub overload: Overload,
    /// Rule for cascades at higher loads.
    pub order: LoadOrder,
    /// Maximum number of plans next to the frontier that are evaluated in addition; 0 as in the paper.
    pub refine: usize,
    /// Size of the placement search.
    pub beam: Beam,
    /// Seed of all random draws.
    pub seed: u64,
}

/// The cascade of each operator at each range: `[operator][range]`, an index among the operator's choices.
pub type Assignment = Vec<Vec<usize>>;

/// Result of a plan in virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Value to minimise: a quantile of latency in seconds, or a drop rate.
    pub latency: f64,
    /// Share of answers that are right, 0 to 1.
    pub accuracy: f64,
}

impl Evaluation {
    /// True if it is at least as good in both values, and better in one.
    #[must_use]
    pub fn beats(&self, other: &Self) -> bool {
        self.latency <= other.latency && self.accuracy >= other.accuracy && self != other
    }
}

/// Reason why there is no plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GearError {
    /// The problem lacks models, operators, slots or ranges.
    #[error("the problem has no {0}")]
    Nothing(&'static str),
    /// The load ranges are invalid.
    #[error("ranges must end at ascending rates above zero; range {range} ends at {end}")]
    Ranges {
        /// Index of the range, from 0.
        range: usize,
        /// Its end in requests per second.
        end: f64,
    },
    /// A cascade that is not possible.
    #[error("cascade {cascade} of operator \"{operator}\" {what}")]
    Cascade {
        /// Name of the operator.
        operator: String,
        /// Index of the cascade, from 0.
        cascade: usize,
        /// Problem with the cascade, for users.
        what: &'static str,
    },
    /// A model that does not fit into any slot.
    #[error(
        "a session of model \"{model}\" takes {needed} bytes, a slot has {memory}; give `memory` more, or leave the model out"
    )]
    Memory {
        /// Name of the model.
        model: String,
        /// Memory of a session in bytes.
        needed: u64,
        /// Memory of a slot in bytes.
        memory: u64,
    },
    /// A model for which no slot is allowed.
    #[error("model \"{model}\" may be on none of the {slots} slots")]
    Slots {
        /// Name of the model.
        model: String,
        /// Number of slots in the problem.
        slots: usize,
    },
    /// The models of the cheapest cascades fit on no placement, or none sustains the load.
    #[error("no plan fits: {0}")]
    Infeasible(String),
    /// The linear program was not solved.
    #[error("load balancing failed: {0}")]
    Solver(String),
}

impl GearProblem {
    /// Checks what the planner relies on.
    ///
    /// # Errors
    /// [`GearError`]: the first thing that is wrong.
    pub fn check(&self) -> Result<(), GearError> {
        let empty = [
            (self.models.is_empty(), "models"),
            (self.operators.is_empty(), "operators"),
            (self.slots == 0, "slots"),
            (self.ranges.is_empty(), "ranges of load"),
        ];
        if let Some((_, what)) = empty.into_iter().find(|(empty, _)| *empty) {
            return Err(GearError::Nothing(what));
        }
        let mut before = 0.0;
        for (range, &end) in self.ranges.iter().enumerate() {
            if !(end.is_finite() && end > before) {
                return Err(GearError::Ranges { range, end });
            }
            before = end;
        }
        for operator in &self.operators {
            self.check_operator(operator)?;
        }
        for model in &self.models {
            if model.slots.is_empty() || model.slots.end > self.slots {
                return Err(GearError::Slots {
                    model: model.name.clone(),
                    slots: self.slots,
                });
            }
            if model.memory > self.memory {
                return Err(GearError::Memory {
                    model: model.name.clone(),
                    needed: model.memory,
                    memory: self.memory,
                });
            }
        }
        Ok(())
    }

    fn check_operator(&self, operator: &OperatorChoices) -> Result<(), GearError> {
        if operator.cascades.is_empty() {
            return Err(GearError::Nothing("cascades"));
        }
        for (cascade, choice) in operator.cascades.iter().enumerate() {
            let falls = choice.reach.windows(2).all(|pair| pair[0] >= pair[1]);
            let part = |value: &f64| (0.0..=1.0).contains(value);
            let broken = [
                (choice.stages.is_empty(), "has no stages"),
                (
                    choice.reach.len() != choice.stages.len(),
                    "says of not every stage what reaches it",
                ),
                (
                    choice.reach.first() != Some(&1.0) || !falls,
                    "hands on more than came",
                ),
                (
                    !choice.reach.iter().all(part) || !part(&choice.accuracy),
                    "has parts outside 0 to 1",
                ),
                (
                    choice.stages.iter().any(|stage| stage.model >= self.models.len()),
                    "uses a model that is not listed",
                ),
            ];
            if let Some((_, what)) = broken.into_iter().find(|(broken, _)| *broken) {
                return Err(GearError::Cascade {
                    operator: operator.name.clone(),
                    cascade,
                    what,
                });
            }
        }
        Ok(())
    }

    /// The models that an assignment uses, ascending.
    pub(super) fn used_models(&self, assignment: &Assignment) -> Vec<usize> {
        let mut used = Vec::new();
        for (operator, ranges) in self.operators.iter().zip(assignment) {
            for &choice in ranges {
                used.extend(operator.cascades[choice].stages.iter().map(|stage| stage.model));
            }
        }
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Items a second that each model gets at a range of an assignment.
    pub(super) fn model_rates(&self, assignment: &Assignment, range: usize) -> Vec<f64> {
        let mut rates = vec![0.0; self.models.len()];
        for (operator, ranges) in self.operators.iter().zip(assignment) {
            let choice = &operator.cascades[ranges[range]];
            for (stage, reach) in choice.stages.iter().zip(&choice.reach) {
                rates[stage.model] += self.ranges[range] * operator.items * reach;
            }
        }
        rates
    }
}
