//! Experiments as users write them: what is read, what is refused, and that runs repeat to the byte.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use weir_config::ConfigError;
use weir_graph::Catalog;
use weir_policy::Policy;
use weir_sim::experiment::{Experiment, ExperimentReport, RunReport, capacity, load, rows, run_all};
use weir_sim::{
    BoundCache, CascadeSpec, DecodingSpec, Demand, Edge, WorldMemory, WorldModule, WorldPool, WorldSpec,
};
use weir_types::{Profile, Span};

const WORLD: &str = r#"
[world]
slo = "200ms"

[modules.first]
profile = { "1" = "10ms", "4" = "20ms" }
workers = 2

[modules.second]
profile = { "1" = "5ms" }
inputs = ["first"]
workers = 1
"#;

const GRAPH: &str = r#"
[app]
name = "chain"
slo = "100ms"

[sources.camera]
uri = "emulated:poisson?rate=150&seed=5"

[devices."emulated:a"]
slots = 2

[devices."emulated:b"]
slots = 3

[models.first]
device = "emulated:a"
profile = { "1" = "10ms" }

[models.second]
device = "emulated:b"
workers = 2
profile = { "1" = "20ms" }

[modules.one]
operator = "emulate"
model = "first"
inputs = ["camera"]

[modules.two]
operator = "emulate"
model = "second"
inputs = ["one"]
"#;

fn folder(experiment: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("world.toml"), WORLD).unwrap();
    std::fs::write(folder.path().join("graph.toml"), GRAPH).unwrap();
    let path = folder.path().join("experiment.toml");
    std::fs::write(&path, experiment).unwrap();
    (folder, path)
}

fn read(path: &Path) -> Result<Experiment, ConfigError> {
    load(path, &Catalog::default(), &|_| None, None)
}

fn report(experiment: &Experiment, threads: usize) -> String {
    let bounds = BoundCache::default();
    let runs = run_all(
        experiment.runs(),
        threads,
        &|run, ran| RunReport::new(run, &ran, &bounds),
        &|_| {},
    );
    let report = ExperimentReport {
        experiment: experiment.name().to_owned(),
        runs,
    };
    serde_json::to_string(&report).unwrap()
}

#[test]
fn sweeps_and_seeds_make_runs_in_the_order_of_the_file() {
    let (_folder, path) = folder(
        "[experiment]\nseeds = [3, 4]\nworld = \"world.toml\"\n[arrivals]\nlength = \"5s\"\nload = [0.5, 2.0]\n\
         [policy]\ndrop = [\"none\", { rule = \"pard\", quantile = [0.1, 0.5] }]\n",
    );
    let experiment = read(&path).unwrap();
    let first: Vec<f64> = experiment.runs().iter().map(|run| run.seed as f64).collect();
    assert_eq!(first, [3.0, 4.0].repeat(6));
    let bounds = BoundCache::default();
    let runs = run_all(
        experiment.runs(),
        2,
        &|run, ran| RunReport::new(run, &ran, &bounds),
        &|_| {},
    );
    let rows = rows(&runs);
    assert_eq!(rows.len(), 6);
    assert!(rows.iter().all(|row| row.seeds == 2));
    let last: Vec<String> = rows[5]
        .labels
        .iter()
        .map(|(key, label)| format!("{key}={label}"))
        .collect();
    assert_eq!(last, ["load=2", "drop=pard", "drop.quantile=0.5"]);
    for row in &rows {
        let bound = row.bound.unwrap().mean;
        assert!(bound <= row.drop_rate.mean + 1e-9, "{row:?}");
    }
    // Policies see the same arrivals.
    assert_eq!(experiment.runs()[0].arrivals(), experiment.runs()[2].arrivals());
    assert_ne!(experiment.runs()[0].arrivals(), experiment.runs()[1].arrivals());
}

