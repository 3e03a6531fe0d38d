//! Recording through the whole program: packets reach the sink while frames pass the graph.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::sound_tracks::{ALAW, in_step, track, write_with_tone};

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
    let graph = GRAPH
        .replace("CLIP", clip().to_str().unwrap())
        .replace("PATH", path);
    weir_with(&graph, folder, arguments)
}

/// Runs the program in a folder, with this graph in it.
fn weir_with(graph: &str, folder: &Path, arguments: &[&str]) -> Output {
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
fn folders_of_two_sinks_that_may_lie_in_each_other_are_refused_before_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let clips = "\n[sinks.clips]\ntype = \"clips\"\npath = \"rec/clips/{stream}\"\ninputs = [\"look\"]\n";
    let clip = clip();
    let clip = clip.to_str().unwrap();
    let graph = GRAPH.replace("CLIP", clip) + clips;
    let run = ["replay", "graph.toml", clip, "--speed", "max"];
    for (path, is_refused) in [("rec/{stream}", true), ("rec/all/{stream}", false)] {
        let ran = weir_with(&graph.replace("PATH", path), folder.path(), &run);
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.success(), !is_refused, "{path}: {said}");
        assert_eq!(
            said.contains("sinks all and clips record into"),
            is_refused,
            "{path}: {said}"
        );
    }
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

/// Records the clip with a tone as G.711, with these keys of the source and the sink; gives the segments.
fn with_tone(folder: &Path, source: &str, sink: &str) -> Vec<PathBuf> {
    write_with_tone(&clip(), (&[], ALAW), &folder.join("tone.mov"));
    let graph = GRAPH
        .replace("uri = \"CLIP\"", &format!("uri = \"tone.mov\"\n{source}"))
        .replace("path = \"PATH\"", &format!("path = \"archive\"\n{sink}"));
    let ran = weir_with(&graph, folder, &["run", "graph.toml"]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let Ok(found) = std::fs::read_dir(folder.join("archive/camera")) else {
        return Vec::new();
    };
    let mut segments: Vec<PathBuf> = found.map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    segments
}

#[test]
fn sound_is_recorded_and_exported_where_both_keys_ask_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let segments = with_tone(folder.path(), "sound = true", "sound = true");
    assert_eq!(segments.len(), 3, "{segments:?}");
    let kept = folder.path().join("kept/camera");
    std::fs::create_dir_all(&kept).unwrap();
    for (segment, name) in segments.iter().zip(["05", "09", "13"]) {
        let (_, sound) = in_step(segment);
        assert_eq!(sound.codec, "aac");
        std::fs::copy(segment, kept.join(format!("20261123T2130{name}.000Z.mp4"))).unwrap();
    }
    let mut export = Command::new(env!("CARGO_BIN_EXE_weir"));
    export
        .args(["export", "kept", "--stream", "camera", "-o", "out.mp4"])
        .args(["--from", "2026-11-23T21:30:07Z", "--to", "2026-11-23T21:30:15Z"])
        .current_dir(folder.path());
    let ran = export.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let (video, sound) = in_step(&folder.path().join("out.mp4"));
    assert_eq!(video.packets.len(), 200);
    assert!((sound.end_s - 8.0).abs() < 0.3, "{}", sound.end_s);
}

#[test]
fn sound_is_not_recorded_where_one_key_is_missing_or_the_camera_is_private() {
    for (source, sink) in [("", "sound = true"), ("sound = true", "")] {
        let folder = tempfile::tempdir().unwrap();
        let segments = with_tone(folder.path(), source, sink);
        assert_eq!(segments.len(), 3, "{segments:?}");
        assert!(segments.iter().all(|path| track(path, "a").is_none()));
    }
    let folder = tempfile::tempdir().unwrap();
    let keys = "sound = true\nprivate = true";
    assert!(with_tone(folder.path(), keys, "sound = true").is_empty());
}

#[test]
fn sinks_with_sound_of_sources_without_it_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let graph = GRAPH
        .replace("CLIP", clip().to_str().unwrap())
        .replace("path = \"PATH\"", "path = \"archive\"\nsound = true");
    let checked = weir_with(&graph, folder.path(), &["check", "graph.toml"]);
    let said =
        String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{said}");
    assert!(said.contains("no source is asked for it"), "{said}");
}
