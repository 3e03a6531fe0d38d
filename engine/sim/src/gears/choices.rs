//! The cascades that an operator may choose from, from samples (KEN 4.2): of all its stages or some of them, at the
//! certainties that no other choice beats in accuracy and work.

use weir_policy::gears::Settle;

use super::curve::{SampledItem, curve};

/// A cascade of some of the stages that were sampled.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledCascade {
    /// Indices of its stages among those that were sampled, ascending.
    pub stages: Vec<usize>,
    /// Least certainty that each stage accepts, except the last.
    pub certainty: Vec<f32>,
    /// Part of the items that comes to each stage.
    pub asked: Vec<f64>,
    /// Mean of how right the answers are that count, 0 to 1.
    pub accuracy: f64,
    /// Mean work of an item.
    pub work: f64,
}

/// Stages of a cascade that is looked at, at most: of more there are too many certainties, and the published plans have two.
const MAX_STAGES: u32 = 3;

/// Pareto-optimal cascades, at most `most`, the most expensive first. `work` is the work of one item by
/// stage. Empty without items.
#[must_use]
pub fn sampled_cascades(
    items: &[SampledItem],
    work: &[f64],
    settle: Settle,
    most: usize,
) -> Vec<SampledCascade> {
    let mut found: Vec<SampledCascade> = Vec::new();
    for chosen in 1_u32..1 << work.len().min(16) {
        if chosen.count_ones() > MAX_STAGES {
            continue;
        }
        let stages: Vec<usize> = (0..work.len())
            .filter(|stage| chosen & (1 << stage) != 0)
            .collect();
        let own_work: Vec<f64> = stages.iter().map(|stage| work[*stage]).collect();
        let own: Vec<SampledItem> = items.iter().map(|item| of_stages(item, &stages)).collect();
        let points = curve(&own, &own_work, settle).into_iter();
        // A cascade whose last stage gets no items equals a shorter cascade.
        let points = points.filter(|point| point.asked.last().is_some_and(|asked| *asked > 0.0));
        found.extend(points.map(|point| SampledCascade {
            stages: stages.clone(),
            certainty: point.certainty,
            asked: point.asked,
            accuracy: point.accuracy,
            work: point.work,
        }));
    }
    found.sort_by(|a, b| {
        let work = a.work.total_cmp(&b.work);
        work.then(b.accuracy.total_cmp(&a.accuracy))
            .then(a.stages.len().cmp(&b.stages.len()))
    });
    let mut best = f64::NEG_INFINITY;
    found.retain(|cascade| {
        let is_better = cascade.accuracy > best;
        best = best.max(cascade.accuracy);
        is_better
    });
    let kept = found.len().min(most.max(1));
    let last = found.len().saturating_sub(1);
    let evenly = (0..kept).map(|place| found[last - place * last / kept.saturating_sub(1).max(1)].clone());
    evenly.collect()
}

fn of_stages(item: &SampledItem, stages: &[usize]) -> SampledItem {
    SampledItem {
        certainty: stages
            .iter()
            .map(|stage| item.certainty.get(*stage).copied().unwrap_or(0.0))
            .collect(),
        right: stages
            .iter()
            .map(|stage| item.right.get(*stage).copied().unwrap_or(0.0))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small stage that is right for two thirds of the items and certain of these; a large stage that is
    /// nearly always right.
    fn items() -> Vec<SampledItem> {
        let item = |number: u32| SampledItem {
            certainty: vec![(number % 30) as f32 / 30.0, 0.9],
            right: vec![
                f64::from(u8::from(number % 30 >= 10)),
                f64::from(u8::from(number % 50 != 49)),
            ],
        };
        (0..300).map(item).collect()
    }

    #[test]
    fn single_models_and_cascades_are_chosen_from_and_none_beats_another() {
        let chosen = sampled_cascades(&items(), &[1.0, 10.0], Settle::Last, 20);
        assert!(chosen.len() > 3 && chosen.len() <= 20, "{}", chosen.len());
        let last = chosen.last().unwrap();
        assert_eq!((last.stages.as_slice(), last.work), (&[0][..], 1.0));
        assert!(chosen.is_sorted_by(|a, b| a.work > b.work && a.accuracy > b.accuracy));
        for cascade in &chosen {
            assert_eq!(cascade.certainty.len() + 1, cascade.stages.len());
            assert_eq!(cascade.asked.len(), cascade.stages.len());
        }
        // The cascade beats the large stage: the latter is wrong for some items of which the small one is
        // sure.
        assert!(chosen.iter().all(|cascade| cascade.stages != [1]), "{chosen:?}");
        assert!(chosen[0].accuracy > 0.98, "{:?}", chosen[0]);
    }

    #[test]
    fn where_few_are_wanted_the_ends_are_kept() {
        let all = sampled_cascades(&items(), &[1.0, 10.0], Settle::Last, 1_000);
        let few = sampled_cascades(&items(), &[1.0, 10.0], Settle::Last, 3);
        assert_eq!(few.len(), 3);
        assert_eq!((few.first(), few.last()), (all.first(), all.last()));
        assert!(sampled_cascades(&[], &[1.0], Settle::Last, 3).is_empty());
    }
}