#[test]
fn policies_are_called_after_their_presets_and_what_departs_from_them() {
    let (_folder, path) = folder(
        "[experiment]\nworld = \"world.toml\"\n[arrivals]\nlength = \"1s\"\n[[policy]]\ndrop = \"weir\"\n\
         [[policy]]\ndrop = \"weir\"\nslack = { margin_divisor = 3 }\nstagger = false\n\
         [[policy]]\ndrop = \"weir\"\nestimate = { per_stream = false }\n",
    );
    let experiment = read(&path).unwrap_or_else(|problems| panic!("{problems}"));
    let bounds = BoundCache::default();
    let reports = run_all(
        experiment.runs(),
        1,
        &|run, ran| RunReport::new(run, &ran, &bounds),
        &|_| {},
    );
    let departs = [
        "weir",
        "weir (slack.margin_divisor = 3, stagger = false)",
        "weir (estimate.per_stream = false)",
    ];
    let rows = rows(&reports);
    let policies: Vec<&str> = rows.iter().map(|row| row.policy.as_str()).collect();
    assert_eq!(policies, departs);
    let labels: Vec<String> = rows.iter().map(|row| row.labels[0].1.to_string()).collect();
    assert_eq!(labels, departs);
    assert_eq!(reports[1].report.run.preset, "weir");
    assert_eq!(
        reports[1].report.run.departures,
        ["slack.margin_divisor = 3", "stagger = false"]
    );
}

#[test]
fn the_same_experiment_gives_the_same_bytes_whatever_the_number_of_threads() {
    let (_folder, path) = folder(
        "[experiment]\nseeds = [1, 2]\nnoise = 0.2\nworld = \"world.toml\"\n\
         [arrivals]\nlength = \"60s\"\ntrace = [\"tweet\", \"constant\"]\nprocess = \"gamma\"\ncv = 2\nload = 1.3\n\
         [scaling]\ncold_start = \"2s\"\nmost = 4\n\
         [[failures]]\nmodule = \"first\"\nworker = 0\nat = \"3s\"\nlasts = \"4s\"\n\
         [interference]\nloops = 2\nhalf_period = \"3s\"\n",
    );
    let experiment = read(&path).unwrap();
    let bytes = report(&experiment, 1);
    assert_eq!(bytes, report(&read(&path).unwrap(), 3));
    assert!(bytes.contains("\"labels\":{\"trace\":\"tweet\"}"));
}

#[test]
fn bounds_of_many_runs_are_those_of_each() {
    // Runs that must not share a bound: of another load, seed or SLO, and of workers that come and go as the policy has it.
    let (folder, path) = folder(
        "[experiment]\nseeds = [3, 4]\nworld = [\"world.toml\", \"tight.toml\"]\n\
         [arrivals]\nlength = \"3s\"\nload = [0.8, 2.0]\n[policy]\ndrop = [\"none\", \"pard\", \"weir\"]\n\
         [scaling]\ncold_start = \"500ms\"\n",
    );
    let tight = WORLD.replace("200ms", "60ms");
    std::fs::write(folder.path().join("tight.toml"), tight).unwrap();
    let bounds = BoundCache::default();
    let experiment = read(&path).unwrap_or_else(|problems| panic!("{problems}"));
    let both = run_all(
        experiment.runs(),
        2,
        &|run, ran| (bounds.bound(&ran, &run.world), ran.bound(&run.world)),
        &|_| {},
    );
    assert_eq!(both.len(), 24);
    for (shared, own) in both {
        assert_eq!(shared, own);
    }
}

