//! Schedule of model invocations (KEN 4.3.3): for each range of load, the share of a model's items that each
//! replica gets, and the batch size for which it waits.
//!
//! ```text
//! minimise    sum over slots g of | sum over replicas r on g of time(r) * q_r - average |          (1)
//! subject to  sum over replicas r of model m of q_r = q_m,   q_r >= 0                              (2)
//! ```
//!
//! `time(r)` is the duration of a batch of one, `q_m` the items a second of model `m` at the upper end of the range. Sizes
//! begin at the smallest; where the work of a slot, `sum q_r * d(size) / size`, exceeds a second a second, they grow in turn
//! until it does not. Where they cannot grow any more, the range is not sustained.

use microlp::{ComparisonOp, OptimizationDirection, Problem as Program};
use weir_types::{CascadeGear, Gear, ReplicaGear, Span};

use super::problem::{Assignment, GearError, GearProblem};

/// The gears of an assignment on a placement.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schedule {
    /// One gear for each range.
    pub(super) gears: Vec<Gear>,
    /// Seconds of work per second on the busiest slot; `None` if every range is sustained.
    pub(super) overload: Option<f64>,
}

/// Balances load and sets sizes at all ranges.
pub(super) fn schedule(
    problem: &GearProblem,
    assignment: &Assignment,
    placement: &[Vec<usize>],
) -> Result<Schedule, GearError> {
    let mut gears: Vec<Gear> = Vec::with_capacity(problem.ranges.len());
    let mut overload: f64 = 0.0;
    for (range, &up_to) in problem.ranges.iter().enumerate() {
        let rates = problem.model_rates(assignment, range);
        let mut replicas = balance(problem, &rates, placement)?;
        match set_sizes(problem, &mut replicas, placement.len()) {
            Ok(()) => {}
            Err(work) => overload = overload.max(work),
        }
        gears.push(Gear {
            up_to,
            cascades: cascades(problem, assignment, range),
            replicas: replicas.iter().map(|replica| replica.gear(&rates)).collect(),
        });
    }
    Ok(Schedule {
        gears,
        overload: (overload > 0.0).then_some(overload),
    })
}

fn cascades(problem: &GearProblem, assignment: &Assignment, range: usize) -> Vec<CascadeGear> {
    let of = |(operator, ranges): (&super::OperatorChoices, &Vec<usize>)| CascadeGear {
        stages: operator.cascades[ranges[range]].stages.clone(),
    };
    problem.operators.iter().zip(assignment).map(of).collect()
}

/// A replica at one range.
struct Replica {
    model: usize,
    slot: usize,
    /// Items a second.
    rate: f64,
    size: u32,
}

impl Replica {
    fn gear(&self, rates: &[f64]) -> ReplicaGear {
        let wait = if self.size > 1 {
            Span::from_secs_f64(f64::from(self.size) / self.rate.max(1e-3))
        } else {
            Span::ZERO
        };
        ReplicaGear {
            model: self.model,
            slot: self.slot,
            share: self.rate / rates[self.model],
            size: self.size,
            wait,
        }
    }
}

