//! The best plan of few groups: equations 6 to 13 by branch and bound. Every group has one position on one
//! instance (6). Orders are built instance by instance; a partial order is abandoned if its bound is not
//! below the best cost.

use super::plan::{PlanCost, PlanProblem, Progress};

struct Branch<'a> {
    problem: &'a PlanProblem,
    up: Vec<usize>,
    orders: Vec<Vec<usize>>,
    is_placed: Vec<bool>,
    best: Vec<Vec<usize>>,
    best_cost: PlanCost,
    /// Least completion time that each group adds, over all instances, in seconds.
    least_s: Vec<f64>,
}

/// Returns the orders with the least cost. Among equals, the one found first, starting from the instance with
/// the lowest id.
#[must_use]
pub fn solve_exactly(problem: &PlanProblem) -> Vec<Vec<usize>> {
    let up: Vec<usize> = problem.up().collect();
    let none = vec![Vec::new(); problem.instances.len()];
    if up.is_empty() {
        return none;
    }
    let least = |group: usize| {
        let alone = up.iter().map(|&instance| {
            let mut progress = Progress::new(&problem.instances[instance]);
            problem.append(instance, &mut progress, group).cost.completion_s
        });
        alone.fold(f64::INFINITY, f64::min)
    };
    let count = problem.groups.len();
    let mut branch = Branch {
        problem,
        least_s: (0..count).map(least).collect(),
        up,
        orders: none.clone(),
        is_placed: vec![false; count],
        best: none,
        best_cost: PlanCost::WORST,
    };
    let first = branch.up[0];
    branch.extend(
        0,
        Progress::new(&problem.instances[first]),
        PlanCost::default(),
        count,
    );
    branch.best
}

impl Branch<'_> {
    fn extend(&mut self, at: usize, progress: Progress, cost: PlanCost, left: usize) {
        if left == 0 {
            if cost.is_below(&self.best_cost) {
                self.best_cost = cost;
                self.best.clone_from(&self.orders);
            }
            return;
        }
        let unplaced = self.least_s.iter().zip(&self.is_placed);
        let least_s: f64 = unplaced
            .filter(|(_, placed)| !**placed)
            .map(|(least, _)| least)
            .sum();
        let bound = PlanCost {
            late: cost.late,
            completion_s: cost.completion_s + least_s,
        };
        if !bound.is_below(&self.best_cost) {
            return;
        }
        let instance = self.up[at];
        for group in 0..self.is_placed.len() {
            if self.is_placed[group] {
                continue;
            }
            let mut next = progress;
            let added = self.problem.append(instance, &mut next, group).cost;
            self.is_placed[group] = true;
            self.orders[instance].push(group);
            self.extend(at, next, cost.plus(added), left - 1);
            self.orders[instance].pop();
            self.is_placed[group] = false;
        }
        if at + 1 < self.up.len() {
            let next = Progress::new(&self.problem.instances[self.up[at + 1]]);
            self.extend(at + 1, next, cost, left);
        }
    }
}
