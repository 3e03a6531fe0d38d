//! Weighted sums of resources that run short together: where requests differ in what they ask of each, the requests
//! best dropped for one are not those best dropped for the other, and only the sum sees both.

use weir_types::Span;

use super::resource::Resource;
use super::single::Job;

/// Pairs that are looked at, those with the most losses first.
const MAX_PAIRS: usize = 3;

/// Weight of the second of a pair to that of the first, where each has been brought to the same capacity.
const RATIOS: [(u64, u64); 5] = [(1, 1), (2, 1), (1, 2), (4, 1), (1, 4)];

/// Requests that are gone through for sums in all; a long run gets fewer ratios, but one for each pair.
const MAX_SUM_REQUESTS: usize = 3_000_000;

/// Weights are whole; a capacity is brought to this.
const CAPACITY: u64 = 1 << 10;

/// Sums worth a try.
pub(super) fn sums(
    resources: &[Resource],
    jobs: &[Vec<Job>],
    alone: &[(usize, Vec<u32>)],
    conflicts: &[Vec<bool>],
    heads: &[Span],
) -> Vec<Resource> {
    let short: Vec<usize> = (0..resources.len())
        .filter(|&at| !alone[at].1.is_empty())
        .collect();
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for (at, &a) in short.iter().enumerate() {
        pairs.extend(
            short[at + 1..]
                .iter()
                .filter(|&&b| conflicts[a][b] && differ(&jobs[a], &jobs[b]))
                .map(|&b| (a, b)),
        );
    }
    pairs.sort_by_key(|&(a, b)| (std::cmp::Reverse(alone[a].1.len() + alone[b].1.len()), a, b));
    pairs.truncate(MAX_PAIRS);
    let requests = pairs
        .iter()
        .map(|&(a, b)| jobs[a].len().max(jobs[b].len()))
        .sum::<usize>();
    let ratios = (MAX_SUM_REQUESTS / requests.max(1)).clamp(1, RATIOS.len());
    let sum = &|(a, b): (usize, usize), (first, second): (u64, u64)| {
        let even = |at: usize| (CAPACITY / resources[at].max_capacity().max(1)).max(1);
        let pair = [
            (&resources[a], first * even(a)),
            (&resources[b], second * even(b)),
        ];
        Resource::sum(&pair, heads)
    };
    pairs
        .into_iter()
        .flat_map(|pair| RATIOS[..ratios].iter().map(move |&ratio| sum(pair, ratio)))
        .collect()
}

/// True if some request needs more of one resource than of the other, relative to other requests.
fn differ(a: &[Job], b: &[Job]) -> bool {
    let alike = |jobs: &[Job]| jobs.windows(2).all(|pair| pair[0].work == pair[1].work);
    a.len() != b.len() || !alike(a) || !alike(b)
}
