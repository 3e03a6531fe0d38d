//! The edges of a graph: one name space of sources, modules and sinks, and the topological order of modules.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_config::{Diagnostics, Field, Spanned, spelling};
use weir_flow::StreamNames;

use super::like;
use crate::graph::Vertex;
use crate::raw::{RawGraph, RawModule, RawStage};

/// The resolved inputs. Modules are numbered as in the text.
pub(crate) struct Wiring {
    /// The inputs of each module, as far as they resolve.
    pub(crate) modules: Vec<Vec<Vertex>>,
    /// The inputs of each sink, as far as they resolve.
    pub(crate) sinks: Vec<Vec<Vertex>>,
    /// The modules that each tracker follows, as far as they resolve.
    pub(crate) trackers: Vec<Vec<usize>>,
    /// Trackers among the inputs of each sink, and before them.
    pub(crate) sink_trackers: Vec<BTreeSet<usize>>,
    /// Modules, trackers and zones that each transform takes from.
    pub(crate) transforms: Vec<Taken>,
    /// Transforms among the inputs of each sink.
    pub(crate) sink_transforms: Vec<BTreeSet<usize>>,
    /// Whether the inputs of each sink name a source, a module or a tracker, and not transforms alone.
    pub(crate) sink_names_frames: Vec<bool>,
    /// Modules in topological order, ties in the order of the text; without those in a cycle or downstream of one.
    pub(crate) order: Vec<usize>,
    /// All modules upstream of each.
    pub(crate) ancestors: Vec<BTreeSet<usize>>,
    /// Modules all of whose ancestors resolve: what is upstream of the others is not known.
    pub(crate) resolved: Vec<bool>,
}

impl Wiring {
    /// The tracker by which a module knows tracks: the first that follows nothing but what is before the module.
    pub(crate) fn tracker_before(&self, module: usize) -> Option<usize> {
        let is_before = |followed: &Vec<usize>| {
            !followed.is_empty()
                && followed
                    .iter()
                    .all(|other| self.ancestors[module].contains(other))
        };
        self.trackers.iter().position(is_before)
    }

    /// The modules that frames of a source pass.
    pub(crate) fn passed_by(&self, source: usize) -> BTreeSet<usize> {
        let mut passed = BTreeSet::new();
        for module in &self.order {
            let passes = |vertex: &Vertex| match vertex {
                Vertex::Source(other) => *other == source,
                Vertex::Module(other) => passed.contains(other),
            };
            if self.modules[*module].iter().any(passes) {
                passed.insert(*module);
            }
        }
        passed
    }

    /// The rank of each module in the order.
    pub(crate) fn ranks(&self) -> Vec<usize> {
        let mut ranks = vec![0; self.modules.len()];
        self.order
            .iter()
            .enumerate()
            .for_each(|(rank, module)| ranks[*module] = rank);
        ranks
    }
}

/// Target of a name in `inputs`.
#[derive(Clone, Copy)]
enum Named {
    Vertex(Vertex),
    Tracker(usize),
    Transform(usize),
    Sink,
    /// More than one vertex; already reported.
    Ambiguous,
}

