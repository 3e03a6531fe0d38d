//! A model that runs here describes incidents of the clip that ships: `weir check` looks at its folder, and its words are events.

use serde_json::Value;
use tempfile::TempDir;

use crate::common::service;
use crate::common::{has_runtime, report, room, stderr};
use crate::tiny_chat::{TinyChat, TinyDecoder};

const GRAPH: &str = r#"
[transforms.pictures]
type = "best-shot"
inputs = ["tracks"]

[sinks.words]
type = "describe"
inputs = ["here"]
folder = "tiny"
threads = 1
context = 512
concurrency = 2
finish = "30s"

[sinks.lines]
type = "jsonl"
path = "lines.jsonl"
frames = false
inputs = ["here"]
"#;

const DECODER: TinyDecoder = TinyDecoder {
    takes_ids: false,
    has_positions: true,
    never_ends: false,
};

/// A folder with the graph and the model.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("graph.toml"), room::of_room(GRAPH)).unwrap();
    TinyChat(&folder.path().join("tiny")).write_optimum(DECODER);
    folder
}

#[test]
fn local_model_describes_incidents_in_events() {
    if !has_runtime() {
        return;
    }
    let folder = folder();
    let ran = service::weir(folder.path())
        .args(["run", "graph.toml", "--report", "report.json"])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", stderr(&ran));
    let report = report(&folder.path().join("report.json"));
    let counts = &report["sinks"]["words"]["counts"];
    let answered = counts["answered"].as_u64().unwrap();
    assert!(answered > 0, "{counts}");
    assert_eq!(counts["tokens_out"], 4 * answered);
    let lines = std::fs::read_to_string(folder.path().join("lines.jsonl")).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let described: Vec<Value> = lines.filter(|line| line["type"] == "described").collect();
    assert_eq!(described.len() as u64, answered);
    for line in described {
        let words = line["description"].as_str().unwrap();
        assert!(words.starts_with("a ") && words.ends_with(" van"), "{line}");
        assert_eq!(
            (&line["model"], &line["tokens_out"]),
            (&"tiny".into(), &4.into()),
            "{line}"
        );
    }
}

#[test]
fn check_opens_the_folder_and_says_that_pictures_stay() {
    if !has_runtime() {
        return;
    }
    let folder = folder();
    let check = || {
        let checked = service::weir(folder.path())
            .args(["check", "graph.toml"])
            .output()
            .unwrap();
        (checked.status.success(), stderr(&checked))
    };
    let (is_right, said) = check();
    assert!(is_right, "{said}");
    for part in [
        "sink words: pictures stay on this machine: ",
        "onnx/decoder_model_merged.onnx of tiny",
        "2 answers at a time, 512 tokens",
        "MiB of caches",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("pictures of room go to"), "{said}");
    std::fs::remove_file(folder.path().join("tiny/onnx/embed_tokens.onnx")).unwrap();
    let (is_right, said) = check();
    assert!(!is_right && said.contains("no embed_tokens.onnx"), "{said}");
    assert_eq!(said.matches("embed_tokens.onnx").count(), 1, "{said}");
}
