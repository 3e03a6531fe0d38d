//! Helpers of whole-engine tests: graphs from text, runs with a chosen pace, and checks that all counts add
//! up.

#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(clippy::print_stdout, reason = "a test that skips says so")]

pub(crate) mod box_camera;
pub(crate) mod first_frames;
pub(crate) mod gates;
pub(crate) mod sinks;
pub(crate) mod stories;
pub(crate) mod street;
pub(crate) mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_flow::{Catalog, Model, Operator, SinkFactory, SinkSpec, SourceFactory, StopFlag};
use weir_graph::Graph;
use weir_policy::{Counts, Report};
use weir_runtime::{Assembly, Control, Pace, RunOptions, Snapshot, StreamSnapshot};

/// Folder of the asset pack; if `WEIR_ASSETS` names no folder, prints that the test is skipped and returns
/// `None`.
pub(crate) fn assets() -> Option<PathBuf> {
    let assets = std::env::var_os("WEIR_ASSETS")
        .map(PathBuf::from)
        .filter(|folder| folder.is_dir());
    if assets.is_none() {
        println!("skipped: WEIR_ASSETS names no folder");
    }
    assets
}

/// Two streams through two modules in a row; a batch takes long enough that requests wait and run at any moment. The objective
/// leaves room for a machine that stalls.
pub(crate) const TWO_STREAMS: &str = r#"
[app]
name = "service"
slo = "5s"
[sources.steady]
uri = "emulated:uniform?rate=100"
[sources.other]
uri = "emulated:uniform?rate=20"
[devices."emulated:a"]
slots = 2
[models.first]
device = "emulated:a"
profile = { "1" = "2ms", "16" = "10ms" }
[models.second]
device = "emulated:a"
profile = { "1" = "2ms", "16" = "10ms" }
[modules.find]
operator = "emulate"
model = "first"
inputs = ["steady", "other"]
[modules.name]
operator = "emulate"
model = "second"
inputs = ["find"]
"#;

/// Snapshot of a stream; the test fails if there is no such stream.
pub(crate) fn stream<'a>(snapshot: &'a Snapshot, name: &str) -> &'a StreamSnapshot {
    let found = snapshot.streams.iter().find(|stream| stream.name == name);
    found.unwrap_or_else(|| panic!("{name} is not among {:?}", snapshot.streams))
}

/// Waits until the state is as it should be, and gives it.
pub(crate) fn wait_until(control: &Control, holds: impl Fn(&Snapshot) -> bool) -> Snapshot {
    for _ in 0..6_000 {
        let snapshot = control.snapshot().unwrap();
        check_books(&snapshot.report);
        if holds(&snapshot) {
            return snapshot;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("it never came: {:?}", control.snapshot());
}

/// A checked graph; problems fail the test.
pub(crate) fn graph(text: &str, catalog: &Catalog) -> Graph {
    graph_in(Path::new(env!("CARGO_MANIFEST_DIR")), text, catalog)
}

/// As [`graph`], with the files that it names in that folder.
pub(crate) fn graph_in(folder: &Path, text: &str, catalog: &Catalog) -> Graph {
    match weir_graph::parse(text, &folder.join("graph.toml"), catalog, &|_| None) {
        Ok(graph) => graph,
        Err(problems) => panic!("{problems}"),
    }
}

/// A catalog of one type of sinks, without keys.
pub(crate) fn catalog_with_sink(name: &'static str) -> Catalog {
    Catalog {
        sinks: vec![SinkSpec {
            name,
            about: "",
            keys: &[],
            check: Default::default(),
        }],
        ..Catalog::default()
    }
}

/// All heads and operators, and the sink `keep`.
pub(crate) fn whole_catalog() -> Catalog {
    Catalog {
        heads: weir_operators::heads(),
        operators: weir_operators::operators(),
        ..catalog_with_sink("keep")
    }
}

/// At the pace of the sources, with a log where one is wanted; what the engine breaks of its own ends the run.
pub(crate) fn at_own_pace(record: Option<&Path>) -> RunOptions {
    RunOptions {
        pace: Pace::Times(1.0),
        record: record.map(Path::to_owned),
        strict: true,
        ..RunOptions::default()
    }
}

/// Parts of a graph that are not emulated, by name.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) sources: Vec<(&'static str, Box<dyn SourceFactory>)>,
    pub(crate) models: Vec<(&'static str, Arc<dyn Model>)>,
    pub(crate) operators: Vec<(&'static str, Arc<dyn Operator>)>,
    pub(crate) sinks: Vec<(&'static str, Box<dyn SinkFactory>)>,
}

/// A graph with its parts; what is not among them is emulated.
pub(crate) fn assemble(graph: Graph, mut parts: Parts) -> Assembly {
    fn take<T>(parts: &mut Vec<(&'static str, T)>, name: &str) -> Option<T> {
        let at = parts.iter().position(|(known, _)| *known == name)?;
        Some(parts.swap_remove(at).1)
    }
    Assembly {
        partitioning: None,
        next_gears: None,
        sources: graph
            .sources()
            .iter()
            .map(|node| take(&mut parts.sources, &node.name))
            .collect(),
        models: graph
            .models()
            .iter()
            .map(|node| take(&mut parts.models, &node.name))
            .collect(),
        operators: graph
            .modules()
            .iter()
            .map(|node| take(&mut parts.operators, &node.name))
            .collect(),
        sinks: graph
            .sinks()
            .iter()
            .map(|node| take(&mut parts.sinks, &node.name).expect("every sink is given"))
            .collect(),
        graph,
    }
}

/// Runs to the end; the books must add up, for the whole graph and every stream.
pub(crate) fn run(assembly: Assembly, options: &RunOptions) -> Report {
    let report = weir_runtime::run(assembly, options, &StopFlag::default()).expect("the run begins");
    check_books(&report);
    report
}

/// `arrived = delivered + late + dropped + in flight`, everywhere, with the streams that were removed.
pub(crate) fn check_books(report: &Report) {
    assert!(report.requests.is_balanced(), "{:?}", report.requests);
    for (name, stream) in &report.streams {
        assert!(stream.requests.is_balanced(), "{name}: {:?}", stream.requests);
    }
    let removed = report.removed_streams.unwrap_or_default().requests;
    assert!(removed.is_balanced(), "{removed:?}");
    let streams = report.streams.values().map(|stream| &stream.requests);
    let all: Vec<&Counts> = streams.chain([&removed]).collect();
    let sum = |count: fn(&Counts) -> u64| all.iter().map(|counts| count(counts)).sum::<u64>();
    let total = &report.requests;
    assert_eq!(sum(|counts| counts.arrived), total.arrived);
    assert_eq!(sum(|counts| counts.delivered), total.delivered);
    assert_eq!(sum(|counts| counts.dropped), total.dropped);
    let dropped: u64 = report.drops.iter().map(|drop| drop.count).sum();
    assert_eq!(dropped, total.dropped);
}

/// Options of a run that waits for no clock.
pub(crate) fn as_fast_as_it_goes() -> RunOptions {
    RunOptions {
        pace: Pace::Max,
        ..RunOptions::default()
    }
}

/// Half of the frames, as if drawn (SplitMix64).
pub(crate) fn half(frame: u64) -> bool {
    let mixed = (frame + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ mixed >> 31) & 1 == 0
}