pub(super) fn resolve(raw: &RawGraph, diagnostics: &mut Diagnostics) -> Wiring {
    let names = names(raw, diagnostics);
    let trackers = trackers(raw, &names, diagnostics);
    let known = Known {
        raw,
        names: &names,
        trackers: &trackers,
        transforms: None,
        star: Star::Sources,
    };
    let transforms = transforms(known, diagnostics);
    let mut own_trackers = Vec::with_capacity(raw.modules.len());
    let mut own_resolved = Vec::with_capacity(raw.modules.len());
    let mut modules = Vec::with_capacity(raw.modules.len());
    for (index, module) in raw.modules.iter().enumerate() {
        let before = module.stage.as_ref().filter(|stage| stage.index > 0);
        let inputs = match before {
            Some(_) => Inputs {
                vertices: vec![Vertex::Module(index - 1)],
                complete: true,
                ..Inputs::default()
            },
            None => inputs(&module.inputs, &known, diagnostics),
        };
        own_resolved.push(inputs.complete);
        own_trackers.push(inputs.trackers);
        modules.push(inputs.vertices);
    }
    let sinks = raw.sinks.iter();
    let known = Known {
        transforms: Some(&transforms),
        star: Star::Transforms,
        ..known
    };
    let mut sinks: Vec<Inputs> = sinks
        .map(|sink| inputs(&sink.inputs, &known, diagnostics))
        .collect();
    let followers = like::followers(raw, diagnostics);
    let vertices = sinks.iter_mut().map(|sink| &mut sink.vertices);
    modules
        .iter_mut()
        .chain(vertices)
        .for_each(|inputs| like::add(inputs, &followers));
    let order = order(&modules);
    report_cycles(raw, &modules, &order, diagnostics);
    let mut ancestors = vec![BTreeSet::new(); modules.len()];
    let mut resolved = vec![false; modules.len()];
    for module in &order {
        let mut above = BTreeSet::new();
        resolved[*module] = own_resolved[*module];
        for input in upstream(&modules[*module]) {
            above.insert(input);
            above.extend(&ancestors[input]);
            resolved[*module] &= resolved[input];
        }
        ancestors[*module] = above;
    }
    let shown = |sink: &Inputs| {
        let mut shown = sink.trackers.clone();
        for module in upstream(&sink.vertices) {
            let before = ancestors[module].iter().copied().chain([module]);
            shown.extend(before.flat_map(|module| &own_trackers[module]));
        }
        shown
    };
    let sink_trackers = sinks.iter().map(shown).collect();
    let sink_transforms = sinks.iter().map(|sink| sink.transforms.clone()).collect();
    let sink_names_frames = sinks.iter().map(|sink| sink.names_frames).collect();
    Wiring {
        modules,
        sinks: sinks.into_iter().map(|sink| sink.vertices).collect(),
        trackers,
        sink_trackers,
        transforms,
        sink_transforms,
        sink_names_frames,
        order,
        ancestors,
        resolved,
    }
}

fn names<'r>(raw: &'r RawGraph, diagnostics: &mut Diagnostics) -> BTreeMap<&'r str, Named> {
    let sources = raw.sources.iter().map(|source| &source.name);
    let sources = sources.chain(&raw.templates).enumerate();
    let sources = sources.map(|(index, name)| {
        let named = Named::Vertex(Vertex::Source(index));
        (&name.value, name.at, "source", named)
    });
    let modules = raw.modules.iter().enumerate();
    // The results of a cascade are those of its last stage.
    let is_end = |(_, module): &(usize, &RawModule)| module.stage.as_ref().is_none_or(RawStage::is_last);
    let modules = modules.filter(is_end).map(|(index, module)| {
        let name = module
            .stage
            .as_ref()
            .map_or(&module.name.value, |stage| &stage.cascade);
        (
            name,
            module.name.at,
            "module",
            Named::Vertex(Vertex::Module(index)),
        )
    });
    let sinks = raw
        .sinks
        .iter()
        .map(|sink| (&sink.name.value, sink.name.at, "sink", Named::Sink));
    let trackers = raw.trackers.iter().enumerate();
    let trackers = trackers.map(|(index, tracker)| {
        (
            &tracker.name.value,
            tracker.name.at,
            "module",
            Named::Tracker(index),
        )
    });
    let transforms = raw.transforms.iter().enumerate();
    let transforms = transforms.map(|(index, transform)| {
        let name = &transform.name;
        (&name.value, name.at, "transform", Named::Transform(index))
    });
    let mut all: Vec<_> = sources
        .chain(modules)
        .chain(trackers)
        .chain(transforms)
        .chain(sinks)
        .collect();
    all.sort_by_key(|(_, at, ..)| *at);
    let mut names = BTreeMap::new();
    let mut first: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for (name, at, what, named) in all {
        if let Some((other, line)) = first.get(name.as_str()) {
            let message = format!("\"{name}\" names this {what} and the {other} of line {line}");
            let hint = "sources, modules, transforms and sinks share their names: rename one".to_owned();
            diagnostics.add(at, message, Some(hint));
            names.insert(name.as_str(), Named::Ambiguous);
            continue;
        }
        first.insert(name, (what, diagnostics.line(at)));
        names.insert(name.as_str(), named);
    }
    names
}

