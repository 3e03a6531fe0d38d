//! A world's file: modules with their profiles and pools, links, and the items of requests.
//!
//! Reading continues after a problem was reported; names are resolved once all tables have been read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use weir_config::{Content, Diagnostics, Entry, Environment, Fields, Spanned, spelling};
use weir_graph::{CascadeStage, StageNode};
use weir_policy::Policy;
use weir_types::Span;

use super::decoding;
use super::values::{number, span};
use super::world_memory::{self, RawDevice};
use super::world_module::{self, RawModule};
use crate::cascades::CascadeSpec;
use crate::demand::{Branches, Crops, Demand};
use crate::spec::{DecodingSpec, Edge, Link, WorldModule, WorldSpec};

const SECTIONS: &[&str] = &["world", "devices", "links", "modules", "branches", "decoding"];

/// Reads the world of `text`, and the stages of its cascades by their names in gears files; `None` if a
/// problem was reported.
pub(super) fn read(
    text: &str,
    folder: &Path,
    environment: Environment<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<(WorldSpec, Vec<CascadeStage>)> {
    let document = weir_config::parse(text, environment, diagnostics);
    let mut raw = Raw::default();
    for entry in &document {
        let tables = match &entry.node.content {
            Content::Table(tables) => tables.as_slice(),
            _ => &[],
        };
        match entry.name.as_str() {
            "world" => raw.head = head(entry, diagnostics),
            "decoding" => raw.decoding = decoding::read(entry, diagnostics),
            "devices" => raw.devices.extend(
                tables
                    .iter()
                    .filter_map(|entry| world_memory::device(entry, diagnostics)),
            ),
            "links" => raw
                .links
                .extend(tables.iter().filter_map(|entry| link(entry, diagnostics))),
            "modules" => {
                let module = |entry| world_module::read(entry, folder, environment, diagnostics);
                raw.modules.extend(tables.iter().flat_map(module));
            }
            "branches" => raw
                .branches
                .extend(tables.iter().filter_map(|entry| branches(entry, diagnostics))),
            other => {
                let hint = spelling::hint(other, "sections", SECTIONS.iter().copied());
                diagnostics.add(
                    entry.at,
                    format!("there is no section \"{other}\" in a world"),
                    hint,
                );
            }
        }
    }
    if raw.modules.is_empty() {
        let hint = Some("add [modules.NAME] with profile and workers".to_owned());
        diagnostics.add_if_parsed(0, "the world has no modules", hint);
    }
    if raw.head.is_none() && !document.iter().any(|entry| entry.name == "world") {
        let hint = Some("begin with [world] and slo = \"400ms\"".to_owned());
        diagnostics.add_if_parsed(0, "there is no [world] with the latency objective", hint);
    }
    let spec = raw.resolve(diagnostics);
    spec.filter(|_| diagnostics.is_clean())
}

#[derive(Default)]
struct Raw {
    head: Option<Head>,
    decoding: Option<DecodingSpec>,
    devices: Vec<RawDevice>,
    links: Vec<(String, Link)>,
    modules: Vec<RawModule>,
    branches: Vec<RawBranches>,
}

struct Head {
    slo: Span,
    hop: Span,
    streams: u32,
    max_in_flight: Option<u32>,
}

struct RawBranches {
    persistence: f64,
    paths: Vec<(Vec<Spanned<String>>, f64)>,
}

fn head(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Head> {
    let mut fields = Fields::open("[world]".to_owned(), entry, diagnostics)?;
    fields.expect(&["slo", "hop", "streams", "max_in_flight"], false, diagnostics);
    let slo = fields.span("slo", diagnostics);
    if slo.is_absent() {
        let hint = Some("slo = \"400ms\": what every request has from sending to coming out".to_owned());
        diagnostics.add_if_parsed(fields.at, "[world] has no `slo`", hint);
    }
    Some(Head {
        slo: slo.into_value()?,
        hop: span(&fields, "hop", diagnostics).unwrap_or_default(),
        streams: fields
            .count("streams", 100_000, diagnostics)
            .into_value()
            .unwrap_or(1),
        max_in_flight: fields.count("max_in_flight", u32::MAX, diagnostics).into_value(),
    })
}

fn link(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<(String, Link)> {
    let mut fields = Fields::open(format!("link \"{}\"", entry.name), entry, diagnostics)?;
    fields.expect(&["latency", "bandwidth_mbps", "request_kb"], false, diagnostics);
    let link = Link {
        latency: span(&fields, "latency", diagnostics).unwrap_or_default(),
        bandwidth_bps: number(&fields, "bandwidth_mbps", 1e-3, 1e9, diagnostics).unwrap_or(1e9) * 1e6,
        bytes: number(&fields, "request_kb", 0.0, 1e9, diagnostics).unwrap_or(0.0) * 1e3,
    };
    Some((entry.name.clone(), link))
}

fn branches(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<RawBranches> {
    let mut fields = Fields::open(format!("branches \"{}\"", entry.name), entry, diagnostics)?;
    fields.expect(&["paths", "persistence"], false, diagnostics);
    let hint = || {
        Some("paths = [{ modules = [\"a\"], share = 0.4 }, { modules = [\"b\"], share = 0.6 }]".to_owned())
    };
    let Some(Content::List(list)) = fields.entry("paths").map(|entry| &entry.node.content) else {
        diagnostics.add_if_parsed(fields.at, format!("{} has no list `paths`", fields.owner), hint());
        return None;
    };
    let mut paths = Vec::new();
    for node in list {
        let path = Entry {
            name: "paths".to_owned(),
            at: node.at,
            node: node.clone(),
        };
        let Some(mut fields) = Fields::open(format!("a path of {}", fields.owner), &path, diagnostics) else {
            continue;
        };
        fields.expect(&["modules", "share"], false, diagnostics);
        let modules = fields.texts("modules", diagnostics).into_value();
        let share = number(&fields, "share", 0.0, 1.0, diagnostics);
        match (modules, share) {
            (Some(modules), Some(share)) => paths.push((modules, share)),
            _ => diagnostics.add(node.at, "a path needs its `modules` and its `share`", hint()),
        }
    }
    let sum: f64 = paths.iter().map(|(_, share)| share).sum();
    if (sum - 1.0).abs() > 1e-6 {
        diagnostics.add(
            fields.at,
            format!("the shares of {} add up to {sum}, not 1", fields.owner),
            None,
        );
    }
    let persistence = number(&fields, "persistence", 0.0, 1.0, diagnostics).unwrap_or(0.0);
    Some(RawBranches { persistence, paths })
}

impl Raw {
    /// Resolves names; `None` if a problem was reported.
    fn resolve(self, diagnostics: &mut Diagnostics) -> Option<(WorldSpec, Vec<CascadeStage>)> {
        let inputs = self.inputs(diagnostics);
        let rank = ranks(&inputs).or_else(|| {
            let at = self.modules.first().map_or(0, |module| module.name.at);
            diagnostics.add(at, "the modules wait for each other in a circle", None);
            None
        })?;
        let demand = self.demand(&rank, diagnostics);
        let mut devices = BTreeMap::new();
        let mut slots = 0;
        for device in &self.devices {
            devices.insert(device.name.as_str(), slots..slots + device.slots);
            slots += device.slots;
        }
        let mut resolved: Vec<Option<WorldModule>> = vec![None; self.modules.len()];
        for (index, module) in self.modules.iter().enumerate() {
            let moves = module.moves().and_then(|spanned| self.link(spanned, diagnostics));
            let moves = moves.and_then(|link| self.links.get(link)).map(|(_, link)| link);
            let pool = module.pool(&devices, moves, diagnostics);
            let next = self.edges(index, &inputs, &rank, diagnostics);
            resolved[rank[index]] = module.to_module(pool, next, rank[index]);
        }
        let memory = world_memory::resolve(&self.devices, (&self.modules, &rank), &resolved, diagnostics);
        let (cascades, stages) = self.cascades(&rank);
        let head = self.head?;
        let spec = WorldSpec {
            slo: head.slo,
            policy: Policy::default(),
            modules: resolved.into_iter().collect::<Option<_>>()?,
            shared_slots: slots,
            memory,
            cluster: None,
            hop: head.hop,
            handover: Span::ZERO,
            timer_delay: Span::ZERO,
            links: self.links.iter().map(|(_, link)| *link).collect(),
            streams: head.streams,
            own: Vec::new(),
            max_in_flight: head.max_in_flight,
            stops_at: None,
            demand,
            cascades,
            decoding: self.decoding,
            noise: 0.0,
            interference: None,
            changes: Vec::new(),
            failures: Vec::new(),
            faults: Vec::new(),
            max_workers: None,
            seed: 0,
        };
        Some((spec, stages))
    }

    /// Stages and declared accuracies, by the ranks of modules.
    fn cascades(&self, rank: &[usize]) -> (CascadeSpec, Vec<CascadeStage>) {
        let (mut spec, mut stages) = (CascadeSpec::default(), Vec::new());
        for (module, &rank) in self.modules.iter().zip(rank) {
            if let Some(accuracy) = module.accuracy {
                spec.accuracy.insert(rank, accuracy);
            }
            if let Some(stage) = &module.stage {
                spec.stages.insert(rank, stage.clone());
                if let Some(samples) = &module.samples {
                    spec.samples.insert(stage.cascade.clone(), Arc::clone(samples));
                }
                stages.push(CascadeStage {
                    module: rank,
                    cascade: stage.cascade.clone(),
                    model: module.model.clone(),
                    slots: None,
                    reads_tiles: false,
                });
            }
        }
        (spec, stages)
    }

    /// Predecessors of each module.
    fn inputs(&self, diagnostics: &mut Diagnostics) -> Vec<Vec<usize>> {
        let mut inputs = Vec::with_capacity(self.modules.len());
        for module in &self.modules {
            let known = module
                .inputs
                .iter()
                .filter_map(|spanned| self.module(spanned, StageNode::is_last, diagnostics));
            inputs.push(known.collect());
        }
        inputs
    }

    /// Items that requests bring; `rank` maps modules of the file to those of the world.
    fn demand(&self, rank: &[usize], diagnostics: &mut Diagnostics) -> Demand {
        let mut demand = Demand::default();
        for set in &self.branches {
            let path = |(modules, share): &(Vec<Spanned<String>>, f64)| {
                let modules = modules.iter().filter_map(|spanned| {
                    Some(rank[self.module(spanned, |stage| stage.index == 0, diagnostics)?])
                });
                (modules.collect(), *share)
            };
            demand.branches.push(Branches {
                branches: set.paths.iter().map(path).collect(),
                persistence: set.persistence,
            });
        }
        for (module, &rank) in self.modules.iter().zip(rank) {
            let crops = module.items.map(|crops| Crops {
                module: rank,
                ..crops
            });
            demand.crops.extend(crops);
        }
        demand.crops.sort_by_key(|crops| crops.module);
        demand
    }

    /// Edges from a module to its successors.
    fn edges(
        &self,
        index: usize,
        inputs: &[Vec<usize>],
        rank: &[usize],
        diagnostics: &mut Diagnostics,
    ) -> Vec<Edge> {
        let followers = (0..inputs.len()).filter(|&other| inputs[other].contains(&index));
        let edge = |other: usize| Edge {
            to: rank[other],
            link: self.modules[other]
                .link
                .as_ref()
                .and_then(|spanned| self.link(spanned, diagnostics)),
        };
        let mut next: Vec<Edge> = followers.map(edge).collect();
        next.sort_by_key(|edge| edge.to);
        next
    }

    /// A module by its name; of a cascade, the stage that `which` says.
    fn module(
        &self,
        spanned: &Spanned<String>,
        which: fn(&StageNode) -> bool,
        diagnostics: &mut Diagnostics,
    ) -> Option<usize> {
        let names = || self.modules.iter().map(|module| module.name.value.as_str());
        let is_it = |module: &RawModule| match &module.stage {
            Some(stage) if stage.cascade == spanned.value => which(stage),
            _ => module.name.value == spanned.value,
        };
        let found = self.modules.iter().position(is_it);
        if found.is_none() {
            let hint = spelling::hint(&spanned.value, "modules", names());
            diagnostics.add_if_parsed(
                spanned.at,
                format!("there is no module \"{}\"", spanned.value),
                hint,
            );
        }
        found
    }

    fn link(&self, spanned: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<usize> {
        let found = self.links.iter().position(|(name, _)| *name == spanned.value);
        if found.is_none() {
            let hint = spelling::hint(
                &spanned.value,
                "links",
                self.links.iter().map(|(name, _)| name.as_str()),
            );
            diagnostics.add_if_parsed(
                spanned.at,
                format!("there is no link \"{}\"", spanned.value),
                hint,
            );
        }
        found
    }
}

/// Topological rank of each module; `None` if there is a cycle.
fn ranks(inputs: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut rank: Vec<Option<usize>> = vec![None; inputs.len()];
    for place in 0..inputs.len() {
        let ready = |&module: &usize| {
            rank[module].is_none() && inputs[module].iter().all(|&before| rank[before].is_some())
        };
        let next = (0..inputs.len()).find(ready)?;
        rank[next] = Some(place);
    }
    rank.into_iter().collect()
}
