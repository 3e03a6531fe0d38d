//! Experiments: TOML to checked runs, many runs at once, and what they come to.
//!
//! The file is read as a tree; [every list where one value is expected](sweep) makes a variant; each variant becomes a
//! world with a policy and arrivals, and each seed of it a [`Run`]. All problems are told at once. [`run_all`] runs them.
//! `docs/experiments.md` describes the format.

mod arrivals;
mod capacity;
mod file;
mod graph;
mod run;
mod summary;
mod sweep;
mod values;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_graph::Problems;
use weir_graph::reading::{self, Catalog, Environment, Reports, Spot};

pub use capacity::{batch_sizes, capacity};
pub use graph::world_of;
pub use run::{Run, run_all};
pub use summary::{Estimate, ExperimentReport, Row, RunReport, rows};
pub use sweep::Label;

use crate::spec::{Failure, PoolPlan, Scaling, WorldSpec};
use arrivals::Source;
use file::{Amount, Raw};

/// A checked experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    name: String,
    seeds: Vec<u64>,
    variants: Vec<Run>,
}

impl Experiment {
    /// Its name; that of its file where it has none.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same experiment with other seeds.
    #[must_use]
    pub fn with_seeds(mut self, seeds: Vec<u64>) -> Self {
        self.seeds = seeds;
        self
    }

    /// All runs: combinations in the order of the file, seeds within them. Runs of one seed that differ in their policy
    /// alone see the same arrivals.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        let seeded = |run: &Run, seed: u64| {
            let mut run = run.clone();
            run.seed = seed;
            run.world.seed = seed;
            run.source = run.source.seeded(seed);
            run
        };
        let all = self
            .variants
            .iter()
            .flat_map(|run| self.seeds.iter().map(move |&seed| seeded(run, seed)));
        all.collect()
    }
}

/// Reads and checks the experiment at `path`, with the worlds, profiles and graphs that it names. `catalog` is what graphs
/// may name, `environment` gives the variables in texts.
///
/// # Errors
/// All [`Problems`] at once, each with its file, line and hint.
pub fn load(path: &Path, catalog: &Catalog, environment: Environment<'_>) -> Result<Experiment, Problems> {
    let text = reading::text(path).map_err(|reason| {
        let hint = Some("give the path of an experiment, a TOML file".to_owned());
        Problems::of_file(path, format!("cannot be read: {reason}"), hint)
    })?;
    let whole = std::path::absolute(path)
        .map_err(|error| Problems::of_file(path, format!("cannot be made absolute: {error}"), None))?;
    let mut reports = Reports::new(path, &text);
    let document = reading::parse(&text, environment, &mut reports);
    let plain = |path: &str| matches!(path, "experiment.seeds" | "failures");
    let mut loader = Loader {
        folder: whole.parent().unwrap_or(&whole).to_owned(),
        catalog,
        environment,
        worlds: BTreeMap::new(),
    };
    let mut experiment = Experiment {
        name: stem(&whole),
        seeds: vec![1],
        variants: Vec::new(),
    };
    for variant in sweep::expand(&document, &plain, &mut reports) {
        let raw = file::read(&variant.document, &mut reports);
        if let Some(name) = &raw.head.name {
            experiment.name.clone_from(name);
        }
        if let Some(seeds) = &raw.head.seeds {
            experiment.seeds.clone_from(seeds);
        }
        if let Some(run) = loader.run(&raw, &mut reports) {
            experiment.variants.push(Run {
                labels: variant.labels,
                ..run
            });
        }
    }
    reports.finish()?;
    Ok(experiment)
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(
        || "experiment".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

/// A world before the experiment's own words.
#[derive(Debug, Clone)]
struct Place {
    name: String,
    spec: WorldSpec,
    /// The streams of a graph.
    streams: Option<Vec<weir_graph::EmulatedStream>>,
}

/// Makes runs of variants; reads each world once.
struct Loader<'a> {
    folder: PathBuf,
    catalog: &'a Catalog,
    environment: Environment<'a>,
    worlds: BTreeMap<PathBuf, Option<Place>>,
}

impl Loader<'_> {
    fn run(&mut self, raw: &Raw, reports: &mut Reports) -> Option<Run> {
        let place = match (&raw.head.world, &raw.head.graph) {
            (Some(spot), None) => self.place(spot, "world", reports),
            (None, Some(spot)) => self.place(spot, "graph", reports),
            _ => None,
        }?;
        let mut spec = place.spec;
        spec.slo = raw.head.slo.unwrap_or(spec.slo);
        spec.hop = raw.head.hop.unwrap_or(spec.hop);
        spec.noise = raw.head.noise.unwrap_or(spec.noise);
        if let Some(policy) = &raw.policy {
            spec.policy = policy.clone();
        }
        for failure in &raw.failures {
            let module = spec
                .modules
                .iter()
                .position(|module| module.name == failure.module.value);
            let Some(module) = module else {
                let names = spec.modules.iter().map(|module| module.name.as_str());
                let hint = reading::hint(&failure.module.value, "modules", names);
                let message = format!("there is no module \"{}\"", failure.module.value);
                reports.add(failure.module.at, message, hint);
                continue;
            };
            let (worker, at, lasts) = (failure.worker, failure.at, failure.lasts);
            spec.failures.push(Failure {
                module,
                worker,
                at,
                lasts,
            });
        }
        let source = source(raw, &spec, place.streams, reports)?;
        scale(raw, &mut spec, source.first_rate());
        Some(Run {
            name: place.name,
            labels: Vec::new(),
            seed: 0,
            world: spec,
            source,
            length: raw.arrivals.length,
        })
    }

    /// The world or graph that a text names.
    fn place(&mut self, spot: &Spot<String>, kind: &str, reports: &mut Reports) -> Option<Place> {
        let path = reading::absolute(&self.folder, &spot.value);
        if let Some(place) = self.worlds.get(&path) {
            return place.clone();
        }
        let place = if path.is_file() {
            match kind {
                "graph" => self.graph(&path, spot, reports),
                _ => self.world(&path, spot, reports),
            }
        } else {
            let message = format!("`{kind}`: there is no file \"{}\"", spot.value);
            reading::missing(&message, &path, spot.at, reports);
            None
        };
        self.worlds.insert(path, place.clone());
        place
    }

    fn world(&self, path: &Path, spot: &Spot<String>, reports: &mut Reports) -> Option<Place> {
        let text = match reading::text(path) {
            Ok(text) => text,
            Err(reason) => {
                reports.add(
                    spot.at,
                    format!("`world`: cannot read \"{}\": {reason}", spot.value),
                    None,
                );
                return None;
            }
        };
        let mut inner = Reports::new(path, &text);
        let folder = path.parent().unwrap_or(path);
        let spec = world::read(&text, folder, self.environment, &mut inner);
        reports.absorb(inner);
        Some(Place {
            name: stem(path),
            spec: spec?,
            streams: None,
        })
    }

    fn graph(&self, path: &Path, spot: &Spot<String>, reports: &mut Reports) -> Option<Place> {
        let graph = match weir_graph::load(path, self.catalog, self.environment) {
            Ok(graph) => graph,
            Err(problems) => {
                reports.take_over(problems);
                return None;
            }
        };
        match world_of(&graph) {
            Ok((spec, streams)) => {
                let name = graph.name().to_owned();
                Some(Place {
                    name,
                    spec,
                    streams: Some(streams),
                })
            }
            Err(reason) => {
                let message = format!("`graph`: \"{}\" cannot be simulated: {reason}", spot.value);
                reports.add(spot.at, message, None);
                None
            }
        }
    }
}

