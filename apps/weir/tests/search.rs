//! Search through the whole program: tracks of the clip that ships, found by class, by colour and by their looks, from the disk and over
//! the API. The encoders know three colours, since weights of CLIP are not in the tree.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;
use weir_operators::sinks::SearchReader;

use crate::common::service::{Service, weir};
use crate::common::{has_runtime, refuses, stderr, stdout};
use crate::tiny_encoders::TinyEncoders;

const GRAPH: &str = r#"
[app]
name = "search"
slo = "30s"

[sources.street]
uri = "CLIP"
mode = "lossless"
sample = "4fps"

[models.detector]
model = "embedded:street-detector"

[models.colour]
model = "picture.onnx"
head = "embed"
align = "none"

[modules.objects]
operator = "detect"
model = "detector"
inputs = ["street"]

[modules.tracks]
operator = "track"
inputs = ["objects"]

[modules.looks]
operator = "embed"
model = "colour"
inputs = ["tracks"]
regions = ["car"]
min_side = 8
vector = true

[transforms.pictures]
type = "best-shot"
inputs = ["tracks"]
classes = ["car"]

[sinks.search]
type = "search"
path = "tracks"
inputs = ["tracks", "looks", "pictures"]
embed = "looks"
text_model = "text.onnx"
tokenizer = "tokenizer.json"
"#;

/// A folder with the graph, its encoders, and the tracks of one run.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    TinyEncoders::write(folder.path());
    let clip = concat!(env!("CARGO_MANIFEST_DIR"), "/../../videos/street-day.mp4");
    fs::write(folder.path().join("graph.toml"), GRAPH.replace("CLIP", clip)).unwrap();
    let ran = weir(folder.path()).args(["run", "graph.toml"]).output().unwrap();
    assert!(ran.status.success(), "{}", stderr(&ran));
    folder
}

/// `weir search` on the disk.
fn search(folder: &Path, args: &[&str]) -> Output {
    let mut weir = weir(folder);
    weir.args(["search", "--graph", "graph.toml"])
        .args(args)
        .output()
        .unwrap()
}

fn found(folder: &Path, args: &[&str]) -> Value {
    let ran = search(folder, &[args, &["--json"]].concat());
    assert!(ran.status.success(), "{}", stderr(&ran));
    serde_json::from_str(&stdout(&ran)).unwrap()
}

/// Ids of the results, of those found by that.
fn ids(found: &Value, by: &str) -> Vec<String> {
    let results = found["results"].as_array().unwrap().iter();
    let of = results.filter(|result| result["by"] == by);
    of.map(|result| result["id"].as_str().unwrap().to_owned())
        .collect()
}

fn similarities(found: &Value) -> Vec<f64> {
    let results = found["results"].as_array().unwrap().iter();
    results
        .filter_map(|result| result["similarity"].as_f64())
        .collect()
}

/// An address with an id.
fn encoded(id: &str) -> String {
    id.replace('/', "%2F")
}

