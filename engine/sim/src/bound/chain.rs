//! Sums over modules that a request visits one after the other: what one of them gains by long batches is time that the
//! others do not have (`joint`). Which weights make such a sum bind is searched for on a sample of the requests.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{Span, Timestamp};

use super::input::{BoundInput, Capacity};
use super::resource::{Member, Resource};
use super::windows::PathTimes;

/// Sets of modules that are tried.
const MAX_SETS: usize = 6;

/// Requests by which weights are judged.
const SAMPLE: usize = 12;

/// Factors by which the weight of a module is changed, as long as one of them binds more.
const FACTORS: [f64; 4] = [2.0, 0.5, 1.25, 0.8];

/// Passes over all weights of a set before the search stops, even if the last pass still improved the result.
const ROUNDS: usize = 8;

/// Largest weight. Weights are integers, scaled so that the heaviest module has this one.
const WHOLE: f64 = 1_024.0;

/// Builds one weighted sum of resources for each set of modules that requests of the sample visit.
pub(super) fn sums(
    input: &BoundInput<'_>,
    path_times: &PathTimes<'_>,
    resources: &[Resource],
    heads: &[Span],
) -> Vec<Resource> {
    let capacity: Vec<f64> = input
        .modules
        .iter()
        .map(|module_input| mean(input, &module_input.workers))
        .collect();
    let sample = sample(input, path_times);
    let mut sets: Vec<Vec<usize>> = Vec::new();
    let all: BTreeSet<usize> = sample.iter().flat_map(|&kind| path_times.visited(kind)).collect();
    let each = sample
        .iter()
        .map(|&kind| path_times.visited(kind).collect())
        .collect::<Vec<_>>();
    for set in std::iter::once(all.into_iter().collect()).chain(each) {
        let set: Vec<usize> = set;
        let sound = set.len() > 1 && set.iter().all(|&module| capacity[module] > 0.0);
        if sound && sets.len() < MAX_SETS && !sets.contains(&set) {
            sets.push(set);
        }
    }
    let sum = |set: Vec<usize>| {
        let weights = climb(&set, &capacity, &sample, path_times);
        let parts: Vec<(&Resource, u64)> = set
            .iter()
            .zip(weights)
            .map(|(&module, weight)| (&resources[module], weight))
            .collect();
        Resource::sum(&parts, heads)
    };
    sets.into_iter().map(sum).collect()
}

/// Searches, by coordinate ascent, for the weights at which the sampled requests load the modules of `set`
/// most, relative to their capacity (see `binding`).
fn climb(set: &[usize], capacity: &[f64], sample: &[usize], path_times: &PathTimes<'_>) -> Vec<u64> {
    let mut weights: Vec<f64> = set.iter().map(|&module| 1.0 / capacity[module]).collect();
    let mut best = 0.0;
    for _ in 0..ROUNDS {
        let before = best;
        for at in 0..set.len() {
            for factor in FACTORS {
                let mut other = weights.clone();
                other[at] *= factor;
                let binds = binding(set, &whole(&other), capacity, sample, path_times);
                if binds > best * (1.0 + 1e-6) {
                    (best, weights) = (binds, other);
                }
            }
        }
        if best <= before * 1.001 {
            break;
        }
    }
    whole(&weights)
}

fn whole(weights: &[f64]) -> Vec<u64> {
    let most = weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    weights
        .iter()
        .map(|weight| ((weight / most * WHOLE).round() as u64).max(1))
        .collect()
}

/// Mean weighted slot time that a sampled request needs in the modules of `set`, divided by the weighted slot
/// time that their workers offer in a microsecond.
fn binding(
    set: &[usize],
    weights: &[u64],
    capacity: &[f64],
    sample: &[usize],
    path_times: &PathTimes<'_>,
) -> f64 {
    let member = |(&module, &weight): (&usize, &u64)| Member {
        module,
        weight,
        shift: Span::ZERO,
    };
    let members: Vec<Member> = set.iter().zip(weights).map(member).collect();
    let mut works: BTreeMap<usize, f64> = BTreeMap::new();
    let mut asked = 0.0;
    for &kind in sample {
        asked += *works.entry(kind).or_insert_with(|| {
            path_times
                .passage(kind, &members)
                .map_or(0.0, |passage| passage.work as f64)
        });
    }
    let there: f64 = members
        .iter()
        .map(|member| member.weight as f64 * capacity[member.module])
        .sum();
    asked / there
}

/// The kinds of requests that are not hopeless, evenly over the run.
fn sample(input: &BoundInput<'_>, path_times: &PathTimes<'_>) -> Vec<usize> {
    let requests = input.arrivals.len();
    let every = requests.div_ceil(SAMPLE).max(1);
    (0..requests)
        .step_by(every)
        .map(|request| path_times.kind_of(request))
        .filter(|&kind| path_times.in_time(kind))
        .collect()
}

/// Workers in the mean over the run.
fn mean(input: &BoundInput<'_>, capacity: &Capacity) -> f64 {
    let ends = input.arrivals.first().zip(input.arrivals.last());
    let Some((&begin, &end)) = ends.filter(|(begin, end)| begin < end) else {
        return f64::from(capacity.max());
    };
    let mut offered = 0.0;
    let (mut since, mut workers) = (begin, 0_u32);
    for &(from, next) in &capacity.0 {
        let from: Timestamp = from.clamp(begin, end);
        offered += f64::from(workers) * from.since(since).as_secs_f64();
        (since, workers) = (from, next);
    }
    offered += f64::from(workers) * end.since(since).as_secs_f64();
    offered / end.since(begin).as_secs_f64()
}
