//! Traces of requests with tokens, and links that sequences move over, as users write them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "figures for those who read the test's output")]

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use weir_config::ConfigError;
use weir_graph::Catalog;
use weir_policy::Report;
use weir_sim::experiment::{Experiment, load};
use weir_types::{Span, Timestamp};

const WORLD: &str = r#"
[world]
slo = "60s"

[links.between]
latency = "2ms"
bandwidth_mbps = 10_000

[modules.answer]
profile = { "1" = "10ms", "512" = "20ms" }
workers = 2
generate = { prompt = 20, output = 10 }
"#;

const TRACE: &str = "# a comment\nt_s,in,out\n0,30,5\n0.5,10,1\n\n2.25,100,40\n";

struct Files {
    folder: TempDir,
}

impl Files {
    fn new(world: &str, trace: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("world.toml"), world).unwrap();
        std::fs::write(folder.path().join("requests.csv"), trace).unwrap();
        Self { folder }
    }

    fn load(&self, arrivals: &str, assets: Option<&Path>) -> Result<Experiment, ConfigError> {
        let path = self.folder.path().join("experiment.toml");
        let text = format!("[experiment]\nworld = \"world.toml\"\n[arrivals]\n{arrivals}\n");
        std::fs::write(&path, text).unwrap();
        let assets = assets.map(|path| path.display().to_string());
        let variables = |name: &str| assets.clone().filter(|_| name == "WEIR_ASSETS");
        load(&path, &Catalog::default(), &variables, None)
    }

    fn problem(&self, arrivals: &str) -> String {
        let problems = self.load(arrivals, None).expect_err(arrivals);
        assert_eq!(problems.count(), 1, "{problems}");
        problems.to_string()
    }
}

fn assets() -> Option<PathBuf> {
    let assets = std::env::var_os("WEIR_ASSETS").map(PathBuf::from);
    if assets.is_none() {
        println!("skipped: WEIR_ASSETS is not set");
    }
    assets
}

fn simulated(experiment: &Experiment) -> Report {
    let report = experiment.runs()[0].simulate().report;
    assert!(report.requests.is_balanced(), "{:?}", report.requests);
    report
}

#[test]
fn requests_come_at_their_times_with_their_tokens() {
    let files = Files::new(WORLD, TRACE);
    let experiment = files.load("trace = \"requests.csv\"", None).unwrap();
    let run = &experiment.runs()[0];
    let times = [0, 500, 2_250].map(|ms| Timestamp::ZERO + Span::from_millis(ms));
    assert_eq!(
        (run.arrivals(), run.trace.as_str()),
        (times.to_vec(), "requests.csv")
    );
    let report = simulated(&experiment);
    assert_eq!((report.requests.arrived, report.requests.delivered), (3, 3));
    // All tokens except the last of each sequence are computed.
    let tokens = (30 + 4) + 10 + (100 + 39);
    assert_eq!(report.modules["answer"].items, tokens);
    assert!(
        experiment
            .files()
            .iter()
            .any(|file| file.ends_with("requests.csv"))
    );
}

#[test]
fn times_are_stretched_to_a_rate_and_cut_by_the_length() {
    let files = Files::new(WORLD, TRACE);
    let times = |arrivals: &str| {
        let arrivals = format!("trace = \"requests.csv\"\n{arrivals}");
        let times = files.load(&arrivals, None).unwrap().runs()[0].arrivals();
        let millis = times.iter().map(|at| at.since(Timestamp::ZERO).as_millis_f64());
        millis.collect::<Vec<f64>>()
    };
    // Two intervals in 2.25 s.
    let stretched = times("rate = 2");
    for (found, expected) in stretched.iter().zip([0.0, 1e3 * 0.5 / 2.25, 1_000.0]) {
        assert!((found - expected).abs() < 0.01, "{stretched:?}");
    }
    assert_eq!(times("length = \"1s\""), [0.0, 500.0]);
    let loaded = times("load = 0.5\nlength = \"600s\"");
    assert!(loaded[2] > 0.0 && loaded[2] < 2_250.0, "{loaded:?}");
}

