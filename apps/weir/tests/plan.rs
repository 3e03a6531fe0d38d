//! `weir plan` as its caller sees it: the plan, why it is so, the file that keeps it, and one clear line for what is wrong.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "a test that skips says so")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::common::{self, stderr, stdout};

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(arguments)
        .env_remove("RUST_LOG")
        .output()
        .expect("the program starts")
}

const PROFILE: &str = r#"
model = "m"
boundary_bytes = [100_000, 50_000]

[[times]]
class = "fast"
shares = 1
batch = [1, 2]
us = [[1000, 1800], [2000, 3500], [1500, 2600]]

[[times]]
class = "slow"
shares = 1
batch = [1, 2]
us = [[2000, 3900], [7000, 13500], [4000, 7800]]
"#;

const PROBLEM: &str = r#"
[cluster.fast]
count = 2
bandwidth = "10Gbps"

[cluster.slow]
count = 4
bandwidth = "10Gbps"

[models.m]
slo = "40ms"
profile = "profile.toml"
"#;

/// A folder with a small problem and its profile, either of them changed.
fn folder(problem: &str, profile: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("problem.toml");
    fs::write(&path, problem).unwrap();
    fs::write(folder.path().join("profile.toml"), profile).unwrap();
    (folder, path)
}

fn plan(problem: &Path, more: &[&str]) -> Output {
    let mut arguments = vec!["plan", problem.to_str().unwrap()];
    arguments.extend(more);
    weir(&arguments)
}

/// The program must fail as the user's mistake, with one line of complaint that has these words, and print no plan.
fn refuses(output: &Output, words: &[&str]) {
    let complaint = common::refuses(output, words);
    assert_eq!(stdout(output), "");
    assert_eq!(complaint.trim_end().lines().count(), 1, "{complaint}");
}

