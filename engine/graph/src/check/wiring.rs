//! Who takes from whom: one name space of sources, modules and sinks, and the order in which frames pass modules.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_config::{Diagnostics, Field, Spanned, spelling};

use crate::graph::Vertex;
use crate::raw::RawGraph;

/// The resolved inputs. Modules are numbered as in the text.
pub(crate) struct Wiring {
    /// What each module waits for, as far as it resolves.
    pub(crate) modules: Vec<Vec<Vertex>>,
    /// What each sink waits for, as far as it resolves.
    pub(crate) sinks: Vec<Vec<Vertex>>,
    /// Modules in topological order, ties in the order of the text; those in or behind a cycle are missing.
    pub(crate) order: Vec<usize>,
    /// All modules upstream of each.
    pub(crate) ancestors: Vec<BTreeSet<usize>>,
    /// Modules whose way from the sources is whole: what is upstream of the others is not known.
    pub(crate) sound: Vec<bool>,
}

impl Wiring {
    /// The place of each module in the order.
    pub(crate) fn ranks(&self) -> Vec<usize> {
        let mut ranks = vec![0; self.modules.len()];
        self.order
            .iter()
            .enumerate()
            .for_each(|(rank, module)| ranks[*module] = rank);
        ranks
    }
}

/// What a name in `inputs` may stand for.
#[derive(Clone, Copy)]
enum Named {
    Vertex(Vertex),
    Sink,
    /// More than one thing; reported.
    Ambiguous,
}

pub(super) fn resolve(raw: &RawGraph, diagnostics: &mut Diagnostics) -> Wiring {
    let names = names(raw, diagnostics);
    let mut whole = Vec::with_capacity(raw.modules.len());
    let mut modules = Vec::with_capacity(raw.modules.len());
    for module in &raw.modules {
        let (inputs, resolved) = inputs(&module.inputs, raw, &names, diagnostics);
        whole.push(resolved);
        modules.push(inputs);
    }
    let sinks = raw
        .sinks
        .iter()
        .map(|sink| inputs(&sink.inputs, raw, &names, diagnostics).0)
        .collect();
    let order = order(&modules);
    report_cycles(raw, &modules, &order, diagnostics);
    let mut ancestors = vec![BTreeSet::new(); modules.len()];
    let mut sound = vec![false; modules.len()];
    for module in &order {
        let mut above = BTreeSet::new();
        sound[*module] = whole[*module];
        for input in upstream(&modules[*module]) {
            above.insert(input);
            above.extend(&ancestors[input]);
            sound[*module] &= sound[input];
        }
        ancestors[*module] = above;
    }
    Wiring {
        modules,
        sinks,
        order,
        ancestors,
        sound,
    }
}

fn names<'r>(raw: &'r RawGraph, diagnostics: &mut Diagnostics) -> BTreeMap<&'r str, Named> {
    let sources = raw.sources.iter().enumerate();
    let sources =
        sources.map(|(index, source)| (&source.name, "source", Named::Vertex(Vertex::Source(index))));
    let modules = raw.modules.iter().enumerate();
    let modules =
        modules.map(|(index, module)| (&module.name, "module", Named::Vertex(Vertex::Module(index))));
    let sinks = raw.sinks.iter().map(|sink| (&sink.name, "sink", Named::Sink));
    let mut all: Vec<_> = sources.chain(modules).chain(sinks).collect();
    all.sort_by_key(|(name, ..)| name.at);
    let mut names = BTreeMap::new();
    let mut first: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for (name, what, named) in all {
        if let Some((other, line)) = first.get(name.value.as_str()) {
            let message = format!(
                "\"{}\" names this {what} and the {other} of line {line}",
                name.value
            );
            let hint = "sources, modules and sinks share their names: rename one".to_owned();
            diagnostics.add(name.at, message, Some(hint));
            names.insert(name.value.as_str(), Named::Ambiguous);
            continue;
        }
        first.insert(&name.value, (what, diagnostics.line(name.at)));
        names.insert(name.value.as_str(), named);
    }
    names
}