#[test]
fn tracks_are_found_by_words_by_colour_and_by_their_looks() {
    if !has_runtime() {
        return;
    }
    let folder = folder();
    let at = folder.path();
    let all = found(at, &["--limit", "100"]);
    let tracks = all["results"].as_array().unwrap();
    assert!(tracks.len() > 3, "{all}");
    assert_eq!(all["kept"]["tracks"], tracks.len());
    assert_eq!(all["names"]["streams"], json!(["street"]));
    let cars = || tracks.iter().filter(|track| track["class"] == "car");
    assert!(cars().any(|track| track["has_picture"] == true), "{all}");
    let by_class = found(at, &["CAR", "--limit", "100"]);
    assert_eq!(ids(&by_class, "words").len(), cars().count());
    assert_eq!(
        by_class["meaning"]["available"], false,
        "the encoder does not know the word"
    );

    let red = found(at, &["red", "--limit", "5"]);
    let reddest = ids(&red, "picture");
    assert_eq!(red["meaning"], json!({ "available": true }));
    assert!(
        !reddest.is_empty() && similarities(&red).is_sorted_by(|one, other| one >= other),
        "{red}"
    );
    let blue = found(at, &["blue", "--limit", "5"]);
    assert_ne!(ids(&blue, "picture"), reddest);
    // A picture of one colour has the vector of its word.
    let picture = image::RgbImage::from_pixel(24, 24, image::Rgb([255, 0, 0]));
    picture.save(at.join("red.png")).unwrap();
    let like = found(at, &["--like", "red.png", "--limit", "5"]);
    assert_eq!(ids(&like, "picture"), reddest);
    let like = found(at, &["--like", &reddest[0], "--limit", "100"]);
    assert!(!ids(&like, "picture").contains(&reddest[0]), "{like}");
    assert_eq!(
        similarities(&like).len() as u64,
        like["compared"].as_u64().unwrap() - 1
    );

    let shown = search(at, &["red", "--class", "car", "--limit", "2"]);
    assert!(stdout(&shown).contains(&reddest[0]) && stdout(&shown).contains("tracks compared"));
    assert_eq!(found(at, &["--class", "boat"])["compared"], 0);
    assert_eq!(found(at, &["--camera", "yard"])["results"], json!([]));
    refuses(
        &search(at, &["--like", "street/1"]),
        &["street/1", "no such track"],
    );
    refuses(
        &search(at, &["--like", "none.png"]),
        &["none.png", "neither a file nor a track"],
    );
    let graph = fs::read_to_string(at.join("graph.toml")).unwrap();
    let none = graph.split("[sinks.search]").next().unwrap();
    fs::write(at.join("none.toml"), none).unwrap();
    let ran = weir(at)
        .args(["search", "--graph", "none.toml"])
        .output()
        .unwrap();
    refuses(&ran, &["no sink of the type search", "type = \"search\""]);
}

#[test]
fn tracks_are_found_over_the_api_unless_their_camera_is_private() {
    if !has_runtime() {
        return;
    }
    let folder = folder();
    let graph = fs::read_to_string(folder.path().join("graph.toml")).unwrap();
    let service = Service::start_in(folder, "127.0.0.1:0", &[]);
    service.wait_until(|list| list.contains("street"));
    let ask = |service: &Service, path: &str| {
        let (status, body) = service.ask("GET", path, "");
        let body: Value = serde_json::from_str(&body).unwrap_or_default();
        (status, body)
    };
    let (status, red) = ask(
        &service,
        "/api/search?text=red&cameras=street,yard&class=car&limit=3",
    );
    assert_eq!(status, 200, "{red}");
    let id = ids(&red, "picture").remove(0);
    let (status, like) = ask(&service, &format!("/api/search?like={}", encoded(&id)));
    assert_eq!(
        (status, &like["like"]["available"]),
        (200, &json!(true)),
        "{like}"
    );
    assert!(!ids(&like, "picture").contains(&id), "{like}");
    let with_picture = red["results"].as_array().unwrap().iter();
    let with_picture = with_picture
        .clone()
        .find(|track| track["has_picture"] == true)
        .unwrap();
    let picture = format!(
        "/api/search/{}/picture",
        encoded(with_picture["id"].as_str().unwrap())
    );
    let (status, jpeg) = service.ask("GET", &picture, "");
    assert!(status == 200 && jpeg.len() > 100, "{status}");
    for (path, status) in [
        ("/api/search?like=street%2F1", 404),
        ("/api/search?like=street", 404),
        ("/api/search/street%2F1/picture", 404),
        ("/api/search?limit=0", 400),
        ("/api/search?limit=101", 400),
        ("/api/search?from=yesterday", 400),
        ("/api/search?text=a&like=b", 400),
    ] {
        let (found, body) = ask(&service, path);
        assert_eq!(found, status, "{path}: {body}");
        assert!(body["error"].is_string(), "{path}: {body}");
    }
    let ran = weir(service.folder.path())
        .args([
            "search",
            "red",
            "--limit",
            "3",
            "--class",
            "car",
            "--json",
            "--at",
            &service.at,
        ])
        .output()
        .unwrap();
    let over_api: Value = serde_json::from_str(&stdout(&ran)).unwrap();
    assert!(ids(&over_api, "picture").contains(&id), "{over_api}");

    fs::write(
        service.folder.path().join("graph.toml"),
        graph.replace("mode =", "private = true\nmode ="),
    )
    .unwrap();
    service.hang_up();
    let is_private = || ask(&service, &picture).0 == 403;
    assert!((0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        is_private()
    }));
    let (_, nothing) = ask(&service, "/api/search");
    assert_eq!(
        (&nothing["results"], &nothing["kept"]["tracks"]),
        (&json!([]), &json!(0))
    );
    assert_eq!(
        ask(&service, &format!("/api/search?like={}", encoded(&id))).0,
        403
    );
}

