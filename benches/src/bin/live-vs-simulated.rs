//! Compares the live engine with the simulator on the same graphs, arrivals and emulated profiles:
//! differences in goodput and drop rate below, at and above capacity.
//!
//! ```text
//! live-vs-simulated [--seconds 120] [--loads 0.8,1.2,2.0] [GRAPH.toml ...]
//! ```
//!
//! A graph takes the rate of each of its sources from the variable `RATE`. The loads of a graph run at the
//! same time, each in an engine of its own, since emulated devices sleep and do not compute. The simulation has
//! the noise of durations, the time of hand-overs and the delay of timers that the live run had, by its event log. Near capacity a
//! later batch may change all that follow, so it runs with several seeds, and the live run is compared with
//! their mean.
//!
//! The limits are a twentieth of the goodput and two percentage points of the drop rate. With several sources,
//! three points of each source's share in time are allowed; for cascades, two points of the share that each stage
//! hands on; for devices with limited memory, a tenth of the models loaded. Each limit is at least two standard
//! deviations of the seeds. Beyond the limits the exit status is 1.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use weir_benches::event_log::{self, Measured};
use weir_flow::{Catalog, StopFlag};
use weir_graph::Graph;
use weir_policy::{Counts, ModuleReport, Report, StageCounts};
use weir_runtime::{Assembly, Partitioning, RunOptions};
use weir_sim::experiment::{capacity, world_from_graph};
use weir_sim::{WorldSpec, simulate_streams};
use weir_types::{Span, StreamId, Timestamp};

/// Names of graphs in `config`, a line each; the tests compare the machines of the same graphs.
const GRAPHS: &str = include_str!("../../../config/compared-graphs.txt");
const MAX_GOODPUT_ERROR: f64 = 0.05;
const MAX_DROP_RATE_ERROR: f64 = 0.02;
/// By how much parts in time of a source may be apart.
const MAX_CLASS_ERROR: f64 = 0.03;
const MAX_HANDED_ON_ERROR: f64 = 0.02;
const MAX_OPENINGS_ERROR: f64 = 0.1;
/// Simulations of each live run.
const SEEDS: u64 = 7;

struct Options {
    seconds: u64,
    loads: Vec<f64>,
    graphs: Vec<PathBuf>,
}

fn parse_args() -> anyhow::Result<Options> {
    let mut options = Options {
        seconds: 120,
        loads: vec![0.8, 1.2, 2.0],
        graphs: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--seconds" => options.seconds = value()?.parse().context("--seconds takes a whole number")?,
            "--loads" => {
                let loads = value()?;
                let loads: Result<_, _> = loads.split(',').map(str::parse).collect();
                options.loads = loads.context("--loads takes numbers with commas")?;
            }
            flag if flag.starts_with('-') => bail!("there is no {flag}; there are --seconds and --loads"),
            graph => options.graphs.push(PathBuf::from(graph)),
        }
    }
    if options.graphs.is_empty() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config");
        let paths = GRAPHS.lines().map(|name| folder.join(format!("{name}.toml")));
        options.graphs = paths.collect();
    }
    Ok(options)
}

