//! The shape of the graph: how modules follow each other, how the requests of a stream pass them, and what a sink sees.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use weir_analytics::Privacy;
use weir_analytics::transforms::{ObjectFilter, TimeZone};
use weir_flow::{StreamNames, Withheld, is_of_single_pictures};
use weir_graph::{Graph, ModuleNode, SourceNode, Vertex};
use weir_types::{ModuleId, Span, Topology};

/// Successors of each module, in the form that policies take.
pub(crate) fn topology(graph: &Graph) -> Topology {
    let mut successors = vec![Vec::new(); graph.modules().len()];
    for (id, module) in (0..).zip(graph.modules()) {
        for input in &module.inputs {
            if let Vertex::Module(before) = input {
                successors[*before].push(ModuleId(id));
            }
        }
    }
    Topology::new(successors)
}

/// Modules and sinks of a graph that the frames of one stream enter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Entrance {
    modules: BTreeSet<usize>,
    sinks: BTreeSet<usize>,
    /// Modules and sinks that were entered by their names.
    named: Vec<String>,
}

impl Entrance {
    /// Of a source or a template of the graph, by its index.
    pub(crate) fn of_source(graph: &Graph, source: usize) -> Self {
        Self::wherever(graph, |vertex| *vertex == Vertex::Source(source))
    }

    /// Wherever any source of the graph enters.
    pub(crate) fn of_any_source(graph: &Graph) -> Self {
        Self::wherever(graph, |vertex| matches!(vertex, Vertex::Source(_)))
    }

    /// The modules and sinks of those names.
    pub(crate) fn into_named(graph: &Graph, names: &[String]) -> Self {
        let modules = graph.modules().iter().enumerate();
        let sinks = graph.sinks().iter().enumerate();
        Self {
            modules: modules
                .filter(|(_, module)| module.stage.as_ref().is_none_or(|stage| stage.index == 0))
                .filter(|(_, module)| names.iter().any(|name| name == module.label()))
                .map(|(index, _)| index)
                .collect(),
            sinks: sinks
                .filter(|(_, sink)| names.contains(&sink.name))
                .map(|(index, _)| index)
                .collect(),
            named: names.to_vec(),
        }
    }

    fn wherever(graph: &Graph, is_entered: impl Fn(&Vertex) -> bool) -> Self {
        let modules = graph.modules().iter().enumerate();
        let sinks = graph.sinks().iter().enumerate();
        Self {
            modules: modules
                .filter(|(_, module)| module.inputs.iter().any(&is_entered))
                .map(|(index, _)| index)
                .collect(),
            sinks: sinks
                .filter(|(_, sink)| sink.inputs.iter().any(&is_entered))
                .map(|(index, _)| index)
                .collect(),
            named: Vec::new(),
        }
    }
}

/// A stream, whatever the graph: its name, and what its source says of its picture.
#[derive(Debug)]
pub(crate) struct Scene {
    /// Name by which modules are for the stream or not: that of the source whose inputs a stream of single pictures shares.
    name: String,
    single_pictures: bool,
    /// Objects that count.
    pub(crate) objects: ObjectFilter,
    /// Objects and regions that its pictures hide.
    pub(crate) privacy: Privacy,
    /// Time zone of its own.
    zone: Option<TimeZone>,
}

impl Scene {
    /// `like`: the source of the graph whose inputs it shares.
    pub(crate) fn new(graph: &Graph, node: &SourceNode, like: Option<&str>) -> Arc<Self> {
        let single_pictures = is_of_single_pictures(&node.name);
        let name = like.filter(|_| single_pictures).unwrap_or(&node.name);
        Arc::new(Self {
            name: name.to_owned(),
            single_pictures,
            objects: node.objects.clone(),
            privacy: graph.privacy_of(node, like),
            zone: node.timezone.clone(),
        })
    }

    /// Observers that the video of the camera itself is withheld from.
    pub(crate) fn withheld(&self) -> Withheld {
        if self.privacy.private {
            Withheld::FromAll
        } else if self.privacy.hides() {
            Withheld::FromViews
        } else {
            Withheld::FromNone
        }
    }

    /// True if the pictures of the stream do not follow each other.
    pub(crate) fn is_of_single_pictures(&self) -> bool {
        self.single_pictures
    }
}

/// Way of the requests of one stream through a graph, from its entrance to its sinks.
#[derive(Debug)]
pub(crate) struct Route {
    /// Number of the graph, from 0: another one may take its place while requests of this one are in flight.
    pub(crate) graph: u32,
    /// The latency objective of requests that have none of their own.
    pub(crate) slo: Span,
    /// Modules that its requests enter and pass.
    pub(crate) path: weir_control::Route,
    /// Its index among the routes of the graph, once a request has come by it.
    pub(crate) index: OnceLock<usize>,
    /// Sinks that its frames enter directly.
    sinks: BTreeSet<usize>,
    pub(crate) scene: Arc<Scene>,
    /// Modules that are for other streams: its requests pass them without items.
    not_run: BTreeSet<u32>,
    /// Names of the modules that find objects in its frames; only if its pictures hide objects.
    finders: BTreeSet<String>,
    /// Whether a module reads its frames in tiles, and keeps the findings of those in which nothing changes.
    pub(crate) keeps_tiles: bool,
    /// Time zone in which its schedules are read; `None`: their own, or UTC.
    pub(crate) zone: Option<TimeZone>,
}

