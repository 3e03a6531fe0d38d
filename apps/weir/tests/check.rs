//! `weir check`: what it passes runs, and it leaves everything as it is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

use crate::common::place::{GRAPH, Place};
use crate::common::{refuses, stderr};

#[test]
fn check_opens_what_a_run_would_and_reports_all_at_once() {
    let place = Place::new();
    let text = GRAPH
        .replace(
            "[models.any]\n",
            "[models.any]\nmodel = \"noise.onnx\"\nhead = \"yolox\"\n",
        )
        .replace("device = \"emulated:any\"\nprofile = { \"1\" = \"1ms\" }\n", "")
        .replace("operator = \"emulate\"", "operator = \"detect\"");
    let second = "[models.other]\nmodel = \"empty.onnx\"\nhead = \"yolox\"\n\
                  [modules.again]\noperator = \"detect\"\nmodel = \"other\"\ninputs = [\"camera\"]\n";
    std::fs::write(place.at("graph.toml"), format!("{text}\n{second}")).unwrap();
    std::fs::write(place.at("noise.onnx"), [7; 1000]).unwrap();
    std::fs::write(place.at("empty.onnx"), "").unwrap();
    std::fs::write(place.at("text.mp4"), "this is no video\n").unwrap();
    std::fs::write(place.at("file"), "").unwrap();
    let check = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command
            .env("CLIP", "text.mp4")
            .env("EVENTS", "file/events.jsonl")
            .env("VIDEO", ".");
        command.output().unwrap()
    };
    let quick = check(&["check", "--quick", "graph.toml"]);
    assert!(quick.status.success(), "{}", stderr(&quick));
    let mut words = vec![
        "source camera: ",
        "text.mp4",
        "no video in it",
        "sink events",
        "sink video",
        "it is a folder",
    ];
    if weir_operators::find_runtime().is_ok() {
        words.extend(["noise.onnx", "no ONNX file", "empty.onnx", "the file is empty"]);
    }
    let said = refuses(&check(&["check", "graph.toml"]), &words);
    assert_eq!(said.matches("error: ").count(), 1, "{said}");
}

#[test]
fn check_leaves_everything_as_it_is() {
    let place = Place::new();
    place.clip("clip.mp4", 10);
    std::fs::create_dir(place.at("out")).unwrap();
    std::fs::write(place.at("out/events.jsonl"), "of an earlier run\n").unwrap();
    let tree = || {
        let mut names: Vec<_> = ["", "out"]
            .iter()
            .flat_map(|folder| std::fs::read_dir(place.at(folder)).unwrap())
            .map(|entry| entry.unwrap().path())
            .collect();
        names.sort();
        names
    };
    let before = tree();
    for arguments in [&["check", "graph.toml"][..], &["check", "graph.toml", "clip.mp4"]] {
        let output = place.command(arguments).env("CLIP", "clip.mp4").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert_eq!(tree(), before);
    let events = std::fs::read_to_string(place.at("out/events.jsonl")).unwrap();
    assert_eq!(events, "of an earlier run\n");
}

#[test]
fn variables_mean_the_same_to_check_run_and_replay() {
    let place = Place::new();
    place.clip("clip.mp4", 10);
    let text = GRAPH
        .replace("${CLIP:-not-there.mp4}", "${CAMERA}")
        .replace("name = \"bad-input\"", "name = \"${NAME}\"");
    std::fs::write(place.at("graph.toml"), text).unwrap();
    let with = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = place.command(arguments);
        command.envs(variables.iter().copied());
        command.output().unwrap()
    };
    let own = [
        &["check", "graph.toml"][..],
        &["run", "graph.toml"],
        &["replay", "graph.toml", "--speed", "max"],
    ];
    let replaced = [
        &["check", "graph.toml", "clip.mp4"][..],
        &["replay", "graph.toml", "clip.mp4", "--speed", "max"],
    ];
    for arguments in own {
        let said = refuses(&with(arguments, &[]), &["NAME is not set", "CAMERA is not set"]);
        assert!(
            said.contains("graph.toml:3:") && said.contains("graph.toml:7:"),
            "{said}"
        );
        let whole = with(arguments, &[("NAME", "n"), ("CAMERA", "clip.mp4")]);
        assert!(whole.status.success(), "{}", stderr(&whole));
    }
    // What is replaced need not be there, for both in the same way; the rest must.
    for arguments in replaced {
        let said = refuses(&with(arguments, &[]), &["NAME is not set"]);
        assert!(!said.contains("CAMERA"), "{said}");
        let whole = with(arguments, &[("NAME", "n")]);
        assert!(whole.status.success(), "{}", stderr(&whole));
    }
}

