//! Batch sizes chosen for all modules together: the bottleneck may use latency budget that other modules do
//! not need.
//!
//! Dynamic batching in the papers (Nexus, PARD 5.1) splits the SLO by execution time, and each module takes
//! the largest batch whose doubled duration fits its share. The bottleneck then runs smaller batches than it
//! could, while fast modules leave budget unused. Here the module with the least capacity is raised first, as
//! long as the doubled durations on every path fit the SLO.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_types::{ModuleId, Profile, Span, Topology};

use crate::gears::Fallback;
use crate::pard::state::ModuleState;

/// Static properties of a module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleInfo {
    /// Durations of the module's batches, by batch size.
    pub profile: Profile,
    /// Batch sizes that the model supports, ascending.
    pub batch: Vec<u32>,
    /// Number of slots on which the model is placed.
    pub workers: u32,
    /// Fallback for requests that the module cannot serve in time.
    #[serde(default, skip_serializing_if = "Fallback::is_never")]
    pub fallback: Fallback,
}

/// Recent demand and supply of a module.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ModuleDemand {
    /// Number of slots, or the module's share of them.
    pub(crate) workers: f64,
    /// Mean items of a request.
    pub(crate) items_per_request: f64,
    /// Mean ratio of measured to profiled durations.
    pub(crate) duration_ratio: f64,
}

/// Parameters of choosing batch sizes together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JointSizingSpec {
    /// Least ratio of a size's throughput to that of the next smaller size; a lower gain is not worth the
    /// latency.
    pub min_gain: f64,
    /// Ratio of a module's capacity to that of the slowest module above which its batches are not enlarged,
    /// since they would only add latency. Applies if no module shares its slots, all slots are up, and every
    /// request brings one item to each module. On shared slots larger batches save time for other modules,
    /// and with varying items or workers any module may be the slowest at times.
    pub headroom: f64,
    /// Bound of the doubled durations of a path, as a multiple of the SLO.
    pub budget: f64,
}

impl Default for JointSizingSpec {
    fn default() -> Self {
        Self {
            min_gain: 1.02,
            headroom: 1.03,
            budget: 1.1,
        }
    }
}

/// Chooses sizes again when their inputs have changed.
#[derive(Debug, Clone, Default)]
pub(crate) struct JointBatching {
    last: Option<ChosenSizes>,
}

/// Sizes that were chosen last, with their inputs.
#[derive(Debug, Clone)]
struct ChosenSizes {
    demand: Vec<ModuleDemand>,
    exclusive_slots: bool,
    slo: Span,
    sizes: Vec<u32>,
}

impl JointBatching {
    /// Batch sizes for all modules, by id, as `states` have their demand; `own`: no module shares its slots.
    pub(crate) fn sizes(
        &mut self,
        spec: JointSizingSpec,
        peers: &[ModuleInfo],
        states: &[Arc<ModuleState>],
        topology: &Topology,
        slo: Span,
        exclusive_slots: bool,
    ) -> &[u32] {
        let demand = |(peer, state): (&ModuleInfo, &Arc<ModuleState>)| ModuleDemand {
            workers: if state.workers > 0.0 {
                state.workers
            } else {
                f64::from(peer.workers)
            },
            items_per_request: state.items_per_request,
            duration_ratio: state.duration_ratio,
        };
        let demand: Vec<ModuleDemand> = peers.iter().zip(states).map(demand).collect();
        // The number of items per request is unknown until some requests have arrived.
        let own = exclusive_slots && states.iter().all(|state| state.input_rate > 0.0);
        let known = self.last.take();
        let same =
            known.filter(|last| last.demand == demand && (last.exclusive_slots, last.slo) == (own, slo));
        let found = same.unwrap_or_else(|| {
            let sizes = joint_batch_sizes(spec, peers, &demand, topology, slo.scale(spec.budget), own);
            ChosenSizes {
                demand,
                exclusive_slots: own,
                slo,
                sizes,
            }
        });
        &self.last.insert(found).sizes
    }
}

/// Chooses a batch size for every module; `own`: none shares its slots.
pub(crate) fn joint_batch_sizes(
    spec: JointSizingSpec,
    peers: &[ModuleInfo],
    demands: &[ModuleDemand],
    topology: &Topology,
    budget: Span,
    exclusive_slots: bool,
) -> Vec<u32> {
    let mut sizes: Vec<u32> = peers
        .iter()
        .map(|peer| peer.batch.first().copied().unwrap_or(1))
        .collect();
    let duration = |module: usize, size: u32| {
        let ratio = demands.get(module).map_or(1.0, |demand| demand.duration_ratio);
        peers[module].profile.duration(size).scale(ratio)
    };
    let capacity = |module: usize, size: u32| {
        let of = demands.get(module);
        let (workers, items) = of.map_or((1.0, 1.0), |of| (of.workers, of.items_per_request));
        let a_slot = f64::from(size) / duration(module, size).as_secs_f64().max(1e-6);
        a_slot * workers / items.max(1e-3)
    };
    let larger = |module: usize, size: u32| {
        let throughput = |size| peers[module].profile.throughput(size);
        let mut sizes = peers[module].batch.iter().copied();
        sizes.find(|&next| next > size && throughput(next) > throughput(size) * spec.min_gain)
    };
    let is_steady = |(peer, of): (&ModuleInfo, &ModuleDemand)| {
        (of.items_per_request - 1.0).abs() < 1e-3 && (of.workers - f64::from(peer.workers)).abs() < 1e-3
    };
    let stops_early = exclusive_slots && peers.iter().zip(demands).all(is_steady);
    let mut open: Vec<usize> = (0..peers.len()).collect();
    while let Some(place) = (0..open.len()).min_by(|&a, &b| {
        let of = |place: usize| capacity(open[place], sizes[open[place]]);
        of(a).total_cmp(&of(b))
    }) {
        let module = open[place];
        let before = sizes[module];
        let slowest = (0..peers.len())
            .map(|module| capacity(module, sizes[module]))
            .fold(f64::INFINITY, f64::min);
        if stops_early && capacity(module, before) > slowest * spec.headroom {
            break;
        }
        let raised = larger(module, before).filter(|&next| {
            sizes[module] = next;
            max_path_latency(topology, |module| duration(module, sizes[module]) * 2) <= budget
        });
        if raised.is_none() {
            sizes[module] = before;
            open.swap_remove(place);
        }
    }
    sizes
}

