//! `weir import frigate`: a configuration of eight cameras becomes a graph that passes `weir check --quick`; odd files are refused.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::os::unix::fs::PermissionsExt;

use crate::common::place::{Place, refused};
use crate::common::{stderr, stdout};

/// A configuration in the way of Frigate's documentation.
const EIGHT: &str = include_str!("data/frigate.yml");

fn place(config: &str) -> Place {
    let place = Place::new();
    std::fs::create_dir(place.at("site")).unwrap();
    std::fs::write(place.at("config.yml"), config).unwrap();
    place
}

const IMPORT: [&str; 5] = ["import", "frigate", "config.yml", "--out", "site/site.toml"];

#[test]
fn eight_cameras_become_a_graph_that_passes_check() {
    let place = place(EIGHT);
    let done = place.weir(&IMPORT);
    assert!(done.status.success(), "{}{}", stdout(&done), stderr(&done));
    let said = stdout(&done);
    assert!(said.contains("site/site.toml: 7 cameras, 4 zones, "), "{said}");
    for (path, nearest) in [
        (":8: mqtt.client_id: ", "Frigate may run beside it"),
        ("birdseye: ", "all cameras at once"),
        ("face_recognition: ", "docs/how-to/recognise-faces.md"),
        ("semantic_search: ", ""),
        ("genai: ", "describe"),
        ("cameras.front.zones.street.filters: ", "not of a zone"),
        ("cameras.front.motion.threshold: ", "`gate`"),
        (
            "cameras.back_yard.objects.track[3]: ",
            "finds no \"license_plate\"",
        ),
        ("cameras.side.zones.gate: ", "in pixels"),
        ("cameras.old: ", "disabled"),
        ("cameras.events: ", "called \"events-camera\""),
        ("cameras.side.zones.alert: ", "called \"alert-zone\""),
    ] {
        let line = said.lines().find(|line| line.contains(path));
        assert!(
            line.is_some_and(|line| line.starts_with("config.yml:") && line.contains(nearest)),
            "{path}: {said}"
        );
    }
    assert!(
        !said.contains("lpr"),
        "a section that is off loses nothing: {said}"
    );
    let next = stderr(&done);
    for word in [
        "set FRIGATE_RTSP_PASSWORD, FRIGATE_RTSP_USER",
        ". ./site/site.env",
        "weir check site/site.toml",
    ] {
        assert!(next.contains(word), "{word}: {next}");
    }
    for file in [
        "camera-password.txt",
        "camera-password-2.txt",
        "mqtt-password.txt",
        "site.env",
    ] {
        let path = place.at("site").join(file);
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600,
            "{file}"
        );
    }
    let password = std::fs::read_to_string(place.at("site/camera-password.txt")).unwrap();
    assert_eq!(password, "c@mera#1\n");
    let checked = place.weir(&["check", "--quick", "site/site.toml"]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    assert!(!stderr(&checked).contains("warning"), "{}", stderr(&checked));
    let again = place.weir(&IMPORT);
    refused(&again, &["exists and was not changed", "--out"]);
}

#[test]
fn graph_with_the_name_of_a_file_of_secrets_is_refused_and_nothing_is_written() {
    let place = place(EIGHT);
    for out in [
        "site/site.env",
        "site/camera-password-2.txt",
        "site/mqtt-password.txt",
    ] {
        let done = place.weir(&["import", "frigate", "config.yml", "--out", out]);
        refused(&done, &[out, "give the graph another name", "--out site.toml"]);
        assert_eq!(std::fs::read_dir(place.at("site")).unwrap().count(), 0, "{out}");
    }
}

#[test]
fn missing_folder_of_the_graph_is_named_with_the_remedy() {
    let place = place(EIGHT);
    let done = place.weir(&["import", "frigate", "config.yml", "--out", "nowhere/site.toml"]);
    refused(&done, &["there is no folder nowhere: create it", "--out"]);
    assert!(!place.at("nowhere").exists());
}

