//! Properties of imports: nothing is lost unseen, and every graph passes the check of its text.

use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::left_out::left_out;
use super::yaml::{Content, Node, parse};
use super::{Files, Imported, import, variables};
use crate::Zoo;
use crate::catalog::catalog;

/// A configuration of eight cameras.
const EIGHT: &str = include_str!("../../tests/data/frigate.yml");
/// A key that no version of Frigate has.
const UNKNOWN: &str = "zzz_unknown";

fn imported(text: &str) -> Result<Imported, String> {
    let files = Files {
        config: "config.yml",
        passwords: &|number| format!("password-{number}"),
        mqtt: "mqtt-password",
    };
    import(text, &files)
}

/// Problems of the graph, with the files that it names beside it.
fn problems(imported: &Imported) -> Option<String> {
    let folder: TempDir = tempfile::tempdir().unwrap();
    for number in 0..imported.passwords.len() {
        std::fs::write(folder.path().join(format!("password-{number}")), "x").unwrap();
    }
    std::fs::write(folder.path().join("mqtt-password"), "x").unwrap();
    let zoo = Zoo::in_folder(folder.path()).unwrap();
    let path = folder.path().join("graph.toml");
    let parsed = weir_graph::parse(&imported.graph, Path::new(&path), &catalog(&zoo), &|_| None);
    parsed.err().map(|error| error.to_string())
}

/// Paths at which a key stands, in the form of remarks.
fn paths_of(node: &Node, name: &str, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    match &node.content {
        Content::Scalar(..) => {}
        Content::List(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(format!("[{index}]"));
                paths_of(item, name, path, found);
                path.pop();
            }
        }
        Content::Table(entries) => {
            for entry in entries {
                path.push(entry.name.clone());
                if entry.name == name {
                    found.push(path.clone());
                }
                paths_of(&entry.node, name, path, found);
                path.pop();
            }
        }
    }
}

/// The text with a line `zzz_unknown: 7` within a table, behind the line of its first key.
fn with_unknown(text: &str, line: usize) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.get(line)?;
    let indent = at.len() - at.trim_start().len();
    // A section that is off loses nothing.
    let is_key = !at.contains("enabled: false")
        && at.trim_start().starts_with(|c: char| c.is_ascii_lowercase())
        && at.contains(": ");
    if !is_key {
        return None;
    }
    let mut changed: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    changed.insert(line, format!("{}{UNKNOWN}: 7", " ".repeat(indent)));
    Some(changed.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn unknown_key_is_listed_wherever_it_stands(line in 0_usize..260) {
        let Some(text) = with_unknown(EIGHT, line) else { return Ok(()) };
        let Ok(imported) = imported(&text) else { return Ok(()) };
        let (mut path, mut found) = (Vec::new(), Vec::new());
        paths_of(&parse(&text).unwrap(), UNKNOWN, &mut path, &mut found);
        prop_assert!(!found.is_empty());
        // Remarks of several cameras stand for the others by their lines.
        let is_listed = |path: &[String]| imported.left_out.iter().any(|remark| path.starts_with(&remark.path));
        prop_assert!(found.iter().any(|path| is_listed(path)), "{found:?}: {:#?}", imported.left_out);
    }

    #[test]
    fn graph_of_any_part_of_a_configuration_passes_the_check(gone in prop::collection::vec(0_usize..270, 0..12)) {
        let kept = EIGHT.lines().enumerate().filter(|(line, _)| !gone.contains(line));
        let text: Vec<&str> = kept.map(|(_, line)| line).collect();
        if let Ok(imported) = imported(&text.join("\n")) {
            prop_assert_eq!(problems(&imported), None, "{}", imported.graph);
        }
    }

    #[test]
    fn odd_values_neither_panic_nor_break_the_graph(line in 0_usize..270, value in "[-0-9a-z.,'\"{}$@:/# \\[\\]]{0,12}") {
        let mut lines: Vec<String> = EIGHT.lines().map(str::to_owned).collect();
        if let Some(at) = lines.get_mut(line)
            && let Some((key, _)) = at.split_once(": ")
        {
            *at = format!("{key}: {value}");
        }
        if let Ok(imported) = imported(&lines.join("\n")) {
            prop_assert_eq!(problems(&imported), None, "{}", imported.graph);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = imported(&text);
    }
}

#[test]
fn secrets_stand_neither_in_the_graph_nor_in_remarks() {
    let imported = imported(EIGHT).unwrap();
    let remarks = imported.left_out.iter().chain(&imported.renamed);
    let shown: String = remarks.map(ToString::to_string).collect();
    for secret in ["c@mera#1", "c%40mera%231", "garage@", "dr1ve", "br0ker", "0nvif"] {
        assert!(
            !imported.graph.contains(secret) && !shown.contains(secret),
            "{secret}"
        );
    }
    assert_eq!(imported.passwords, ["c@mera#1", "garage"]);
    assert_eq!(imported.mqtt_password.as_deref(), Some("br0ker$pass"));
    assert_eq!(
        imported.variables,
        [("WEIR_DRIVE_SECRET".to_owned(), "dr1ve".to_owned())]
    );
    assert_eq!(
        imported.environment,
        ["FRIGATE_RTSP_PASSWORD", "FRIGATE_RTSP_USER"]
    );
    assert_eq!(problems(&imported), None);
}

#[test]
fn variables_behind_a_dollar_sign_are_found() {
    let names = variables("a = \"$$${A:-}${B:-}$${C:-}$\"\nb = \"${A:-}\"\n");
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["A", "B"]);
}

