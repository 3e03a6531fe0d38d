//! An experiment whose streams come, go and change, run by the simulator and by a live engine to which the same is done at the
//! same moments: how far their goodput is apart, in all and by stream.
//!
//! ```text
//! live-changes [EXPERIMENT.toml]
//! ```
//!
//! The limit is a twentieth of the goodput; beyond it the program ends with 1. The live log is decided again.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use weir_flow::{Catalog, StopFlag};
use weir_graph::Graph;
use weir_policy::{Counts, Report};
use weir_runtime::{Assembly, Engine, Handle, NewStream, Partitioning, RunOptions, StreamChange, verify};
use weir_sim::experiment::{Run, load};
use weir_sim::{ChangeKind, ScheduledChange};

const MAX_GOODPUT_ERROR: f64 = 0.05;

fn main() -> anyhow::Result<ExitCode> {
    let shipped = || {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        root.join("config/experiments/stream-changes.toml")
    };
    let path = std::env::args().nth(1).map_or_else(shipped, PathBuf::from);
    let environment = |_: &str| None;
    let experiment = load(&path, &Catalog::default(), &environment, None)?;
    let run = experiment.runs().first().context("the experiment has no run")?;
    let graph_file = experiment
        .files()
        .iter()
        .find(|file| **file != path && has_sources(file));
    let graph_file = graph_file.context("the experiment names no graph")?;
    let graph = weir_graph::load(graph_file, &Catalog::default(), &environment)?;
    let names: Vec<String> = graph.source_names().map(str::to_owned).collect();
    let log = std::env::temp_dir().join(format!("weir-live-changes-{}", std::process::id()));
    let live = live(graph, run, &names, &log);
    let verified = verify(&log);
    // It is of no use to anybody else.
    let _ = std::fs::remove_file(&log);
    let (live, removed) = live?;
    let effects = verified.map_err(|error| anyhow!("the log is not decided as recorded: {error}"))?;
    println!("the live log is decided as recorded: {effects:?}");
    let simulated = run.simulate().report;
    let seconds = run.length().as_secs_f64();
    for (number, name) in names.iter().enumerate() {
        let counted = removed.get(name).copied();
        let counted = counted.or_else(|| live.streams.get(name).map(|stream| stream.requests));
        let counted = counted.unwrap_or_default();
        let expected = simulated.streams[&format!("stream-{number}")].requests;
        print(name, counted, expected, seconds);
    }
    let all_close = print("all", live.requests, simulated.requests, seconds);
    Ok(if all_close {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn has_sources(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.contains("[sources."))
}

fn print(name: &str, live: Counts, simulated: Counts, seconds: f64) -> bool {
    let apart = live.delivered as f64 / (simulated.delivered as f64).max(1.0) - 1.0;
    println!(
        "{name:>8}: live {} arrived, goodput {:.2}/s; simulated {} arrived, goodput {:.2}/s; {:+.2} %",
        live.arrived,
        live.delivered as f64 / seconds,
        simulated.arrived,
        simulated.delivered as f64 / seconds,
        apart * 100.0
    );
    apart.abs() <= MAX_GOODPUT_ERROR
}

/// The report of a live run, and what became of the streams that were removed from it.
fn live(
    graph: Graph,
    run: &Run,
    names: &[String],
    log: &Path,
) -> anyhow::Result<(Report, BTreeMap<String, Counts>)> {
    let nodes = graph.sources().to_vec();
    let assembly = Assembly {
        partitioning: Partitioning::new(&graph, None),
        sources: graph.sources().iter().map(|_| None).collect(),
        models: graph.models().iter().map(|_| None).collect(),
        operators: graph.modules().iter().map(|_| None).collect(),
        sinks: Vec::new(),
        next_gears: None,
        graph,
    };
    let options = RunOptions {
        until_stopped: true,
        record: Some(log.to_owned()),
        ..RunOptions::default()
    };
    let handle = Engine::start(assembly, options, &StopFlag::default())?;
    let mut removed = BTreeMap::new();
    let began = Instant::now();
    for change in &run.world.changes {
        // Those that are added later are not there yet.
        if change.kind == ChangeKind::Added {
            handle.remove_stream(&names[change.stream.index()])?;
        }
    }
    for change in &run.world.changes {
        sleep_until(began, Duration::from_micros(change.at.micros()));
        let index = change.stream.index();
        if change.kind == ChangeKind::Removed {
            let report = handle.remove_stream(&names[index])?;
            removed.insert(names[index].clone(), report.requests);
        } else {
            apply(&handle, change, &names[index], &nodes[index])?;
        }
    }
    sleep_until(began, Duration::from_micros(run.length().micros()));
    let report = handle.stop()?;
    ensure!(
        report.requests.is_balanced() && report.requests.in_flight == 0,
        "the books of the live run do not add up: {:?}",
        report.requests
    );
    Ok((report, removed))
}

fn apply(
    handle: &Handle,
    change: &ScheduledChange,
    name: &str,
    node: &weir_graph::SourceNode,
) -> anyhow::Result<()> {
    match change.kind {
        ChangeKind::Added => handle.add_stream(NewStream {
            node: node.clone(),
            factory: None,
            like: None,
        })?,
        ChangeKind::Removed => {}
        ChangeKind::Paused => handle.pause_stream(name)?,
        ChangeKind::Resumed => handle.resume_stream(name)?,
        ChangeKind::Slo(slo) => handle.change_stream(
            name,
            StreamChange {
                slo: Some(slo),
                ..StreamChange::default()
            },
        )?,
        ChangeKind::Share(share) => handle.change_stream(
            name,
            StreamChange {
                weight: Some(share.weight),
                reserve: Some(share.reserve),
                ..StreamChange::default()
            },
        )?,
    }
    Ok(())
}

fn sleep_until(began: Instant, at: Duration) {
    std::thread::sleep(at.saturating_sub(began.elapsed()));
}
