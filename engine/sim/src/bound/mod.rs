//! The bound: how many requests any policy could deliver within the SLO, on a given arrival sequence and capacity.
//!
//! A relaxation: whatever a policy does, what it delivers fits into the relaxed problem, and of that the optimum (or
//! less than the fewest losses) is computed. Assumed is only what every policy obeys: a request leaves a module when all
//! its items are done, a batch has at most the largest allowed size and takes what the profile says, a worker runs one
//! batch at a time, and a request counts if it is out of every module it visits at most an SLO after it was sent.
//!
//! 1. **Windows.** A request has a least way to a module and a least way out: the longest path of hops and
//!    least durations over the modules that it visits. Its batches in the module run wholly between the two.
//!    A request that does not fit even on an idle system is hopeless, and lost.
//! 2. **Work.** A batch of `b` items takes `d(b)` of slot time; give each item `d(b) / b` of it. An item's share is at
//!    least the least `d(b) / b` of the batches that fit its window, and the shares of delivered items are at most the
//!    slot time. So the delivered requests are a preemptive schedule of their least shares, within their windows, on the
//!    workers there are. The same holds for shared slots, and for any sum of resources with weights: both sides are
//!    summed, and the window goes from the first module's beginning to the last one's end.
//! 3. **Agreement.** Windows are widened until none lies inside another (little, since ways differ little), and time is
//!    counted in slot time offered, so that there is one machine of constant speed. Then the fewest losses are found
//!    exactly (`single`). Nothing but 2 and the widening is relaxed for one worker without batches: the bound is met.
//! 4. **Sums.** Losses within disjoint sets of requests add up, since each holds even if the others never came: for
//!    modules that no request visits both (exclusive branches), and for stretches of time (`combine`).
//!
//! A heuristic, limited by counts of requests (never by the clock), selects the sums and cuts that are tried;
//! they only make the bound tighter. Each resource's own bound is monotone in capacity and SLO, the total
//! nearly so.
//!
//! Two refinements were tried and left out. A tandem of fluid modules gives no more than the least of them
//! while capacities are constant and items equal: the faster ones can follow the slowest one's schedule
//! without delay. Whole batches instead of their shares would matter only at the edges of a burst, by about a
//! batch.
//!
//! One looseness remains. If a policy may choose batches so large that their durations together do not fit
//! the SLO, not all modules can have their best throughput at once; here each module is limited only by the
//! least durations of the others.

pub use input::{
    BoundError, BoundInput, BoundModule, Capacity, HopTimes, Items, MAX_BATCH, SharedSlots, Unvisited,
};

mod chain;
mod combine;
mod cost;
mod input;
mod joint;
mod kinds;
mod mix;
mod resource;
mod single;
mod slack;
#[cfg(test)]
mod tests;
mod windows;

use serde::Serialize;
use weir_types::{ModuleId, Timestamp};

use combine::{LossCombiner, Losses};
use cost::{Costs, PARTS};
use resource::{RequestWindow, Resource};
use single::Job;
use windows::{Passage, PathTimes};

/// Upper bound on deliveries, and lower bound on losses, for any policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeliveryBound {
    /// Requests that arrived.
    pub arrived: u64,
    /// No policy delivers more than this many within the SLO.
    pub max_delivered: u64,
    /// Every policy loses (drops, or delivers late) at least this many.
    pub min_lost: u64,
    /// `min_lost` divided by the arrivals; 0 without arrivals.
    pub min_drop_rate: f64,
    /// Requests that would be late even on an idle system; they are part of `min_lost`.
    pub hopeless: u64,
    /// The module whose workers account for most of the losses; `None` if no request is lost to a lack of
    /// workers. Of shared slots or a sum of modules, the first module.
    pub binding: Option<ModuleId>,
    /// Losses that each module makes necessary, by module id.
    pub per_module: Vec<ModuleBound>,
    /// Losses that each group of shared slots makes necessary, without hopeless requests; in the order of the
    /// input.
    pub per_shared: Vec<u64>,
    /// One optimal choice of drops: number of dropped requests by the second of sending, from the start of
    /// the clock; sums to `min_lost`.
    pub lost_at: Vec<u64>,
}

/// Losses that one module makes necessary, even if all others had unlimited workers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModuleBound {
    /// Requests that visit it and are not hopeless.
    pub visits: u64,
    /// Losses among these that the workers of this module make necessary.
    pub min_lost: u64,
    /// Items a second that one worker can do at most, at the largest batch that fits.
    pub max_items_per_s: f64,
}