#[test]
fn what_check_cannot_open_without_waiting_is_said() {
    let place = Place::new();
    for (uri, word) in [
        (
            "rtsp://user:secret@127.0.0.1:1/live",
            "source camera: not contacted (weir check does not open network sources)",
        ),
        (
            "fifo",
            "source camera: not opened (weir check does not open devices and pipes)",
        ),
    ] {
        if uri == "fifo" {
            let made = Command::new("mkfifo").arg(place.at(uri)).status().unwrap();
            assert!(made.success());
        }
        let output = place
            .command(&["check", "graph.toml"])
            .env("CLIP", uri)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains(word) && !said.contains("secret"), "{said}");
    }
}

#[test]
fn a_model_whose_outputs_look_wrong_is_warned_of() {
    if weir_operators::find_runtime().is_err() {
        return;
    }
    let place = Place::new();
    // Pictures with nothing in them.
    place.clip("clip.mp4", 110);
    let replay = |keys: &str| {
        let text = GRAPH
            .replace("device = \"emulated:any\"\nprofile = { \"1\" = \"1ms\" }\n", keys)
            .replace("operator = \"emulate\"", "operator = \"detect\"");
        std::fs::write(place.at("graph.toml"), text).unwrap();
        let arguments = [
            "replay",
            "graph.toml",
            "clip.mp4",
            "--speed",
            "max",
            "--report",
            "report.json",
        ];
        let output = place.weir(&arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        let warnings = place.report()["modules"]["look"]["warnings"].clone();
        (stderr(&output), warnings)
    };
    let (said, warnings) = replay("model = \"embedded:street-detector\"\nscore_threshold = 1.0\n");
    assert_eq!(said.matches("no objects found in the first").count(), 1, "{said}");
    assert!(
        warnings[0].as_str().unwrap().contains("no objects found"),
        "{warnings}"
    );
    let (said, warnings) = replay("model = \"embedded:street-detector\"\nstd = \"1e-38\"\n");
    assert_eq!(said.matches("NaN or infinite values").count(), 1, "{said}");
    assert!(
        warnings[0].as_str().unwrap().contains("NaN or infinite values"),
        "{warnings}"
    );
    let (said, warnings) = replay("device = \"emulated:any\"\nprofile = { \"1\" = \"1ms\" }\n");
    assert!(warnings.is_null(), "{warnings}");
    for words in ["no objects found", "NaN or infinite values"] {
        assert!(!said.contains(words), "{said}");
    }
}

#[test]
fn items_of_a_frame_and_sides_of_tiles_are_remarks() {
    let place = Place::new();
    place.clip("clip.mp4", 10);
    let text = GRAPH.replace("operator = \"emulate\"", "operator = \"detect\"\ntiles = [2, 1]");
    std::fs::write(place.at("graph.toml"), text).unwrap();
    let check = |arguments: &[&str]| {
        let output = place.command(arguments).env("CLIP", "clip.mp4").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let items = ": a frame is 3 items of its model, 2 x 1 tiles and the whole frame";
    let quick = check(&["check", "--quick", "graph.toml"]);
    assert!(quick.contains(items) && !quick.contains("pixels"), "{quick}");
    let whole = check(&["check", "graph.toml"]);
    let sides =
        whole.contains("pixels; objects of up to") && whole.contains("fewer tiles would show the same");
    assert!(whole.contains(items) && sides, "{whole}");
}
