//! Ways through a graph: what comes after what, and how long the longest way is.

use std::collections::BTreeSet;

use weir_types::Span;

use crate::graph::{Graph, SourceNode, Vertex};

/// Who takes what a vertex gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Successor {
    /// A module, by its index.
    Module(usize),
    /// A sink, by its index.
    Sink(usize),
}

/// The longest way through modules.
#[derive(Debug, Default)]
pub(crate) struct Longest {
    pub(crate) length: Span,
    pub(crate) modules: Vec<usize>,
}

/// The longest way, where each module takes its duration; `order` is topological.
pub(crate) fn longest(order: &[usize], inputs: &[Vec<Vertex>], durations: &[Span]) -> Longest {
    let mut until = vec![(Span::ZERO, None); inputs.len()];
    let mut end = None;
    for module in order {
        let before = modules_of(&inputs[*module])
            .map(|input| (until[input].0, input))
            .max_by_key(|(span, _)| *span);
        let own = durations.get(*module).copied().unwrap_or_default();
        until[*module] = (
            before.map_or(Span::ZERO, |(span, _)| span) + own,
            before.map(|(_, input)| input),
        );
        if end.is_none_or(|end: usize| until[end].0 < until[*module].0) {
            end = Some(*module);
        }
    }
    let Some(end) = end else { return Longest::default() };
    let mut modules: Vec<usize> = std::iter::successors(Some(end), |module| until[*module].1).collect();
    modules.reverse();
    Longest {
        length: until[end].0,
        modules,
    }
}

/// How many ways lead to each module, counting no further than `u64` reaches; `order` is topological.
pub(crate) fn path_counts(order: &[usize], inputs: &[Vec<Vertex>]) -> Vec<u64> {
    let mut counts = vec![0_u64; inputs.len()];
    for module in order {
        let sum = modules_of(&inputs[*module]).fold(0_u64, |sum, input| sum.saturating_add(counts[input]));
        counts[*module] = sum.max(1);
    }
    counts
}

fn modules_of(inputs: &[Vertex]) -> impl Iterator<Item = usize> {
    inputs.iter().filter_map(|vertex| match vertex {
        Vertex::Module(index) => Some(*index),
        Vertex::Source(_) => None,
    })
}

/// The graph's bare execution: the longest way through it where each module takes `durations[module]` and nothing
/// waits. No SLO below it can be met.
#[must_use]
pub fn bare_execution(graph: &Graph, durations: &[Span]) -> Span {
    let inputs: Vec<Vec<Vertex>> = graph.modules.iter().map(|module| module.inputs.clone()).collect();
    let order: Vec<usize> = (0..inputs.len()).collect();
    longest(&order, &inputs, durations).length
}

impl Graph {
    /// Who takes from a vertex: modules in their order, then sinks.
    #[must_use]
    pub fn successors(&self, vertex: Vertex) -> Vec<Successor> {
        let modules = self
            .modules
            .iter()
            .enumerate()
            .filter(|(_, module)| module.inputs.contains(&vertex));
        let sinks = self
            .sinks
            .iter()
            .enumerate()
            .filter(|(_, sink)| sink.inputs.contains(&vertex));
        let modules = modules.map(|(index, _)| Successor::Module(index));
        modules
            .chain(sinks.map(|(index, _)| Successor::Sink(index)))
            .collect()
    }

    /// The modules that take frames straight from a source.
    #[must_use]
    pub fn entries(&self, source: usize) -> Vec<usize> {
        let takes = |module: usize| self.modules[module].inputs.contains(&Vertex::Source(source));
        (0..self.modules.len()).filter(|module| takes(*module)).collect()
    }

    /// The modules that frames of a source pass.
    #[must_use]
    pub fn reachable_from(&self, source: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        for (index, module) in self.modules.iter().enumerate() {
            let passes = |vertex: &Vertex| match vertex {
                Vertex::Source(other) => *other == source,
                Vertex::Module(other) => reached.contains(other),
            };
            if module.inputs.iter().any(passes) {
                reached.insert(index);
            }
        }
        reached
    }

    /// The streams whose frames a sink is given.
    #[must_use]
    pub fn streams_of_sink(&self, sink: usize) -> BTreeSet<usize> {
        let inputs = &self.sinks[sink].inputs;
        let reaches = |source: &usize| {
            let passed = self.reachable_from(*source);
            inputs.iter().any(|input| match input {
                Vertex::Source(other) => other == source,
                Vertex::Module(module) => passed.contains(module),
            })
        };
        (0..self.sources.len()).filter(reaches).collect()
    }

    /// All modules upstream of a module.
    #[must_use]
    pub fn ancestors(&self, module: usize) -> BTreeSet<usize> {
        let mut above = BTreeSet::new();
        let mut ahead = vec![module];
        while let Some(next) = ahead.pop() {
            ahead.extend(modules_of(&self.modules[next].inputs).filter(|input| above.insert(*input)));
        }
        above
    }

    /// Every way from a vertex, itself left out, to a module that no other takes from. A vertex that no module takes
    /// from has one empty way. A checked graph has at most some thousands of ways to any module.
    #[must_use]
    pub fn paths(&self, from: Vertex) -> Vec<Vec<usize>> {
        let mut paths = Vec::new();
        let mut open = vec![(from, Vec::new())];
        while let Some((vertex, path)) = open.pop() {
            let next = self
                .successors(vertex)
                .into_iter()
                .filter_map(|successor| match successor {
                    Successor::Module(module) => Some(module),
                    Successor::Sink(_) => None,
                });
            let longer: Vec<_> = next
                .map(|module| {
                    let mut path: Vec<usize> = path.clone();
                    path.push(module);
                    (Vertex::Module(module), path)
                })
                .collect();
            if longer.is_empty() {
                paths.push(path);
            }
            open.extend(longer.into_iter().rev());
        }
        paths
    }

    /// The same graph on other streams: stream `i` plays the part of the source `i % sources`, wherever that is an
    /// input. A source whose part nobody plays is gone.
    #[must_use]
    pub fn with_streams(mut self, streams: Vec<SourceNode>) -> Self {
        let (parts, count) = (self.sources.len().max(1), streams.len());
        let replaced = |inputs: &mut Vec<Vertex>| {
            let played = inputs.iter().flat_map(|vertex| match *vertex {
                Vertex::Source(part) => (part..count).step_by(parts).map(Vertex::Source).collect(),
                Vertex::Module(module) => vec![Vertex::Module(module)],
            });
            *inputs = played.collect();
        };
        self.modules
            .iter_mut()
            .for_each(|module| replaced(&mut module.inputs));
        self.sinks.iter_mut().for_each(|sink| replaced(&mut sink.inputs));
        self.sources = streams;
        self
    }
}