/// The longest path by the latency of its modules.
fn max_path_latency(topology: &Topology, latency: impl Fn(usize) -> Span) -> Span {
    let mut until = vec![Span::ZERO; topology.len()];
    let mut max_path_latency = Span::ZERO;
    for module in 0..topology.len() {
        let done = until[module] + latency(module);
        max_path_latency = max_path_latency.max(done);
        for next in topology.successors(ModuleId(module as u32)) {
            until[next.index()] = until[next.index()].max(done);
        }
    }
    max_path_latency
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn peer(fixed_ms: u64, each_ms: u64, workers: u32) -> ModuleInfo {
        let batch = vec![1, 2, 4, 8, 16];
        let points = batch
            .iter()
            .map(|&size| (size, Span::from_millis(fixed_ms + each_ms * u64::from(size))));
        ModuleInfo {
            profile: Profile::new(points.collect()).unwrap(),
            batch,
            workers,
            fallback: Fallback::Never,
        }
    }

    fn demands(peers: &[ModuleInfo]) -> Vec<ModuleDemand> {
        let of = |peer: &ModuleInfo| ModuleDemand {
            workers: f64::from(peer.workers),
            items_per_request: 1.0,
            duration_ratio: 1.0,
        };
        peers.iter().map(of).collect()
    }

    fn chain(modules: usize) -> Topology {
        let next = |module: usize| (module + 1..modules.min(module + 2)).map(|next| ModuleId(next as u32));
        Topology::new((0..modules).map(|module| next(module).collect()).collect())
    }

    #[test]
    fn the_slowest_module_gets_the_slack_of_the_others() {
        let peers = [peer(4, 1, 4), peer(10, 4, 1), peer(4, 1, 4)];
        let sizes = joint_batch_sizes(
            JointSizingSpec::default(),
            &peers,
            &demands(&peers),
            &chain(3),
            Span::from_millis(200),
            false,
        );
        assert_eq!(sizes, [8, 16, 8]);
        let sizes = joint_batch_sizes(
            JointSizingSpec::default(),
            &peers,
            &demands(&peers),
            &chain(3),
            Span::from_millis(120),
            false,
        );
        assert_eq!(
            sizes,
            [4, 8, 4],
            "the slowest first, the others with what is left"
        );
        let sizes = joint_batch_sizes(
            JointSizingSpec::default(),
            &peers,
            &demands(&peers),
            &chain(3),
            Span::ZERO,
            false,
        );
        assert_eq!(sizes, [1, 1, 1]);
    }

    #[test]
    fn modules_with_exclusive_slots_and_unused_capacity_run_small_batches() {
        let peers = [peer(4, 1, 4), peer(10, 4, 1), peer(4, 1, 1)];
        let sizes = |standing: &[ModuleDemand]| {
            joint_batch_sizes(
                JointSizingSpec::default(),
                &peers,
                standing,
                &chain(3),
                Span::from_millis(400),
                true,
            )
        };
        let mut demands = demands(&peers);
        // 16 in 74 ms is 216 a second; one in 5 ms is 200 on a slot, and two in 6 ms are 333.
        assert_eq!(sizes(&demands), [1, 16, 2]);
        demands[2].items_per_request = 1.5;
        assert_eq!(sizes(&demands), [16, 16, 16], "what varies needs all it can get");
        demands[2].items_per_request = 1.0;
        demands[0].workers = 3.0;
        assert_eq!(sizes(&demands), [16, 16, 16], "one of its workers is away");
    }

    proptest! {
        /// The sizes fit the room on every path wherever the smallest do.
        #[test]
        fn doubled_durations_fit_the_budget_on_every_path(fixed in prop::collection::vec((1_u64..20, 1_u64..10, 1_u32..5), 4), room_ms in 1_u64..800, exclusive_slots: bool) {
            let peers: Vec<ModuleInfo> = fixed.into_iter().map(|(a, c, workers)| peer(a, c, workers)).collect();
            let diamond = Topology::new(vec![vec![ModuleId(1), ModuleId(2)], vec![ModuleId(3)], vec![ModuleId(3)], vec![]]);
            let room = Span::from_millis(room_ms);
            let sizes = joint_batch_sizes(JointSizingSpec::default(), &peers, &demands(&peers), &diamond, room, exclusive_slots);
            let latency = |module: usize| peers[module].profile.duration(sizes[module]) * 2;
            let least = max_path_latency(&diamond, |module| peers[module].profile.duration(1) * 2);
            prop_assert!(max_path_latency(&diamond, latency) <= room.max(least), "{sizes:?}");
        }
    }
}