#[test]
fn a_bad_file_is_one_clear_error_with_its_line() {
    for (trace, expected) in [
        ("t_s,in,tokens\n0,1,1\n", ["requests.csv:1", "t_s,in,out"]),
        ("t_s,in,out\n", ["requests.csv:1", "there are no requests"]),
        (
            "t_s,in,out\n0,5,5\n1,0,5\n",
            ["requests.csv:3", "\"1,0,5\" is no request"],
        ),
        (
            "t_s,in,out\n0,5,5\n1,5\n",
            ["requests.csv:3", "\"1,5\" is no request"],
        ),
        ("t_s,in,out\n0,5,5,7\n", ["requests.csv:2", "is no request"]),
        ("t_s,in,out\n-1,5,5\n", ["requests.csv:2", "is no request"]),
        ("t_s,in,out\nNaN,5,5\n", ["requests.csv:2", "is no request"]),
        ("t_s,in,out\n0,5,2.5\n", ["requests.csv:2", "whole numbers"]),
        ("t_s,in,out\n0,5,99999999999\n", ["requests.csv:2", "1048576"]),
        (
            "t_s,in,out\n# note\n3,5,5\n2,5,5\n",
            ["requests.csv:4", "does not come after that at 3 s"],
        ),
        ("t_s,in\n0,5\n", ["requests.csv:1", "t_s,rate_rps"]),
        ("", ["requests.csv:1", "t_s,rate_rps"]),
        (
            "t_s,in,out\n70,5,5\n",
            ["no request comes within 60 s", "`length`"],
        ),
    ] {
        let found = Files::new(WORLD, trace).problem("trace = \"requests.csv\"");
        assert!(
            expected.iter().all(|part| found.contains(part)),
            "{trace:?}: {found}"
        );
    }
    let found = Files::new(WORLD, "t_s,in,out\n1,5,5\n1,5,5\n").problem("trace = \"requests.csv\"\nrate = 3");
    assert!(found.contains("from the first request to the last"), "{found}");
    let found = Files::new(WORLD, TRACE).problem("trace = \"nothing.csv\"");
    assert!(found.contains("there is no file \"nothing.csv\""), "{found}");
}

#[test]
fn a_trace_that_is_not_for_this_world_is_one_clear_error() {
    let plain = "[world]\nslo = \"1s\"\n[modules.find]\nprofile = { \"1\" = \"8ms\" }\nworkers = 1\n";
    let second = "[modules.again]\nprofile = { \"1\" = \"10ms\", \"512\" = \"20ms\" }\nworkers = 1\n\
                  inputs = [\"answer\"]\ngenerate = { prompt = 20, output = 10 }\n";
    let decoding = "[decoding]\ncores = 2\npicture = \"1ms\"\n";
    for (world, arrivals, expected) in [
        (plain.to_owned(), "", "the world has none"),
        (format!("{WORLD}{second}"), "", "the world has 2 (answer, again)"),
        (format!("{WORLD}{decoding}"), "", "the world decodes frames"),
        (
            WORLD.to_owned(),
            "process = \"uniform\"",
            "has a `process` beside the trace",
        ),
        (
            WORLD.replace("output = 10", "output = 10, max_tokens = 39"),
            "",
            "generates 40 tokens, and module \"answer\" at most 39",
        ),
    ] {
        let files = Files::new(&world, TRACE);
        let found = files.problem(&format!("trace = \"requests.csv\"\n{arrivals}"));
        assert!(found.contains(expected), "{found}");
    }
    let found = Files::new(WORLD, TRACE).problem("trace = \"azure-llm\"");
    assert!(
        found.contains("set WEIR_ASSETS to the folder of the asset pack"),
        "{found}"
    );
    let found = Files::new(WORLD, TRACE).problem("trace = \"azure-lm\"");
    assert!(found.contains("azure-llm"), "the name that is meant: {found}");
}

