//! Models of the user are opened in a process of their own first: a model that never ends, or whose output is gigabytes, is refused
//! with its reason and takes neither the time nor the memory of the program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "says what was skipped")]

use std::process::Command;

use crate::common::place::{Place, refused};
use crate::common::{stderr, stdout};

/// A place with a graph on one of the models in `data/probe`; `None` without ONNX Runtime.
fn place(model: &str) -> Option<Place> {
    if weir_operators::find_runtime().is_err() {
        println!("skipped: there is no ONNX Runtime");
        return None;
    }
    let place = Place::new();
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/probe");
    std::fs::copy(format!("{from}/{model}.onnx"), place.at("model.onnx")).unwrap();
    let graph = r#"
        [app]
        slo = "1s"
        [sources.camera]
        uri = "emulated:uniform?rate=5"
        [models.own]
        model = "model.onnx"
        head = "yolov8"
        labels = ["a"]
        [modules.find]
        operator = "detect"
        model = "own"
        inputs = ["camera"]
        [sinks.none]
        type = "null"
        inputs = ["find"]
    "#;
    let graph = match model {
        "giant" => graph.replace(r#"["a"]"#, r#"["a", "b", "c"]"#),
        _ => graph.to_owned(),
    };
    std::fs::write(place.at("graph.toml"), graph).unwrap();
    Some(place)
}

#[test]
fn model_that_ends_is_taken() {
    let Some(place) = place("ends") else { return };
    let checked = place.weir(&["check", "graph.toml"]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    assert!(stdout(&checked).contains("no problems"), "{}", stdout(&checked));
}

#[test]
fn model_that_never_ends_is_refused() {
    let Some(place) = place("never-ends") else { return };
    refused(
        &place.weir(&["check", "graph.toml"]),
        &["model own", "model.onnx", "does not end", "a run on one item"],
    );
}

#[test]
fn model_with_a_giant_output_is_refused() {
    let Some(place) = place("giant") else { return };
    refused(
        &place.weir(&["check", "graph.toml"]),
        &["model own", "model.onnx", "more memory", "giant"],
    );
}

#[test]
fn request_that_is_none_is_refused() {
    let program = env!("CARGO_BIN_EXE_weir");
    let mut probe = Command::new(program);
    let probe = probe.arg("--probe-model").stdin(std::process::Stdio::null());
    let ended = probe.output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(stdout(&ended), "");
}
