//! Privacy of cameras in graph files.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use weir_analytics::Privacy;
use weir_flow::{HiddenForm, SinkSpec};
use weir_graph::{Graph, SourceNode, parse};

use crate::common::{VALID, catalog, check, environment, folder, graph};

const CAMERA: &str = "[cameras.door]\nuri = \"rtsp://door/live\"\n";

/// The valid graph, whose detector takes from all cameras, with these lines.
fn text(lines: &str) -> String {
    let valid = VALID.replace("inputs = [\"north\", \"south\"]", "inputs = [\"*\"]");
    format!("{valid}{lines}\n")
}

fn at(line: usize, what: &str) -> String {
    format!("{}: {what}", text("").lines().count() + line - 1)
}

fn privacy(graph: &Graph, name: &str) -> Privacy {
    let source = graph.sources().iter().find(|source| source.name == name);
    source.unwrap().privacy.clone().unwrap_or_default()
}

#[test]
fn a_camera_hides_classes_and_regions() {
    let region = "[[0, 0], [0.5, 0], [0.5, 0.5]]";
    let keys = format!(
        "private = true\n[cameras.door.privacy]\nblur = [\"car\"]\nblackout = [\"plate\"]\n\
         regions = [{region}, {{ points = {region}, form = \"blur\" }}]"
    );
    let graph = graph(&text(&format!("{CAMERA}{keys}")));
    let door = privacy(&graph, "door");
    let forms: Vec<(&str, HiddenForm)> = door
        .classes
        .iter()
        .map(|(class, form)| (&**class, *form))
        .collect();
    assert_eq!(
        forms,
        [("car", HiddenForm::Blur), ("plate", HiddenForm::Blackout)]
    );
    let forms: Vec<HiddenForm> = door.regions.iter().map(|(form, _)| *form).collect();
    assert_eq!(forms, [HiddenForm::Blackout, HiddenForm::Blur]);
    assert!(door.private && door.hides());
    assert_eq!(privacy(&graph, "north"), Privacy::default());
}

#[test]
fn a_camera_has_what_the_defaults_hide_and_its_own_keys_in_their_place() {
    let lines = format!(
        "[defaults]\nprivacy = {{ blur = [\"car\"], blackout = [\"plate\"] }}\nprivate = true\n\
         {CAMERA}privacy = {{ blur = [], regions = [[0, 0], [1, 0], [1, 1]] }}\nprivate = false"
    );
    let graph = graph(&text(&lines));
    let (north, door) = (privacy(&graph, "north"), privacy(&graph, "door"));
    assert_eq!((north.classes.len(), north.regions.len()), (2, 0));
    assert!(north.private && !door.private);
    assert_eq!((door.classes.len(), door.regions.len()), (1, 1));
    let added = SourceNode::new("yard", "rtsp://yard/live");
    assert_eq!(graph.privacy_of(&added, None), north, "a stream that is added");
    let like = graph.privacy_of(&added, Some("door"));
    assert_eq!((like.classes.len(), like.regions.len()), (1, 0));
    let pictures = SourceNode::new("(pictures:door)", "");
    assert_eq!(
        graph.privacy_of(&pictures, Some("door")),
        door,
        "pictures of the camera itself"
    );
}

#[test]
fn what_is_wrong_is_reported_where_it_was_written() {
    for (keys, expected) in [
        ("privacy = true", "must be a table"),
        (
            "privacy = { blurr = [] }",
            "has no key \"blurr\" | did you mean \"blur\"?",
        ),
        (
            "privacy = { blur = [\"car\"], blackout = [\"car\"] }",
            "\"car\" is both in `blur` and in `blackout`",
        ),
        (
            "privacy = { blur = [\"cat\"] }",
            "no detector finds the class \"cat\" in its frames | did you mean \"car\"?",
        ),
        ("privacy = { regions = [[[0, 0], [1, 0]]] }", "`regions`"),
        ("privacy = { regions = [{ form = \"blur\" }] }", "has no `points`"),
        (
            "privacy = { regions = [{ points = [[0, 0], [1, 0], [1, 1]], form = \"red\" }] }",
            "`form`",
        ),
        ("private = \"yes\"", "`private` must be true or false"),
    ] {
        check(&text(&format!("{CAMERA}{keys}")), &[&at(3, expected)]);
    }
    let shared = "[defaults]\nprivacy = { regions = [[0, 0], [1, 0], [1, 1]] }";
    check(
        &text(shared),
        &[&at(2, "`regions` of `privacy` have no meaning in [defaults]")],
    );
}

#[test]
fn a_hidden_class_that_is_found_in_some_frames_only_is_an_error() {
    let lines = "[modules.tracks]\noperator = \"track\"\ninputs = [\"detect\"]\n\
         [models.faces]\nmodel = \"reader.onnx\"\nhead = \"yunet\"\n\
         [modules.faces]\noperator = \"detect\"\nmodel = \"faces\"\ninputs = [\"tracks\"]\nregions = [\"car\"]\n\
         per_track = { every = \"1s\" }\n\
         [sinks.out]\ntype = \"null\"\ninputs = [\"faces\"]\n";
    let camera = format!("{CAMERA}privacy = {{ blur = [\"face\"] }}");
    check(
        &text(&format!("{lines}{camera}")),
        &[&at(
            12,
            "hides \"face\", and \"faces\" finds it in some frames only",
        )],
    );
    let always = lines.replace("per_track = { every = \"1s\" }\n", "");
    graph(&text(&format!("{always}{camera}")));
}

#[test]
fn a_sink_that_records_what_pictures_hide_is_a_warning() {
    let mut catalog = catalog();
    let recorder = SinkSpec {
        name: "clips",
        ..catalog.sinks[1].clone()
    };
    catalog.sinks.push(recorder);
    let folder = folder();
    let warnings = |keys: &str| -> Vec<String> {
        let sink = "[sinks.record]\ntype = \"clips\"\ninputs = [\"detect\"]\n";
        let text = text(&format!("{sink}{CAMERA}{keys}"));
        let graph = parse(&text, &folder.path().join("graph.toml"), &catalog, &environment).unwrap();
        let warnings = graph.warnings().iter();
        let about = warnings.filter(|warning| warning.message.contains("without what `privacy` hides"));
        about.map(|warning| warning.message.clone()).collect()
    };
    let hidden = "privacy = { blur = [\"car\"] }";
    let found = warnings(hidden);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains("sink \"record\" records the video of \"door\""),
        "{found:?}"
    );
    assert!(warnings(&format!("{hidden}\nprivate = true")).is_empty());
    assert!(warnings("").is_empty());
}

#[test]
fn other_privacy_begins_the_stream_anew() {
    let before = graph(&text(CAMERA));
    let after = graph(&text(&format!("{CAMERA}privacy = {{ blur = [\"car\"] }}")));
    let changes = before.changes_to(&after);
    let is_anew = |name: &str| changes.removed.iter().any(|removed| removed == name);
    assert!(is_anew("door") && !is_anew("south"), "{changes:?}");
}