#[test]
fn all_problems_are_reported_at_once_with_their_lines() {
    let (folder, path) = folder(
        "[experiment]\nworld = \"wrold.toml\"\nsedes = [1]\n[arrivals]\ntrace = \"wikki\"\nload = -1\n\
         length = 5\n[policy]\ndrop = [\"prd\", { rule = \"pard\", quantile = [0.1, 2.0] }]\n[scalling]\nmost = 1\n\
         [[failures]]\nmodule = \"first\"\n",
    );
    let check = |path: &Path, expected: &[(usize, &str)]| {
        let problems = read(path).unwrap_err();
        for (line, part) in expected {
            let there = problems
                .iter()
                .any(|problem| problem.line == *line && problem.message.contains(part));
            assert!(there, "line {line}: \"{part}\" is not in\n{problems}");
        }
        assert_eq!(problems.count(), expected.len(), "{problems}");
    };
    check(
        &path,
        &[
            (2, "there is no file \"wrold.toml\""),
            (3, "no key \"sedes\""),
            (6, "`load` must lie between"),
            (7, "must be a duration"),
            (9, "there is no drop rule \"prd\""),
            (9, "quantile must lie between 0 and 1"),
            (10, "no section \"scalling\""),
            (12, "no `at`"),
            (12, "no `lasts`"),
        ],
    );
    let world = WORLD
        .replace("\"5ms\"", "\"5\"")
        .replace("[\"first\"]", "[\"fist\"]")
        .replace("slo", "sol");
    std::fs::write(folder.path().join("world.toml"), world).unwrap();
    std::fs::write(
        &path,
        "[experiment]\nworld = \"world.toml\"\n[arrivals]\ntrace = \"wikki\"\n",
    )
    .unwrap();
    let problems = read(&path).unwrap_err().to_string();
    for part in [
        "world.toml:3: [world] has no key \"sol\"",
        "not a duration",
        "there is no module \"fist\"",
    ] {
        assert!(problems.contains(part), "{part} is not in\n{problems}");
    }
}

#[test]
fn an_experiment_that_is_no_file_or_names_no_world_is_refused() {
    let (folder, path) = folder("");
    assert!(
        read(&path)
            .unwrap_err()
            .to_string()
            .contains("there is no [experiment]")
    );
    assert!(
        read(folder.path())
            .unwrap_err()
            .to_string()
            .contains("it is a folder")
    );
    std::fs::write(
        &path,
        "[experiment]\nworld = \"world.toml\"\ngraph = \"graph.toml\"\n",
    )
    .unwrap();
    assert!(
        read(&path)
            .unwrap_err()
            .to_string()
            .contains("a `world` and a `graph`")
    );
    std::fs::write(&path, "[experiment]\nworld = [[\n").unwrap();
    assert!(read(&path).unwrap_err().to_string().contains("not TOML"));
}

#[test]
fn a_graph_is_the_world_that_one_would_build_by_hand() {
    let (_folder, path) = folder("[experiment]\ngraph = \"graph.toml\"\n[arrivals]\nlength = \"10s\"\n");
    let experiment = read(&path).unwrap();
    let module = |name: &str, ms, slots: &[u32], next: Vec<Edge>| WorldModule {
        ends: Vec::new(),
        name: name.to_owned(),
        profile: Profile::new(vec![(1, Span::from_millis(ms))]).unwrap(),
        batch: vec![1],
        pool: WorldPool::Shared(slots.to_vec()),
        next,
        weight: 1.0,
        overlap: None,
        model: None,
    };
    let expected = WorldSpec {
        slo: Span::from_millis(100),
        policy: Policy::default(),
        // The second model wants two of three slots: it begins at the slot of its turn.
        modules: vec![
            module("one", 10, &[0, 1], vec![Edge { to: 1, link: None }]),
            module("two", 20, &[3, 4], Vec::new()),
        ],
        shared_slots: 5,
        memory: WorldMemory::default(),
        cluster: None,
        hop: Span::ZERO,
        handover: Span::ZERO,
        timer_delay: Span::ZERO,
        links: Vec::new(),
        streams: 1,
        own: Vec::new(),
        max_in_flight: Some(256),
        stops_at: None,
        demand: Demand::default(),
        cascades: CascadeSpec::default(),
        decoding: None,
        noise: 0.0,
        interference: None,
        changes: Vec::new(),
        failures: Vec::new(),
        faults: Vec::new(),
        max_workers: None,
        seed: 1,
    };
    let run = &experiment.runs()[0];
    assert_eq!(run.world, expected);
    let stream = weir_graph::EmulatedStream::parse("emulated:poisson?rate=150&seed=5").unwrap();
    let times: Vec<Span> = stream.arrivals(0).unwrap().take(run.arrivals().len()).collect();
    let sent: Vec<Span> = run
        .arrivals()
        .iter()
        .map(|at| at.since(Default::default()))
        .collect();
    assert_eq!(times, sent);
    // Two slots at 20 ms do a hundred a second; a third of what comes cannot come out.
    let ran = run.simulate();
    assert!(
        (ran.report.goodput_rps - 100.0).abs() < 6.0,
        "{}",
        ran.report.goodput_rps
    );
    assert!((capacity(&run.world) - 100.0).abs() < 1e-6);
}