/// The modules that each tracker follows.
fn trackers(raw: &RawGraph, names: &BTreeMap<&str, Named>, diagnostics: &mut Diagnostics) -> Vec<Vec<usize>> {
    let known = Known {
        raw,
        names,
        trackers: &[],
        transforms: None,
        star: Star::Nothing,
    };
    let mut followed = Vec::with_capacity(raw.trackers.len());
    for tracker in &raw.trackers {
        let inputs = inputs(&tracker.inputs, &known, diagnostics);
        let at = tracker.inputs.given().map_or(tracker.name.at, |list| list.at);
        let is_source = |vertex: &Vertex| matches!(vertex, Vertex::Source(_));
        if inputs.vertices.iter().any(is_source) || !inputs.trackers.is_empty() {
            let message = format!(
                "\"{}\" follows objects, and not all of its `inputs` find any",
                tracker.name.value
            );
            let hint = "name modules with a detector: inputs = [\"detect\"]";
            diagnostics.add(at, message, Some(hint.to_owned()));
        }
        followed.push(upstream(&inputs.vertices).collect());
    }
    followed
}

/// Targets that names in a list of inputs may refer to.
#[derive(Clone, Copy)]
struct Known<'a> {
    raw: &'a RawGraph,
    names: &'a BTreeMap<&'a str, Named>,
    /// The modules that each tracker follows, which stand in its place.
    trackers: &'a [Vec<usize>],
    /// Modules and trackers that stand in the place of each transform; `None` if `inputs` may not name
    /// transforms.
    transforms: Option<&'a [Taken]>,
    /// Names that one with a star stands for.
    star: Star,
}

/// Names that `*` stands for among inputs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Star {
    Nothing,
    Sources,
    Zones,
    Transforms,
}

impl Known<'_> {
    /// Whether a name with a star may stand for that.
    fn has_star(&self, named: Named) -> bool {
        match (self.star, named) {
            (Star::Sources, Named::Vertex(Vertex::Source(_))) | (Star::Transforms, Named::Transform(_)) => {
                true
            }
            (Star::Zones, Named::Transform(index)) => self.raw.transforms[index].kind == Some("zone"),
            _ => false,
        }
    }

    /// Sources or transforms that a name with a star stands for. No match is reported, unless a camera lacks parts for other reasons.
    fn matching(&self, pattern: &Spanned<String>, diagnostics: &mut Diagnostics) -> Vec<Named> {
        let all = || self.names.iter().filter(|(_, named)| self.has_star(**named));
        let streams = StreamNames::new(vec![pattern.value.clone()]);
        let found = all().filter(|(name, _)| streams.contains(name));
        let found: Vec<Named> = found.map(|(_, named)| *named).collect();
        if found.is_empty() && !self.raw.lacks_parts {
            let (what, plural) = match self.star {
                Star::Nothing => ("", ""),
                Star::Sources => ("source", "sources"),
                Star::Zones => ("zone", "zones"),
                Star::Transforms => ("transform", "transforms"),
            };
            let (message, hint) = if self.star == Star::Nothing {
                (
                    format!(
                        "\"{}\" has a star, and `inputs` of a tracker name modules",
                        pattern.value
                    ),
                    None,
                )
            } else {
                (
                    format!("\"{}\" is the name of no {what}", pattern.value),
                    spelling::list(plural, all().map(|(name, _)| *name)),
                )
            };
            diagnostics.add_if_parsed(pattern.at, message, hint);
        }
        found
    }

    /// Reports a name that nothing has, and returns the target of the nearest name.
    fn nearest(&self, unknown: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<Named> {
        let name = unknown.value.as_str();
        let known = || {
            let names = self.names.iter().filter(|(_, named)| {
                matches!(named, Named::Vertex(_) | Named::Tracker(_) | Named::Transform(_))
            });
            names.map(|(name, _)| *name)
        };
        let is_model = self.raw.models.iter().any(|model| model.name.value == name);
        let hint = if is_model {
            Some(format!("\"{name}\" is a model; name a module that uses it"))
        } else {
            spelling::hint(name, "sources and modules", known())
        };
        diagnostics.add_if_parsed(
            unknown.at,
            format!("there is no source or module \"{name}\""),
            hint,
        );
        let meant = spelling::nearest(name, known())?;
        self.names.get(meant).copied()
    }
}

/// Modules, trackers and zones that a transform takes from.
#[derive(Default)]
pub(crate) struct Taken {
    /// Modules whose objects it takes: those of its trackers, too.
    pub(crate) modules: Vec<usize>,
    pub(crate) trackers: BTreeSet<usize>,
    /// Zones among the inputs of a rule, by the numbers of their transforms.
    pub(crate) zones: BTreeSet<usize>,
    /// Whether all names resolve.
    pub(crate) complete: bool,
}

