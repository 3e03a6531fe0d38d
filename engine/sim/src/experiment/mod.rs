//! Experiments: reading TOML to checked runs, running many of them, and summarising the results.
//!
//! The file is read as a tree; [every list where one value is expected](sweep) makes a variant; each variant
//! becomes a world with a policy and arrivals, and each seed of it a [`Run`]. All problems are reported at
//! once. [`run_all`] runs them. `docs/explain/experiments.md` describes the format.

mod arrivals;
mod capacity;
mod changes;
mod decoding;
mod file;
mod generate;
mod graph;
mod run;
mod summary;
mod sweep;
mod token_traces;
mod traces;
mod values;
mod world;
mod world_memory;
mod world_module;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_config::ConfigError;
use weir_config::{Diagnostics, Environment, Spanned, absolute, read_text, report_missing, spelling};
use weir_graph::{CascadeStage, Catalog};
use weir_policy::Policy;
use weir_policy::gears::Gears;

pub use capacity::capacity;
pub use graph::world_from_graph;
pub use run::{Run, run_all, run_while};
pub use summary::{Estimate, ExperimentReport, Row, RunBound, RunReport, rows};
pub use sweep::Label;

use crate::demand::Crops;
use crate::spec::{Scaling, WorkerFailure, WorldPool, WorldSpec};
use crate::traces::TokenTrace;
use arrivals::Source;
use file::{LoadLevel, Raw};

/// A checked experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    name: String,
    runs: Vec<Run>,
    files: Vec<PathBuf>,
}

impl Experiment {
    /// Name of the experiment; by default that of its file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All runs: combinations in the order of the file, then seeds. Runs with the same seed that differ only
    /// in their policy have the same arrivals.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Every file that it was read from: its own, worlds, graphs, profiles and traces.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }
}

/// Reads and checks the experiment at `path`, with the worlds, profiles and graphs that it names. `catalog` is what graphs
/// may name, `environment` gives the variables in texts;
/// `seeds` take the place of the experiment's own. Recorded traces are looked for in the folder `WEIR_ASSETS`.
///
/// # Errors
/// All [`ConfigError`] at once, each with its file, line and hint.
pub fn load(
    path: &Path,
    catalog: &Catalog,
    environment: Environment<'_>,
    seeds: Option<&[u64]>,
) -> Result<Experiment, ConfigError> {
    let text = read_text(path).map_err(|reason| {
        let hint = Some("give the path of an experiment, a TOML file".to_owned());
        ConfigError::for_file(path, format!("cannot be read: {reason}"), hint)
    })?;
    let whole = std::path::absolute(path)
        .map_err(|error| ConfigError::for_file(path, format!("cannot be made absolute: {error}"), None))?;
    let mut diagnostics = Diagnostics::new(path, &text);
    let document = weir_config::parse(&text, environment, &mut diagnostics);
    let plain = |path: &str| matches!(path, "experiment.seeds" | "failures" | "changes");
    let mut loader = Loader {
        folder: whole.parent().unwrap_or(&whole).to_owned(),
        catalog,
        environment,
        worlds: BTreeMap::new(),
        traces: traces::Traces::new(environment("WEIR_ASSETS").map(PathBuf::from)),
    };
    let mut experiment = Experiment {
        name: stem(&whole),
        runs: Vec::new(),
        files: Vec::new(),
    };
    for variant in sweep::expand(&document, &plain, &mut diagnostics) {
        let raw = file::read(&variant.document, &mut diagnostics);
        if let Some(name) = &raw.head.name {
            experiment.name.clone_from(name);
        }
        let own = raw.head.seeds.as_deref().unwrap_or(&[1]);
        for &seed in seeds.unwrap_or(own) {
            if let Some(run) = loader.run(&raw, seed, &mut diagnostics) {
                let labels = labels(&variant.labels, &run.world.policy);
                experiment.runs.push(Run { labels, ..run });
            }
        }
    }
    experiment.files = diagnostics.files();
    diagnostics.finish()?;
    Ok(experiment)
}

