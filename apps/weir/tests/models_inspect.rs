//! `weir models inspect`: a file is described, with the head that reads it and a table that `weir check` takes; files that are no
//! models are refused, and nothing that a file says reaches the terminal as it is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "says what was skipped")]

use std::path::PathBuf;

use serde_json::Value;

use crate::common::place::Place;
use crate::common::{refuses, stderr, stdout};

/// A folder with the models in `data/probe`; `None` without ONNX Runtime.
fn place() -> Option<Place> {
    if weir_operators::find_runtime().is_err() {
        println!("skipped: there is no ONNX Runtime");
        return None;
    }
    let place = Place::new();
    for model in ["ends", "never-ends"] {
        std::fs::copy(probe(model), place.at(&format!("{model}.onnx"))).unwrap();
    }
    Some(place)
}

fn probe(model: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/probe");
    PathBuf::from(format!("{folder}/{model}.onnx"))
}

/// A field of a protobuf message that holds bytes, shorter than 128.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// The small detector with more metadata: messages of protobuf are joined by writing one after the other.
fn with_metadata(place: &Place, file: &str, entries: &[(&str, &str)]) {
    let mut model = std::fs::read(probe("ends")).unwrap();
    for (key, value) in entries {
        let entry = [field(1, key.as_bytes()), field(2, value.as_bytes())].concat();
        model.extend(field(14, &entry));
    }
    std::fs::write(place.at(file), model).unwrap();
}