/// The replicas with their items a second.
fn balance(
    problem: &GearProblem,
    rates: &[f64],
    placement: &[Vec<usize>],
) -> Result<Vec<Replica>, GearError> {
    let mut replicas = Vec::new();
    for (slot, placed) in placement.iter().enumerate() {
        for &model in placed.iter().filter(|model| rates[**model] > 0.0) {
            replicas.push(Replica {
                model,
                slot,
                rate: 0.0,
                size: problem.models[model].batch.first().copied().unwrap_or(1),
            });
        }
    }
    let count = |model: usize| replicas.iter().filter(|replica| replica.model == model).count();
    let counts: Vec<usize> = (0..rates.len()).map(count).collect();
    if let Some(model) = (0..rates.len()).find(|model| rates[*model] > 0.0 && counts[*model] == 0) {
        let name = &problem.models[model].name;
        return Err(GearError::Infeasible(format!(
            "model \"{name}\" is placed nowhere"
        )));
    }
    if counts.iter().all(|count| *count <= 1) {
        for replica in &mut replicas {
            replica.rate = rates[replica.model];
        }
        return Ok(replicas);
    }
    let time = |model: usize| problem.models[model].profile.duration(1).as_secs_f64();
    // Work of a slot if the work of each model is spread evenly over the slots that it may be on; the average
    // over all slots if they are of one device.
    let average = |slot: usize| -> f64 {
        let parts = problem.models.iter().zip(rates).enumerate();
        let own = parts.filter(|(_, (model, _))| model.slots.contains(&slot));
        own.map(|(index, (model, rate))| rate * time(index) / model.slots.len() as f64)
            .sum()
    };
    let mut program = Program::new(OptimizationDirection::Minimize);
    // Parts of the model's rate, and loads in units of the average: coefficients near 1.
    let parts: Vec<_> = replicas
        .iter()
        .map(|_| program.add_var(0.0, (0.0, 1.0)))
        .collect();
    for (model, _) in rates.iter().enumerate().filter(|(_, rate)| **rate > 0.0) {
        let own = replicas
            .iter()
            .zip(&parts)
            .filter(|(replica, _)| replica.model == model);
        let sum: Vec<_> = own.map(|(_, part)| (*part, 1.0)).collect();
        program.add_constraint(sum, ComparisonOp::Eq, 1.0);
    }
    for slot in (0..placement.len()).filter(|slot| average(*slot) > 0.0) {
        let away = program.add_var(1.0, (0.0, f64::INFINITY));
        let on_slot = replicas
            .iter()
            .zip(&parts)
            .filter(|(replica, _)| replica.slot == slot);
        let load: Vec<_> = on_slot
            .map(|(replica, part)| (*part, rates[replica.model] * time(replica.model) / average(slot)))
            .collect();
        let with = |sign: f64| load.iter().copied().chain([(away, sign)]).collect::<Vec<_>>();
        program.add_constraint(with(-1.0), ComparisonOp::Le, 1.0);
        program.add_constraint(with(1.0), ComparisonOp::Ge, 1.0);
    }
    let solution = program
        .solve()
        .map_err(|error| GearError::Solver(error.to_string()))?;
    let solution = solution
        .into_solution()
        .map_err(|_| GearError::Solver("it was interrupted".to_owned()))?;
    for (replica, part) in replicas.iter_mut().zip(&parts) {
        replica.rate = solution.var_value(*part).clamp(0.0, 1.0);
    }
    // What the solver's tolerance left out or added is dealt evenly.
    for (model, rate) in rates.iter().enumerate() {
        let sum: f64 = (replicas.iter().filter(|replica| replica.model == model))
            .map(|replica| replica.rate)
            .sum();
        for replica in replicas.iter_mut().filter(|replica| replica.model == model) {
            replica.rate *= rate / sum;
        }
    }
    Ok(replicas)
}

/// Increases batch sizes in turn until the work of every slot fits.
///
/// # Errors
/// Seconds of work per second on the busiest slot, if the sizes cannot grow any more.
fn set_sizes(problem: &GearProblem, replicas: &mut [Replica], slots: usize) -> Result<(), f64> {
    let mut worst: f64 = 0.0;
    for slot in 0..slots {
        let mut own: Vec<&mut Replica> = (replicas.iter_mut())
            .filter(|replica| replica.slot == slot && replica.rate > 0.0)
            .collect();
        let work =
            |own: &[&mut Replica]| -> f64 { own.iter().map(|replica| replica_work(problem, replica)).sum() };
        let mut turn = 0;
        let mut exhausted = 0;
        while work(&own) > 1.0 {
            if exhausted == own.len() {
                worst = worst.max(work(&own));
                break;
            }
            let place = turn % own.len();
            turn += 1;
            let replica = &mut own[place];
            let sizes = &problem.models[replica.model].batch;
            match sizes.iter().find(|size| **size > replica.size) {
                Some(size) => (replica.size, exhausted) = (*size, 0),
                None => exhausted += 1,
            }
        }
    }
    if worst > 0.0 { Err(worst) } else { Ok(()) }
}

/// Seconds of work a second of a replica.
fn replica_work(problem: &GearProblem, replica: &Replica) -> f64 {
    let duration = problem.models[replica.model]
        .profile
        .duration(replica.size)
        .as_secs_f64();
    replica.rate * duration / f64::from(replica.size)
}
