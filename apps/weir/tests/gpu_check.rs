//! `weir gpu-check` and its script: on a machine without a GPU, and on the CPU in place of one, where all it does can be tried.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "a test that skips says so")]

use std::path::Path;
use std::process::Command;

use crate::common::{stderr, stdout};

fn has_gpu() -> bool {
    let has = ["/proc/driver/nvidia", "/dev/nvidiactl"]
        .iter()
        .any(|path| Path::new(path).exists());
    if has {
        println!("skipped: this machine has a GPU");
    }
    has
}

#[test]
fn a_machine_without_a_gpu_is_said_in_one_line() {
    if has_gpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/gpu-check.sh");
    let weir = env!("CARGO_BIN_EXE_weir");
    let mut by_program = Command::new(weir);
    by_program.arg("gpu-check");
    let mut by_script = Command::new(&script);
    by_script.args(["--out", "gpu-check"]).env("WEIR_BIN", weir);
    let mut building = Command::new(&script);
    building.env_remove("WEIR_BIN");
    for mut command in [by_program, by_script, building] {
        let said = command.current_dir(folder.path()).output().unwrap();
        assert_eq!(said.status.code(), Some(0), "{}", stderr(&said));
        assert_eq!(stdout(&said).lines().count(), 1, "{}", stdout(&said));
        let line = "gpu-check: nothing was checked: no NVIDIA driver";
        assert!(stdout(&said).starts_with(line), "{}", stdout(&said));
    }
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing is written"
    );
}

#[test]
fn the_cpu_in_place_of_a_gpu_gives_the_same_as_itself_and_is_timed() {
    let folder = tempfile::tempdir().unwrap();
    let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../videos/street-day.mp4");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args([
        "gpu-check",
        "--device",
        "cpu",
        "--models",
        "embedded:street-detector-small",
    ]);
    command
        .args(["--max-batch", "2", "--seconds", "1", "--cameras", "1", "--clip"])
        .arg(clip);
    let said = command.current_dir(folder.path()).output().unwrap();
    assert!(said.status.success(), "{}", stderr(&said));
    let json = std::fs::read_to_string(folder.path().join("out/gpu-check/gpu-check.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let model = &json["models"][0];
    assert_eq!(model["difference"]["largest"], 0.0);
    assert!(model["objects"].as_u64().unwrap() > 0);
    assert_eq!(model["objects"], model["same_objects"]);
    assert_eq!(model["profile"].as_array().unwrap().len(), 2);
    assert!(json["engine"][0]["frames_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(json["cameras"]["runs"][0]["cameras"], 1);
    assert_eq!(json["failures"].as_array().unwrap().len(), 0);
    let page = std::fs::read_to_string(folder.path().join("out/gpu-check/gpu-check.md")).unwrap();
    assert!(
        page.contains("embedded:street-detector-small") && page.contains("All checks passed."),
        "{page}"
    );
}

#[test]
fn a_model_that_is_not_here_is_refused_with_those_that_are() {
    let said = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["gpu-check", "--device", "cpu", "--models", "zoo:nothing"])
        .current_dir(tempfile::tempdir().unwrap().path())
        .output()
        .unwrap();
    assert!(!said.status.success());
    assert!(
        stderr(&said).contains("no model zoo:nothing is here; there are embedded:"),
        "{}",
        stderr(&said)
    );
}
