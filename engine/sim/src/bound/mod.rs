//! The bound: how many requests any policy could deliver within the SLO, on a given arrival sequence and capacity.
//!
//! A relaxation: whatever a policy does, what it delivers fits into the relaxed problem, and of that the optimum (or
//! less than the fewest losses) is computed. Assumed is only what every policy obeys: a request leaves a module when all
//! its items are done, a batch has at most the largest allowed size and takes what the profile says, a worker runs one
//! batch at a time, and a request counts if it is out of every module it visits at most an SLO after it was sent.
//!
//! 1. **Windows.** A request has a least way to a module and a least way out: the longest path of hops and least
//!    durations over what it visits. Its batches in the module run wholly between the two. Who does not fit even alone
//!    is hopeless, and lost.
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
//! Which sums and cuts are tried is a rule of thumb, limited by counts of requests (never by the clock): it only makes
//! the bound tighter. So each resource's own bound is monotone in capacity and SLO, the total may miss that by a little.
//!
//! What was left out, and why. A tandem of fluid modules gives no more than the least of them while capacities are
//! constant and items equal: the faster ones can follow the slowest one's schedule without delay. Whole batches instead
//! of their shares would matter only at the edges of a burst, by about a batch. And if a policy may choose batches so
//! large that their durations together do not fit the SLO, not all modules can have their best throughput at once: each
//! module here is only given what the least durations of the others leave.

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

/// What no policy can beat.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeliveryBound {
    /// Requests.
    pub arrived: u64,
    /// No policy delivers more than this many within the SLO.
    pub max_delivered: u64,
    /// Every policy loses (drops, or delivers late) at least this many.
    pub min_lost: u64,
    /// `min_lost` over the arrivals; 0 where there are none.
    pub min_drop_rate: f64,
    /// Requests that would be late even alone on an idle system; they are part of `min_lost`.
    pub hopeless: u64,
    /// The module whose workers account for most of the losses, where any is lost for want of them; of shared slots or a
    /// sum of modules, the first.
    pub binding: Option<ModuleId>,
    /// By module.
    pub per_module: Vec<ModuleBound>,
    /// By group of shared slots, as given: losses that its slots alone make necessary, hopeless requests apart.
    pub per_shared: Vec<u64>,
    /// By second since the start of the clock: requests sent in it that one best choice drops; sums to `min_lost`.
    pub lost_at: Vec<u64>,
}

/// What one module alone makes necessary.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModuleBound {
    /// Requests that visit it and are not hopeless.
    pub visits: u64,
    /// Of these, losses that its workers alone make necessary.
    pub min_lost: u64,
    /// Items a second that one worker can do at most, at the largest batch that fits.
    pub max_items_per_s: f64,
}

/// Bounds what any policy could deliver.
///
/// # Errors
/// Where the scene contradicts itself: see [`BoundError`].
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

/// The jobs of each resource, and the requests that could not be in time even alone.
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

/// Which resources some request visits both.
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

/// `visited`: by resource, requests that visit it and those that it alone loses.
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
