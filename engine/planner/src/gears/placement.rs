//! Placement of models on slots (KEN 4.3.2): beam search over placements, from one replica of each model
//! upwards.
//!
//! In each round, every placement of the beam is extended by replicas drawn at random, as memory allows; the
//! placements with the lowest latency stay. The search ends when no placement is better than before. It
//! begins with random placements of one replica each. Beyond the paper, it also begins with the previous
//! plan's placement, and with every model placed wherever it fits: if memory is no constraint, the latter is
//! the answer at once.

use std::collections::BTreeMap;

use weir_types::GearPlan;

use super::problem::{Assignment, Evaluation, GearError, GearProblem, Overload};
use super::random::Random;
use super::schedule::schedule;

/// Outcome of a placement.
#[derive(Debug, Clone)]
pub(super) enum Placed {
    /// A plan that sustains the load, and its evaluation.
    Plan(Box<GearPlan>, Evaluation),
    /// The load is not sustained: seconds of work per second on the busiest slot.
    Overload(f64),
    /// The models do not fit into the slots together.
    Unplaceable,
}

impl Placed {
    /// Cost to minimise: latency; a placement that is overloaded costs more than any that is not.
    fn cost(&self) -> (bool, f64) {
        match self {
            Self::Plan(_, evaluation) => (false, evaluation.latency),
            Self::Overload(work) => (true, *work),
            Self::Unplaceable => (true, f64::INFINITY),
        }
    }

    fn is_below(&self, other: &Self) -> bool {
        let (own, other) = (self.cost(), other.cost());
        (own.0, own.1).partial_cmp(&other) == Some(std::cmp::Ordering::Less)
    }
}

type Placement = Vec<Vec<usize>>;

/// Evaluates plans of an assignment in virtual time.
pub(super) type Evaluate<'a> = dyn FnMut(&GearPlan, &Assignment) -> Evaluation + 'a;

struct Search<'a, 'b> {
    problem: &'a GearProblem,
    assignment: &'a Assignment,
    evaluate: &'a mut Evaluate<'b>,
    /// Placements that were looked at.
    known: BTreeMap<Placement, Placed>,
}

