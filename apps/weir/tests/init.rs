//! `weir init`: what it writes passes `weir check`, with all suggestions too, and it overwrites nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use crate::common::place::{Place, refused};
use crate::common::{stderr, stdout};

/// The text with its suggestions: lines with a "#" directly before a key or a table.
fn with_suggestions(text: &str) -> String {
    let is_suggestion = |line: &str| line.starts_with(|c: char| c.is_ascii_lowercase() || c == '[');
    let lines = text.lines().map(|line| match line.strip_prefix('#') {
        Some(rest) if is_suggestion(rest) => rest,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_clip_becomes_a_graph_that_passes_check_with_all_suggestions_too() {
    let place = Place::new();
    place.clip("a b$c.mp4", 10);
    let written = place.weir(&["init", "a b$c.mp4", "--out", "new.toml"]);
    assert!(written.status.success(), "{}", stderr(&written));
    let said = stdout(&written);
    for word in ["new.toml: a b$c.mp4", "64 x 48", "h264", "frames a second"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(
        stderr(&written).contains("weir check new.toml"),
        "{}",
        stderr(&written)
    );
    let checked = place.weir(&["check", "--quick", "new.toml"]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    let text = std::fs::read_to_string(place.at("new.toml")).unwrap();
    assert!(!text.contains('@'), "{text}");
    let all = with_suggestions(&text);
    assert!(
        all.lines().count() == text.lines().count() && all.contains("\n[sinks.clips]"),
        "{all}"
    );
    std::fs::write(place.at("all.toml"), all).unwrap();
    let checked = place.weir(&["check", "--quick", "all.toml"]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    assert!(stdout(&checked).contains("5 sinks"), "{}", stdout(&checked));
    if weir_operators::find_runtime().is_ok() {
        let checked = place.weir(&["check", "new.toml"]);
        assert!(checked.status.success(), "{}", stderr(&checked));
    }
}

#[test]
fn a_graph_elsewhere_finds_its_clip() {
    let place = Place::new();
    place.clip("clip.mp4", 3);
    std::fs::create_dir(place.at("folder")).unwrap();
    let written = place.weir(&["init", "clip.mp4", "--out", "folder/graph.toml"]);
    assert!(written.status.success(), "{}", stderr(&written));
    let checked = place.weir(&["check", "--quick", "folder/graph.toml"]);
    assert!(checked.status.success(), "{}", stderr(&checked));
}

#[test]
fn files_of_sinks_are_in_the_folder_for_data() {
    let place = Place::new();
    place.clip("clip.mp4", 3);
    std::fs::create_dir(place.at("data")).unwrap();
    let written = place.weir(&["init", "clip.mp4", "--out", "new.toml", "--data", "data"]);
    assert!(written.status.success(), "{}", stderr(&written));
    let text = std::fs::read_to_string(place.at("new.toml")).unwrap();
    let folder = place.at("data").canonicalize().unwrap();
    let paths = text
        .lines()
        .filter(|line| line.trim_start_matches('#').starts_with("path = "));
    let paths: Vec<&str> = paths.collect();
    let is_there = |line: &&str| line.contains(&format!("path = \"{}/", folder.display()));
    assert!(paths.len() == 5 && paths.iter().all(is_there), "{paths:?}");
    std::fs::write(place.at("all.toml"), with_suggestions(&text)).unwrap();
    let checked = place.weir(&["check", "--quick", "all.toml"]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    refused(
        &place.weir(&["init", "clip.mp4", "--out", "other.toml", "--data", "a\"b"]),
        &["a folder for data"],
    );
}

#[test]
fn events_rotate_by_default() {
    let place = Place::new();
    let written = stdout(&place.weir(&["init", "--out", "-"]));
    assert!(
        written.contains("\nrotate_size = ") && written.contains("\nkeep = "),
        "{written}"
    );
}

#[test]
fn address_with_a_variable_that_is_not_set_names_it() {
    let place = Place::new();
    let written = place.weir(&[
        "init",
        "rtsp://${NOBODY_SET_THIS}@127.0.0.1:1/live",
        "--out",
        "new.toml",
    ]);
    assert!(
        !written.status.success() && stderr(&written).contains("NOBODY_SET_THIS"),
        "{}",
        stderr(&written)
    );
    assert!(!place.at("new.toml").exists());
}

#[test]
fn without_a_source_streams_are_added_later() {
    let place = Place::new();
    let written = place.weir(&["init", "--out", "-"]);
    assert!(written.status.success(), "{}", stderr(&written));
    std::fs::write(place.at("new.toml"), stdout(&written)).unwrap();
    let checked = place.weir(&["check", "--quick", "new.toml"]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    assert!(stdout(&checked).contains("1 template"), "{}", stdout(&checked));
}

#[test]
fn what_is_there_stays() {
    let place = Place::new();
    place.clip("clip.mp4", 3);
    let before = std::fs::read(place.at("graph.toml")).unwrap();
    refused(
        &place.weir(&["init", "clip.mp4"]),
        &["graph.toml exists and was not changed", "--out"],
    );
    assert_eq!(std::fs::read(place.at("graph.toml")).unwrap(), before);
    std::os::unix::fs::symlink("nowhere", place.at("link.toml")).unwrap();
    refused(
        &place.weir(&["init", "clip.mp4", "--out", "link.toml"]),
        &["exists and was not changed"],
    );
    refused(
        &place.weir(&["init", "clip.mp4", "--out", "none/graph.toml"]),
        &["none/graph.toml cannot be written, since there is no folder none"],
    );
}

#[test]
fn a_source_that_cannot_be_opened_leaves_no_file() {
    let place = Place::new();
    std::fs::write(place.at("text.mp4"), "this is no video\n").unwrap();
    refused(
        &place.weir(&["init", "text.mp4", "--out", "new.toml"]),
        &["text.mp4"],
    );
    refused(
        &place.weir(&["init", "not-there.mp4", "--out", "new.toml"]),
        &["not-there.mp4"],
    );
    // It takes the call, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("rtsp://ada:secret@{}/live", silent.local_addr().unwrap());
    let given_up = place.weir(&["init", &address, "--timeout", "1s", "--out", "new.toml"]);
    refused(&given_up, &["***", "rtsp://"]);
    assert!(!stderr(&given_up).contains("secret"), "{}", stderr(&given_up));
    assert!(!place.at("new.toml").exists());
}

#[test]
fn a_file_that_holds_a_password_is_its_owners() {
    let place = Place::new();
    place.clip("clip.mp4", 3);
    std::fs::rename(place.at("clip.mp4"), place.at("clip.mp4?token=secret")).unwrap();
    let address = format!("file://{}", place.at("clip.mp4?token=secret").display());
    let written = place.weir(&["init", &address, "--out", "new.toml"]);
    assert!(written.status.success(), "{}", stderr(&written));
    let said = stdout(&written) + &stderr(&written);
    assert!(!said.contains("secret"), "{said}");
    let mode = std::fs::metadata(place.at("new.toml"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn the_version_says_which_build_it_is() {
    let place = Place::new();
    let long = stdout(&place.weir(&["--version"]));
    assert!(
        long.starts_with(concat!("weir ", env!("CARGO_PKG_VERSION"))),
        "{long}"
    );
    assert!(long.lines().any(|line| line.starts_with("features: ")), "{long}");
    assert_eq!(stdout(&place.weir(&["-V"])).lines().count(), 1);
}

/// A detector of one's own needs no head: the file says which it is.
#[test]
fn a_graph_has_the_model_that_is_named() {
    let place = Place::new();
    place.clip("clip.mp4", 3);
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/street-detector.onnx");
    std::fs::copy(shipped, place.at("best.onnx")).unwrap();
    std::fs::create_dir(place.at("folder")).unwrap();
    let written = place.weir(&[
        "init",
        "clip.mp4",
        "--model",
        "best.onnx",
        "--out",
        "folder/own.toml",
    ]);
    assert!(written.status.success(), "{}", stderr(&written));
    let text = std::fs::read_to_string(place.at("folder/own.toml")).unwrap();
    assert!(
        text.contains("/best.onnx\"") && !text.contains("\nhead"),
        "{text}"
    );
    if weir_operators::find_runtime().is_ok() {
        let checked = place.weir(&["check", "folder/own.toml"]);
        assert!(checked.status.success(), "{}", stderr(&checked));
        let ran = place.weir(&["replay", "folder/own.toml", "--speed", "max"]);
        assert!(ran.status.success(), "{}", stderr(&ran));
    }
    let missing = place.weir(&["init", "clip.mp4", "--model", "bst.onnx", "--out", "other.toml"]);
    refused(&missing, &["there is no file bst.onnx"]);
    assert!(!place.at("other.toml").exists());
}
