//! The bound of a run: what no policy could have beaten on its arrivals and its workers.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use weir_types::{ModuleId, Timestamp};

use crate::bound::{Bound, BoundError, Capacity, Hops, Items, Scene, Shared, Station, Unvisited, bound};
use crate::spec::{PoolPlan, WorldSpec};
use crate::world::Ran;

/// The bounds of many runs. They do not depend on policies, and cost more than the runs: where runs differ in their policy
/// alone, and their workers came and went at the same times, one is computed for all.
#[derive(Debug, Default)]
pub struct Bounds {
    known: Mutex<BTreeMap<[u64; 2], Arc<Known>>>,
}

type Known = OnceLock<Result<Bound, BoundError>>;

impl Bounds {
    /// What no policy could have beaten in this run. With noise it is a bound on the mean.
    ///
    /// # Errors
    /// [`BoundError`] where `spec` is not that of this run.
    pub fn of(&self, ran: &Ran, spec: &WorldSpec) -> Result<Bound, BoundError> {
        ran.scene(spec, |scene| {
            let known = {
                let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                Arc::clone(all.entry(fingerprint(scene)).or_default())
            };
            known.get_or_init(|| bound(scene)).clone()
        })
    }
}

/// Of all that a bound is computed from. Two scenes have the same by chance once in 2^128 pairs.
fn fingerprint(scene: &Scene<'_>) -> [u64; 2] {
    [0_u8, 1].map(|salt| {
        let mut hasher = DefaultHasher::new();
        (salt, scene).hash(&mut hasher);
        hasher.finish()
    })
}

impl Ran {
    /// What no policy could have beaten here, as [`Bounds::of`].
    ///
    /// # Errors
    /// [`BoundError`] where `spec` is not that of this run.
    pub fn limit(&self, spec: &WorldSpec) -> Result<Bound, BoundError> {
        self.scene(spec, bound)
    }

    fn scene<T>(&self, spec: &WorldSpec, look: impl FnOnce(&Scene<'_>) -> T) -> T {
        let modules = spec.modules.len();
        let varies = !spec.demand.crops.is_empty() || !spec.demand.branches.is_empty();
        let column = |module: usize| -> Vec<u32> {
            let rows = self.items.chunks_exact(modules.max(1));
            rows.map(|row| u32::from(row[module])).collect()
        };
        let items: Vec<Vec<u32>> = if varies {
            (0..modules).map(column).collect()
        } else {
            Vec::new()
        };
        let station = |(module, plan): (usize, &'_ crate::spec::ModulePlan)| {
            Capacity(match &plan.pool {
                PoolPlan::Shared(slots) => vec![(Timestamp::ZERO, slots.len() as u32)],
                _ => staying(&self.workers[module], plan),
            })
        };
        let topology = spec.topology();
        let scene = Scene {
            arrivals: &self.arrivals,
            slo: spec.slo,
            topology: &topology,
            hops: Hops {
                entry: spec.hop,
                between: spec.hop,
                exit: spec.hop,
            },
            unvisited: Unvisited::PassedThrough,
            modules: (0..)
                .zip(&spec.modules)
                .map(|(module, plan)| Station {
                    items: items
                        .get(module)
                        .map_or(Items::One, |items| Items::PerRequest(items)),
                    profile: &plan.profile,
                    batches: &plan.batch,
                    workers: station((module, plan)),
                })
                .collect(),
            shared: shared(spec),
        };
        look(&scene)
    }
}

/// Workers over time, where one that leaves still finishes what it runs: it counts for the longest batch more.
fn staying(history: &[(Timestamp, u32)], plan: &crate::spec::ModulePlan) -> Vec<(Timestamp, u32)> {
    let longest = plan.batch.iter().map(|&size| plan.profile.duration(size)).max();
    let mut changes: BTreeMap<Timestamp, i64> = BTreeMap::new();
    let mut before = 0;
    for &(at, workers) in history {
        let change = i64::from(workers) - before;
        before = i64::from(workers);
        let at = if change < 0 {
            at + longest.unwrap_or_default()
        } else {
            at
        };
        *changes.entry(at).or_default() += change;
    }
    let mut now = 0;
    let steps = changes.into_iter().map(|(at, change)| {
        now += change;
        (at, now.max(0) as u32)
    });
    steps.collect()
}

/// Modules that share slots, by the slots that they share.
fn shared(spec: &WorldSpec) -> Vec<Shared> {
    let on = |slots: &[u32]| -> Vec<ModuleId> {
        let there =
            |plan: &crate::spec::ModulePlan| matches!(&plan.pool, PoolPlan::Shared(own) if own == slots);
        let modules = (0..).zip(&spec.modules).filter(|(_, plan)| there(plan));
        modules.map(|(id, _)| ModuleId(id)).collect()
    };
    let mut seen: Vec<&[u32]> = Vec::new();
    for plan in &spec.modules {
        if let PoolPlan::Shared(slots) = &plan.pool
            && !seen.contains(&slots.as_slice())
        {
            seen.push(slots);
        }
    }
    // Pools that overlap in part are bounded one by one: each by all slots that it could use.
    seen.into_iter()
        .map(|slots| Shared {
            modules: on(slots),
            slots: Capacity::constant(slots.len() as u32),
        })
        .filter(|group| group.modules.len() > 1)
        .collect()
}
