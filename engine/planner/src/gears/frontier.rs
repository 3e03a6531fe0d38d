//! Frontier of plans (KEN 4.2 and 4.3.1): from the most accurate cascades at every load to the cheapest.
//!
//! In each step one range of load gets the next cheaper cascade. Every higher range with a more expensive
//! cascade gets it too, so that a higher load never has a more expensive cascade. Among all ranges and
//! operators, the step with the best score is taken. There are two scores: accuracy over latency, as printed,
//! and latency gained per accuracy lost. Every sustained plan on the way is a candidate of the frontier,
//! including those of steps not taken.
//!
//! Beyond the paper, there are three further sources of candidates: plans with the same cascades at every
//! load, the plans of a walk over single models, and `refine` neighbours of plans on the frontier. A
//! neighbour differs at one range by one cascade, and neighbours beside the widest gap of the frontier come
//! first. The walk goes in one direction and takes the best step, so what it misses is near. If the load
//! order is free, neighbours may have a more expensive cascade at a higher load.
//!
//! Placements are searched when the set of models in use has changed; in between, the previous placement
//! stays.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use weir_types::GearPlan;

use super::neighbours::{by_gap, neighbours};
use super::placement::{Effort, Evaluate, Placed, place};
use super::problem::{Assignment, Evaluation, GearError, GearProblem, Operators, Scoring};

/// A plan, and what it came to in virtual time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluated {
    /// The cascades of each operator by range.
    pub assignment: Assignment,
    /// Plan for that assignment, with placement and gears.
    pub plan: GearPlan,
    /// Latency and accuracy of the plan.
    pub evaluation: Evaluation,
}

/// Losses of accuracy below this count as zero.
const NO_LOSS: f64 = 1e-9;

/// Pareto-optimal plans by ascending latency.
///
/// # Errors
/// [`GearError`] if the problem is invalid, or no plan sustains it.
pub fn frontier(problem: &GearProblem, evaluate: &mut Evaluate<'_>) -> Result<Vec<Evaluated>, GearError> {
    problem.check()?;
    let operators: Vec<usize> = (0..problem.operators.len()).collect();
    let mut walk = Walk {
        problem,
        evaluate,
        known: BTreeMap::new(),
        searched: None,
        most_stages: usize::MAX,
    };
    for assignment in fixed_assignments(problem) {
        walk.settle(&assignment)?;
    }
    // Walk over single models first, if that differs from the other walk and more than the paper's method is
    // requested.
    let is_single = |choice: &super::CascadeChoice| choice.stages.len() == 1;
    let has_both = problem
        .operators
        .iter()
        .any(|operator| operator.cascades.iter().any(is_single) && !operator.cascades.iter().all(is_single));
    let walks: &[usize] = if has_both && problem.refine > 0 {
        &[1, usize::MAX]
    } else {
        &[usize::MAX]
    };
    for most_stages in walks {
        walk.most_stages = *most_stages;
        let mut at = walk.most_accurate();
        match problem.together {
            Operators::Together => walk.descend(&mut at, &operators)?,
            Operators::OneByOne => {
                for operator in &operators {
                    walk.descend(&mut at, &[*operator])?;
                }
            }
        }
    }
    walk.refine()?;
    let found = walk.found();
    if found.is_empty() {
        return Err(walk.nothing_fits());
    }
    Ok(found)
}

/// Assignments with the same cascades at every load, from the most expensive of each operator to the
/// cheapest: plans without gears are candidates, too.
fn fixed_assignments(problem: &GearProblem) -> Vec<Assignment> {
    let levels = problem
        .operators
        .iter()
        .map(|operator| operator.cascades.len())
        .max();
    let at_level = |level: usize| {
        let of = |operator: &super::OperatorChoices| {
            vec![level.min(operator.cascades.len() - 1); problem.ranges.len()]
        };
        problem.operators.iter().map(of).collect()
    };
    (0..levels.unwrap_or(0)).map(at_level).collect()
}

