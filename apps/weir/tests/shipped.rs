//! Models and graphs that ship: every model runs, and every application runs on them, by the program itself. What the
//! models see in these pictures does not matter here.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stderr, reason = "a test that skips says so")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use image::RgbImage;
use tempfile::TempDir;

fn apps() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Graphs of the applications that need no more than their files: a partitioned one needs a plan that is made first.
fn graphs() -> Vec<PathBuf> {
    let folders = std::fs::read_dir(apps()).unwrap();
    let mut graphs = Vec::new();
    for folder in folders.map(|entry| entry.unwrap().path()) {
        let files = std::fs::read_dir(folder).into_iter().flatten();
        graphs.extend(files.map(|entry| entry.unwrap().path()).filter(|path| {
            let name = path.file_name().unwrap();
            path.extension().is_some_and(|extension| extension == "toml")
                && name != "Cargo.toml"
                && name != "partitioned.toml"
                // Read by the graph beside it.
                && name != "gears.toml"
        }));
    }
    graphs.sort();
    graphs
}

/// A folder with three pictures as a stream, and a gallery of two.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let picture = |side: u32, seed: u32| {
        RgbImage::from_fn(side * 16 / 9, side, |x, y| {
            let wave = |step: u32| ((x * step + y * (step + seed)) % 251) as u8;
            image::Rgb([wave(1), wave(2), wave(3 + seed)])
        })
    };
    for name in ["stream", "gallery"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    for index in 0..3 {
        let name = format!("stream/{index}.png");
        picture(270, index).save(folder.path().join(name)).unwrap();
    }
    for (name, seed) in [("p01.png", 5), ("p02.png", 9)] {
        picture(64, seed)
            .save(folder.path().join("gallery").join(name))
            .unwrap();
    }
    folder
}

fn weir(folder: &TempDir, arguments: &[&str]) -> Output {
    let folder = folder.path();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).current_dir(folder);
    command.env("XDG_CACHE_HOME", folder.join("cache"));
    command.env("WEIR_VIDEO", folder.join("stream"));
    command.env("WEIR_GALLERY", folder.join("gallery"));
    command.output().expect("the program starts")
}

#[track_caller]
fn done(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// True if models can run on this machine.
fn runtime() -> bool {
    let found = weir_operators::find_runtime();
    if let Err(reason) = &found {
        eprintln!("skipped: {reason}");
    }
    found.is_ok()
}

#[test]
fn graphs_of_the_applications_have_no_problems() {
    let folder = folder();
    let graphs = graphs();
    assert!(graphs.len() >= 6, "{graphs:?}");
    for graph in graphs {
        let checked = weir(&folder, &["check", "--quick", graph.to_str().unwrap()]);
        assert!(done(&checked).contains("no problems"), "{}", graph.display());
        let errors = String::from_utf8_lossy(&checked.stderr);
        assert!(!errors.contains("warning"), "{}: {errors}", graph.display());
    }
}

#[test]
fn applications_run_on_what_ships() {
    if !runtime() {
        return;
    }
    let folder = folder();
    let stream = folder.path().join("stream");
    for graph in [
        "traffic-monitoring/demo",
        "traffic-monitoring/cascades",
        "traffic-monitoring/reports",
        "live-video/demo",
        "live-video/cascades",
        "live-video/da",
        "game-analysis/demo",
    ] {
        let file = apps().join(format!("{graph}.toml"));
        let arguments = ["replay", file.to_str().unwrap(), stream.to_str().unwrap()];
        let out = format!("out/{graph}");
        done(&weir(
            &folder,
            &[&arguments[..], &["--speed", "max", "--out", &out]].concat(),
        ));
        let events = std::fs::read_to_string(folder.path().join(out).join("events.jsonl")).unwrap();
        let frames = events.matches(r#""type":"frame""#).count();
        assert_eq!(frames, 3, "{graph}: {events}");
        assert!(
            done(&weir(&folder, &["check", arguments[1]])).contains("no problems"),
            "{graph}"
        );
    }
}

#[test]
fn every_model_runs_in_batches_and_can_be_cut() {
    if !runtime() {
        return;
    }
    let folder = folder();
    for model in weir_models::shipped().iter().filter(|model| !model.generates()) {
        let name = format!("embedded:{}", model.name);
        let table = done(&weir(&folder, &["profile", &name, "--batches", "1,3"]));
        let durations = table.lines().take_while(|line| !line.trim().is_empty());
        assert_eq!(durations.count(), 3, "{table}");
    }
    let blocks = ["--blocks", "1", "--batches", "1", "--out", "blocks.toml"];
    done(&weir(
        &folder,
        &[&["profile", "embedded:gaze"], &blocks[..]].concat(),
    ));
    let written = std::fs::read_to_string(folder.path().join("blocks.toml")).unwrap();
    assert!(written.contains("model = \"gaze\""), "{written}");
}

#[test]
fn models_that_ship_are_listed_and_others_refused() {
    let folder = folder();
    let listed = done(&weir(&folder, &["models", "list"]));
    let line = listed
        .lines()
        .find(|line| line.contains("embedded:street-detector"));
    assert!(
        line.is_some_and(|line| line.contains("yolov8") && line.contains("ships")),
        "{listed}"
    );
    assert!(done(&weir(&folder, &["models", "pull", "gaze"])).contains("ships"));
    for arguments in [
        &["profile", "embedded:gazer"][..],
        &["profile", "embedded:gazer", "--blocks", "2"],
    ] {
        let refused = weir(&folder, arguments);
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2));
        assert!(
            errors.contains("no model of the name embedded:gazer") && errors.contains("gaze,"),
            "{errors}"
        );
    }
    let refused = weir(&folder, &["profile", "embedded:scribe"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2));
    assert!(errors.contains("generates text token by token"), "{errors}");
    let graph = std::fs::read_to_string(apps().join("live-video/demo.toml")).unwrap();
    std::fs::write(
        folder.path().join("graph.toml"),
        graph.replace("embedded:gaze", "embedded:gazer"),
    )
    .unwrap();
    let refused = weir(&folder, &["check", "graph.toml"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(errors.contains("did you mean \"gaze\""), "{errors}");
}