/// Resolves the inputs of all transforms, and reports inputs that a transform cannot take.
fn transforms(known: Known<'_>, diagnostics: &mut Diagnostics) -> Vec<Taken> {
    let known = Known {
        transforms: Some(&[]),
        star: Star::Zones,
        ..known
    };
    let raw = known.raw;
    let mut all = Vec::with_capacity(raw.transforms.len());
    for transform in &raw.transforms {
        let inputs = inputs(&transform.inputs, &known, diagnostics);
        let at = transform.inputs.given().map_or(transform.name.at, |list| list.at);
        let name = &transform.name.value;
        if inputs
            .vertices
            .iter()
            .any(|vertex| matches!(vertex, Vertex::Source(_)))
        {
            let message = format!("\"{name}\" takes objects, and sources have none");
            let hint = "name a tracker, or a module with a detector".to_owned();
            diagnostics.add(at, message, Some(hint));
        }
        let is_rule = transform.kind.is_none_or(|kind| kind == "rule");
        for input in &inputs.transforms {
            let other = &raw.transforms[*input];
            if !is_rule || other.kind.is_some_and(|kind| kind != "zone") {
                let message = format!(
                    "\"{name}\" cannot take from the transform \"{}\"",
                    other.name.value
                );
                let hint = "sinks take from transforms, and rules from zones".to_owned();
                diagnostics.add(at, message, Some(hint));
            }
        }
        all.push(Taken {
            modules: upstream(&inputs.vertices).collect(),
            complete: inputs.complete
                && (inputs.trackers.iter()).all(|tracker| !known.trackers[*tracker].is_empty()),
            trackers: inputs.trackers,
            zones: inputs.transforms,
        });
    }
    // A rule of a zone takes what the zone takes.
    for index in 0..all.len() {
        for zone in all[index].zones.clone() {
            let (modules, trackers) = (all[zone].modules.clone(), all[zone].trackers.clone());
            let taken = &mut all[index];
            let new = modules
                .into_iter()
                .filter(|module| !taken.modules.contains(module));
            let new: Vec<usize> = new.collect();
            taken.modules.extend(new);
            taken.trackers.extend(trackers);
        }
    }
    all
}

/// Resolved names of a list of inputs.
#[derive(Default)]
struct Inputs {
    vertices: Vec<Vertex>,
    trackers: BTreeSet<usize>,
    transforms: BTreeSet<usize>,
    /// Whether a source, a module or a tracker is named.
    names_frames: bool,
    /// Whether all names resolve.
    complete: bool,
}

impl Inputs {
    /// Adds modules and trackers that its transforms take from, and modules that its trackers follow. `seen` holds the
    /// vertices so far.
    fn add_taken(&mut self, known: &Known<'_>, seen: &mut BTreeSet<Vertex>) {
        let taken = known.transforms.unwrap_or_default();
        let taken = self
            .transforms
            .iter()
            .filter_map(|transform| taken.get(*transform));
        for taken in taken {
            self.trackers.extend(&taken.trackers);
            let modules = taken.modules.iter().map(|module| Vertex::Module(*module));
            self.vertices
                .extend(modules.filter(|vertex| seen.insert(*vertex)));
        }
        let trackers = self.trackers.iter();
        let followed = trackers.filter_map(|tracker| known.trackers.get(*tracker));
        let followed = followed.flatten().map(|module| Vertex::Module(*module));
        self.vertices
            .extend(followed.filter(|vertex| seen.insert(*vertex)));
    }
}