/// Pareto-optimal plans by ascending latency; the first of equal ones.
#[must_use]
pub fn pareto(mut all: Vec<Evaluated>) -> Vec<Evaluated> {
    all.sort_by(|a, b| {
        let latency = a.evaluation.latency.total_cmp(&b.evaluation.latency);
        latency.then(b.evaluation.accuracy.total_cmp(&a.evaluation.accuracy))
    });
    let mut best = f64::NEG_INFINITY;
    all.retain(|candidate| {
        let better = candidate.evaluation.accuracy > best;
        best = best.max(candidate.evaluation.accuracy);
        better
    });
    all
}

struct Walk<'a, 'b> {
    problem: &'a GearProblem,
    evaluate: &'a mut Evaluate<'b>,
    known: BTreeMap<Assignment, Placed>,
    /// The models for which placements were searched last, and the placement that was found.
    searched: Option<(Vec<usize>, Vec<Vec<usize>>)>,
    /// Stages of the cascades that it walks over, at most.
    most_stages: usize,
}

impl Walk<'_, '_> {
    /// Evaluates an assignment on the placement of the last search.
    fn look(&mut self, assignment: &Assignment) -> Result<&Placed, GearError> {
        if !self.known.contains_key(assignment) {
            let effort = match &self.searched {
                Some((_, placement)) => Effort::Carry(placement),
                None => Effort::Whole(None),
            };
            let placed = place(self.problem, assignment, effort, self.evaluate)?;
            self.known.insert(assignment.clone(), placed);
        }
        Ok(&self.known[assignment])
    }

    /// Evaluates an assignment on a placement that was searched for its own set of models.
    fn settle(&mut self, assignment: &Assignment) -> Result<Placed, GearError> {
        let models = self.problem.used_models(assignment);
        if self
            .searched
            .as_ref()
            .is_some_and(|(searched, _)| *searched == models)
        {
            return Ok(self.look(assignment)?.clone());
        }
        let before = self.searched.as_ref().map(|(_, placement)| placement.as_slice());
        let placed = place(self.problem, assignment, Effort::Whole(before), self.evaluate)?;
        if let Placed::Plan(plan, _) = &placed {
            self.searched = Some((models, plan.placement.clone()));
        }
        self.known.insert(assignment.clone(), placed.clone());
        Ok(placed)
    }

    /// Makes steps of these operators until all of them have their cheapest cascade everywhere.
    fn descend(&mut self, at: &mut Assignment, operators: &[usize]) -> Result<(), GearError> {
        loop {
            let here = self.settle(at)?;
            let mut best: Option<(Step, Assignment)> = None;
            for &operator in operators {
                for range in 0..self.problem.ranges.len() {
                    let Some(next) = self.cheaper(at, operator, range) else {
                        continue;
                    };
                    let step = Step::new(self.problem.scoring, &here, self.look(&next)?);
                    if best.as_ref().is_none_or(|(best, _)| step.is_better(best)) {
                        best = Some((step, next));
                    }
                }
            }
            match best {
                Some((_, next)) => *at = next,
                None => return Ok(()),
            }
        }
    }

    /// Evaluates neighbours of plans on the frontier, those beside the widest gap first, up to `refine` of
    /// them.
    fn refine(&mut self) -> Result<(), GearError> {
        let mut rest = self.problem.refine;
        let mut expanded: BTreeSet<Assignment> = BTreeSet::new();
        while rest > 0 {
            let mut found = self.found();
            let evaluations: Vec<Evaluation> = found.iter().map(|plan| plan.evaluation).collect();
            let mut places = by_gap(&evaluations).into_iter();
            let Some(place) = places.find(|place| !expanded.contains(&found[*place].assignment)) else {
                return Ok(());
            };
            let plan = found.swap_remove(place);
            self.searched = Some((self.problem.used_models(&plan.assignment), plan.plan.placement));
            for neighbour in neighbours(self.problem, &plan.assignment) {
                if rest > 0 && !self.known.contains_key(&neighbour) {
                    rest -= 1;
                    self.look(&neighbour)?;
                }
            }
            expanded.insert(plan.assignment);
        }
        Ok(())
    }

