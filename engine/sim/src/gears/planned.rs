//! A graph under planned gears as a world: its policy, with the drop rule that will run, on the machines of a live run.
//!
//! The planner's own simulation ([`super::run_gears`]) drops nothing, so a plan that is overloaded for a second has long
//! latencies there; under a drop rule it has short ones and fewer answers. Here an answer that is not in time counts as wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_graph::{CascadeStage, Graph, OnDrop, Vertex};
use weir_planner::gears::GearProblem;
use weir_policy::gears::Gears;
use weir_policy::{ConcurrencyLimitSpec, Histogram};
use weir_types::Timestamp;

use super::curve::SampledItem;
use crate::cascades::CascadeSpec;
use crate::demand::{Crops, Demand};
use crate::spec::{Edge, StreamSpec, WorldModule, WorldPool, WorldSpec};
use crate::world::simulate;

/// A graph as the world in which its gear plans are scored.
#[derive(Debug, Clone)]
pub struct PlannedWorld {
    spec: WorldSpec,
    graph: String,
    stages: Vec<CascadeStage>,
}

/// Outcome of gears over a load.
#[derive(Debug, Clone)]
pub struct PlannedOutcome {
    /// Part of the requests whose answers came within the objective, 0 to 1.
    pub in_time: f64,
    /// Part of the answers of cascades that are right and in time, 0 to 1: those of requests that are dropped or late are not.
    pub accuracy: f64,
    latency: Histogram,
}

impl PlannedOutcome {
    /// Quantile of the latencies of requests that were not dropped, in seconds.
    #[must_use]
    pub fn latency(&self, quantile: f64) -> f64 {
        self.latency.quantile(quantile).as_secs_f64()
    }
}

/// A module of the graph that is in the world.
struct Kept {
    module: usize,
    model: usize,
    /// Mean items of a request.
    items: f64,
}

impl PlannedWorld {
    /// A world of the modules of `graph` whose models `problem` has, on its slots. `samples` are by the name of a cascade.
    /// Models are open on all their slots.
    #[must_use]
    pub fn new(graph: &Graph, problem: &GearProblem, samples: BTreeMap<String, Arc<[SampledItem]>>) -> Self {
        let kept = kept(graph, problem);
        let next = edges(graph, &kept);
        let modules = kept.iter().zip(next).map(|(kept, next)| {
            let (node, model) = (&graph.modules()[kept.module], &problem.models[kept.model]);
            WorldModule {
                name: node.name.clone(),
                profile: model.profile.clone(),
                ends: Vec::new(),
                batch: model.batch.clone(),
                pool: WorldPool::Shared(model.slots.clone().map(|slot| slot as u32).collect()),
                next: next.into_iter().map(|to| Edge { to, link: None }).collect(),
                weight: node.weight,
                overlap: None,
                model: None,
            }
        });
        let crops = (0..).zip(&kept).filter(|(_, kept)| kept.items != 1.0);
        let crops = crops.map(|(module, kept)| Crops {
            module,
            mean: kept.items,
            spread: 0.0,
            persistence: 0.0,
            max: u32::from(u8::MAX),
        });
        let own: Vec<StreamSpec> = graph.sources().iter().map(StreamSpec::of).collect();
        let spec = WorldSpec {
            shared_slots: problem.slots as u32,
            streams: own.len().max(1) as u32,
            own: match own.iter().all(|own| *own == StreamSpec::default()) {
                true => Vec::new(),
                false => own,
            },
            max_in_flight: Some(ConcurrencyLimitSpec::LIVE),
            demand: Demand {
                crops: crops.collect(),
                branches: Vec::new(),
            },
            cascades: cascades(graph, &kept, samples),
            seed: problem.seed,
            ..WorldSpec::new(graph.slo(), graph.policy().clone(), modules.collect())
        };
        let stage = |(module, kept): (usize, &Kept)| {
            let node = &graph.modules()[kept.module];
            node.stage.as_ref().map(|_| CascadeStage {
                module,
                cascade: node.label().to_owned(),
                model: problem.models[kept.model].name.clone(),
                slots: Some(problem.models[kept.model].slots.len()),
                reads_tiles: false,
            })
        };
        Self {
            stages: (0..).zip(&kept).filter_map(stage).collect(),
            graph: graph.name().to_owned(),
            spec,
        }
    }

    /// Name of the graph.
    #[must_use]
    pub fn graph(&self) -> &str {
        &self.graph
    }

    /// Stages of cascades by their modules in this world, by which gears are read for it.
    #[must_use]
    pub fn stages(&self) -> &[CascadeStage] {
        &self.stages
    }

    /// Runs gears over arrivals, which come from the streams of the graph in turn.
    #[must_use]
    pub fn run(&self, gears: Gears, arrivals: &[Timestamp]) -> PlannedOutcome {
        let mut spec = self.spec.clone();
        spec.cascades.gears = Some(gears);
        let result = simulate(&spec, &self.graph, &mut arrivals.iter().copied(), &mut |_| {});
        let counts = result.report.requests;
        let in_time = counts.delivered as f64 / counts.arrived.max(1) as f64;
        PlannedOutcome {
            in_time,
            accuracy: in_time * result.report.accuracy.unwrap_or_default(),
            latency: result.latency,
        }
    }
}

/// Modules whose models and items the problem has.
fn kept(graph: &Graph, problem: &GearProblem) -> Vec<Kept> {
    let of_module = |(module, node): (usize, &weir_graph::ModuleNode)| {
        let name = &graph.models()[node.model].name;
        let model = problem.models.iter().position(|model| model.name == *name)?;
        let mut operators = problem.operators.iter();
        let operator = operators.find(|operator| operator.name == node.label())?;
        let is_first = node.stage.as_ref().is_none_or(|stage| stage.index == 0);
        Some(Kept {
            module,
            model,
            // Items of later stages are those that are handed on.
            items: if is_first { operator.items } else { 1.0 },
        })
    };
    graph.modules().iter().enumerate().filter_map(of_module).collect()
}

/// For each module of the world, those that take from it; modules that are left out are passed.
fn edges(graph: &Graph, kept: &[Kept]) -> Vec<Vec<usize>> {
    let mut before: Vec<BTreeSet<usize>> = Vec::with_capacity(graph.modules().len());
    let mut next = vec![Vec::new(); kept.len()];
    for (module, node) in graph.modules().iter().enumerate() {
        let mut from = BTreeSet::new();
        for input in &node.inputs {
            let Vertex::Module(input) = input else { continue };
            from.extend(before.get(*input).into_iter().flatten().copied());
        }
        if let Some(place) = kept.iter().position(|kept| kept.module == module) {
            from.iter().for_each(|&from: &usize| next[from].push(place));
            from = BTreeSet::from([place]);
        }
        before.push(from);
    }
    next
}

fn cascades(graph: &Graph, kept: &[Kept], samples: BTreeMap<String, Arc<[SampledItem]>>) -> CascadeSpec {
    let modules = || {
        (0..)
            .zip(kept)
            .map(move |(place, kept)| (place, &graph.modules()[kept.module]))
    };
    CascadeSpec {
        stages: modules()
            .filter_map(|(place, node)| Some((place, node.stage.clone()?)))
            .collect(),
        optional: modules()
            .filter(|(_, node)| node.on_drop == OnDrop::Degrade)
            .map(|(place, _)| place)
            .collect(),
        samples,
        ..CascadeSpec::default()
    }
}
