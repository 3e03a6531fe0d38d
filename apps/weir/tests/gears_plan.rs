//! `weir gears plan`: from samples and a load to a gears file that a graph is run by.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{stderr, stdout};

/// The small model does 500 a second; the large one 50, and 67 in batches of four.
const GRAPH: &str = r#"
[app]
name = "street"
slo = "500ms"
[sources.camera]
uri = "emulated:uniform?rate=200"
[devices."emulated:a"]
slots = 1
[models.small]
device = "emulated:a"
profile = { "1" = "2ms" }
[models.large]
device = "emulated:a"
batch = [1, 4]
profile = { "1" = "20ms", "4" = "60ms" }
[modules.read]
operator = "emulate"
inputs = ["camera"]
cascade = [{ model = "small", certainty = 0.5 }, { model = "large" }]
on_late = "accept"
"#;

const PROBLEM: &str = r#"
[gears]
graph = "graph.toml"
samples = "samples.jsonl"
trace = "day.csv"
ranges = 4
refine = 20
"#;

const TRACE: &str = "t_s,rate_rps\n0,10\n4,50\n8,120\n12,10\n";

/// The small model is right from a certainty of 0.3 on, the large one of all but the first.
fn samples() -> String {
    let mut text = r#"{"samples":1,"graph":"street","cascades":{"read":["small","large"]},"durations_ms":{},"session_bytes":{"small":3000000,"large":9000000}}"#.to_owned() + "\n";
    for item in 0..40 {
        let (certainty, small, large) = (f64::from(item) / 40.0, u8::from(item >= 12), u8::from(item != 0));
        let _ = writeln!(
            text,
            r#"{{"cascade":"read","stream":"a","frame":{item},"item":0,"certainty":[{certainty},0.9],"right":[{small},{large}],"answer":["A","B"]}}"#
        );
    }
    text
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.write("graph.toml", GRAPH);
        place.write("samples.jsonl", &samples());
        place.write("day.csv", TRACE);
        place.write("problem.toml", PROBLEM);
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    fn weir(&self, args: &[&str]) -> Output {
        let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
        let weir = weir.args(args).current_dir(self.path());
        weir.env_remove("RUST_LOG").output().unwrap()
    }

    fn plan(&self, args: &[&str]) -> Output {
        self.weir(&[&["gears", "plan", "problem.toml"], args].concat())
    }

    fn refused(&self, args: &[&str], said: &str) {
        let plan = self.plan(args);
        assert_eq!(plan.status.code(), Some(2), "{}", stderr(&plan));
        assert!(stderr(&plan).contains(said), "{}", stderr(&plan));
    }
}

#[test]
fn a_plan_is_a_gears_file_that_a_run_shifts_by() {
    let place = Place::new();
    let args = ["--pick", "latency <= 40ms", "--out", "gears.toml", "--explain"];
    let plan = place.plan(&args);
    assert!(plan.status.success(), "{}", stderr(&plan));
    let text = stdout(&plan);
    assert!(text.contains("slot 0 of emulated:a: small, large"), "{text}");
    let gears = place.read("gears.toml");
    assert!(gears.contains("graph  = \"street\"\nnumber = 1"), "{gears}");
    assert!(gears.matches("[[gears]]").count() > 1, "{gears}");
    // Planned again it is the same, and the next number.
    let again = place.plan(&args);
    assert_eq!(stdout(&again), text);
    assert_eq!(
        place.read("gears.toml"),
        gears.replace("number = 1", "number = 2")
    );

    place.write(
        "graph.toml",
        &GRAPH.replace("slo = \"500ms\"", "slo = \"500ms\"\ngears = \"gears.toml\""),
    );
    let run = place.weir(&["run", "graph.toml", "--duration", "3s", "--report", "report.json"]);
    assert!(run.status.success(), "{}", stderr(&run));
    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
    assert_eq!(report["gears"]["plan"], 2, "{report}");
    assert!(report["gears"]["shifts"].as_u64() > Some(0), "{report}");
}

#[test]
fn a_plan_is_picked_by_its_accuracy_or_its_latency() {
    let place = Place::new();
    let accuracy = |args: &[&str]| -> f64 {
        let plan = place.plan(args);
        assert!(plan.status.success(), "{}", stderr(&plan));
        let text = stdout(&plan);
        let picked = text
            .lines()
            .find(|line| line.trim_start().starts_with('>'))
            .unwrap();
        picked.split_whitespace().nth(2).unwrap().parse().unwrap()
    };
    let most = accuracy(&[]);
    assert!(accuracy(&["--pick", "accuracy >= 0.8"]) < most);
    assert!(accuracy(&["--pick", "latency <= 5ms"]) < accuracy(&["--pick", "latency <= 40ms"]));
    place.refused(&["--pick", "accuracy >= 1"], "the most accurate has 0.");
    place.refused(&["--pick", "latency <= 1ms"], "the least is ");
    place.refused(&["--pick", "speed > 3"], "accuracy >= 0.95");
}