fn inputs(field: &Field<Vec<Spanned<String>>>, known: &Known<'_>, diagnostics: &mut Diagnostics) -> Inputs {
    let mut out = Inputs::default();
    let Some(list) = field.given() else {
        return out;
    };
    let mut complete = !list.value.is_empty();
    let mut seen = BTreeSet::new();
    for spanned in &list.value {
        if diagnostics.is_full() {
            return out;
        }
        let name = spanned.value.as_str();
        if name.contains('*') {
            let found = known.matching(spanned, diagnostics);
            complete &= !found.is_empty();
            for named in found {
                match named {
                    Named::Vertex(vertex) if seen.insert(vertex) => out.vertices.push(vertex),
                    Named::Transform(transform) => _ = out.transforms.insert(transform),
                    _ => {}
                }
            }
            continue;
        }
        let named = known.names.get(name).copied();
        match named.or_else(|| known.nearest(spanned, diagnostics)) {
            Some(Named::Vertex(vertex)) if !seen.insert(vertex) => {
                diagnostics.warn(spanned.at, format!("`inputs` names \"{name}\" twice"), None);
            }
            Some(Named::Vertex(vertex)) => out.vertices.push(vertex),
            Some(Named::Tracker(tracker)) => {
                if !out.trackers.insert(tracker) {
                    diagnostics.warn(spanned.at, format!("`inputs` names \"{name}\" twice"), None);
                }
            }
            Some(Named::Transform(_)) if known.transforms.is_none() => {
                let message =
                    format!("\"{name}\" is a transform, and only sinks and rules take from transforms");
                let hint = Some("name what the transform takes from instead".to_owned());
                diagnostics.add(spanned.at, message, hint);
                complete = false;
            }
            Some(Named::Transform(transform)) => {
                if !out.transforms.insert(transform) {
                    diagnostics.warn(spanned.at, format!("`inputs` names \"{name}\" twice"), None);
                }
            }
            Some(Named::Sink) => {
                let hint = Some("name what the sink takes from instead".to_owned());
                diagnostics.add(
                    spanned.at,
                    format!("\"{name}\" is a sink, and sinks have no output"),
                    hint,
                );
                complete = false;
            }
            Some(Named::Ambiguous) | None => complete = false,
        }
    }
    out.names_frames = !out.vertices.is_empty() || !out.trackers.is_empty();
    out.add_taken(known, &mut seen);
    out.complete = complete;
    out
}

pub(super) fn upstream(inputs: &[Vertex]) -> impl Iterator<Item = usize> {
    inputs.iter().filter_map(|vertex| match vertex {
        Vertex::Module(index) => Some(*index),
        Vertex::Source(_) => None,
    })
}

/// Topological order: of the modules whose inputs are all ordered, always the first in the text.
fn order(modules: &[Vec<Vertex>]) -> Vec<usize> {
    let mut waiting: Vec<usize> = modules.iter().map(|inputs| upstream(inputs).count()).collect();
    let mut after = vec![Vec::new(); modules.len()];
    for (next, inputs) in modules.iter().enumerate() {
        upstream(inputs).for_each(|input| after[input].push(next));
    }
    let mut ready: BTreeSet<usize> = (0..modules.len())
        .filter(|module| waiting[*module] == 0)
        .collect();
    let mut order = Vec::with_capacity(modules.len());
    while let Some(module) = ready.pop_first() {
        order.push(module);
        for next in after[module].drain(..) {
            waiting[next] -= 1;
            if waiting[next] == 0 {
                ready.insert(next);
            }
        }
    }
    order
}

/// Reports cycles, each by one path around it.
fn report_cycles(raw: &RawGraph, modules: &[Vec<Vertex>], order: &[usize], diagnostics: &mut Diagnostics) {
    let mut reported: BTreeSet<usize> = order.iter().copied().collect();
    for start in 0..modules.len() {
        if reported.contains(&start) {
            continue;
        }
        if diagnostics.is_full() {
            return;
        }
        let Some(cycle) = shortest_cycle(start, modules) else {
            continue;
        };
        reported.extend(&cycle);
        let name = |module: usize| raw.modules[module].name.value.as_str();
        let path: Vec<&str> = cycle.iter().chain([&start]).map(|module| name(*module)).collect();
        let at = raw.modules[start]
            .inputs
            .given()
            .map_or(raw.modules[start].name.at, |inputs| inputs.at);
        let message = format!("modules wait for each other in a cycle: {}", path.join(" -> "));
        diagnostics.add(at, message, Some("leave out one of these inputs".to_owned()));
    }
}

/// The shortest path from a module downstream back to itself, beginning with it.
fn shortest_cycle(start: usize, modules: &[Vec<Vertex>]) -> Option<Vec<usize>> {
    let mut previous: BTreeMap<usize, usize> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(module) = queue.pop_front() {
        for (next, inputs) in modules.iter().enumerate() {
            if !inputs.contains(&Vertex::Module(module)) || previous.contains_key(&next) {
                continue;
            }
            previous.insert(next, module);
            if next == start {
                let mut path = vec![module];
                while let Some(last) = path.last().filter(|last| **last != start) {
                    path.push(previous[last]);
                }
                path.reverse();
                return Some(path);
            }
            queue.push_back(next);
        }
    }
    None
}
