//! What a gear plan is made for.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use weir_types::{Profile, StageGear};

/// A model that stages run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GearModel {
    /// Its name.
    pub name: String,
    /// Bytes that a session of it takes on a slot.
    pub memory: u64,
    /// Durations by batch size.
    pub profile: Profile,
    /// Batch sizes that it may run, ascending, at least one.
    pub batch: Vec<u32>,
    /// Slots that it may be placed on: those of its device.
    pub slots: Range<usize>,
}

/// A cascade that an operator may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CascadeChoice {
    /// Its stages with their certainties.
    pub stages: Vec<StageGear>,
    /// Part of the operator's items that reaches each stage; 1 for the first.
    pub reach: Vec<f64>,
    /// Part of its answers that is right.
    pub accuracy: f64,
}

impl CascadeChoice {
    /// Seconds of slot time that an item takes on average, one at a time.
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
    /// Its name: a module of the graph.
    pub name: String,
    /// Items of a request, on average.
    pub items: f64,
    /// Its cascades, none both dearer and less accurate than another, the dearest first.
    pub cascades: Vec<CascadeChoice>,
}

/// What decides between two steps of the frontier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scoring {
    /// Accuracy over latency, as the paper prints it (4.3.1).
    Ratio,
    /// Latency that is won per accuracy that is lost.
    #[default]
    Trade,
}

/// How operators are planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operators {
    /// Any operator may be the next to change.
    #[default]
    Together,
    /// One after the other, the others as they are (KEN 3).
    OneByOne,
}

/// Whether a higher load may have a dearer cascade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadOrder {
    /// Never (the invariant of KEN 4.3.1).
    #[default]
    Falling,
    /// It may: where few requests are in a range, a costly cascade there costs a quantile of latency nothing.
    Free,
}

/// What becomes of a plan that cannot sustain a range of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overload {
    /// It is none (KEN 4.3.3).
    #[default]
    Prune,
    /// It is evaluated as the others are: a burst may be short enough to wait out.
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

/// What a gear plan is made for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GearProblem {
    /// The models of all cascades.
    pub models: Vec<GearModel>,
    /// The operators.
    pub operators: Vec<OperatorChoices>,
    /// Slots; those of a device are alike.
    pub slots: usize,
    /// Bytes for the sessions of one slot.
    pub memory: u64,
    /// Requests a second up to which each range goes, ascending.
    pub ranges: Vec<f64>,
    /// What decides between two steps.
    pub scoring: Scoring,
    /// How operators are planned.
    pub together: Operators,
    /// What becomes of a plan that cannot sustain a range of load.
    pub overload: Overload,
    /// Whether a neighbour may have a dearer cascade at a higher load.
    pub order: LoadOrder,
    /// Plans next to those on the frontier that are looked at besides, at most; 0 is the paper's way.
    pub refine: usize,
    /// Size of the placement search.
    pub beam: Beam,
    /// Where random draws begin.
    pub seed: u64,
}

/// The cascade of each operator at each range: `[operator][range]`, an index among the operator's choices.
pub type Assignment = Vec<Vec<usize>>;

/// What a plan came to in virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// What is to be low: a quantile of latency in seconds, or a drop rate.
    pub latency: f64,
    /// Part of the answers that is right.
    pub accuracy: f64,
}

impl Evaluation {
    /// Whether it is at least as good in both, and better in one.
    #[must_use]
    pub fn beats(&self, other: &Self) -> bool {
        self.latency <= other.latency && self.accuracy >= other.accuracy && self != other
    }
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GearError {
    /// The problem has none of something.
    #[error("the problem has no {0}")]
    Nothing(&'static str),
    /// Ranges that are none.
    #[error("ranges must end at ascending rates above zero; range {range} ends at {end}")]
    Ranges {
        /// The range, from 0.
        range: usize,
        /// Its end.
        end: f64,
    },
    /// A cascade that none can be.
    #[error("cascade {cascade} of operator \"{operator}\" {what}")]
    Cascade {
        /// The operator.
        operator: String,
        /// Its cascade, from 0.
        cascade: usize,
        /// What is the matter with it.
        what: &'static str,
    },
    /// A model that fits no slot.
    #[error(
        "a session of model \"{model}\" takes {needed} bytes, a slot has {memory}; give `memory` more, or leave the model out"
    )]
    Memory {
        /// The model.
        model: String,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes of a slot.
        memory: u64,
    },
    /// A model that may be placed nowhere.
    #[error("model \"{model}\" may be on none of the {slots} slots")]
    Slots {
        /// The model.
        model: String,
        /// Slots of the problem.
        slots: usize,
    },
    /// No placement of the models that the cheapest cascades need fits, or none sustains the load.
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