impl Route {
    /// Through the graph of that number.
    pub(crate) fn new(
        (number, graph): (u32, &Graph),
        entrance: &Entrance,
        topology: &Topology,
        scene: Arc<Scene>,
    ) -> Self {
        let mut reached = BTreeSet::new();
        let mut branches = Vec::new();
        let mut entries = Vec::new();
        for (id, module) in graph.modules().iter().enumerate() {
            let entry = entrance.modules.contains(&id);
            let before = module
                .inputs
                .iter()
                .filter(|input| matches!(input, Vertex::Module(m) if reached.contains(m)));
            let count = before.count() as u32 + u32::from(entry);
            if count > 0 {
                reached.insert(id);
            }
            if entry {
                entries.push(ModuleId(id as u32));
            }
            branches.push(count);
        }
        let last = |id: &&usize| topology.successors(ModuleId(**id as u32)).is_empty();
        let exits = reached.iter().filter(last).count().max(1) as u32;
        // A client that names a module for its picture wants its results, whatever the streams that the module is for.
        let is_asked_for = |module: &ModuleNode| {
            let mut named = entrance.named.iter();
            scene.single_pictures && named.any(|name| name == module.label())
        };
        let runs = |module: &ModuleNode| module.streams.contains(&scene.name) || is_asked_for(module);
        let hides_objects = !scene.privacy.classes.is_empty();
        let finders = reached.iter().map(|id| &graph.modules()[*id]);
        let finders = finders.filter(|module| hides_objects && module.finds_objects && runs(module));
        let finders = finders.map(|module| module.name.clone()).collect();
        let mut modules = reached.iter().map(|id| &graph.modules()[*id]);
        let keeps_tiles = modules.any(|module| module.tiling().is_some() && module.stage.is_none());
        Self {
            graph: number,
            slo: graph.slo(),
            path: weir_control::Route {
                entries,
                branches,
                exits,
            },
            index: OnceLock::new(),
            sinks: entrance.sinks.clone(),
            not_run: (0..)
                .zip(graph.modules())
                .filter(|(_, module)| !runs(module))
                .map(|(id, _)| id)
                .collect(),
            finders,
            keeps_tiles,
            zone: scene.zone.clone().or_else(|| graph.timezone().cloned()),
            scene,
        }
    }

    /// Whether a module runs for its requests.
    pub(crate) fn runs(&self, module: ModuleId) -> bool {
        !self.not_run.contains(&module.0)
    }

    /// True if the objects are known that pictures of a frame hide, which went on without the modules of those names.
    pub(crate) fn knows_hidden<'n>(&self, mut without: impl Iterator<Item = &'n str>) -> bool {
        let privacy = &self.scene.privacy;
        privacy.classes.is_empty()
            || (!self.finders.is_empty() && !without.any(|module| self.finders.contains(module)))
    }

    /// Whether a sink, by its index, is shown the stream of that name: its frames directly, or what a module finds in them.
    pub(crate) fn reaches(&self, (sink, view): (usize, &SinkView), stream: &str) -> bool {
        let passes = |module: &u32| self.passes(ModuleId(*module));
        let is_before = self.sinks.contains(&sink) || view.modules.iter().any(passes);
        is_before && view.names.follow(stream)
    }

    /// Whether requests of the source reach this module.
    pub(crate) fn passes(&self, module: ModuleId) -> bool {
        let branches = self.path.branches.get(module.index());
        branches.is_some_and(|count| *count > 0)
    }
}

/// Modules, trackers, transforms and streams that a sink shows: its inputs and everything before them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SinkView {
    /// Modules whose output it shows.
    pub(crate) modules: BTreeSet<u32>,
    /// Trackers whose tracks it shows.
    pub(crate) trackers: BTreeSet<u32>,
    /// Transforms whose incidents it is given, by name.
    pub(crate) transforms: BTreeSet<Arc<str>>,
    /// Streams whose frames it shows; they come and go while the engine runs.
    pub(crate) streams: BTreeSet<u32>,
    /// Those that it may show.
    pub(crate) names: StreamNames,
}

impl SinkView {
    /// Whether another view gives the same of a frame.
    pub(crate) fn is_given_the_same(&self, other: &Self) -> bool {
        self.modules == other.modules
            && self.trackers == other.trackers
            && self.transforms == other.transforms
    }

    pub(crate) fn new(graph: &Graph, sink: usize) -> Self {
        let mut open = graph.sinks()[sink].inputs.clone();
        let trackers = graph.sinks()[sink].trackers.iter();
        let transforms = graph.sinks()[sink].transforms.iter();
        let transforms = transforms.map(|transform| graph.transforms()[*transform].name.as_str().into());
        let mut view = Self {
            trackers: trackers.map(|tracker| *tracker as u32).collect(),
            transforms: transforms.collect(),
            names: graph.sinks()[sink].streams.clone(),
            ..Self::default()
        };
        while let Some(vertex) = open.pop() {
            match vertex {
                Vertex::Module(id) if view.modules.insert(id as u32) => {
                    open.extend(&graph.modules()[id].inputs);
                }
                Vertex::Module(_) => {}
                // No stream has the number of a template.
                Vertex::Source(id) => {
                    let source = graph.sources().get(id);
                    if source.is_some_and(|source| view.names.contains(&source.name)) {
                        view.streams.insert(id as u32);
                    }
                }
            }
        }
        view
    }
}