/// Extent of the search for one assignment.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effort<'a> {
    /// The whole beam search; the previous plan's placement is one of its starting points.
    Whole(Option<&'a [Vec<usize>]>),
    /// No search if the previous plan's placement holds all models or has room for the missing ones. This is
    /// enough to compare assignments.
    Carry(&'a [Vec<usize>]),
}

/// The best placement that is found for an assignment, with its plan.
pub(super) fn place(
    problem: &GearProblem,
    assignment: &Assignment,
    effort: Effort<'_>,
    evaluate: &mut Evaluate<'_>,
) -> Result<Placed, GearError> {
    let models = problem.used_models(assignment);
    let everywhere = everywhere(problem, &models);
    let mut random = Random::new(problem.seed);
    let mut search = Search {
        problem,
        assignment,
        evaluate,
        known: BTreeMap::new(),
    };
    let wanted: usize = models
        .iter()
        .map(|model| problem.models[*model].slots.len())
        .sum();
    if everywhere.iter().map(Vec::len).sum::<usize>() == wanted {
        return search.look(&everywhere);
    }
    let (width, tries) = (problem.beam.width.max(1), problem.beam.tries.max(1));
    let before = match effort {
        Effort::Whole(before) => before.and_then(|before| carried_over(problem, &models, before)),
        Effort::Carry(before) => match carried_over(problem, &models, before) {
            Some(carried) => return search.look(&carried),
            None => None,
        },
    };
    let mut beam: Vec<Placement> = before.into_iter().chain([everywhere]).collect();
    for _ in 0..width * tries {
        beam.extend(one_each(problem, &models, &mut random));
    }
    beam.retain(|placement| holds_all(placement, &models));
    if beam.is_empty() {
        return Ok(Placed::Unplaceable);
    }
    let mut best = search.keep_best(&mut beam, width)?;
    loop {
        let mut wider = beam.clone();
        for placement in &beam {
            wider.extend((0..tries).filter_map(|_| with_replica(problem, &models, placement, &mut random)));
        }
        let found = search.keep_best(&mut wider, width)?;
        beam = wider;
        if !found.is_below(&best) {
            return Ok(best);
        }
        best = found;
    }
}

impl Search<'_, '_> {
    fn look(&mut self, placement: &Placement) -> Result<Placed, GearError> {
        if let Some(known) = self.known.get(placement) {
            return Ok(known.clone());
        }
        let schedule = schedule(self.problem, self.assignment, placement)?;
        let placed = match schedule.overload {
            Some(work) if self.problem.overload == Overload::Prune => Placed::Overload(work),
            _ => {
                let plan = GearPlan {
                    number: 1,
                    models: self
                        .problem
                        .models
                        .iter()
                        .map(|model| model.name.clone())
                        .collect(),
                    operators: self
                        .problem
                        .operators
                        .iter()
                        .map(|operator| operator.name.clone())
                        .collect(),
                    placement: placement.clone(),
                    gears: schedule.gears,
                };
                let evaluation = (self.evaluate)(&plan, self.assignment);
                Placed::Plan(Box::new(plan), evaluation)
            }
        };
        self.known.insert(placement.clone(), placed.clone());
        Ok(placed)
    }

    /// Leaves the `width` best in the beam, and returns the best of all.
    fn keep_best(&mut self, beam: &mut Vec<Placement>, width: usize) -> Result<Placed, GearError> {
        beam.sort_unstable();
        beam.dedup();
        let mut looked = Vec::with_capacity(beam.len());
        for placement in beam.drain(..) {
            looked.push((self.look(&placement)?, placement));
        }
        looked.sort_by(|(a, _), (b, _)| {
            let (a, b) = (a.cost(), b.cost());
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        looked.truncate(width);
        let best = looked.first().map(|(placed, _)| placed.clone());
        beam.extend(looked.into_iter().map(|(_, placement)| placement));
        best.ok_or(GearError::Nothing("placement"))
    }
}

fn free(problem: &GearProblem, placed: &[usize]) -> u64 {
    let taken: u64 = placed.iter().map(|model| problem.models[*model].memory).sum();
    problem.memory.saturating_sub(taken)
}

fn fits(problem: &GearProblem, placement: &Placement, slot: usize, model: usize) -> bool {
    let (placed, node) = (&placement[slot], &problem.models[model]);
    node.slots.contains(&slot) && !placed.contains(&model) && node.memory <= free(problem, placed)
}

fn holds_all(placement: &Placement, models: &[usize]) -> bool {
    let is_placed = |model: &usize| placement.iter().any(|placed| placed.contains(model));
    models.iter().all(is_placed)
}

/// Adds a model to a slot, in order.
fn add(placement: &mut Placement, slot: usize, model: usize) {
    placement[slot].push(model);
    placement[slot].sort_unstable();
}

/// Every model on every slot, as far as they fit: the smallest first.
fn everywhere(problem: &GearProblem, models: &[usize]) -> Placement {
    let mut by_size = models.to_vec();
    by_size.sort_by_key(|model| problem.models[*model].memory);
    let mut placement = vec![Vec::new(); problem.slots];
    for slot in 0..problem.slots {
        for &model in &by_size {
            if fits(problem, &placement, slot, model) {
                add(&mut placement, slot, model);
            }
        }
    }
    placement
}

/// Places one replica of each model on random slots, the largest model first, so that it finds room.
fn one_each(problem: &GearProblem, models: &[usize], random: &mut Random) -> Option<Placement> {
    let mut by_size = models.to_vec();
    by_size.sort_by_key(|model| std::cmp::Reverse(problem.models[*model].memory));
    let mut placement = vec![Vec::new(); problem.slots];
    for model in by_size {
        let room: Vec<usize> = (0..problem.slots)
            .filter(|slot| fits(problem, &placement, *slot, model))
            .collect();
        let slot = *room.get(random.below(room.len()))?;
        add(&mut placement, slot, model);
    }
    Some(placement)
}

/// A placement with one replica more.
fn with_replica(
    problem: &GearProblem,
    models: &[usize],
    placement: &Placement,
    random: &mut Random,
) -> Option<Placement> {
    let model = *models.get(random.below(models.len()))?;
    let slot = random.below(problem.slots);
    fits(problem, placement, slot, model).then(|| {
        let mut wider = placement.clone();
        add(&mut wider, slot, model);
        wider
    })
}

/// The placement of the plan before, with the models that are used now.
fn carried_over(problem: &GearProblem, models: &[usize], before: &[Vec<usize>]) -> Option<Placement> {
    let mut placement: Placement = before.to_vec();
    for placed in &mut placement {
        placed.retain(|model| models.contains(model));
    }
    for &model in models {
        if placement.iter().any(|placed| placed.contains(&model)) {
            continue;
        }
        let slot = (0..problem.slots).find(|slot| fits(problem, &placement, *slot, model))?;
        add(&mut placement, slot, model);
    }
    Some(placement)
}