/// Labels of a variant. A policy that is swept as a whole is called after its preset, with all that departs from it: of its
/// text only the plain values would be in a label.
fn labels(swept: &[(String, Label)], policy: &Policy) -> Vec<(String, Label)> {
    let label = |(key, label): &(String, Label)| match key.as_str() {
        "policy" => (key.clone(), Label::Text(policy.summary())),
        _ => (key.clone(), label.clone()),
    };
    swept.iter().map(label).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(
        || "experiment".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

/// A world before the experiment's own words.
#[derive(Debug, Clone)]
struct LoadedWorld {
    name: String,
    spec: WorldSpec,
    /// The streams of a graph.
    streams: Option<Vec<weir_graph::EmulatedStream>>,
    /// Names of these streams, in the same order.
    stream_names: Vec<String>,
    /// Names by which a gears file refers to the stages of its cascades.
    stages: Vec<CascadeStage>,
}

/// Makes runs of variants; reads each world once.
struct Loader<'a> {
    folder: PathBuf,
    catalog: &'a Catalog,
    environment: Environment<'a>,
    worlds: BTreeMap<PathBuf, Option<LoadedWorld>>,
    traces: traces::Traces,
}

impl Loader<'_> {
    fn run(&mut self, raw: &Raw, seed: u64, diagnostics: &mut Diagnostics) -> Option<Run> {
        let loaded = match (&raw.head.world, &raw.head.graph) {
            (Some(spanned), None) => self.load_named(spanned, "world", diagnostics),
            (None, Some(spanned)) => self.load_named(spanned, "graph", diagnostics),
            _ => None,
        }?;
        let mut spec = loaded.spec;
        spec.slo = raw.head.slo.unwrap_or(spec.slo);
        spec.hop = raw.head.hop.unwrap_or(spec.hop);
        spec.noise = raw.head.noise.unwrap_or(spec.noise);
        spec.handover = raw.head.handover.unwrap_or(spec.handover);
        spec.timer_delay = raw.head.timer_delay.unwrap_or(spec.timer_delay);
        spec.interference = raw.interference;
        if let Some(policy) = &raw.policy {
            spec.policy = policy.clone();
        }
        for node in &mut spec.modules {
            if let WorldPool::Generating(generate) = &mut node.pool {
                generate.follow(&spec.policy, seed);
                generate.length_error = raw.head.length_error(generate.length_error);
            }
        }
        for (module, accuracy) in &raw.accuracy {
            if let Some(module) = find_module(&spec, module, diagnostics) {
                spec.cascades.accuracy.insert(module, *accuracy);
            }
        }
        for (module, crops) in &raw.items {
            if let Some(module) = find_module(&spec, module, diagnostics) {
                spec.demand.set_crops(Crops { module, ..*crops });
            }
        }
        if let Some(gears) = &raw.head.gears {
            spec.cascades.gears = self.gears(gears, (&loaded.name, &loaded.stages), diagnostics);
        }
        for failure in &raw.failures {
            let Some(module) = find_module(&spec, &failure.module, diagnostics) else {
                continue;
            };
            let (worker, at, lasts) = (failure.worker, failure.at, failure.lasts);
            spec.failures.push(WorkerFailure {
                module,
                worker,
                at,
                lasts,
            });
        }
        spec.seed = seed;
        let (source, trace) = self.source(raw, &mut spec, loaded.streams, diagnostics)?;
        let own = matches!(source, Source::Streams(_)).then_some(loaded.stream_names.as_slice());
        spec.changes = changes::resolve(&raw.changes, own, diagnostics);
        scale(raw, &mut spec, source.initial_rate());
        Some(Run {
            name: loaded.name,
            labels: Vec::new(),
            seed,
            trace,
            world: spec,
            source,
            length: raw.arrivals.length,
        })
    }

    /// Source of the requests, and its description for the report.
    fn source(
        &mut self,
        raw: &Raw,
        spec: &mut WorldSpec,
        streams: Option<Vec<weir_graph::EmulatedStream>>,
        diagnostics: &mut Diagnostics,
    ) -> Option<(Source, String)> {
        let arrivals = &raw.arrivals;
        if let (Some(streams), None, None) = (streams, &arrivals.trace, arrivals.amount) {
            return Some((Source::Streams(streams), "the streams of the graph".to_owned()));
        }
        let is_file = arrivals
            .trace
            .as_ref()
            .is_some_and(|name| traces::is_file_name(&name.value));
        let folder = self.folder.clone();
        if let Some(name) = &arrivals.trace {
            match self.traces.requests(&name.value, &folder, diagnostics) {
                Ok(None) => {}
                Ok(Some(found)) => return requests(raw, spec, name, found, diagnostics),
                Err(reason) => {
                    diagnostics.add(name.at, format!("`trace`: {reason}"), None);
                    return None;
                }
            }
        }
        let default = (!is_file).then_some(LoadLevel::Load(1.0));
        let query = traces::TraceQuery {
            name: arrivals.trace.as_ref(),
            seed: spec.seed,
            length: arrivals.length,
            rate: arrivals.amount.or(default).map(|amount| match amount {
                LoadLevel::Rate(rate) => rate,
                LoadLevel::Load(load) => load * capacity(spec),
            }),
            folder: &folder,
        };
        let (trace, origin) = self.traces.find(&query, diagnostics)?;
        let (process, seed) = (arrivals.process, spec.seed);
        Some((Source::Trace { trace, process, seed }, origin))
    }

    /// Reads the gears file of the key `name` for these stages; `None` for "none".
    fn gears(
        &self,
        spanned: &Spanned<String>,
        (name, stages): (&str, &[CascadeStage]),
        diagnostics: &mut Diagnostics,
    ) -> Option<Gears> {
        if spanned.value == "none" {
            return None;
        }
        let path = absolute(&self.folder, &spanned.value);
        if !path.is_file() {
            let message = format!("`gears`: there is no file \"{}\"", spanned.value);
            report_missing(&message, &path, spanned.at, diagnostics);
            return None;
        }
        diagnostics.record_file(&path);
        let read = read_text(&path).and_then(|text| weir_graph::parse_gears_of(&text, &path, name, stages));
        read.map_err(|reason| {
            let message = format!("`gears`: \"{}\": {reason}", spanned.value);
            diagnostics.add(spanned.at, message, None);
        })
        .ok()
    }

    /// The world or graph that a text names.
    fn load_named(
        &mut self,
        spanned: &Spanned<String>,
        kind: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<LoadedWorld> {
        let path = absolute(&self.folder, &spanned.value);
        if let Some(loaded) = self.worlds.get(&path) {
            return loaded.clone();
        }
        let loaded = if path.is_file() {
            match kind {
                "graph" => self.graph(&path, spanned, diagnostics),
                _ => self.world(&path, spanned, diagnostics),
            }
        } else {
            let message = format!("`{kind}`: there is no file \"{}\"", spanned.value);
            report_missing(&message, &path, spanned.at, diagnostics);
            None
        };
        self.worlds.insert(path, loaded.clone());
        loaded
    }

    fn world(
        &self,
        path: &Path,
        spanned: &Spanned<String>,
        diagnostics: &mut Diagnostics,
    ) -> Option<LoadedWorld> {
        let text = match read_text(path) {
            Ok(text) => text,
            Err(reason) => {
                diagnostics.add(
                    spanned.at,
                    format!("`world`: cannot read \"{}\": {reason}", spanned.value),
                    None,
                );
                return None;
            }
        };
        let mut inner = Diagnostics::new(path, &text);
        let folder = path.parent().unwrap_or(path);
        let spec = world::read(&text, folder, self.environment, &mut inner);
        diagnostics.absorb(inner);
        let (spec, stages) = spec?;
        Some(LoadedWorld {
            name: stem(path),
            spec,
            streams: None,
            stream_names: Vec::new(),
            stages,
        })
    }

    fn graph(
        &self,
        path: &Path,
        spanned: &Spanned<String>,
        diagnostics: &mut Diagnostics,
    ) -> Option<LoadedWorld> {
        let graph = match weir_graph::load(path, self.catalog, self.environment) {
            Ok(graph) => graph,
            Err(problems) => {
                diagnostics.absorb_error(problems);
                return None;
            }
        };
        graph
            .files()
            .iter()
            .for_each(|file| diagnostics.record_file(file));
        match graph::world(&graph) {
            Ok((spec, streams)) => {
                let name = graph.name().to_owned();
                Some(LoadedWorld {
                    name,
                    spec,
                    streams: Some(streams),
                    stream_names: graph.source_names().map(str::to_owned).collect(),
                    stages: weir_graph::cascade_stages(&graph),
                })
            }
            Err(reason) => {
                let message = format!("`graph`: \"{}\" cannot be simulated: {reason}", spanned.value);
                diagnostics.add(spanned.at, message, None);
                None
            }
        }
    }
}

/// Requests with tokens at the requested rate; their tokens become those of the generating module.
fn requests(
    raw: &Raw,
    spec: &mut WorldSpec,
    name: &Spanned<String>,
    (trace, recording): traces::RequestTrace,
    diagnostics: &mut Diagnostics,
) -> Option<(Source, String)> {
    let arrivals = &raw.arrivals;
    if let Some(at) = arrivals.process_at {
        let hint = Some("leave `process` out: the requests of this trace have times of their own".to_owned());
        let message = format!("[arrivals] has a `process` beside the trace \"{}\"", name.value);
        diagnostics.add(at, message, hint);
        return None;
    }
    let default = recording.map(|_| LoadLevel::Load(1.0));
    let mut set = || -> Result<TokenTrace, String> {
        token_traces::set_means(spec, &trace)?;
        let rate = arrivals.amount.or(default).map(|amount| match amount {
            LoadLevel::Rate(rate) => rate,
            LoadLevel::Load(load) => load * capacity(spec),
        });
        let scaled = rate.map_or(Ok(trace.clone()), |rate| trace.scale_to(rate));
        let scaled = scaled.map_err(|error| error.to_string())?;
        let part = match recording {
            Some(_) => scaled.stretch(arrivals.length, spec.seed),
            None => scaled.cut(arrivals.length),
        };
        let part = part.map_err(|error| error.to_string())?;
        token_traces::set_tokens(spec, &part)?;
        Ok(part)
    };
    match set() {
        Ok(part) => Some((Source::Requests(part), name.value.clone())),
        Err(reason) => {
            diagnostics.add(name.at, format!("`trace`: \"{}\": {reason}", name.value), None);
            None
        }
    }
}

/// A module by its name.
fn find_module(spec: &WorldSpec, name: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<usize> {
    let names = || spec.modules.iter().map(|module| module.name.as_str());
    let found = names().position(|known| known == name.value);
    if found.is_none() {
        let hint = spelling::hint(&name.value, "modules", names());
        diagnostics.add(name.at, format!("there is no module \"{}\"", name.value), hint);
    }
    found
}

/// Lets pools of a module's own come and go, beginning with what the first rate asks for.
fn scale(raw: &Raw, spec: &mut WorldSpec, first_rate: f64) {
    let Some(scaling) = raw.scaling else { return };
    let items = capacity::items_per_request(spec);
    let rates = spec.worker_throughput();
    for ((node, items), rate) in spec.modules.iter_mut().zip(items).zip(rates) {
        let WorldPool::Fixed(workers) = node.pool else {
            continue;
        };
        let rule = scaling.rule(workers);
        let query = first_rate * items * rule.headroom / rate;
        node.pool = WorldPool::Scaled(Scaling {
            initial: (query.ceil().min(f64::from(rule.max_workers)) as u32).max(rule.min_workers),
            rule,
            cold_start: scaling.cold_start,
            is_foretold: true,
        });
    }
    spec.max_workers = scaling.max_workers;
}
