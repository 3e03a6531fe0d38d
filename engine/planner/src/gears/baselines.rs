//! Baselines and a metric for plans. Baselines for gear plans are fixed cascades (the paper's AlpaServe+) and
//! single models by load (MS+; KEN 5.2); for the planner, all assignments, and assignments drawn at random
//! (5.6). The metric is the hypervolume of a frontier.

use std::collections::BTreeMap;

use super::frontier::{Evaluated, pareto};
use super::placement::{Effort, Evaluate, Placed, place};
use super::problem::{Assignment, Evaluation, GearError, GearProblem, LoadOrder};
use super::random::Random;

/// Maximum number of assignments of an exhaustive search.
const MAX_ASSIGNMENTS: u64 = 2_000_000;

/// Every cascade of every operator in turn, the same one at every load.
///
/// # Errors
/// [`GearError`].
pub fn fixed(problem: &GearProblem, evaluate: &mut Evaluate<'_>) -> Result<Vec<Evaluated>, GearError> {
    problem.check()?;
    let mut combinations: Vec<Vec<usize>> = vec![Vec::new()];
    for operator in &problem.operators {
        let longer = |before: &Vec<usize>| {
            let before = before.clone();
            (0..operator.cascades.len()).map(move |choice| [before.as_slice(), &[choice]].concat())
        };
        combinations = combinations.iter().flat_map(longer).collect();
    }
    let mut found = Vec::new();
    for combination in combinations {
        let assignment = combination
            .iter()
            .map(|choice| vec![*choice; problem.ranges.len()])
            .collect();
        found.extend(look(problem, assignment, evaluate)?);
    }
    Ok(found)
}

/// The same problem, restricted to single models.
#[must_use]
pub fn single_models(problem: &GearProblem) -> GearProblem {
    let mut single = problem.clone();
    for operator in &mut single.operators {
        operator.cascades.retain(|choice| choice.stages.len() == 1);
    }
    single
}

/// Frontier over all assignments that the load order allows.
///
/// # Errors
/// [`GearError`], also where there are too many assignments.
pub fn exhaustive(problem: &GearProblem, evaluate: &mut Evaluate<'_>) -> Result<Vec<Evaluated>, GearError> {
    problem.check()?;
    let mut digits: Vec<usize> = Vec::new();
    for operator in &problem.operators {
        digits.extend(std::iter::repeat_n(operator.cascades.len(), problem.ranges.len()));
    }
    let count = digits
        .iter()
        .try_fold(1_u64, |count, choices| count.checked_mul(*choices as u64));
    let Some(count) = count.filter(|count| *count <= MAX_ASSIGNMENTS) else {
        let message =
            format!("there are more than {MAX_ASSIGNMENTS} assignments; take fewer ranges or cascades");
        return Err(GearError::Infeasible(message));
    };
    let mut found = Vec::new();
    for number in 0..count {
        let mut rest = number;
        let choices = digits.iter().map(|choices| {
            let choice = (rest % *choices as u64) as usize;
            rest /= *choices as u64;
            choice
        });
        let choices: Vec<usize> = choices.collect();
        let assignment: Assignment = choices
            .chunks(problem.ranges.len())
            .map(<[usize]>::to_vec)
            .collect();
        if problem.order == LoadOrder::Falling && !assignment.iter().all(|ranges| ranges.is_sorted()) {
            continue;
        }
        found.extend(look(problem, assignment, evaluate)?);
    }
    Ok(pareto(found))
}

/// The frontier of assignments that are drawn evenly, until `evaluations` plans were looked at.
///
/// # Errors
/// [`GearError`].
pub fn random_search(
    problem: &GearProblem,
    evaluations: usize,
    evaluate: &mut Evaluate<'_>,
) -> Result<Vec<Evaluated>, GearError> {
    problem.check()?;
    let mut random = Random::new(problem.seed);
    let mut found = BTreeMap::new();
    for _ in 0..evaluations {
        let draw = |operator: &super::OperatorChoices, random: &mut Random| {
            let choices = operator.cascades.len();
            (0..problem.ranges.len())
                .map(|_| random.below(choices))
                .collect::<Vec<usize>>()
        };
        let assignment: Assignment = (problem.operators.iter())
            .map(|operator| draw(operator, &mut random))
            .collect();
        if found.contains_key(&assignment) {
            continue;
        }
        let evaluated = look(problem, assignment.clone(), evaluate)?;
        found.insert(assignment, evaluated);
    }
    Ok(pareto(found.into_values().flatten().collect()))
}

fn look(
    problem: &GearProblem,
    assignment: Assignment,
    evaluate: &mut Evaluate<'_>,
) -> Result<Option<Evaluated>, GearError> {
    Ok(
        match place(problem, &assignment, Effort::Whole(None), evaluate)? {
            Placed::Plan(plan, evaluation) => Some(Evaluated {
                assignment,
                plan: *plan,
                evaluation,
            }),
            Placed::Overload(_) | Placed::Unplaceable => None,
        },
    )
}

/// Area between a frontier and the worst point: what a plan with at most that latency and at least that accuracy wins.
#[must_use]
pub fn hypervolume(frontier: &[Evaluated], worst: Evaluation) -> f64 {
    let mut points: Vec<Evaluation> = (frontier.iter().map(|plan| plan.evaluation))
        .filter(|point| point.latency < worst.latency && point.accuracy > worst.accuracy)
        .collect();
    points.sort_by(|a, b| a.latency.total_cmp(&b.latency));
    let (mut area, mut best) = (0.0, worst.accuracy);
    for point in points {
        if point.accuracy > best {
            area += (worst.latency - point.latency) * (point.accuracy - best);
            best = point.accuracy;
        }
    }
    area
}