/// What the names of `inputs` stand for, and whether all of them do.
fn inputs(
    field: &Field<Vec<Spanned<String>>>,
    raw: &RawGraph,
    names: &BTreeMap<&str, Named>,
    diagnostics: &mut Diagnostics,
) -> (Vec<Vertex>, bool) {
    let Some(list) = field.given() else {
        return (Vec::new(), false);
    };
    let (mut out, mut whole) = (Vec::new(), !list.value.is_empty());
    let mut seen = BTreeSet::new();
    for spanned in &list.value {
        if diagnostics.is_full() {
            return (out, false);
        }
        let name = spanned.value.as_str();
        let named = names.get(name).copied().or_else(|| {
            let known = || {
                names
                    .iter()
                    .filter(|(_, named)| matches!(named, Named::Vertex(_)))
                    .map(|(name, _)| *name)
            };
            let is_model = raw.models.iter().any(|model| model.name.value == name);
            let hint = if is_model {
                Some(format!("\"{name}\" is a model; name a module that uses it"))
            } else {
                spelling::hint(name, "sources and modules", known())
            };
            diagnostics.add_if_parsed(
                spanned.at,
                format!("there is no source or module \"{name}\""),
                hint,
            );
            spelling::nearest(name, known()).and_then(|meant| names.get(meant).copied())
        });
        match named {
            Some(Named::Vertex(vertex)) if !seen.insert(vertex) => {
                diagnostics.warn(spanned.at, format!("`inputs` names \"{name}\" twice"), None);
            }
            Some(Named::Vertex(vertex)) => out.push(vertex),
            Some(Named::Sink) => {
                let hint = Some("name what the sink takes from instead".to_owned());
                diagnostics.add(
                    spanned.at,
                    format!("\"{name}\" is a sink, and sinks give nothing"),
                    hint,
                );
                whole = false;
            }
            Some(Named::Ambiguous) | None => whole = false,
        }
    }
    (out, whole)
}

fn upstream(inputs: &[Vertex]) -> impl Iterator<Item = usize> {
    inputs.iter().filter_map(|vertex| match vertex {
        Vertex::Module(index) => Some(*index),
        Vertex::Source(_) => None,
    })
}

/// Topological order: of the modules whose inputs are all placed, always the first in the text.
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

/// Reports cycles, each by one way around it.
fn report_cycles(raw: &RawGraph, modules: &[Vec<Vertex>], order: &[usize], diagnostics: &mut Diagnostics) {
    let mut told: BTreeSet<usize> = order.iter().copied().collect();
    for start in 0..modules.len() {
        if told.contains(&start) {
            continue;
        }
        if diagnostics.is_full() {
            return;
        }
        let Some(cycle) = shortest_cycle(start, modules) else {
            continue;
        };
        told.extend(&cycle);
        let name = |module: usize| raw.modules[module].name.value.as_str();
        let way: Vec<&str> = cycle.iter().chain([&start]).map(|module| name(*module)).collect();
        let at = raw.modules[start]
            .inputs
            .given()
            .map_or(raw.modules[start].name.at, |inputs| inputs.at);
        let message = format!("modules wait for each other in a cycle: {}", way.join(" -> "));
        diagnostics.add(
            at,
            message,
            Some("frames go one way: leave one of these inputs out".to_owned()),
        );
    }
}

/// The shortest way from a module downstream back to itself, beginning with it.
fn shortest_cycle(start: usize, modules: &[Vec<Vertex>]) -> Option<Vec<usize>> {
    let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
    let mut ahead = VecDeque::from([start]);
    while let Some(module) = ahead.pop_front() {
        for (next, inputs) in modules.iter().enumerate() {
            if !inputs.contains(&Vertex::Module(module)) || came_from.contains_key(&next) {
                continue;
            }
            came_from.insert(next, module);
            if next == start {
                let mut way = vec![module];
                while let Some(last) = way.last().filter(|last| **last != start) {
                    way.push(came_from[last]);
                }
                way.reverse();
                return Some(way);
            }
            ahead.push_back(next);
        }
    }
    None
}