#[test]
fn plan_for_two_slots_has_replicas_that_the_graph_takes() {
    let place = Place::new();
    let graph = GRAPH.replace("slots = 1", "slots = 2");
    place.write("graph.toml", &graph);
    let args = ["--pick", "latency <= 40ms", "--out", "gears.toml"];
    let plan = place.plan(&args);
    assert!(plan.status.success(), "{}", stderr(&plan));
    let gears = place.read("gears.toml");
    assert!(gears.contains("replicas = [{ share = "), "{gears}");
    place.write(
        "graph.toml",
        &graph.replace("slo = \"500ms\"", "slo = \"500ms\"\ngears = \"gears.toml\""),
    );
    let check = place.weir(&["check", "graph.toml"]);
    assert!(check.status.success(), "{}", stderr(&check));
    // With one queue for both slots, and with memory, replicas have shares.
    place.write("graph.toml", &graph);
    let shared = "queues = \"shared\"\npolicy = \"all\"\nmemory = \"64MiB\"\n";
    place.write("problem.toml", &format!("{PROBLEM}{shared}"));
    let plan = place.plan(&args);
    assert!(plan.status.success(), "{}", stderr(&plan));
    let gears = place.read("gears.toml");
    assert!(
        gears.contains("models = \"resident\"") && gears.contains("shares = ["),
        "{gears}"
    );
    assert!(!gears.contains("replicas"), "{gears}");
}

#[test]
fn what_cannot_be_planned_is_one_clear_error() {
    let place = Place::new();
    let with = |file: &str, text: String, said: &str| {
        let before = place.read(file);
        place.write(file, &text);
        place.refused(&[], said);
        place.write(file, &before);
    };
    let problem = |keys: &str| format!("{PROBLEM}{keys}");
    // Samples that were taken without truth, of another graph, of other stages, of nothing.
    let samples = samples();
    let without = samples.replace("\"right\":", "\"wrong\":");
    with(
        "samples.jsonl",
        without,
        "line 2 is no sample: missing field `right`",
    );
    with(
        "samples.jsonl",
        samples.replacen("street", "yard", 1),
        "they are for the graph \"yard\"",
    );
    with(
        "samples.jsonl",
        samples.replacen("\"small\",\"large\"", "\"large\",\"small\"", 1),
        "they are not for the cascade \"read\" of small, large",
    );
    let header = samples.lines().next().unwrap_or_default().to_owned();
    with(
        "samples.jsonl",
        header,
        "they have no items of the cascade \"read\"",
    );
    // Memory that no placement fits, or that is not known.
    with(
        "problem.toml",
        problem("memory = \"4MiB\"\n"),
        "a session of model \"large\" takes 9000000 bytes, a slot has 4194304",
    );
    with(
        "problem.toml",
        problem("memory = \"10MiB\"\nsessions = { large = \"10MiB\" }\nplans = \"static\"\n")
            .replace("ranges = 4", "ranges = 4\ncascades = 1"),
        "no plan sustains the load and fits the memory",
    );
    // Each model fits a slot, and the two of the only cascade do not fit it together.
    let two = "memory = \"10MiB\"\ncascades = 1\nsessions = { small = \"6MiB\", large = \"6MiB\" }\n";
    with(
        "problem.toml",
        problem(two),
        "the models of no assignment fit 1 slot of 10485760 bytes; give `memory` more, or name more `slots`",
    );
    place.write("samples.jsonl", &samples.replacen("\"small\":3000000,", "", 1));
    with(
        "problem.toml",
        problem("memory = \"64MiB\"\n"),
        "they have no memory of a session of small",
    );
    place.write("samples.jsonl", &samples);
    // A load that nothing sustains, of nothing, of too much.
    with(
        "day.csv",
        "t_s,rate_rps\n0,3000\n1,3000\n".to_owned(),
        "times what a slot can do at the highest load",
    );
    with(
        "day.csv",
        "t_s,rate_rps\n0,0\n1,0\n".to_owned(),
        "it contains no request",
    );
    with(
        "day.csv",
        "t_s,rate_rps\n0,900\n900,900\n".to_owned(),
        "more than can be planned for",
    );
    // The file itself: all at once.
    let wrong = problem("latency = \"p0\"\nscore = \"best\"\nbeam = { width = 0 }\nmemry = \"1MiB\"\n");
    place.write("problem.toml", &wrong.replace("day.csv", "night.csv"));
    for said in [
        "`latency` cannot be \"p0\"",
        "score",
        "`width`",
        "has no key \"memry\"",
        "there is no file \"night.csv\"",
    ] {
        place.refused(&[], said);
    }
}
