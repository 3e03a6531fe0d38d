//! Differences between two graphs: changes of the policy and of the streams, which a running graph can take
//! over, and all other differences, which need a new graph.

use weir_policy::Policy;

use crate::graph::{Graph, ModuleNode, SinkNode, Vertex};
use crate::source_node::SourceNode;
use weir_policy::gears::Gears;

/// Changes that turn a running graph into another one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GraphChanges {
    /// Policy of the other graph, if it differs.
    pub policy: Option<Policy>,
    /// Gears of the other graph, if they differ; `Some(None)` removes the gears.
    pub gears: Option<Option<Gears>>,
    /// Names of streams that the other graph does not have, or has with another source or other inputs.
    pub removed: Vec<String>,
    /// Streams that only the other graph has, or that it has with another source or other inputs; each with
    /// the names of the modules and sinks that it enters.
    pub added: Vec<(SourceNode, Vec<String>)>,
    /// Streams that differ in their latency objective, their share or their groups only.
    pub changed: Vec<SourceNode>,
    /// Other differences in words, such as `module find`; if there are any, the graph must be replaced.
    pub others: Vec<String>,
}

impl GraphChanges {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Graph {
    /// Returns the changes that turn this graph into `other`.
    #[must_use]
    pub fn changes_to(&self, other: &Self) -> GraphChanges {
        let mut changes = GraphChanges {
            policy: (self.policy != other.policy).then(|| other.policy.clone()),
            gears: (self.gears != other.gears).then(|| other.gears.clone()),
            others: self.other_differences(other),
            ..GraphChanges::default()
        };
        let of = |graph: &Self, name: &str| graph.sources.iter().position(|source| source.name == name);
        for (index, source) in self.sources.iter().enumerate() {
            let stays = of(other, &source.name).is_some_and(|there| {
                // Into another graph its frames go anyway.
                let same_inputs =
                    !changes.others.is_empty() || self.entered_by(index) == other.entered_by(there);
                same_inputs && is_same_source(source, &other.sources[there])
            });
            if !stays {
                changes.removed.push(source.name.clone());
            }
        }
        for (index, source) in other.sources.iter().enumerate() {
            let before = of(self, &source.name).filter(|_| !changes.removed.contains(&source.name));
            match before {
                None => changes.added.push((source.clone(), other.entered_by(index))),
                Some(before) if self.sources[before] != *source => changes.changed.push(source.clone()),
                Some(_) => {}
            }
        }
        changes
    }

    /// The streams, each with the names of the modules and sinks that it enters.
    #[must_use]
    pub fn entered_streams(&self) -> Vec<(SourceNode, Vec<String>)> {
        let streams = self.sources.iter().enumerate();
        streams
            .map(|(index, source)| (source.clone(), self.entered_by(index)))
            .collect()
    }

    /// Returns the graph with all of its streams as streams that are added while it runs. In the place of
    /// each is a template, whose name no stream can have.
    #[must_use]
    pub fn with_streams_to_come(mut self) -> Self {
        let places = self.sources.drain(..).map(|source| format!("({})", source.name));
        let places: Vec<String> = places.chain(self.templates.drain(..)).collect();
        self.templates = places;
        self
    }

    /// Names of the modules and sinks that a source enters, by its index.
    fn entered_by(&self, source: usize) -> Vec<String> {
        let enters = |inputs: &[Vertex]| inputs.contains(&Vertex::Source(source));
        let modules = self.modules.iter().filter(|module| enters(&module.inputs));
        let sinks = self.sinks.iter().filter(|sink| enters(&sink.inputs));
        let names = modules.map(|module| module.name.clone());
        names.chain(sinks.map(|sink| sink.name.clone())).collect()
    }

    /// Templates with what streams enter that are added.
    fn entered_by_templates(&self) -> Vec<(&String, Vec<String>)> {
        let templates = (self.sources.len()..).zip(&self.templates);
        let mut entered: Vec<_> = templates
            .map(|(index, name)| (name, self.entered_by(index)))
            .collect();
        entered.sort_unstable();
        entered
    }

    fn other_differences(&self, other: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        let parts = [
            (
                "templates",
                self.entered_by_templates() == other.entered_by_templates(),
            ),
            ("queues", self.queues == other.queues),
            ("the name of the graph", self.name == other.name),
            ("slo", self.slo == other.slo),
            ("the privacy of [defaults]", self.privacy == other.privacy),
            ("the time zone", self.timezone == other.timezone),
            (
                "hosts and folders of streams",
                self.stream_places == other.stream_places,
            ),
            ("devices", self.devices == other.devices),
            ("workers", self.workers == other.workers),
            ("models", self.models == other.models),
            ("the plan", self.plan == other.plan),
        ];
        let differ = parts.into_iter().filter(|(_, same)| !same);
        differences.extend(differ.map(|(part, _)| part.to_owned()));
        let modules = |graph: &Self| {
            graph
                .modules
                .iter()
                .map(module_without_sources)
                .collect::<Vec<_>>()
        };
        differences.extend(names_of_others(
            "module",
            &modules(self),
            &modules(other),
            |node| &node.0.name,
        ));
        differences.extend(names_of_others(
            "module",
            &self.trackers,
            &other.trackers,
            |node| &node.name,
        ));
        differences.extend(names_of_others(
            "transform",
            &self.transforms,
            &other.transforms,
            |node| &node.name,
        ));
        let sinks = |graph: &Self| graph.sinks.iter().map(sink_without_sources).collect::<Vec<_>>();
        differences.extend(names_of_others("sink", &sinks(self), &sinks(other), |node| {
            &node.0.name
        }));
        if differences.is_empty() && modules(self) != modules(other) {
            differences.push("the order of modules".to_owned());
        }
        if differences.is_empty() && sinks(self) != sinks(other) {
            differences.push("the order of sinks".to_owned());
        }
        differences
    }
}

/// Whether no more than the objective, the share and the groups differ.
fn is_same_source(one: &SourceNode, other: &SourceNode) -> bool {
    let like_other = SourceNode {
        slo: other.slo,
        share: other.share,
        groups: other.groups.clone(),
        ..one.clone()
    };
    like_other == *other
}

/// A module without its sources, and whether it has any: streams that are added enter where sources do.
fn module_without_sources(node: &ModuleNode) -> (ModuleNode, bool) {
    let (inputs, has_sources) = without_sources(&node.inputs);
    let node = ModuleNode {
        inputs,
        ..node.clone()
    };
    (node, has_sources)
}

/// Returns a sink without sources among its inputs, and whether it had any.
fn sink_without_sources(node: &SinkNode) -> (SinkNode, bool) {
    let (inputs, has_sources) = without_sources(&node.inputs);
    let node = SinkNode {
        inputs,
        ..node.clone()
    };
    (node, has_sources)
}

fn without_sources(inputs: &[Vertex]) -> (Vec<Vertex>, bool) {
    let is_source = |vertex: &&Vertex| matches!(vertex, Vertex::Source(_));
    let others = inputs.iter().filter(|vertex| !is_source(vertex));
    (
        others.copied().collect(),
        inputs.iter().any(|vertex| is_source(&vertex)),
    )
}

/// Names of what only one of two lists has.
fn names_of_others<T: PartialEq>(
    what: &str,
    one: &[T],
    other: &[T],
    name: impl Fn(&T) -> &String,
) -> Vec<String> {
    let only_one = one.iter().filter(|node| !other.contains(node));
    let only_other = other.iter().filter(|node| !one.contains(node));
    let mut names: Vec<&String> = only_one.chain(only_other).map(name).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| format!("{what} {name}")).collect()
}