#[test]
fn graph_has_what_the_configuration_says() {
    let place = place(EIGHT);
    let done = place.weir(&IMPORT);
    assert!(done.status.success(), "{}", stderr(&done));
    let text = std::fs::read_to_string(place.at("site/site.toml")).unwrap();
    let graph: toml::Table = text.parse().unwrap();
    let camera = |name: &str| graph["cameras"][name].as_table().unwrap();
    let front = camera("front");
    assert_eq!(front["uri"].as_str(), Some("rtsp://10.0.0.11:554/main"));
    assert_eq!(front["detect_uri"].as_str(), Some("rtsp://10.0.0.11:554/sub"));
    assert_eq!(front["user"].as_str(), Some("viewer"));
    assert_eq!(front["group"].as_array().unwrap()[0].as_str(), Some("outside"));
    assert_eq!(
        front["rules"]["alert"]["zones"].as_array().unwrap()[0].as_str(),
        Some("porch")
    );
    assert_eq!(front["rules"]["alert"]["after"].as_str(), Some("4s"));
    assert_eq!(front["rules"]["alert"]["min_score"].as_float(), Some(0.7));
    assert_eq!(front["zones"]["porch"]["settle"].as_str(), Some("600ms"));
    let min_area = front["objects"]["person"]["min_area"].as_float().unwrap();
    assert!((min_area - 1500.0 / (1280.0 * 720.0)).abs() < 1e-6, "{min_area}");
    let corner = &camera("drive")["zones"]["entry"]["points"].as_array().unwrap()[0];
    assert_eq!(corner.to_string(), "[0.5, 0.5]");
    assert!(
        camera("drive")["uri"]
            .as_str()
            .unwrap()
            .contains("password=${WEIR_DRIVE_SECRET:-}")
    );
    let yard = camera("back_yard");
    assert_eq!(yard["sample"].as_str(), Some("10fps"));
    assert_eq!(yard["ignore"].as_array().unwrap().len(), 1);
    assert_eq!(yard["objects"]["car"]["max_area"].as_integer(), Some(0));
    assert_eq!(camera("garage")["transport"].as_str(), Some("udp"));
    assert_eq!(camera("hall").get("rules"), None);
    assert_eq!(graph["app"]["timezone"].as_str(), Some("Europe/Berlin"));
    assert_eq!(graph["modules"]["tracks"]["lost_after"].as_str(), Some("5s"));
    let sinks = graph["sinks"].as_table().unwrap();
    let keeps = |name: &str| sinks[name]["keep"].as_str().unwrap().to_owned();
    assert_eq!(front["sound"].as_bool(), Some(true));
    assert_eq!(sinks["archive"]["sound"].as_bool(), Some(true));
    assert_eq!([keeps("archive"), keeps("archive-2")], ["3d", "7d"]);
    let alerts = ["alerts", "alerts-2"].map(keeps);
    assert!(
        alerts.contains(&"30d".to_owned()) && alerts.contains(&"90d".to_owned()),
        "{alerts:?}"
    );
    assert_eq!(sinks["home"]["prefix"].as_str(), Some("frigate"));
}

#[test]
fn odd_files_are_refused_in_one_line() {
    let path = ["import", "frigate", "config.yml"];
    let deep = format!("cameras: {}", "[".repeat(2_000));
    let laughs = "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, \
                  *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: [*e, *e, *e, *e]\n";
    for (config, words) in [
        ("", "it is empty"),
        ("mqtt: {host: a}\n", "no cameras"),
        ("cameras: {}\n", "no cameras"),
        ("cameras:\n  a:\n   b\n  c: d\n", "line"),
        ("a: [1, 2\n", "not YAML"),
        ("{\"version\": \"1.0\"}", "no cameras"),
        (
            "cameras:\n  a:\n    ffmpeg:\n      inputs:\n        - path: exec:x\n",
            "line 2: cameras.a: it is left out, since none of its inputs",
        ),
        (deep.as_str(), "line"),
        (laughs, "values, what aliases stand for included"),
    ] {
        refused(&place(config).weir(&path), &["config.yml: ", words]);
    }
    let binary = place("x");
    std::fs::write(binary.at("config.yml"), [0xff, 0xfe, 0, 1]).unwrap();
    refused(&binary.weir(&path), &["config.yml: "]);
    std::fs::write(binary.at("config.yml"), vec![b'#'; (1 << 20) + 1]).unwrap();
    refused(&binary.weir(&path), &["config.yml: ", "MiB"]);
    refused(
        &binary.weir(&["import", "frigate", "nothing.yml"]),
        &["nothing.yml: "],
    );
}