fn main() -> anyhow::Result<ExitCode> {
    let options = parse_args()?;
    let mut all_close = true;
    for path in &options.graphs {
        let (world, streams) = world_from_graph(&graph(path, 1.0)?).map_err(|reason| anyhow!(reason))?;
        let capacity = capacity(&world);
        // `RATE` is that of each source.
        let rate = capacity / streams.len().max(1) as f64;
        println!(
            "{}: {} s each; capacity {capacity:.1} a second",
            path.file_stem().unwrap_or_default().to_string_lossy(),
            options.seconds
        );
        let pairs: Vec<anyhow::Result<Pair>> = std::thread::scope(|scope| {
            let run = |&load: &f64| scope.spawn(move || pair(path, rate * load, options.seconds));
            let running: Vec<_> = options.loads.iter().map(run).collect();
            let ended = running.into_iter().map(|thread| {
                let ended = thread.join();
                ended.unwrap_or_else(|_| Err(anyhow!("a run panicked")))
            });
            ended.collect()
        });
        for (load, pair) in options.loads.iter().zip(pairs) {
            all_close &= pair?.print(*load, options.seconds as f64);
        }
    }
    Ok(if all_close {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn graph(path: &Path, rate: f64) -> anyhow::Result<Graph> {
    let variables = |name: &str| (name == "RATE").then(|| rate.to_string());
    let catalog = Catalog {
        heads: weir_operators::heads(),
        operators: weir_operators::operators(),
        ..Catalog::default()
    };
    Ok(weir_graph::load(path, &catalog, &variables)?)
}

/// Part of its items that each stage of a cascade hands on.
fn handed_on(report: &Report) -> Vec<f64> {
    let stages = report.modules.values().filter_map(|module| module.stage);
    let part = |stage: StageCounts| {
        let all = stage.handed_on + stage.accepted + stage.accepted_late + stage.failed;
        stage.handed_on as f64 / (all as f64).max(1.0)
    };
    stages.map(part).collect()
}

/// Number of models loaded, and the seconds that loading took; `None` without limited memory.
fn openings(report: &Report) -> Option<(u64, f64)> {
    let residency = report.residency.as_ref()?;
    Some((residency.opened_cold + residency.opened_warm, residency.seconds))
}

/// Part of the requests of each source that came out in time, in the order of their names.
fn attainment(report: &Report) -> Vec<f64> {
    let streams = report.streams.values().map(|stream| stream.requests);
    let part = |requests: Counts| requests.delivered as f64 / (requests.arrived as f64).max(1.0);
    streams.map(part).collect()
}

/// One graph at one load, both ways.
struct Pair {
    live: Report,
    measured: Measured,
    /// Reports of the simulations, one for each seed.
    simulated: Vec<Report>,
}

fn pair(path: &Path, rate: f64, seconds: u64) -> anyhow::Result<Pair> {
    let graph = graph(path, rate)?;
    let (mut world, streams) = world_from_graph(&graph).map_err(|reason| anyhow!(reason))?;
    let mut arrivals = Vec::new();
    for (number, stream) in (0..).zip(&streams) {
        let times = stream
            .arrivals(number)?
            .take_while(|&at| at < Span::from_secs(seconds));
        arrivals.extend(times.map(|at| (Timestamp::ZERO + at, StreamId(number as u32))));
    }
    arrivals.sort_unstable();
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let log = std::env::temp_dir().join(format!("weir-{name}-{rate}-{}.log", std::process::id()));
    let live = live(graph, seconds, &log);
    let measured = event_log::measure(&log);
    // Where it was not written, the error of the run says why.
    let _ = std::fs::remove_file(&log);
    let (live, measured) = (live?, measured?);
    world.stops_at = Some(Span::from_secs(seconds));
    world.noise = measured.noise;
    world.handover = measured.handover;
    world.timer_delay = measured.timer_delay;
    let simulated = (1..=SEEDS).map(|seed| {
        world.seed = seed;
        simulated(&world, &arrivals)
    });
    Ok(Pair {
        simulated: simulated.collect(),
        live,
        measured,
    })
}

fn simulated(world: &WorldSpec, arrivals: &[(Timestamp, StreamId)]) -> Report {
    simulate_streams(world, "simulated", &mut arrivals.iter().copied(), &mut |_| {}).report
}

/// A figure of a live run beside those of its simulations.
struct Compared {
    live: f64,
    mean: f64,
    deviation: f64,
}

impl Compared {
    fn new(live: f64, simulated: impl Iterator<Item = f64> + Clone) -> Self {
        let count = simulated.clone().count().max(1) as f64;
        let mean = simulated.clone().sum::<f64>() / count;
        let squares: f64 = simulated.map(|value| (value - mean).powi(2)).sum();
        Self {
            live,
            mean,
            deviation: (squares / (count - 1.0).max(1.0)).sqrt(),
        }
    }

    /// Difference as a fraction of the mean.
    fn relative(&self) -> f64 {
        (self.live - self.mean) / self.mean.max(f64::MIN_POSITIVE)
    }

    /// Whether the difference is at most `limit`, or two standard deviations.
    fn is_within(&self, limit: f64) -> bool {
        (self.live - self.mean).abs() <= limit.max(2.0 * self.deviation)
    }
}

fn live(graph: Graph, seconds: u64, log: &Path) -> anyhow::Result<Report> {
    let assembly = Assembly {
        partitioning: Partitioning::new(&graph, None),
        sources: graph.sources().iter().map(|_| None).collect(),
        models: graph.models().iter().map(|_| None).collect(),
        operators: graph.modules().iter().map(|_| None).collect(),
        sinks: Vec::new(),
        graph,
        next_gears: None,
    };
    let options = RunOptions {
        duration: Some(Duration::from_secs(seconds)),
        record: Some(log.to_owned()),
        ..RunOptions::default()
    };
    let report = weir_runtime::run(assembly, &options, &StopFlag::default())?;
    anyhow::ensure!(
        report.requests.is_balanced() && report.requests.in_flight == 0,
        "the books of the live run do not add up: {:?}",
        report.requests
    );
    Ok(report)
}

/// Prints the figures of a report.
fn print_report(name: &str, load: f64, report: &Report, seconds: f64) {
    let requests = report.requests;
    let modules = report.modules.values();
    let batches: Vec<String> = modules
        .map(|module| format!("{:.2}", module.mean_batch))
        .collect();
    let each = |module: &ModuleReport| module.busy_s * 1e3 / (module.batches as f64).max(1.0);
    let each: Vec<String> = report
        .modules
        .values()
        .map(|module| format!("{:.2}", each(module)))
        .collect();
    println!(
        "  load {load:.1} {name:>9}: {} arrived, goodput {:.2}/s, drop rate {:.2} % ({} late), invalid {:.2} %, \
         p50 {:.1} p99 {:.1} ms, batches {}, each {} ms",
        requests.arrived,
        requests.delivered as f64 / seconds,
        requests.drop_rate() * 100.0,
        requests.late,
        report.invalid_rate * 100.0,
        report.latency_ms.p50,
        report.latency_ms.p99,
        batches.join(" "),
        each.join(" ")
    );
    if let Some((count, seconds)) = openings(report) {
        println!("    {count} openings, {seconds:.1} s");
    }
    let workers = report.modules.values().filter_map(|module| module.workers);
    for workers in workers {
        println!(
            "    {} workers opened, {} closed, up to {} at once, {:.0} ms each",
            workers.opened,
            workers.closed,
            workers.most_open,
            workers.cold_start_ms.unwrap_or(0.0)
        );
    }
    if let Some(gears) = &report.gears {
        let parts = handed_on(report)
            .into_iter()
            .map(|part| format!("{:.2}", part * 100.0));
        println!(
            "    handed on {} %; {} shifts, seconds by gear {:.1?}",
            parts.collect::<Vec<_>>().join(" "),
            gears.shifts,
            gears.seconds_by_gear
        );
    }
}

impl Pair {
    /// Prints both and says whether they are close.
    fn print(&self, load: f64, seconds: f64) -> bool {
        let first = self.simulated.first().unwrap_or(&self.live);
        for (name, report) in [("live", &self.live), ("simulated", first)] {
            print_report(name, load, report, seconds);
        }
        let compare = |figure: &dyn Fn(&Report) -> f64| {
            Compared::new(figure(&self.live), self.simulated.iter().map(figure))
        };
        let goodput = compare(&|report| report.requests.delivered as f64 / seconds);
        let drops = compare(&|report| report.requests.drop_rate());
        let openings = openings(&self.live)
            .map(|_| compare(&|report| openings(report).map_or(0.0, |(count, _)| count as f64)));
        let each = |figures: &dyn Fn(&Report) -> Vec<f64>| -> Vec<Compared> {
            let one = |index| compare(&|report| figures(report).get(index).copied().unwrap_or_default());
            (0..figures(&self.live).len()).map(one).collect()
        };
        let (classes, parts) = (each(&attainment), each(&handed_on));
        if classes.len() > 1 {
            let both = classes
                .iter()
                .map(|class| format!("{:.3} {:.3}", class.live, class.mean));
            println!(
                "    in time by source, live and simulated: {}",
                both.collect::<Vec<_>>().join(", ")
            );
        }
        let close = goodput.is_within(MAX_GOODPUT_ERROR * goodput.mean)
            && drops.is_within(MAX_DROP_RATE_ERROR)
            && openings
                .as_ref()
                .is_none_or(|openings| openings.is_within(MAX_OPENINGS_ERROR * openings.mean))
            && classes.iter().all(|class| class.is_within(MAX_CLASS_ERROR))
            && parts.iter().all(|part| part.is_within(MAX_HANDED_ON_ERROR));
        println!(
            "  load {load:.1}: goodput {:+.2} % (seeds differ by {:.2} %), drop rate {:+.2} points{}; noise {:.4}, hand-over \
             {:.3} ms, timers {:.3} ms late: {}",
            goodput.relative() * 100.0,
            goodput.deviation / goodput.mean.max(f64::MIN_POSITIVE) * 100.0,
            (drops.live - drops.mean) * 100.0,
            match &openings {
                Some(openings) => format!(", openings {:+.1} %", openings.relative() * 100.0),
                None => String::new(),
            },
            self.measured.noise,
            self.measured.handover.as_millis_f64(),
            self.measured.timer_delay.as_millis_f64(),
            if close { "close" } else { "APART" }
        );
        close
    }
}
