//! Losses of several resources that add up: over requests that visit only one of them, and over stretches of time.

use std::ops::Range;

use super::single::{Job, fewest_losses};

/// Stretches are not cut further than this many requests: at every cut the work that was begun before it is forgiven.
const MIN_STRETCH: usize = 256;

/// Upper limit on how many times a stretch of requests is halved, one half inside the other.
const MAX_CUTS: usize = 8;

/// Jobs that are evaluated again for cuts, at most. The depth of the cuts therefore depends on the number of
/// jobs and never on the clock, so a bound is reproducible.
const MAX_CUT_JOBS: usize = 4_000_000;

/// Above this many resources that run short at once, those that add up are chosen one after the other.
const MAX_EXACT: usize = 14;

/// Losses by resource, all of which are necessary together.
#[derive(Debug, Default, Clone)]
pub(super) struct Losses {
    /// `(resource, request)`, each request once.
    pub(super) lost: Vec<(usize, u32)>,
}

/// Jobs and conflicts of all resources, from which losses are combined; by resource.
pub(super) struct LossCombiner<'a> {
    pub(super) jobs: &'a [Vec<Job>],
    /// True for pairs of resources that some request visits both.
    pub(super) conflicts: &'a [Vec<bool>],
}

impl LossCombiner<'_> {
    /// Number of times that stretches may be halved: fewer the more jobs there are, see `MAX_CUT_JOBS`.
    pub(super) fn max_cuts(&self) -> u32 {
        let jobs: usize = self.jobs.iter().map(Vec::len).sum();
        (MAX_CUT_JOBS / jobs.max(1)).min(MAX_CUTS) as u32
    }

    /// Largest number of losses that add up among these requests, given the losses of each resource alone.
    /// Two resources with a common request are never counted over the same requests.
    pub(super) fn necessary_losses(
        &self,
        alone: Vec<(usize, Vec<u32>)>,
        requests: Range<usize>,
        cuts: u32,
    ) -> Losses {
        let short: Vec<usize> = alone
            .iter()
            .filter(|(_, lost)| !lost.is_empty())
            .map(|(resource, _)| *resource)
            .collect();
        let conflict = short
            .iter()
            .any(|&a| short.iter().any(|&b| a != b && self.conflicts[a][b]));
        let whole = disjoint_losses(alone, self.conflicts);
        // A cut cannot help if one resource runs short, or if the losses of several add up anyway.
        if !conflict || cuts == 0 || requests.len() < 2 * MIN_STRETCH {
            return whole;
        }
        let middle = usize::midpoint(requests.start, requests.end);
        let part = |requests: Range<usize>| {
            let lost =
                |&resource: &usize| (resource, fewest_losses(stretch(&self.jobs[resource], &requests)));
            self.necessary_losses(short.iter().map(lost).collect(), requests.clone(), cuts - 1)
        };
        let mut parts = part(requests.start..middle);
        parts.lost.extend(part(middle..requests.end).lost);
        if parts.lost.len() > whole.lost.len() {
            parts
        } else {
            whole
        }
    }
}

/// The jobs of these requests.
fn stretch<'a>(jobs: &'a [Job], requests: &Range<usize>) -> &'a [Job] {
    let from = jobs.partition_point(|job| (job.request as usize) < requests.start);
    let until = jobs.partition_point(|job| (job.request as usize) < requests.end);
    &jobs[from..until]
}

/// The resources that never meet, with the most losses in all.
fn disjoint_losses(mut found: Vec<(usize, Vec<u32>)>, conflicts: &[Vec<bool>]) -> Losses {
    found.retain(|(_, lost)| !lost.is_empty());
    let chosen = if found.len() <= MAX_EXACT {
        choose_exact(&found, conflicts)
    } else {
        choose_greedy(&found, conflicts)
    };
    let lost = chosen.into_iter().flat_map(|at| {
        let (resource, lost) = &found[at];
        lost.iter().map(move |&request| (*resource, request))
    });
    Losses { lost: lost.collect() }
}

fn choose_exact(found: &[(usize, Vec<u32>)], conflicts: &[Vec<bool>]) -> Vec<usize> {
    let members = |subset: usize| (0..found.len()).filter(move |at| subset >> at & 1 == 1);
    let apart = |subset: usize| {
        members(subset).all(|a| members(subset).all(|b| a == b || !conflicts[found[a].0][found[b].0]))
    };
    let weight = |subset: usize| members(subset).map(|at| found[at].1.len()).sum::<usize>();
    let best = (0..1_usize << found.len())
        .filter(|&subset| apart(subset))
        .max_by_key(|&subset| (weight(subset), std::cmp::Reverse(subset)));
    members(best.unwrap_or(0)).collect()
}

fn choose_greedy(found: &[(usize, Vec<u32>)], conflicts: &[Vec<bool>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(found[at].1.len()), at));
    let mut chosen: Vec<usize> = Vec::new();
    for at in order {
        if chosen
            .iter()
            .all(|&other| !conflicts[found[at].0][found[other].0])
        {
            chosen.push(at);
        }
    }
    chosen
}