fn source(
    raw: &Raw,
    spec: &WorldSpec,
    streams: Option<Vec<weir_graph::EmulatedStream>>,
    reports: &mut Reports,
) -> Option<Source> {
    let arrivals = &raw.arrivals;
    if let Some(trace) = arrivals.trace.as_ref().filter(|trace| trace.value != "constant") {
        let hint = reading::hint(&trace.value, "traces", ["constant"]);
        reports.add(trace.at, format!("there is no trace \"{}\"", trace.value), hint);
        return None;
    }
    if let (Some(streams), None, None) = (streams, &arrivals.trace, arrivals.amount) {
        return Some(Source::Streams(streams));
    }
    let rate = match arrivals.amount.unwrap_or(Amount::Load(1.0)) {
        Amount::Rate(rate) => rate,
        Amount::Load(load) => load * capacity(spec),
    };
    Some(Source::Constant {
        rate,
        process: arrivals.process,
        seed: 0,
    })
}

/// Lets pools of a module's own come and go, beginning with what the first rate asks for.
fn scale(raw: &Raw, spec: &mut WorldSpec, first_rate: f64) {
    let Some(scaling) = raw.scaling else { return };
    let items = capacity::items_each(&spec.demand, spec.modules.len());
    let batches = batch_sizes(spec);
    for ((plan, items), batch) in spec.modules.iter_mut().zip(items).zip(batches) {
        let PoolPlan::Fixed(workers) = plan.pool else {
            continue;
        };
        let rule = scaling.rule(workers);
        let wanted = first_rate * items * rule.headroom / plan.profile.throughput(batch);
        plan.pool = PoolPlan::Scaled(Scaling {
            begin: (wanted.ceil().min(f64::from(rule.most)) as u32).max(rule.least),
            rule,
            cold_start: scaling.cold_start,
        });
    }
    spec.workers_most = scaling.workers_most;
}