#[test]
fn a_plan_says_what_runs_where_and_is_the_same_twice() {
    let (_folder, problem) = folder(PROBLEM, PROFILE);
    let output = plan(&problem, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    for word in ["model", "items/s", "fast", "of 2 fast", "of 4 slow", "throughput"] {
        assert!(
            stdout(&output).contains(word),
            "\"{word}\" is not in\n{}",
            stdout(&output)
        );
    }
    assert_eq!(stdout(&plan(&problem, &[])), stdout(&output));
}

#[test]
fn explain_says_what_each_stage_takes_what_binds_and_the_gap() {
    let (_folder, problem) = folder(PROBLEM, PROFILE);
    let output = plan(&problem, &["--explain"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    for word in [
        "SLO of 40",
        "margin 40 %",
        "blocks",
        "what binds",
        "links twice as fast",
        "within",
    ] {
        assert!(text.contains(word), "\"{word}\" is not in\n{text}");
    }
    // More devices of a cluster that is used up carry more.
    let more = text.lines().find(|line| line.contains("more fast")).unwrap();
    assert!(more.contains('+') && !more.contains("does not bind"), "{more}");
}

#[test]
fn a_written_plan_reads_back_with_its_problem() {
    let (folder, problem) = folder(PROBLEM, PROFILE);
    let file = folder.path().join("plan.toml");
    let output = plan(&problem, &["--out", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let kept = weir_graph::planning::read_plan(&file).unwrap();
    assert_eq!(kept.problem.models[0].name, "m");
    assert_eq!(weir_planner::solve(&kept.problem).unwrap(), kept.solution);
}

#[test]
fn a_plan_that_cannot_be_written_is_a_clear_complaint() {
    let (folder, problem) = folder(PROBLEM, PROFILE);
    let nowhere = folder.path().join("missing/plan.toml");
    let output = plan(&problem, &["--out", nowhere.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("cannot write the plan"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn an_slo_that_nothing_meets_is_refused_with_one_that_would_do() {
    let (_folder, problem) = folder(&PROBLEM.replace("40ms", "5ms"), PROFILE);
    refuses(
        &plan(&problem, &[]),
        &["model \"m\"", "least latency", "SLO of at least 7.5"],
    );
}

#[test]
fn a_cluster_without_devices_is_refused() {
    let empty = PROBLEM
        .replace("count = 2", "count = 0")
        .replace("count = 4", "count = 0");
    let (_folder, problem) = folder(&empty, PROFILE);
    refuses(&plan(&problem, &[]), &["no devices", "count above 0"]);
}

#[test]
fn a_hole_in_a_profile_is_refused_with_its_place() {
    let (_folder, problem) = folder(PROBLEM, &PROFILE.replace("[2000, 3500], ", ""));
    refuses(
        &plan(&problem, &[]),
        &["model \"m\"", "\"fast\"", "no times of block 2"],
    );
    let (_folder, problem) = folder(PROBLEM, &PROFILE.replace("[2000, 3500]", "[2000]"));
    refuses(&plan(&problem, &[]), &["block 1", "batch of 2"]);
}

#[test]
fn a_missing_file_is_refused_by_its_name() {
    let output = weir(&["plan", "nowhere.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("nowhere.toml: cannot be read") && stderr(&output).contains("hint"),
        "{}",
        stderr(&output)
    );
    let (_folder, problem) = folder(&PROBLEM.replace("profile.toml", "gone.toml"), PROFILE);
    let output = plan(&problem, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("gone.toml"), "{}", stderr(&output));
}

#[test]
fn everything_wrong_with_a_file_is_said_at_once() {
    let broken = PROBLEM
        .replace("count = 2", "count = -2")
        .replace("\"40ms\"", "\"soon\"")
        .replacen("10Gbps", "much", 1)
        + "\n[plan]\nscheme = \"magic\"\ncolour = 1\n";
    let (_folder, problem) = folder(&broken, PROFILE);
    let output = plan(&problem, &[]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    for word in ["count", "slo", "much", "magic", "colour"] {
        assert!(
            stderr(&output).contains(word),
            "\"{word}\" is not in\n{}",
            stderr(&output)
        );
    }
}

#[test]
fn text_that_is_no_toml_is_refused_with_its_line() {
    let (_folder, problem) = folder("[cluster.fast\ncount = 2\n", PROFILE);
    let output = plan(&problem, &[]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("problem.toml") && stderr(&output).contains('1'),
        "{}",
        stderr(&output)
    );
}

/// A model without `batch` in a graph runs batches as large as its plan says.
#[test]
fn a_planned_model_runs_the_batches_of_its_plan() {
    if let Err(reason) = weir_operators::find_runtime() {
        println!("skipped: {reason}");
        return;
    }
    let (folder, problem) = folder(
        "[cluster.cpu]\ncount = 1\nbandwidth = \"10Gbps\"\n[models.reader]\nslo = \"20s\"\nprofile = \"profile.toml\"\n",
        "",
    );
    let in_folder = |name: &str| folder.path().join(name).display().to_string();
    fs::remove_file(folder.path().join("profile.toml")).unwrap();
    let profile = in_folder("profile.toml");
    let measured = weir(&[
        "profile",
        "embedded:plate-reader",
        "--blocks",
        "2",
        "--batches",
        "4",
        "--out",
        &profile,
    ]);
    assert!(measured.status.success(), "{}", stderr(&measured));
    let planned = plan(&problem, &["--out", &in_folder("plan.toml")]);
    assert!(planned.status.success(), "{}", stderr(&planned));
    let graph = r#"
[app]
name = "planned"
slo = "60s"
[sources.frames]
uri = "emulated:uniform?rate=1000&frames=24&size=96x32"
mode = "lossless"
[workers.one]
class = "cpu"
[models.reader]
model = "embedded:plate-reader"
plan = "plan.toml"
[modules.read]
operator = "read-text"
model = "reader"
inputs = ["frames"]
items = "frame"
attribute = "text"
"#;
    fs::write(folder.path().join("graph.toml"), graph).unwrap();
    let path = in_folder("report.json");
    let ran = weir(&["run", &in_folder("graph.toml"), "--report", &path]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    let report = common::report(Path::new(&path));
    assert_eq!(report["requests"]["delivered"], 24, "{report}");
    assert_eq!(report["modules"]["read"]["mean_batch"], 4.0, "{report}");
}