#[test]
fn the_recorded_conversations_of_language_models_come_by_their_name() {
    let Some(assets) = assets() else { return };
    let world = WORLD.replace(
        "prompt = 20, output = 10",
        "prompt = 1155, output = 211, max_tokens = 1000",
    );
    let files = Files::new(&world, TRACE);
    let load = |arrivals: &str| {
        let text = format!("trace = \"azure-llm\"\n{arrivals}");
        files.load(&text, Some(&assets)).unwrap()
    };
    let run = &load("rate = 4\nlength = \"120s\"").runs()[0].clone();
    assert_eq!(run.trace, "azure-llm");
    let arrivals = run.arrivals().len();
    println!("{arrivals} requests in 120 s");
    assert!((240..960).contains(&arrivals), "{arrivals}");
    let report = run.simulate().report;
    assert_eq!(report.requests.arrived, arrivals as u64);
    let dropped = report
        .drops
        .iter()
        .filter(|drop| drop.reason.name() == "memory-full");
    assert_eq!(dropped.count(), 0, "prompts may be as long as they are");
    // The default rate is the capacity of the world, by the steps of its instances.
    let at_capacity = load("length = \"60s\"").runs()[0].arrivals().len();
    let half = load("length = \"60s\"\nload = 0.5").runs()[0].arrivals().len();
    assert!(at_capacity > half && half > 0, "{at_capacity} {half}");
}

#[test]
fn noise_reaches_the_steps_of_models_that_generate() {
    let files = Files::new(WORLD, TRACE);
    let experiment = files.load("trace = \"requests.csv\"", None).unwrap();
    let (mut durations, mut tokens) = (Vec::new(), Vec::new());
    for noise in [0.0, 0.5] {
        let mut run = experiment.runs()[0].clone();
        run.world.noise = noise;
        let report = run.simulate().report;
        let module = &report.modules["answer"];
        durations.push(
            module
                .instances
                .iter()
                .map(|instance| instance.busy)
                .sum::<Span>(),
        );
        tokens.push(module.items);
    }
    // The same steps, of which each takes another time.
    assert_eq!(tokens[0], tokens[1]);
    assert_ne!(durations[0], durations[1]);
}

#[test]
fn sequences_move_over_the_link_of_their_module() {
    // Steps of long texts take longer than their requests have: those are late, and move.
    let world = |keys: &str| {
        WORLD
            .replace("workers = 2", "workers = 3")
            .replace("output = 10", &format!("output = 120, output_spread = 1.0{keys}"))
            .replace(
                "{ \"1\" = \"10ms\", \"512\" = \"20ms\" }",
                "{ \"1\" = \"10ms\", \"512\" = \"200ms\" }",
            )
    };
    let moved = |keys: &str| {
        let files = Files::new(&world(keys), TRACE);
        let arrivals = "rate = 20\nlength = \"20s\"\n[policy]\nroute = \"just-enough\"\ndrop = \"none\"";
        let mut spec = files.load(arrivals, None).unwrap().runs()[0].clone();
        spec.world.slo = Span::from_secs(3);
        let report = spec.simulate().report;
        assert!(report.requests.is_balanced(), "{:?}", report.requests);
        let module = &report.modules["answer"];
        let moves = module
            .instances
            .iter()
            .map(|instance| instance.moved_in)
            .sum::<u64>();
        println!("{keys}: {moves} moves, {} tokens computed", module.items);
        assert!(moves > 0, "{keys}: none moved");
        module.items
    };
    let at_once = moved("");
    let as_caches = moved(", moves = \"between\", cache_kb = 1");
    let as_numbers = moved(", moves = \"between\", cache_kb = 1_000_000");
    assert!(
        as_caches < at_once && as_caches < as_numbers,
        "a cache is not computed again"
    );
}

#[test]
fn a_link_that_is_not_there_is_one_clear_error() {
    for (keys, expected) in [
        ("moves = \"betwen\"", "there is no link \"betwen\""),
        ("cache_kb = 100", "`cache_kb` and no `moves`"),
        ("moves = \"between\", cache_kb = -1", "cache_kb"),
    ] {
        let world = WORLD.replace("output = 10", &format!("output = 10, {keys}"));
        let found = Files::new(&world, TRACE).problem("rate = 1");
        assert!(found.contains(expected), "{found}");
    }
}
