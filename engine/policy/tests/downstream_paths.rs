//! Downstream estimates in random graphs: the state planner's maximum over paths, and the paths of the topology, against an
//! enumeration.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use weir_policy::{
    BatchWaitSamples, DropRule, ModuleState, Policy, QuantileSketch, StatePlanner, path_wait_quantile,
};
use weir_types::{ModuleId, Span, Topology};

/// A published state: queueing delay, duration and batch waits in microseconds.
type PublishedState = (u64, u64, Vec<u64>);

/// Edges `from -> to` with `from < to`, and the state of each module.
#[derive(Debug, Clone)]
struct Graph {
    edges: BTreeSet<(u32, u32)>,
    published: Vec<PublishedState>,
}

fn graph() -> impl Strategy<Value = Graph> {
    let published = (
        0_u64..50_000,
        1_u64..80_000,
        prop::collection::vec(0_u64..90_000, 0..30),
    );
    prop::collection::vec(published, 1..9).prop_flat_map(|published| {
        let modules = published.len() as u32;
        let all: Vec<(u32, u32)> = (0..modules)
            .flat_map(|from| (from + 1..modules).map(move |to| (from, to)))
            .collect();
        let count = all.len();
        prop::sample::subsequence(all, 0..=count).prop_map(move |edges| Graph {
            edges: edges.into_iter().collect(),
            published: published.clone(),
        })
    })
}

impl Graph {
    fn modules(&self) -> u32 {
        self.published.len() as u32
    }

    fn topology(&self) -> Topology {
        let next = |module| {
            let edges = self.edges.iter().filter(move |(from, _)| *from == module);
            edges.map(|(_, to)| ModuleId(*to)).collect()
        };
        Topology::new((0..self.modules()).map(next).collect())
    }

    /// Every path after `module` to a last module, by trying each set of modules: a set is a path if each member succeeds the
    /// one before, and the last has no successor.
    fn paths(&self, module: u32) -> BTreeSet<Vec<u32>> {
        let edge = |from: u32, to: u32| self.edges.contains(&(from, to));
        let last = |module: u32| !self.edges.iter().any(|(from, _)| *from == module);
        let behind: Vec<u32> = (module + 1..self.modules()).collect();
        let sets = (0_u32..1 << behind.len()).map(|set| {
            let chosen = (0_u32..).zip(&behind).filter(|(bit, _)| set >> bit & 1 == 1);
            chosen.map(|(_, &module)| module).collect::<Vec<_>>()
        });
        let is_path = |set: &Vec<u32>| {
            let whole: Vec<u32> = [module].into_iter().chain(set.iter().copied()).collect();
            whole.windows(2).all(|pair| edge(pair[0], pair[1])) && last(whole[whole.len() - 1])
        };
        sets.filter(is_path).collect()
    }

    fn waits(&self, module: u32) -> QuantileSketch {
        let (_, _, waits) = &self.published[module as usize];
        let mut recent = BatchWaitSamples::new(100);
        for &wait in waits {
            recent.observe(Span::from_micros(wait));
        }
        recent.sketch()
    }

    fn state(&self, module: u32) -> ModuleState {
        let (queueing, duration, _) = self.published[module as usize];
        ModuleState {
            queueing_delay: Span::from_micros(queueing),
            waits: self.waits(module),
            ..ModuleState::initial(ModuleId(module), Span::from_micros(duration))
        }
    }

    /// The downstream latency of `module` by the formula of each rule, the maximum over all paths.
    fn longest(&self, module: u32, rule: &DropRule) -> Span {
        let along = |path: &Vec<u32>| {
            let sum = |of: fn(&PublishedState) -> u64| {
                let published = path.iter().map(|&module| of(&self.published[module as usize]));
                Span::from_micros(published.sum())
            };
            let (queueing, duration) = (sum(|published| published.0), sum(|published| published.1));
            let sketches: Vec<QuantileSketch> = path.iter().map(|&module| self.waits(module)).collect();
            let wait = |quantile| path_wait_quantile(&sketches.iter().collect::<Vec<_>>(), quantile);
            match rule {
                DropRule::Sf => duration,
                DropRule::Lower(_) => queueing + duration,
                DropRule::Upper(_) => queueing + duration + duration,
                DropRule::Pard(lookahead) => queueing + duration + wait(lookahead.quantile),
                DropRule::Weir(lookahead) => duration + wait(lookahead.quantile),
                _ => Span::ZERO,
            }
        };
        self.paths(module).iter().map(along).max().unwrap()
    }
}

fn rules() -> Vec<DropRule> {
    let values = [
        serde_json::json!("sf"),
        serde_json::json!("lower"),
        serde_json::json!("upper"),
        serde_json::json!("pard"),
        serde_json::json!({"rule": "pard", "quantile": 0.9}),
        serde_json::json!("weir"),
        serde_json::json!("back"),
        serde_json::json!("nexus"),
    ];
    values.map(|value| serde_json::from_value(value).unwrap()).into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// PARD's `L_sub` of a graph is the maximum over its paths, by the last states.
    #[test]
    fn the_downstream_estimate_is_the_maximum_over_all_paths(graph in graph()) {
        let topology = graph.topology();
        let states: Vec<ModuleState> = (0..graph.modules()).map(|module| graph.state(module)).collect();
        for rule in rules() {
            for module in 0..graph.modules() {
                let estimate = |published: &[ModuleState]| {
                    let fresh = (0..graph.modules()).map(|id| ModuleState::initial(ModuleId(id), Span::ZERO));
                    let mut planner =
                        StatePlanner::new(ModuleId(module), Span::from_secs(1), Policy { drop: rule.clone(), ..Policy::default() }.estimation(), &topology, fresh.collect());
                    // Estimates are also made in between: they must not be cached.
                    for state in published {
                        let _ = planner.downstream_estimate();
                        planner.on_peer_state(Arc::new(state.clone()));
                    }
                    planner.downstream_estimate().downstream
                };
                let expected = graph.longest(module, &rule);
                prop_assert_eq!(estimate(&states), expected, "module {} under {:?}", module, &rule);
                // In any order of publishing.
                let reversed: Vec<ModuleState> = states.iter().rev().cloned().collect();
                prop_assert_eq!(estimate(&reversed), expected);
            }
        }
    }

    /// Paths, reachability and depth equal those of the enumeration.
    #[test]
    fn the_paths_of_a_topology_are_those_found_by_enumeration(graph in graph()) {
        let topology = graph.topology();
        for module in 0..graph.modules() {
            let expected = graph.paths(module);
            let paths = topology.paths_after(ModuleId(module));
            let numbers = paths.iter().map(|path| path.iter().map(|id| id.0).collect());
            let found: BTreeSet<Vec<u32>> = numbers.collect();
            prop_assert_eq!(found.len(), paths.len(), "a path is found twice");
            prop_assert_eq!(topology.longest_path_len(ModuleId(module)), expected.iter().map(Vec::len).max().unwrap());
            for later in 0..graph.modules() {
                let leads = expected.iter().any(|path| path.contains(&later));
                prop_assert_eq!(topology.has_path(ModuleId(module), ModuleId(later)), leads);
            }
            let through = topology.paths_through(ModuleId(module));
            let ends: BTreeSet<Vec<u32>> = through
                .iter()
                .map(|path| path.iter().map(|id| id.0).skip_while(|&id| id <= module).collect())
                .collect();
            prop_assert_eq!(&ends, &expected, "what follows on paths through module {}", module);
            prop_assert_eq!(found, expected);
        }
    }
}