    /// The plans that were found and that no other beats.
    fn found(&self) -> Vec<Evaluated> {
        let evaluated = |(assignment, placed): (&Assignment, &Placed)| match placed {
            Placed::Plan(plan, evaluation) => Some(Evaluated {
                assignment: assignment.clone(),
                plan: (**plan).clone(),
                evaluation: *evaluation,
            }),
            Placed::Overload(_) | Placed::Unplaceable => None,
        };
        pareto(self.known.iter().filter_map(evaluated).collect())
    }

    fn nothing_fits(&self) -> GearError {
        let overload = self.known.values().filter_map(|placed| match placed {
            Placed::Overload(work) => Some(*work),
            Placed::Plan(..) | Placed::Unplaceable => None,
        });
        let least = overload.fold(f64::INFINITY, f64::min);
        GearError::Infeasible(if least.is_finite() {
            format!("the cheapest cascades need {least:.2} times what a slot can do at the highest load")
        } else {
            let (slots, memory) = (self.problem.slots, self.problem.memory);
            format!(
                "the models of no assignment fit {slots} slot{} of {memory} bytes; give `memory` more, or name more `slots`",
                if slots == 1 { "" } else { "s" }
            )
        })
    }

    /// Start of a walk: the most accurate cascade of each operator at every load.
    fn most_accurate(&self) -> Assignment {
        let of = |operator: &super::OperatorChoices| {
            let choices = operator.cascades.iter().enumerate();
            let own = choices.filter(|(_, choice)| choice.stages.len() <= self.most_stages);
            let best = own.max_by(|(a, x), (b, y)| x.accuracy.total_cmp(&y.accuracy).then(b.cmp(a)));
            vec![best.map_or(0, |(index, _)| index); self.problem.ranges.len()]
        };
        self.problem.operators.iter().map(of).collect()
    }

    /// The assignment with the next cheaper cascade at a range, and at every higher one that has a dearer one.
    fn cheaper(&self, at: &Assignment, operator: usize, range: usize) -> Option<Assignment> {
        let choices = &self.problem.operators[operator].cascades;
        let mut cheaper = at[operator][range] + 1..choices.len();
        let next = cheaper.find(|next| choices[*next].stages.len() <= self.most_stages)?;
        let mut out = at.clone();
        for choice in &mut out[operator][range..] {
            *choice = next.max(*choice);
        }
        Some(out)
    }
}

/// Rank of a step of the walk, compared field by field.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// True if the step leads to a plan that sustains the load.
    sustained: bool,
    /// Score of the step; for plans that do not sustain the load, the negated overload.
    score: f64,
    /// Breaks ties between equal scores.
    accuracy: f64,
}

impl Step {
    fn new(scoring: Scoring, from: &Placed, to: &Placed) -> Self {
        match (from, to) {
            (_, Placed::Overload(_) | Placed::Unplaceable) => Self {
                sustained: false,
                score: match to {
                    Placed::Overload(work) => -work,
                    _ => f64::NEG_INFINITY,
                },
                accuracy: 0.0,
            },
            (from, Placed::Plan(_, to)) => Self {
                sustained: true,
                score: match (scoring, from) {
                    (Scoring::Ratio, _) => to.accuracy / to.latency.max(1e-9),
                    // If the current plan does not sustain the load, all steps to plans that do have the same
                    // score.
                    (Scoring::Trade, Placed::Plan(_, from)) => trade(from, to),
                    (Scoring::Trade, _) => 0.0,
                },
                accuracy: to.accuracy,
            },
        }
    }

    fn is_better(&self, other: &Self) -> bool {
        let order = (self.sustained.cmp(&other.sustained))
            .then(self.score.total_cmp(&other.score))
            .then(self.accuracy.total_cmp(&other.accuracy));
        order == std::cmp::Ordering::Greater
    }
}

/// Latency that is won per accuracy that is lost.
fn trade(from: &Evaluation, to: &Evaluation) -> f64 {
    let (won, lost) = (from.latency - to.latency, from.accuracy - to.accuracy);
    if lost > NO_LOSS {
        won / lost
    } else if won >= 0.0 {
        f64::INFINITY
    } else {
        // Slower and no less accurate: no trade, yet a way on.
        won / NO_LOSS
    }
}
