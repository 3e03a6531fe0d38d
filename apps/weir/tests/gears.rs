//! `weir gears`: samples of a cascade, and the curve that is drawn from them.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stderr, reason = "a test that skips says so")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{self, stderr, stdout};

const SAMPLES: &str = r#"{"samples":1,"graph":"street","cascades":{"read":["small","large"]},"durations_ms":{"small":{"1":2.0},"large":{"1":20.0,"4":60.0}}}
{"cascade":"read","stream":"a","frame":0,"item":0,"certainty":[0.9,0.8],"right":[1.0,1.0],"answer":["AB","AB"]}
{"cascade":"read","stream":"a","frame":1,"item":0,"certainty":[0.4,0.8],"right":[0.0,1.0],"answer":["AC","AB"]}
{"cascade":"read","stream":"a","frame":2,"item":0,"certainty":[0.7,0.0],"right":[1.0,0.0],"answer":["AB","A"]}
{"cascade":"read","stream":"a","frame":3,"item":0,"certainty":[0.2,0.9],"right":[0.0,0.0],"answer":["AD","AE"]}
"#;

fn gears(folder: &Path, args: &[&str]) -> Output {
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    let weir = weir.arg("gears").args(args).current_dir(folder);
    weir.env_remove("RUST_LOG").output().unwrap()
}

#[test]
fn the_curve_shows_what_no_other_point_beats_and_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("samples.jsonl"), SAMPLES).unwrap();
    let curve = gears(folder.path(), &["curve", "samples.jsonl", "--out", "curve.svg"]);
    assert!(curve.status.success(), "{}", stderr(&curve));
    let rows: Vec<Vec<String>> = stdout(&curve)
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect();
    let has = |row: &[&str]| rows.iter().any(|known| known == row);
    assert!(has(&["small", "alone", "0.5000", "2.000"]), "{rows:?}");
    assert!(has(&["large", "alone", "0.5000", "20.000"]), "{rows:?}");
    // The second is handed on as well as the fourth, of which no stage is right.
    assert!(has(&["0.0000", "0.000", "0.5000", "2.000"]), "{rows:?}");
    assert!(has(&["0.7000", "0.500", "0.7500", "12.000"]), "{rows:?}");
    let points = rows
        .iter()
        .filter(|row| row.len() == 4 && row[0].starts_with(['0', '1']))
        .count();
    assert_eq!(points, 2, "{rows:?}");
    let drawing = std::fs::read_to_string(folder.path().join("curve.svg")).unwrap();
    assert!(
        drawing.starts_with("<svg") && drawing.contains("large"),
        "{drawing}"
    );
    let all = gears(folder.path(), &["curve", "samples.jsonl", "--all"]);
    assert!(stdout(&all).lines().count() > stdout(&curve).lines().count());
}

#[test]
fn samples_that_are_none_are_refused_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |text: &str, args: &[&str], said: &str| {
        std::fs::write(folder.path().join("samples.jsonl"), text).unwrap();
        let curve = gears(folder.path(), &[&["curve", "samples.jsonl"], args].concat());
        assert!(!curve.status.success());
        assert!(stderr(&curve).contains(said), "{}", stderr(&curve));
    };
    refused("", &[], "is empty");
    refused("{}", &[], "line 1 is no header");
    refused(&SAMPLES.replacen(":1,", ":2,", 1), &[], "it has version 2");
    refused(
        &SAMPLES.replacen("[0.4,0.8]", "[0.4]", 1),
        &[],
        "line 3 is not of the stages of \"read\"",
    );
    refused(
        &SAMPLES.replacen("\"frame\":2", "\"frame\":two", 1),
        &[],
        "line 4 is no sample",
    );
    refused(
        SAMPLES,
        &["--cascade", "plates"],
        "name a cascade by --cascade: the samples have read",
    );
    refused(
        &SAMPLES.replacen("\"small\":{\"1\":2.0},", "", 1),
        &[],
        "have no duration of a batch of one",
    );
}

#[test]
fn a_graph_without_cascades_has_no_samples() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("graph.toml"), common::service::GRAPH).unwrap();
    let args = [
        "sample",
        "graph.toml",
        "--truth",
        "names",
        "--out",
        "samples.jsonl",
    ];
    let sample = gears(folder.path(), &args);
    assert!(!sample.status.success());
    assert!(
        stderr(&sample).contains("has no module with a `cascade`"),
        "{}",
        stderr(&sample)
    );
    assert!(!folder.path().join("samples.jsonl").exists());
}

/// Emulated frames are in no file that could be called after what they show, and a truth file has none of them.
#[test]
fn items_without_truth_are_no_samples() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/emulated-cascade.toml"),
    );
    let text = text
        .unwrap()
        .replace("gears = \"emulated-cascade.gears.toml\"\n", "");
    let text = text.replace("&seed=5", "&seed=5&frames=20");
    std::fs::write(folder.path().join("graph.toml"), text).unwrap();
    std::fs::write(folder.path().join("empty.jsonl"), "").unwrap();
    let refused = |truth: &str, said: &str| {
        let args = ["sample", "graph.toml", "--truth", truth, "--out", "samples.jsonl"];
        let sample = gears(folder.path(), &args);
        assert_eq!(sample.status.code(), Some(2), "{}", stderr(&sample));
        let text = stderr(&sample);
        assert!(text.contains(said), "{text}");
        assert_eq!(text.matches("error: ").count(), 1, "{text}");
        assert!(!folder.path().join("samples.jsonl").exists());
    };
    refused("names", "no item matches the ground truth");
    refused("empty.jsonl", "empty.jsonl");
    refused("missing.jsonl", "missing.jsonl");
}

/// LPRNet, then PP-OCR, on the crops of the asset pack.
#[test]
fn real_plates_are_sampled_and_some_certainty_reads_more_than_both_models() {
    let assets = std::env::var_os("WEIR_ASSETS").map(PathBuf::from);
    let Some(assets) = assets.filter(|folder| folder.is_dir()) else {
        eprintln!("skipped: WEIR_ASSETS names no folder");
        return;
    };
    if let Err(reason) = weir_operators::find_runtime() {
        eprintln!("skipped: {reason}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| assets.join(name).display().to_string();
    let graph = include_str!("data/plates.toml")
        .replace("{crops}", &path("images/plates"))
        .replace("{small}", &path("models/lprnet_plate_24x94.onnx"))
        .replace("{large}", &path("models/ppocr_v4_rec.onnx"));
    std::fs::write(folder.path().join("graph.toml"), graph).unwrap();
    let args = [
        "sample",
        "graph.toml",
        "--truth",
        "names",
        "--out",
        "samples.jsonl",
    ];
    let sample = gears(folder.path(), &args);
    assert!(sample.status.success(), "{}", stderr(&sample));
    assert!(
        stderr(&sample).contains("50 items of 50 frames"),
        "{}",
        stderr(&sample)
    );
    let curve = gears(folder.path(), &["curve", "samples.jsonl"]);
    let best = stdout(&curve)
        .lines()
        .last()
        .map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let best = best.unwrap();
    let (handed_on, accuracy): (f64, f64) = (best[1].parse().unwrap(), best[2].parse().unwrap());
    assert!(accuracy >= 0.98 && handed_on <= 0.35, "{}", stdout(&curve));
}
