//! Accuracy of a cascade over its work at every certainty threshold, from samples (KEN 4.2), without running
//! anything again.

use serde::{Deserialize, Serialize};
use weir_policy::gears::{Settle, is_accepted};

/// Certainty and correctness of every stage of a cascade for one item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampledItem {
    /// Certainty of each stage's answer, 0 to 1.
    pub certainty: Vec<f32>,
    /// Correctness of each stage's answer, 0 to 1.
    pub right: Vec<f64>,
}

/// A cascade at some certainties.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Least certainty that each stage accepts, except the last.
    pub certainty: Vec<f32>,
    /// Mean of how right the answers are that count, 0 to 1.
    pub accuracy: f64,
    /// Part of the items that comes to each stage.
    pub asked: Vec<f64>,
    /// Mean work of an item, in the unit of the input.
    pub work: f64,
}

/// Number of certainty thresholds that are tried per stage if several stages hand on. For a single stage all
/// distinguishable ones are tried.
const STEPS: usize = 24;
const MAX_ALONE: usize = 2_000;

/// Points of the cascade at all thresholds that make a difference, the least work first. `work` is the work
/// of one item by stage. Empty without items.
#[must_use]
pub fn curve(items: &[SampledItem], work: &[f64], settle: Settle) -> Vec<CurvePoint> {
    let Some(stages) = work.len().checked_sub(1).filter(|_| !items.is_empty()) else {
        return Vec::new();
    };
    let candidates: Vec<Vec<f32>> = (0..stages)
        .map(|stage| candidates(items, stage, stages == 1))
        .collect();
    let mut chosen = vec![0; stages];
    let mut points = Vec::new();
    loop {
        let least = chosen
            .iter()
            .zip(&candidates)
            .map(|(index, of)| of[*index])
            .collect();
        points.push(point(items, work, least, settle));
        let Some(next) = (0..stages).find(|stage| chosen[*stage] + 1 < candidates[*stage].len()) else {
            break;
        };
        chosen[next] += 1;
        chosen[..next].fill(0);
    }
    points.sort_by(|a, b| a.work.total_cmp(&b.work).then(b.accuracy.total_cmp(&a.accuracy)));
    points
}

/// Pareto-optimal points: no other point has at most their work and a higher accuracy.
#[must_use]
pub fn pareto(points: &[CurvePoint]) -> Vec<&CurvePoint> {
    let mut best = f64::NEG_INFINITY;
    let mut kept = Vec::new();
    for point in points {
        if point.accuracy > best {
            best = point.accuracy;
            kept.push(point);
        }
    }
    kept
}

/// Thresholds at which the set of handed-on items changes: each certainty that occurs, and those that accept
/// all or none.
fn candidates(items: &[SampledItem], stage: usize, all: bool) -> Vec<f32> {
    let of_item = |item: &SampledItem| item.certainty.get(stage).copied();
    let mut known: Vec<f32> = items.iter().filter_map(of_item).chain([0.0, 1.0]).collect();
    known.sort_by(f32::total_cmp);
    known.dedup();
    let steps = if all { MAX_ALONE } else { STEPS };
    if known.len() <= steps {
        return known;
    }
    (0..steps)
        .map(|step| known[step * (known.len() - 1) / (steps - 1)])
        .collect()
}

fn point(items: &[SampledItem], work: &[f64], least: Vec<f32>, settle: Settle) -> CurvePoint {
    let mut asked = vec![0_u64; work.len()];
    let mut accuracy = 0.0;
    for item in items {
        let mut counts: Option<(f32, f64)> = None;
        for (stage, asked) in asked.iter_mut().enumerate() {
            *asked += 1;
            let certainty = item.certainty.get(stage).copied().unwrap_or(0.0);
            if settle.replaces(counts.map(|(before, _)| before), Some(certainty)) {
                counts = Some((certainty, item.right.get(stage).copied().unwrap_or(0.0)));
            }
            if least
                .get(stage)
                .is_some_and(|least| is_accepted(certainty, *least))
            {
                break;
            }
        }
        accuracy += counts.map_or(0.0, |(_, right)| right);
    }
    let count = items.len() as f64;
    let asked: Vec<f64> = asked.into_iter().map(|asked| asked as f64 / count).collect();
    CurvePoint {
        certainty: least,
        accuracy: accuracy / count,
        work: asked.iter().zip(work).map(|(asked, work)| asked * work).sum(),
        asked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(certainty: [f32; 2], right: [f64; 2]) -> SampledItem {
        SampledItem {
            certainty: certainty.to_vec(),
            right: right.to_vec(),
        }
    }

    #[test]
    fn every_certainty_that_makes_a_difference_is_a_point() {
        let items = [
            item([0.9, 0.8], [1.0, 1.0]),
            item([0.4, 0.8], [0.0, 1.0]),
            item([0.7, 0.0], [1.0, 0.0]),
            item([0.2, 0.9], [0.0, 0.0]),
        ];
        let points = curve(&items, &[1.0, 10.0], Settle::Last);
        let seen: Vec<(f32, f64, f64)> = points
            .iter()
            .map(|point| (point.certainty[0], point.accuracy, point.work))
            .collect();
        // At a threshold of 1 the third item is handed on, too, and keeps its answer, since that of the
        // second stage is not valid.
        let expected = [
            (0.0, 0.5, 1.0),
            (0.2, 0.5, 1.0),
            (0.4, 0.5, 3.5),
            (0.7, 0.75, 6.0),
            (0.9, 0.75, 8.5),
            (1.0, 0.75, 11.0),
        ];
        assert_eq!(seen, expected);
        let kept: Vec<f64> = pareto(&points).iter().map(|point| point.work).collect();
        assert_eq!(kept, [1.0, 6.0]);
        assert_eq!(points[5].asked, [1.0, 1.0]);
        assert!(curve(&[], &[1.0, 10.0], Settle::Last).is_empty());
    }

    #[test]
    fn raising_a_certainty_never_lowers_what_is_handed_on() {
        let items: Vec<SampledItem> = (0..100_u64)
            .map(|number| {
                let certainty = [0, 1].map(|stage| weir_policy::uniform_hash(number * 2 + stage) as f32);
                item(certainty, [0.0, 1.0])
            })
            .collect();
        let mut points = curve(&items, &[1.0, 2.0], Settle::Surest);
        points.sort_by(|a, b| a.certainty[0].total_cmp(&b.certainty[0]));
        assert!(points.is_sorted_by(|a, b| a.asked[1] <= b.asked[1]));
    }
}
