//! The frontier of plans (KEN 4.2 and 4.3.1): from the most accurate cascades at every load to the cheapest.
//!
//! In each step one range of load gets the next cheaper cascade; every higher range that has a dearer one gets it too, so
//! that a higher load never has a dearer cascade. Of all ranges (and operators) that could be the one, the step with the best
//! score is taken. Two scores: accuracy over latency, as printed, and latency won per accuracy lost. Every plan on the way
//! that is sustained is a candidate of the frontier, also those of steps not taken.
//!
//! Beyond the paper, plans with the same cascades at every load are candidates from the beginning, so are those that a walk
//! over single models passes, and `refine` more are looked at: the neighbours of those on the frontier, which differ from one of
//! them at one range, by one cascade more or less, those beside the widest gap of the frontier first. The walk goes one way and
//! takes the best step; what it passes by is near. Where the order is free, neighbours may have a dearer cascade at a higher load.
//!
//! Placements are searched when the models in use have changed; in between the placement of the plan before holds.

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
    /// The plan.
    pub plan: GearPlan,
    /// Its latency and accuracy.
    pub evaluation: Evaluation,
}

/// Losses of accuracy below this are none.
const NO_LOSS: f64 = 1e-9;

/// Plans that no other of them beats, by ascending latency.
///
/// # Errors
/// [`GearError`]: an impossible problem, or one that nothing sustains.
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
    // Single models alone first, where that is another walk and more than the paper's is asked for.
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

/// The same cascades at every load, from the dearest of each operator to the cheapest: what is known to be good without any
/// gears is a candidate, too.
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

/// Those that no other beats, by ascending latency; of equals the first.
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
    /// What an assignment comes to, on the placement that was found last.
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

    /// What an assignment comes to on a placement that was searched for its models.
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

    /// Looks at neighbours of plans on the frontier, those beside the widest gap first, as long as there are any.
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

    /// Where a walk begins: the most accurate cascades at every load.
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

/// What a step is worth.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Whether it leads to a plan that is sustained.
    sustained: bool,
    /// The score; of plans that are not sustained the overload, negative.
    score: f64,
    /// Decides between equal scores.
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
                    // From a load that is not sustained every step that sustains it wins the same: all of it.
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
