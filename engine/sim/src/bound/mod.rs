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

pub use input::{BoundError, Capacity, Hops, Items, Scene, Shared, Station, Unvisited};

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

use combine::{Ledger, Losses};
use cost::{Costs, PARTS};
use resource::{Resource, Stay};
use single::Job;
use windows::{Passage, Ways};

/// Largest batch size that is looked at.
pub const BATCH_MOST: u32 = 65_536;

/// What no policy can beat.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bound {
    /// Requests.
    pub arrived: u64,
    /// No policy delivers more than this many within the SLO.
    pub delivered_most: u64,
    /// Every policy loses (drops, or delivers late) at least this many.
    pub lost_least: u64,
    /// `lost_least` over the arrivals; 0 where there are none.
    pub drop_rate_least: f64,
    /// Requests that would be late even alone on an idle system; they are part of `lost_least`.
    pub hopeless: u64,
    /// The module whose workers account for most of the losses, where any is lost for want of them; of shared slots or a
    /// sum of modules, the first.
    pub binding: Option<ModuleId>,
    /// By module.
    pub per_module: Vec<ModuleBound>,
    /// By group of shared slots, as given: losses that its slots alone make necessary, hopeless requests apart.
    pub per_shared: Vec<u64>,
    /// By second since the start of the clock: requests sent in it that one best choice lets go; sums to `lost_least`.
    pub lost_at: Vec<u64>,
}

/// What one module alone makes necessary.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModuleBound {
    /// Requests that visit it and are not hopeless.
    pub visits: u64,
    /// Of these, losses that its workers alone make necessary.
    pub lost_least: u64,
    /// Items a second that one worker can do at most, at the largest batch that fits.
    pub items_per_second_most: f64,
}

/// Bounds what any policy could deliver.
///
/// # Errors
/// Where the scene contradicts itself: see [`BoundError`].
pub fn bound(scene: &Scene<'_>) -> Result<Bound, BoundError> {
    scene.check()?;
    let costs: Vec<Costs> = scene
        .modules
        .iter()
        .map(|station| {
            let largest = station.batches.iter().copied().max().unwrap_or(1);
            Costs::new(station.profile, largest, station.workers.most())
        })
        .collect();
    let mut resources = Resource::all(scene);
    let ways = Ways::new(scene, &costs);
    let (mut jobs, hopeless) = work(scene, &ways, &resources)?;
    let mut alone: Vec<(usize, Vec<u32>)> = jobs.iter().map(|jobs| single::lost(jobs)).enumerate().collect();
    let met = meetings(&jobs, scene.arrivals.len());
    let heads = ways.least_heads();
    let mut sums = mix::sums(&resources, &jobs, &alone, &met, &heads);
    if alone.iter().any(|(_, lost)| !lost.is_empty()) {
        sums.extend(chain::sums(scene, &ways, &resources, &heads));
    }
    for sum in sums {
        // A sum counts in larger numbers than its parts: if it is too long a run for that, it is left out.
        let Ok((mut mixed, _)) = work(scene, &ways, std::slice::from_ref(&sum)) else {
            continue;
        };
        let Some(mixed) = mixed.pop() else { continue };
        let lost = single::lost(&mixed);
        let rivals = alone.iter().filter(|(other, _)| sum.overlaps(&resources[*other]));
        if lost.len() > rivals.map(|(_, lost)| lost.len()).max().unwrap_or(0) {
            alone.push((resources.len(), lost));
            jobs.push(mixed);
            resources.push(sum);
        }
    }
    let per_resource: Vec<u64> = alone.iter().map(|(_, lost)| lost.len() as u64).collect();
    let meet = meetings(&jobs, scene.arrivals.len());
    let ledger = Ledger {
        jobs: &jobs,
        meet: &meet,
    };
    let losses = ledger.necessary(alone, 0..scene.arrivals.len(), ledger.cuts());
    let visits = jobs.iter().map(|jobs| jobs.len() as u64);
    let tally: Vec<(u64, u64)> = visits.zip(per_resource).collect();
    Ok(summary(scene, &costs, &resources, &tally, &hopeless, &losses))
}

/// The jobs of each resource, and the requests that could not be in time even alone.
fn work(scene: &Scene<'_>, ways: &Ways<'_>, resources: &[Resource]) -> Result<Work, BoundError> {
    let hopeless = (0..scene.arrivals.len())
        .filter(|&request| !ways.in_time(ways.kind_of(request)))
        .map(|request| request as u32);
    let origin = scene.arrivals.first().copied().unwrap_or(Timestamp::ZERO);
    let jobs = resources.iter().map(|resource| {
        let passage = |kind: usize| ways.through(kind, &resource.members);
        let passages: Vec<Option<Passage>> = (0..ways.kinds()).map(passage).collect();
        let stay = |(request, &sent): (usize, &Timestamp)| {
            let passage = passages[ways.kind_of(request)]?;
            Some(Stay {
                request: request as u32,
                from: (sent + passage.head).micros(),
                until: (sent + scene.slo).saturating_sub(passage.tail).micros(),
                work: passage.work,
            })
        };
        let stays = scene.arrivals.iter().enumerate().filter_map(stay).collect();
        resource::jobs(resource, stays, origin)
    });
    Ok((jobs.collect::<Result<_, _>>()?, hopeless.collect()))
}

/// Jobs by resource, and hopeless requests.
type Work = (Vec<Vec<Job>>, Vec<u32>);

/// Which resources some request visits both.
fn meetings(jobs: &[Vec<Job>], requests: usize) -> Vec<Vec<bool>> {
    let mut meet = vec![vec![false; jobs.len()]; jobs.len()];
    let mut visited = vec![false; requests];
    for a in 0..jobs.len() {
        visited.fill(false);
        for job in &jobs[a] {
            visited[job.request as usize] = true;
        }
        for b in 0..jobs.len() {
            meet[a][b] = jobs[b].iter().any(|job| visited[job.request as usize]);
        }
    }
    meet
}

/// `tally`: by resource, requests that visit it and those that it alone loses.
fn summary(
    scene: &Scene<'_>,
    costs: &[Costs],
    resources: &[Resource],
    tally: &[(u64, u64)],
    hopeless: &[u32],
    losses: &Losses,
) -> Bound {
    let arrived = scene.arrivals.len() as u64;
    let modules = scene.modules.len();
    let mut by_resource = vec![0_u64; resources.len()];
    let mut lost_at = vec![0_u64; scene.arrivals.last().map_or(0, |last| second(*last) + 1)];
    for &(resource, request) in &losses.lost {
        by_resource[resource] += 1;
        lost_at[second(scene.arrivals[request as usize])] += 1;
    }
    for &request in hopeless {
        lost_at[second(scene.arrivals[request as usize])] += 1;
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
    let lost_least = (losses.lost.len() + hopeless.len()) as u64;
    let per_module = tally
        .iter()
        .zip(costs)
        .map(|(&(visits, lost_least), costs)| ModuleBound {
            visits,
            lost_least,
            items_per_second_most: 1e6 * PARTS as f64 / costs.share(scene.slo) as f64,
        });
    Bound {
        arrived,
        delivered_most: arrived - lost_least,
        lost_least,
        drop_rate_least: if arrived == 0 {
            0.0
        } else {
            lost_least as f64 / arrived as f64
        },
        hopeless: hopeless.len() as u64,
        binding,
        per_module: per_module.collect(),
        per_shared: tally[modules..modules + scene.shared.len()]
            .iter()
            .map(|tally| tally.1)
            .collect(),
        lost_at,
    }
}

fn second(moment: Timestamp) -> usize {
    (moment.micros() / 1_000_000) as usize
}