#[test]
fn an_experiment_sets_the_items_of_a_graph() {
    let experiment = |items: &str| {
        let (folder, path) = folder(&format!(
            "[experiment]\ngraph = \"graph.toml\"\n[items]\n{items}\n"
        ));
        (folder, read(&path))
    };
    let (_folder, read) = experiment("two = { mean = [0.5, 2.0], persistence = 0.5 }");
    let read = read.unwrap();
    let means: Vec<f64> = read
        .runs()
        .iter()
        .map(|run| match run.world.demand.crops.as_slice() {
            [crops] if crops.module == 1 && crops.persistence == 0.5 => crops.mean,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(means, [0.5, 2.0]);
    // The second module does a hundred items a second.
    let capacities: Vec<f64> = read.runs().iter().map(|run| capacity(&run.world)).collect();
    assert!((capacities[1] - 50.0).abs() < 1e-6, "{capacities:?}");
    for (wrong, part) in [
        ("twos = { mean = 1.0 }", "there is no module \"twos\""),
        ("two = { spread = 1.0 }", "`items` has no `mean`"),
        ("two = 2", "`items`"),
    ] {
        let (_folder, read) = experiment(wrong);
        let problems = read.unwrap_err().to_string();
        assert!(problems.contains(part), "{wrong}: {problems}");
    }
}

/// The worlds that ship can be read, and hold what their heads say of capacity within the balance that they claim.
#[test]
fn worlds_and_experiments_that_ship_are_sound() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
    let mut worlds = 0;
    for entry in std::fs::read_dir(config.join("worlds")).unwrap() {
        let world = entry.unwrap().path();
        let (_folder, path) = folder(&format!("[experiment]\nworld = \"{}\"\n", world.display()));
        let experiment = read(&path).unwrap_or_else(|problems| panic!("{problems}"));
        let rate = capacity(&experiment.runs()[0].world);
        let range = match &*world.file_stem().unwrap().to_string_lossy() {
            // Answers that a model generates.
            "rag" => 10.0..25.0,
            name if name.starts_with("shared-machine") => 50.0..100.0,
            _ => 700.0..1_500.0,
        };
        assert!(range.contains(&rate), "{}: {rate}", world.display());
        worlds += 1;
    }
    assert!(worlds >= 12);
    for entry in std::fs::read_dir(config.join("experiments")).unwrap() {
        read(&entry.unwrap().path()).unwrap_or_else(|problems| panic!("{problems}"));
    }
}

#[test]
fn a_world_says_what_decoding_costs() {
    let (folder, path) = folder("[experiment]\nworld = \"world.toml\"\n[arrivals]\nlength = \"10s\"\n");
    let world = |decoding: &str| {
        let text = format!(
            "[world]\nslo = \"400ms\"\nstreams = 4\n[modules.a]\nprofile = {{ \"1\" = \"10ms\" }}\nworkers = 2\n\
             [decoding]\n{decoding}\n"
        );
        std::fs::write(folder.path().join("world.toml"), text).unwrap();
        read(&path)
    };
    let experiment = world("cores = 2\npicture = \"2ms\"\nnon_reference = 0.5\ndecode = \"all\"").unwrap();
    let expected = DecodingSpec {
        cores: 2,
        picture: Span::from_millis(2),
        group: 30,
        non_reference: 0.5,
        as_needed: false,
        scene: None,
    };
    assert_eq!(experiment.runs()[0].world.decoding, Some(expected));
    for (wrong, expected) in [
        ("cores = 2", "has no `picture`"),
        (
            "picture = \"2ms\"\ndecode = \"some\"",
            "\"as-needed\" or \"all\", not \"some\"",
        ),
    ] {
        let error = world(wrong).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

const CASCADE: &str = r#"
[world]
slo = "200ms"

[devices.gpu]
slots = 2

[modules.detect]
profile = { "1" = "2ms" }
workers = 1

[modules.read]
inputs = ["detect"]
on_late = "accept"
cascade = [{ model = "small", profile = { "1" = "4ms" }, device = "gpu", certainty = 0.25, accuracy = 0.9 },
           { model = "large", profile = { "1" = "20ms" }, device = "gpu", accuracy = 0.98 }]

[modules.last]
inputs = ["read"]
profile = { "1" = "1ms" }
workers = 1
"#;

const CASCADE_GEARS: &str = r#"
graph = "world"
number = 1
[[gears]]
up_to = 100
accuracy = 0.92
[gears.cascades]
read = [{ model = "small", certainty = 0.25 }, { model = "large" }]
[[gears]]
up_to = 1000
accuracy = 0.9
[gears.cascades]
read = [{ model = "small" }]
"#;

fn files(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn a_world_has_cascades_gears_and_accuracies_as_the_experiment_says() {
    // With "accept" the second stage has only the remaining time, and a gear for overload gains little.
    let world = CASCADE.replace("on_late = \"accept\"\n", "");
    assert_ne!(world, CASCADE);
    let folder = files(&[
        ("world.toml", &world),
        ("gears.toml", CASCADE_GEARS),
        (
            "e.toml",
            r#"
            [experiment]
            world = "world.toml"
            gears = ["none", "gears.toml"]
            [arrivals]
            rate = [60, 300]
            length = "20s"
            process = "uniform"
            [accuracy]
            "read/2" = 1.0
            "#,
        ),
    ]);
    let experiment = read(&folder.path().join("e.toml")).unwrap();
    let names = experiment.runs()[0]
        .world
        .modules
        .iter()
        .map(|module| module.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["detect", "read/1", "read/2", "last"]);
    assert_eq!(experiment.files().len(), 3);
    let bounds = BoundCache::default();
    let report = |run: &_, ran| RunReport::new(run, &ran, &bounds);
    let reports = run_all(experiment.runs(), 2, &report, &|_| {});
    let part = |report: &RunReport| {
        let stage = report.report.modules["read/1"].stage.unwrap();
        stage.handed_on as f64 / (stage.handed_on + stage.accepted) as f64
    };
    let [alone, crowded, geared, shifted] = &reports[..] else {
        panic!("{} runs", reports.len())
    };
    for report in [alone, geared] {
        assert!((part(report) - 0.25).abs() < 0.03, "{}", part(report));
    }
    assert!(part(shifted) < 0.05, "{}", part(shifted));
    let gears = |report: &RunReport| report.report.gears.as_ref().map(|gears| gears.shifts);
    assert_eq!([alone, geared, shifted].map(gears), [None, Some(0), Some(1)]);
    let accuracy = alone.report.accuracy.unwrap();
    assert!((accuracy - (0.9 + 0.1 * part(alone))).abs() < 1e-9, "{accuracy}");
    // Where more comes than the cascade sustains, more comes out right by the small model.
    let right = [crowded, shifted].map(|report| report.report.right_rps.unwrap());
    assert!(right[1] > 1.1 * right[0], "{right:?}");
    let rows = rows(&reports);
    assert!(rows[3].right_rps.unwrap().mean > 4.0 * rows[0].right_rps.unwrap().mean);
}

#[test]
fn what_is_wrong_with_a_cascade_of_a_world_is_said_where_it_is() {
    let wrong = |from: &str, to: &str, expected: &str| {
        let text = CASCADE.replacen(from, to, 1);
        assert_ne!(text, CASCADE);
        let folder = files(&[
            ("world.toml", &text),
            ("gears.toml", CASCADE_GEARS),
            (
                "e.toml",
                "[experiment]\nworld = \"world.toml\"\ngears = \"gears.toml\"\n",
            ),
        ]);
        let said = read(&folder.path().join("e.toml")).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    };
    wrong(
        ", certainty = 0.25",
        "",
        "stage 1 of module \"read\" has no `certainty`",
    );
    wrong(
        "accuracy = 0.98",
        "certainty = 0.5",
        "stage 2 of module \"read\" has a `certainty`",
    );
    wrong(
        "certainty = 0.25",
        "certainty = 1.25",
        "`certainty` must lie between 0 and 1",
    );
    wrong(
        "on_late = \"accept\"",
        "workers = 2",
        "module \"read\" has a `cascade`, and `workers` beside it",
    );
    wrong(
        "{ model = \"small\", profile = { \"1\" = \"4ms\" }, device = \"gpu\", certainty = 0.25, accuracy = 0.9 },",
        "",
        "has 1 stages; it may have 2 to 8",
    );
    wrong(
        "inputs = [\"read\"]",
        "inputs = [\"read\"]\nsettle = \"last\"",
        "`settle` is of modules with a `cascade`",
    );
    wrong(
        "model = \"large\"",
        "model = \"big\"",
        "\"large\" is not among its stages",
    );
}

/// Ten items: the small model's certainty grows in tenths, and it is right from 0.4 on; the large model is
/// right for all but the last item.
fn samples() -> String {
    let header = r#"{"samples":1,"graph":"g","cascades":{"read":["small","large"]},"durations_ms":{}}"#;
    let line = |item: u32| {
        let (certainty, small, large) = (f64::from(item) / 10.0, u8::from(item >= 4), u8::from(item < 9));
        format!(
            r#"{{"cascade":"read","stream":"a","frame":{item},"item":0,"certainty":[{certainty},0.9],"right":[{small},{large}],"answer":["",""]}}"#
        )
    };
    let lines: Vec<String> = std::iter::once(header.to_owned())
        .chain((0..10).map(line))
        .collect();
    lines.join("\n")
}

#[test]
fn a_world_takes_from_samples_how_certain_and_how_right_stages_are() {
    let world = CASCADE
        .replace("on_late = \"accept\"", "samples = \"samples.jsonl\"")
        .replace(", accuracy = 0.98", "")
        .replace(", accuracy = 0.9", "");
    let experiment = "[experiment]\nworld = \"world.toml\"\n[arrivals]\nrate = 60\nlength = \"30s\"\n";
    let folder = files(&[
        ("world.toml", &world),
        ("samples.jsonl", &samples()),
        ("e.toml", experiment),
    ]);
    let read_it = || read(&folder.path().join("e.toml"));
    let experiment = read_it().unwrap();
    assert_eq!(experiment.files().len(), 3);
    // Three of ten items reach the large model: 4 + 6 ms on two slots each.
    let sustained = capacity(&experiment.runs()[0].world);
    assert!((sustained - 200.0).abs() < 1e-6, "{sustained}");
    let bounds = BoundCache::default();
    let report = |run: &_, ran| RunReport::new(run, &ran, &bounds);
    let reports = run_all(experiment.runs(), 1, &report, &|_| {});
    let ran = &reports[0].report;
    let stage = ran.modules["read/1"].stage.unwrap();
    let part = stage.handed_on as f64 / (stage.handed_on + stage.accepted) as f64;
    assert!((part - 0.3).abs() < 0.03, "{part}");
    // Of the items that the small model keeps, one in seven is wrong.
    let accuracy = ran.accuracy.unwrap();
    assert!((accuracy - 0.9).abs() < 0.02, "{accuracy}");

    let refused = |file: &str, text: &str, said: &str| {
        let before = std::fs::read_to_string(folder.path().join(file)).unwrap();
        std::fs::write(folder.path().join(file), text).unwrap();
        let error = read_it().unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        std::fs::write(folder.path().join(file), before).unwrap();
    };
    let other = samples().replace("\"small\",", "\"tiny\",");
    refused(
        "samples.jsonl",
        &other,
        "they are not of the cascade \"read\" of the models small, large",
    );
    let header = samples().lines().next().unwrap_or_default().to_owned();
    refused("samples.jsonl", &header, "they have no items of the cascade");
    refused("samples.jsonl", "{}", "line 1 is no header");
    refused(
        "world.toml",
        &world.replace("samples.jsonl", "sample.jsonl"),
        "there is no file \"sample.jsonl\"",
    );
    let both = world.replace("certainty = 0.25", "certainty = 0.25, accuracy = 0.9");
    refused(
        "world.toml",
        &both,
        "has `samples`, and a stage of it an `accuracy`",
    );
}