fn json(place: &Place, arguments: &[&str]) -> Value {
    let arguments: Vec<&str> = ["models", "inspect", "--json"]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    let text = stdout(&place.weir(&arguments));
    assert!(text.is_ascii(), "{text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A graph on the table.
fn checks(place: &Place, table: &str) {
    let name = table.lines().next().unwrap();
    let name = name.trim_start_matches("[models.").trim_end_matches(']');
    let graph = format!(
        "[app]\nslo = \"1s\"\n[sources.camera]\nuri = \"emulated:uniform?rate=5\"\n{table}\n[modules.find]\noperator = \"detect\"\n\
         model = \"{name}\"\ninputs = [\"camera\"]\n[sinks.none]\ntype = \"null\"\ninputs = [\"find\"]\n"
    );
    std::fs::write(place.at("inspected.toml"), &graph).unwrap();
    let checked = place.weir(&["check", "inspected.toml"]);
    assert!(checked.status.success(), "{}\n{graph}", stderr(&checked));
}

#[test]
fn detector_has_its_head_and_a_table_that_passes_check() {
    let Some(place) = place() else { return };
    with_metadata(
        &place,
        "best.onnx",
        &[
            ("names", "{0: 'part'}"),
            ("task", "detect"),
            ("imgsz", "[64, 64]"),
            ("stride", "32"),
        ],
    );
    let shown = place.weir(&["models", "inspect", "best.onnx", "--time"]);
    let text = stdout(&shown);
    assert!(shown.status.success(), "{}", stderr(&shown));
    for words in [
        "images   f32 [?, 3, 64, 64]",
        "output0  f32 [?, 5, 50]",
        "1 classes: part",
        "imgsz",
        "yolov8         reads it",
        "no: the head expects rows of 6 values",
        "batch 4",
        "[models.best]\nmodel = \"best.onnx\"\nhead = \"yolov8\"\n",
    ] {
        let squeezed = |text: &str| {
            text.split(' ')
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert!(
            squeezed(&text).contains(&squeezed(words)),
            "{words:?} is not in\n{text}"
        );
    }
    let found = json(&place, &["best.onnx"]);
    assert_eq!(
        (&found["head"], &found["classes"]),
        (&"yolov8".into(), &vec!["part"].into())
    );
    assert_eq!(found["inputs"][0]["shape"], serde_json::json!([null, 3, 64, 64]));
    checks(&place, found["table"].as_str().unwrap());
}

#[test]
fn what_is_missing_is_the_error() {
    let Some(place) = place() else { return };
    let unnamed = place.weir(&["models", "inspect", "ends.onnx"]);
    refuses(
        &unnamed,
        &["ends.onnx", "no head that is found by itself fits", "--head NAME"],
    );
    let text = stdout(&unnamed);
    assert!(
        text.contains("output0") && text.contains("50 boxes are no grid"),
        "{text}"
    );
    let found = json(&place, &["ends.onnx"]);
    assert!(found["table"].is_null() && found["head"].is_null(), "{found}");
    let asked = place.weir(&["models", "inspect", "ends.onnx", "--head", "detr"]);
    refuses(&asked, &["logits [queries, classes]"]);
    refuses(
        &place.weir(&["models", "inspect", "ends.onnx", "--head", "yolov88"]),
        &["there is no head yolov88"],
    );
    refuses(
        &place.weir(&["models", "inspect", "never-ends.onnx"]),
        &["does not end"],
    );
}

#[test]
fn files_that_are_no_models_are_refused() {
    let Some(place) = place() else { return };
    let whole = std::fs::read(probe("ends")).unwrap();
    std::fs::write(place.at("cut.onnx"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(place.at("text.onnx"), b"this is text, not a model").unwrap();
    std::fs::write(place.at("empty.onnx"), b"").unwrap();
    for (file, words) in [
        ("cut.onnx", "no ONNX file, or a damaged one"),
        ("text.onnx", "no ONNX file"),
        ("empty.onnx", "the file is empty"),
        ("none.onnx", "there is no file none.onnx"),
        ("zoo:nothing", "the zoo has no model"),
    ] {
        refuses(&place.weir(&["models", "inspect", file]), &[words]);
    }
}

#[test]
fn texts_of_a_file_reach_the_terminal_in_one_line() {
    let Some(place) = place() else { return };
    let red = "\u{1b}]0;title\u{7}\u{1b}[31m\u{202e}\u{9b}x\nerror: none";
    let long = "a".repeat(90);
    with_metadata(
        &place,
        "red.onnx",
        &[
            ("names", &format!("{{0: '{red}'}}")),
            (red, "value"),
            ("author", red),
            ("note", &long),
        ],
    );
    for arguments in [
        &["models", "inspect", "red.onnx"][..],
        &["models", "inspect", "red.onnx", "--json"],
    ] {
        let shown = place.weir(arguments);
        for text in [stdout(&shown), stderr(&shown)] {
            let obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!text.contains(obeyed), "{text:?}");
            assert!(
                !text.lines().any(|line| line.starts_with("error: none")),
                "{text:?}"
            );
        }
    }
}

/// The head that is found, or a part of the error.
const OF_THE_ASSET_PACK: &[(&str, Result<&str, &str>)] = &[
    ("yolox_nano_416", Ok("yolox")),
    ("yolox_nano_416.dynbatch", Ok("yolox")),
    ("light_person_detector_192", Ok("yolox")),
    ("nanodet_m_320", Ok("nanodet")),
    ("fastestdet_352", Ok("fastestdet")),
    ("yunet_n_320", Ok("yunet")),
    ("yunet_n_dynamic", Ok("yunet")),
    ("ultraface_rfb_320.dynbatch", Err("ultraface")),
    ("hyperlpr_y5fu_320", Ok("plate-corners")),
    ("mobilefacenet_112.dynbatch", Err("name its head by `head`")),
    ("blazeface_front_128", Ok("blazeface")),
    ("selfie_seg_144x256", Err("class-map")),
    ("stories260k_decoder", Err("")),
    ("super_resolution_224", Err("")),
];

#[test]
fn models_of_the_asset_pack_have_their_head_or_an_error() {
    let Some(place) = place() else { return };
    let Some(assets) = std::env::var_os("WEIR_ASSETS") else {
        println!("skipped: WEIR_ASSETS is not set");
        return;
    };
    let folder = PathBuf::from(assets).join("models");
    for (model, expected) in OF_THE_ASSET_PACK {
        let path = folder.join(format!("{model}.onnx")).display().to_string();
        let shown = place.weir(&["models", "inspect", "--json", &path]);
        let found: Value =
            serde_json::from_str(&stdout(&shown)).unwrap_or_else(|error| panic!("{model}: {error}"));
        match expected {
            Ok(head) => {
                assert_eq!(found["head"], **head, "{model}: {}", stderr(&shown));
                let table = found["table"].as_str();
                checks(
                    &place,
                    table.unwrap_or_else(|| panic!("{model}: {}", stderr(&shown))),
                );
            }
            Err(words) => {
                refuses(&shown, &[*words]);
            }
        }
    }
}
