//! The bound of a run: what no policy could have beaten on its arrivals and its workers.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use weir_types::{ModuleId, Timestamp};

use crate::bound::{
    BoundError, BoundInput, BoundModule, Capacity, DeliveryBound, HopTimes, Items, SharedSlots, Unvisited,
    bound,
};
use crate::spec::{WorldPool, WorldSpec};
use crate::world::SimulationResult;

/// Cache of bounds over many runs. A bound is independent of the policy and costs more than a run. Runs that
/// differ only in policy, and whose workers came and went at the same times, share one bound.
#[derive(Debug, Default)]
pub struct BoundCache {
    known: Mutex<BTreeMap<[u64; 2], Arc<Known>>>,
}

type Known = OnceLock<Result<DeliveryBound, BoundError>>;

impl BoundCache {
    /// Upper bound on the deliveries of this run, for any policy. If durations have noise, the bound holds
    /// for the mean.
    ///
    /// # Errors
    /// [`BoundError`] where `spec` is not that of this run.
    pub fn bound(&self, ran: &SimulationResult, spec: &WorldSpec) -> Result<DeliveryBound, BoundError> {
        no_unbounded(spec)?;
        ran.input(spec, |input| {
            let known = {
                let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                Arc::clone(all.entry(fingerprint(input)).or_default())
            };
            known.get_or_init(|| bound(input)).clone()
        })
    }
}

/// Hash of all inputs of a bound. Two different inputs collide with a probability of 2^-128.
fn fingerprint(input: &BoundInput<'_>) -> [u64; 2] {
    [0_u8, 1].map(|salt| {
        let mut hasher = DefaultHasher::new();
        (salt, input).hash(&mut hasher);
        hasher.finish()
    })
}

impl SimulationResult {
    /// Upper bound on the deliveries of this run, as [`BoundCache::bound`] computes it, without a cache.
    ///
    /// # Errors
    /// [`BoundError`] where `spec` is not that of this run.
    pub fn bound(&self, spec: &WorldSpec) -> Result<DeliveryBound, BoundError> {
        no_unbounded(spec)?;
        self.input(spec, bound)
    }

    fn input<T>(&self, spec: &WorldSpec, look: impl FnOnce(&BoundInput<'_>) -> T) -> T {
        let modules = spec.modules.len();
        let varies = !spec.demand.crops.is_empty()
            || !spec.demand.branches.is_empty()
            || !spec.cascades.stages.is_empty();
        let column = |module: usize| -> Vec<u32> {
            let rows = self.items.chunks_exact(modules.max(1));
            // The number of items that reach a stage may depend on the policy or the gear; zero is the lower
            // bound.
            let counts = u32::from(!spec.cascades.may_be_left_out(module));
            rows.map(|row| counts * u32::from(row[module])).collect()
        };
        let items: Vec<Vec<u32>> = if varies {
            (0..modules).map(column).collect()
        } else {
            Vec::new()
        };
        let module_input = |(module, node): (usize, &'_ crate::spec::WorldModule)| {
            Capacity(match &node.pool {
                WorldPool::Shared(slots) => vec![(Timestamp::ZERO, slots.len() as u32)],
                _ => staying(&self.workers[module], node),
            })
        };
        let topology = spec.topology();
        let input = BoundInput {
            arrivals: &self.arrivals,
            // If objectives differ, the longest one gives a valid bound.
            slo: spec.longest_slo(),
            topology: &topology,
            hops: HopTimes {
                entry: spec.hop,
                between: spec.hop,
                exit: spec.hop,
            },
            unvisited: Unvisited::PassedThrough,
            modules: (0..)
                .zip(&spec.modules)
                .map(|(module, node)| BoundModule {
                    items: items
                        .get(module)
                        .map_or(Items::One, |items| Items::PerRequest(items)),
                    profile: &node.profile,
                    batches: &node.batch,
                    workers: module_input((module, node)),
                })
                .collect(),
            shared: shared(spec),
        };
        look(&input)
    }
}

/// Returns an error for worlds without a known bound. Slots of pipelines stand for a plan, not for a
/// capacity; and in models that generate, the policy chooses in each step which sequences run together.
fn no_unbounded(spec: &WorldSpec) -> Result<(), BoundError> {
    let unknown = spec.modules.iter().find_map(|node| match node.pool {
        WorldPool::Pipelines(_) => Some(BoundError::Pipelines(node.name.clone())),
        WorldPool::Generating(_) => Some(BoundError::Generates(node.name.clone())),
        _ => None,
    });
    let lossless = || spec.own.iter().any(|own| own.is_lossless);
    match unknown {
        Some(error) => Err(error),
        None if lossless() => Err(BoundError::Lossless),
        None => Ok(()),
    }
}

/// Number of workers over time. A worker that is removed still finishes its batch, so it counts for one more
/// longest batch.
fn staying(history: &[(Timestamp, u32)], node: &crate::spec::WorldModule) -> Vec<(Timestamp, u32)> {
    let longest = node.batch.iter().map(|&size| node.profile.duration(size)).max();
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
fn shared(spec: &WorldSpec) -> Vec<SharedSlots> {
    let on = |slots: &[u32]| -> Vec<ModuleId> {
        let there =
            |node: &crate::spec::WorldModule| matches!(&node.pool, WorldPool::Shared(own) if own == slots);
        let modules = (0..).zip(&spec.modules).filter(|(_, node)| there(node));
        modules.map(|(id, _)| ModuleId(id)).collect()
    };
    let mut seen: Vec<&[u32]> = Vec::new();
    for node in &spec.modules {
        if let WorldPool::Shared(slots) = &node.pool
            && !seen.contains(&slots.as_slice())
        {
            seen.push(slots);
        }
    }
    // Pools that overlap in part are bounded one by one: each by all slots that it could use.
    seen.into_iter()
        .map(|slots| SharedSlots {
            modules: on(slots),
            slots: Capacity::constant(slots.len() as u32),
        })
        .filter(|group| group.modules.len() > 1)
        .collect()
}