#[test]
fn configuration_of_0_13_has_events() {
    let text = "mqtt:\n  enabled: false\nrecord:\n  enabled: true\n  retain:\n    days: 0\n  events:\n    pre_capture: 3\n    \
                retain:\n      default: 5\n      mode: motion\n      objects:\n        person: 30\ncameras:\n  door:\n    ffmpeg:\n      \
                inputs:\n        - path: rtsp://10.0.0.7/live\n          roles: [detect, record]\n    record:\n      events:\n        \
                required_zones: [mat]\n    zones:\n      mat:\n        coordinates: 0,0,0.5,0,0.5,0.5,0,0.5\n";
    let imported = imported(text).unwrap();
    assert_eq!(problems(&imported), None, "{}", imported.graph);
    let graph: toml::Table = imported.graph.parse().unwrap();
    let rule = &graph["cameras"]["door"]["rules"]["event"];
    assert_eq!(rule["zones"].as_array().unwrap()[0].as_str(), Some("mat"));
    let sinks = graph["sinks"].as_table().unwrap();
    assert!(!sinks.contains_key("archive") && !sinks.contains_key("home"));
    let clips = &sinks["event-clips"];
    assert_eq!(clips["before"].as_str(), Some("3s"));
    assert_eq!(clips["keep_by"]["person"].as_str(), Some("30d"));
    let listed: Vec<String> = imported.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(listed.len(), 1, "{listed:#?}");
    assert!(
        listed[0].starts_with("11: record.events.retain.mode: all packets"),
        "{listed:#?}"
    );
}

#[test]
fn detection_is_off_from_0_16_on_unless_it_is_switched_on() {
    let text = "version: 0.16-0\nrecord: {enabled: true, retain: {days: 1}}\ncameras:\n  a:\n    ffmpeg: {inputs: [{path: \
                'rtsp://10.0.0.7/1', roles: [detect, record]}]}\n  b:\n    detect: {enabled: true}\n    ffmpeg: {inputs: [{path: \
                'rtsp://10.0.0.7/2', roles: [detect, record]}]}\n";
    let imported = imported(text).unwrap();
    let graph: toml::Table = imported.graph.parse().unwrap();
    assert_eq!(graph["modules"]["detect"]["inputs"].as_array().unwrap().len(), 1);
    assert_eq!(graph["sinks"]["archive"]["inputs"].as_array().unwrap().len(), 2);
    let older = imported_detecting(&text.replace("0.16-0", "0.15-1"));
    assert_eq!(older, 1, "`*` stands for both");
    assert!(left_out(&parse(text).unwrap()).len() > 1);
}

fn imported_detecting(text: &str) -> usize {
    let graph: toml::Table = imported(text).unwrap().graph.parse().unwrap();
    graph["modules"]["detect"]["inputs"].as_array().unwrap().len()
}
