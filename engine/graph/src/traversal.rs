//! Edges and paths of a graph: successors, ancestors, and the modules between a source and a sink.

use std::collections::BTreeSet;

use crate::critical_path::modules_of;
use crate::graph::{Graph, Vertex};
use crate::source_node::SourceNode;

/// A consumer of the output of a source or a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Successor {
    /// A module, by its index.
    Module(usize),
    /// A sink, by its index.
    Sink(usize),
}

impl Graph {
    /// The successors of a vertex: modules in their order, then sinks.
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

    /// The modules that take frames directly from a source.
    #[must_use]
    pub fn entry_modules(&self, source: usize) -> Vec<usize> {
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

    /// The sources whose frames reach a sink.
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
        let mut open = vec![module];
        while let Some(next) = open.pop() {
            open.extend(modules_of(&self.modules[next].inputs).filter(|input| above.insert(*input)));
        }
        above
    }

    /// Every path from a vertex, excluding it, to a module without module successors. A vertex without module successors
    /// has one empty path. A checked graph has at most some thousands of paths to any module.
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

    /// Returns the graph on other streams: stream `i` replaces the source or template `i % sources` wherever
    /// that is an input. Sources that no stream replaces are removed.
    #[must_use]
    pub fn with_streams(mut self, streams: Vec<SourceNode>) -> Self {
        let sources = (self.sources.len() + self.templates.len()).max(1);
        let count = streams.len();
        let replace = |inputs: &mut Vec<Vertex>| {
            let replaced = inputs.iter().flat_map(|vertex| match *vertex {
                Vertex::Source(source) => (source..count).step_by(sources).map(Vertex::Source).collect(),
                Vertex::Module(module) => vec![Vertex::Module(module)],
            });
            *inputs = replaced.collect();
        };
        self.modules
            .iter_mut()
            .for_each(|module| replace(&mut module.inputs));
        self.sinks.iter_mut().for_each(|sink| replace(&mut sink.inputs));
        self.sources = streams;
        self.templates.clear();
        self.queues.clear();
        self
    }
}