/// Persons of a public clip by a model for re-identification, in place of the encoders that know colours.
const PERSONS: &str = r#"
[app]
name = "persons"
slo = "60s"

[sources.hall]
uri = "CLIP"
mode = "lossless"
sample = "2fps"

[models.detector]
model = "zoo:yolox-nano"

[models.looks]
model = "zoo:person-reid"

[modules.objects]
operator = "detect"
model = "detector"
inputs = ["hall"]
labels = ["person"]

[modules.tracks]
operator = "track"
inputs = ["objects"]

[modules.looks]
operator = "embed"
model = "looks"
inputs = ["tracks"]
regions = ["person"]
vector = true

[transforms.pictures]
type = "best-shot"
inputs = ["tracks"]
classes = ["person"]
margin = 0.0

[sinks.search]
type = "search"
path = "tracks"
inputs = ["tracks", "looks", "pictures"]
embed = "looks"
"#;

#[test]
fn a_picture_of_a_person_finds_the_track_of_that_person() {
    let assets = std::env::var_os("WEIR_ASSETS").map(PathBuf::from);
    let Some(assets) = assets.filter(|_| has_runtime()) else {
        eprintln!("skipped: WEIR_ASSETS names no folder");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let clip = assets.join("videos/intel_one-by-one-person.mp4");
    let graph = PERSONS.replace("CLIP", clip.to_str().unwrap());
    fs::write(folder.path().join("graph.toml"), graph).unwrap();
    let weir = || {
        let mut weir = weir(folder.path());
        weir.env("WEIR_MODEL_MIRROR", assets.join("models"));
        weir
    };
    let ran = weir().args(["run", "graph.toml"]).output().unwrap();
    assert!(ran.status.success(), "{}", stderr(&ran));
    let found = |args: &[&str]| -> Value {
        let mut search = weir();
        search.args(["search", "--graph", "graph.toml", "--json", "--limit", "100"]);
        let ran = search.args(args).output().unwrap();
        assert!(ran.status.success(), "{}", stderr(&ran));
        serde_json::from_str(&stdout(&ran)).unwrap()
    };
    let all = found(&[]);
    assert_eq!(all["names"]["classes"], json!(["person"]));
    let reader = SearchReader::new(&folder.path().join("tracks"));
    let tracks = all["results"].as_array().unwrap();
    let (mut searched, mut first) = (0, 0);
    for track in tracks.iter().filter(|track| track["has_picture"] == true) {
        let (id, number) = (track["id"].as_str().unwrap(), track["track"].as_u64().unwrap());
        let picture = reader.picture("hall", number).unwrap().unwrap();
        fs::write(folder.path().join("person.jpg"), picture).unwrap();
        let like = found(&["--like", "person.jpg"]);
        let similarities = similarities(&like);
        assert!(
            similarities.is_sorted_by(|one, other| one >= other),
            "{similarities:?}"
        );
        searched += 1;
        first += usize::from(ids(&like, "picture")[0] == id);
    }
    eprintln!("{first} of {searched} pictures find their own track first");
    assert!(
        searched >= 3 && 10 * first >= 7 * searched,
        "{first} of {searched}"
    );
}
