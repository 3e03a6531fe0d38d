//! Neighbours of the plans that a walk found, and the order in which to evaluate them.

use super::problem::{Assignment, Evaluation, GearProblem, LoadOrder};

/// Least latency that is compared, as a fraction of the largest. Ratios need a positive value, and a drop
/// rate may be 0.
const MIN_PART: f64 = 1e-4;

/// Assignments that differ by one cascade at one range of one operator, and that the load order allows.
pub(super) fn neighbours(problem: &GearProblem, at: &Assignment) -> Vec<Assignment> {
    let mut out = Vec::new();
    for (operator, ranges) in at.iter().enumerate() {
        let last = problem.operators[operator].cascades.len() - 1;
        for (range, &choice) in ranges.iter().enumerate() {
            let others = [choice.checked_sub(1), (choice < last).then_some(choice + 1)];
            for other in others.into_iter().flatten() {
                let mut neighbour = at.clone();
                neighbour[operator][range] = other;
                if problem.order == LoadOrder::Free || neighbour[operator].is_sorted() {
                    out.push(neighbour);
                }
            }
        }
    }
    out
}

/// Indices of the plans on a frontier, which is in ascending order of latency; plans beside the widest gap
/// come first, and the faster ones of equals.
///
/// A gap is the area between two successive plans: the logarithm of their latency ratio times the difference
/// in accuracy. Gaps at a hundred milliseconds therefore count as much as those at ten seconds.
pub(super) fn by_gap(frontier: &[Evaluation]) -> Vec<usize> {
    let largest = frontier.iter().map(|plan| plan.latency).fold(0.0, f64::max);
    let least = (largest * MIN_PART).max(f64::MIN_POSITIVE);
    let log = |plan: &Evaluation| plan.latency.max(least).ln();
    let gap = |pair: &[Evaluation]| (log(&pair[1]) - log(&pair[0])) * (pair[1].accuracy - pair[0].accuracy);
    let gaps: Vec<f64> = frontier.windows(2).map(gap).collect();
    let beside = |place: usize| {
        let before = place.checked_sub(1).and_then(|before| gaps.get(before));
        let after = gaps.get(place);
        before.into_iter().chain(after).copied().fold(0.0, f64::max)
    };
    let mut places: Vec<usize> = (0..frontier.len()).collect();
    places.sort_by(|a, b| beside(*b).total_cmp(&beside(*a)).then(a.cmp(b)));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(latency: f64, accuracy: f64) -> Evaluation {
        Evaluation { latency, accuracy }
    }

    #[test]
    fn both_ends_of_the_widest_gap_come_first() {
        // Times 2 by 0.01, times 4 by 0.03, times 1.5 by 0.02.
        let plans = [at(0.01, 0.80), at(0.02, 0.81), at(0.08, 0.84), at(0.12, 0.86)];
        assert_eq!(by_gap(&plans), [1, 2, 3, 0]);
        // The same latencies, multiplied by a hundred.
        let slow = plans.map(|plan| at(100.0 * plan.latency, plan.accuracy));
        assert_eq!(by_gap(&slow), [1, 2, 3, 0]);
    }

    #[test]
    fn a_drop_rate_of_none_and_a_single_plan_have_places() {
        assert_eq!(by_gap(&[at(0.0, 0.8), at(0.1, 0.9), at(0.2, 0.91)]), [0, 1, 2]);
        assert_eq!(by_gap(&[at(0.0, 0.8)]), [0]);
        assert_eq!(by_gap(&[]), [0; 0]);
    }
}
