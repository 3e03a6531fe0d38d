//! Recording through the whole program: packets reach the sink while frames pass the graph.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Records a camera into segments of four seconds; CLIP and PATH are to be replaced.
pub(crate) const GRAPH: &str = r#"
[app]
name = "recording"
slo = "10s"

[sources.camera]
uri = "CLIP"
mode = "lossless"

[models.any]
device = "emulated:any"
profile = { "1" = "1ms" }

[modules.look]
operator = "emulate"
model = "any"
inputs = ["camera"]

[sinks.all]
type = "archive"
path = "PATH"
segment = "4s"
keep = "7d"
inputs = ["look"]
"#;

/// A clip that ships with the program: 300 frames at 25 a second, a key frame every two seconds.
fn clip() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../videos/live-room.mp4")
}

fn weir(folder: &Path, path: &str, arguments: &[&str]) -> Output {
    let clip = clip();
    let graph = GRAPH
        .replace("CLIP", clip.to_str().unwrap())
        .replace("PATH", path);
    std::fs::write(folder.join("graph.toml"), graph).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).current_dir(folder).env_remove("RUST_LOG");
    command.output().unwrap()
}

#[test]
fn a_run_records_every_packet_of_its_sources() {
    let folder = tempfile::tempdir().unwrap();
    let clip = clip();
    let run = [
        "replay",
        "graph.toml",
        clip.to_str().unwrap(),
        "--speed",
        "max",
        "--report",
        "report.json",
    ];
    let ran = weir(folder.path(), "archive/{stream}", &run);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let report = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let counts = &report["sinks"]["all"]["counts"];
    assert_eq!(
        (&counts["packets"], &counts["packets_lost"]),
        (&300.into(), &0.into()),
        "{report}"
    );
    let segments = std::fs::read_dir(folder.path().join("archive/live-room")).unwrap();
    let segments: Vec<PathBuf> = segments.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(segments.len(), 3, "{segments:?}");
    assert!(
        segments
            .iter()
            .all(|path| path.extension().is_some_and(|extension| extension == "mp4"))
    );
}

#[test]
fn a_folder_that_cannot_be_written_to_is_refused_before_a_run() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("taken"), "a file").unwrap();
    let checked = weir(folder.path(), "taken", &["check", "graph.toml"]);
    assert_eq!(checked.status.code(), Some(2));
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(said.contains("it is no folder"), "{said}");
}