/// Computes an upper bound of what any policy could deliver.
///
/// # Errors
/// [`BoundError`] if the input contradicts itself, or no bound is known.
pub fn bound(input: &BoundInput<'_>) -> Result<DeliveryBound, BoundError> {
    input.check()?;
    let costs: Vec<Costs> = input
        .modules
        .iter()
        .map(|module_input| {
            let largest = module_input.batches.iter().copied().max().unwrap_or(1);
            Costs::new(module_input.profile, largest, module_input.workers.max())
        })
        .collect();
    let mut resources = Resource::all(input);
    let path_times = PathTimes::new(input, &costs);
    let (mut jobs, hopeless) = resource_jobs(input, &path_times, &resources)?;
    let mut alone: Vec<(usize, Vec<u32>)> = jobs
        .iter()
        .map(|jobs| single::fewest_losses(jobs))
        .enumerate()
        .collect();
    let conflicts_alone = conflict_matrix(&jobs, input.arrivals.len());
    let heads = path_times.min_heads();
    let mut sums = mix::sums(&resources, &jobs, &alone, &conflicts_alone, &heads);
    if alone.iter().any(|(_, lost)| !lost.is_empty()) {
        sums.extend(chain::sums(input, &path_times, &resources, &heads));
    }
    for sum in sums {
        // A sum counts in larger numbers than its parts: if it is too long a run for that, it is left out.
        let Ok((mut mixed, _)) = resource_jobs(input, &path_times, std::slice::from_ref(&sum)) else {
            continue;
        };
        let Some(mixed) = mixed.pop() else { continue };
        let lost = single::fewest_losses(&mixed);
        let rivals = alone.iter().filter(|(other, _)| sum.overlaps(&resources[*other]));
        if lost.len() > rivals.map(|(_, lost)| lost.len()).max().unwrap_or(0) {
            alone.push((resources.len(), lost));
            jobs.push(mixed);
            resources.push(sum);
        }
    }
    let per_resource: Vec<u64> = alone.iter().map(|(_, lost)| lost.len() as u64).collect();
    let conflicts = conflict_matrix(&jobs, input.arrivals.len());
    let combiner = LossCombiner {
        jobs: &jobs,
        conflicts: &conflicts,
    };
    let losses = combiner.necessary_losses(alone, 0..input.arrivals.len(), combiner.max_cuts());
    let visits = jobs.iter().map(|jobs| jobs.len() as u64);
    let visited: Vec<(u64, u64)> = visits.zip(per_resource).collect();
    Ok(summary(input, &costs, &resources, &visited, &hopeless, &losses))
}

/// Jobs of each resource, and the requests that are late even on an idle system.
fn resource_jobs(
    input: &BoundInput<'_>,
    path_times: &PathTimes<'_>,
    resources: &[Resource],
) -> Result<Work, BoundError> {
    let hopeless = (0..input.arrivals.len())
        .filter(|&request| !path_times.in_time(path_times.kind_of(request)))
        .map(|request| request as u32);
    let origin = input.arrivals.first().copied().unwrap_or(Timestamp::ZERO);
    let jobs = resources.iter().map(|resource| {
        let passage = |kind: usize| path_times.passage(kind, &resource.members);
        let passages: Vec<Option<Passage>> = (0..path_times.kinds()).map(passage).collect();
        let window = |(request, &sent): (usize, &Timestamp)| {
            let passage = passages[path_times.kind_of(request)]?;
            Some(RequestWindow {
                request: request as u32,
                from: (sent + passage.head).micros(),
                until: (sent + input.slo).saturating_sub(passage.tail).micros(),
                work: passage.work,
            })
        };
        let windows = input.arrivals.iter().enumerate().filter_map(window).collect();
        resource::jobs(resource, windows, origin)
    });
    Ok((jobs.collect::<Result<_, _>>()?, hopeless.collect()))
}

/// Jobs by resource, and hopeless requests.
type Work = (Vec<Vec<Job>>, Vec<u32>);

/// For each pair of resources, true if some request visits both.
fn conflict_matrix(jobs: &[Vec<Job>], requests: usize) -> Vec<Vec<bool>> {
    let mut conflicts = vec![vec![false; jobs.len()]; jobs.len()];
    let mut visited = vec![false; requests];
    for a in 0..jobs.len() {
        visited.fill(false);
        for job in &jobs[a] {
            visited[job.request as usize] = true;
        }
        for b in 0..jobs.len() {
            conflicts[a][b] = jobs[b].iter().any(|job| visited[job.request as usize]);
        }
    }
    conflicts
}

/// Summarises the losses; `visited` holds, by resource, its requests and those that it alone loses.
fn summary(
    input: &BoundInput<'_>,
    costs: &[Costs],
    resources: &[Resource],
    visited: &[(u64, u64)],
    hopeless: &[u32],
    losses: &Losses,
) -> DeliveryBound {
    let arrived = input.arrivals.len() as u64;
    let modules = input.modules.len();
    let mut by_resource = vec![0_u64; resources.len()];
    let mut lost_at = vec![0_u64; input.arrivals.last().map_or(0, |last| second(*last) + 1)];
    for &(resource, request) in &losses.lost {
        by_resource[resource] += 1;
        lost_at[second(input.arrivals[request as usize])] += 1;
    }
    for &request in hopeless {
        lost_at[second(input.arrivals[request as usize])] += 1;
    }
    let most = (0..resources.len())
        .rev()
        .max_by_key(|&resource| by_resource[resource]);
    let binding = most
        .filter(|&resource| by_resource[resource] > 0)
        .and_then(|resource| {
            let first = resources[resource].members.first();
            first.map(|member| ModuleId(member.module as u32))
        });
    let min_lost = (losses.lost.len() + hopeless.len()) as u64;
    let per_module = visited
        .iter()
        .zip(costs)
        .map(|(&(visits, min_lost), costs)| ModuleBound {
            visits,
            min_lost,
            max_items_per_s: 1e6 * PARTS as f64 / costs.item_cost(input.slo) as f64,
        });
    DeliveryBound {
        arrived,
        max_delivered: arrived - min_lost,
        min_lost,
        min_drop_rate: if arrived == 0 {
            0.0
        } else {
            min_lost as f64 / arrived as f64
        },
        hopeless: hopeless.len() as u64,
        binding,
        per_module: per_module.collect(),
        per_shared: visited[modules..modules + input.shared.len()]
            .iter()
            .map(|counts| counts.1)
            .collect(),
        lost_at,
    }
}

fn second(moment: Timestamp) -> usize {
    (moment.micros() / 1_000_000) as usize
}
