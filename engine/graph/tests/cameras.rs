//! Cameras in graph files: the short form of a site becomes the sources and transforms that it stands for.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use weir_analytics::transforms::{TransformKind, time_zone};
use weir_flow::Transport;
use weir_graph::{Graph, Vertex};

use crate::common::{VALID, check, graph};

/// The valid graph with a tracker, whose module takes from all cameras, and whose sink from all of their parts.
fn text(cameras: &str) -> String {
    let has_parts = ["zones.", "lines.", "rules.", "transforms."]
        .iter()
        .any(|part| cameras.contains(part));
    let taken = if has_parts {
        "\"plates\", \"*\""
    } else {
        "\"plates\", \"tracks\""
    };
    let valid = VALID
        .replace("inputs = [\"north\", \"south\"]", "inputs = [\"*\"]")
        .replace(
            "inputs = [\"detect\", \"plates\"]",
            &format!("inputs = [{taken}]"),
        );
    format!("{valid}\n[modules.tracks]\noperator = \"track\"\ninputs = [\"detect\"]\n{cameras}\n")
}

fn at(line: usize, what: &str) -> String {
    format!("{}: {what}", text("").lines().count() + line - 1)
}

const DOOR: &str = "[cameras.door]
uri = \"rtsp://door/live\"
lines.step = [[0.1, 0.5], [0.9, 0.5]]
zones.porch = { points = [[0, 0], [1, 0], [0.5, 1]], classes = [\"car\"] }
rules.night = { zones = [\"porch\"], after = \"2s\" }
transforms.still = { type = \"parked\", after = \"60s\" }";

fn rule<'g>(graph: &'g Graph, name: &str) -> &'g weir_analytics::transforms::RuleSpec {
    let node = graph.transforms().iter().find(|node| node.name == name).unwrap();
    match &node.spec.kind {
        TransformKind::Rule(rule) => rule,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_camera_becomes_a_source_and_transforms_of_its_stream() {
    let short = graph(&text(DOOR));
    let long = "[sources.door]
uri = \"rtsp://door/live\"
[transforms.\"door.porch\"]
type = \"zone\"
inputs = [\"tracks\"]
streams = [\"door\"]
points = [[0, 0], [1, 0], [0.5, 1]]
classes = [\"car\"]
[transforms.\"door.step\"]
type = \"line\"
inputs = [\"tracks\"]
streams = [\"door\"]
points = [[0.1, 0.5], [0.9, 0.5]]
[transforms.\"door.night\"]
type = \"rule\"
inputs = [\"tracks\"]
streams = [\"door\"]
zones = [\"door.porch\"]
after = \"2s\"
[transforms.\"door.still\"]
type = \"parked\"
inputs = [\"tracks\"]
streams = [\"door\"]
after = \"60s\"";
    let long = graph(&text(long));
    assert_eq!(short.sources()[2], long.sources()[2]);
    assert_eq!(short.transforms(), long.transforms());
    assert_eq!(
        short.sinks()[0].transforms.len(),
        long.sinks()[0].transforms.len()
    );
    assert_eq!(short.modules()[0].inputs.len(), 3, "north, south and door");
    assert_eq!(short.sinks()[0].transforms.len(), 4);
    assert!(short.warnings().is_empty(), "{:?}", short.warnings());
}

#[test]
fn defaults_are_keys_of_every_source_that_has_none_of_its_own() {
    let defaults = "[defaults]\ntransport = \"udp\"\nfps = 5\nslo = \"900ms\"";
    let camera = "[cameras.door]\nuri = \"rtsp://door/live\"\ntransport = \"tcp\"\n[cameras.idle]\nuri = \"emulated:uniform?rate=5\"";
    let graph = graph(&text(&format!("{defaults}\n{camera}")));
    let source = |name: &str| graph.sources().iter().find(|node| node.name == name).unwrap();
    let transport = |name: &str| source(name).connection.transport;
    assert_eq!(
        (transport("south"), source("south").fps),
        (Transport::Udp, Some(12.5))
    );
    assert_eq!(
        (transport("door"), source("door").fps),
        (Transport::Tcp, Some(5.0))
    );
    // `transport` has no meaning for a file and an emulated stream.
    assert_eq!(source("north").fps, Some(5.0));
    assert_eq!(source("idle").slo.unwrap().to_string(), "900ms");
    let wrong = "[defaults]\nuri = \"x\"\nslo = 5\nmoed = \"live\"";
    check(
        &text(wrong),
        &[
            &at(2, "[defaults] has no key \"uri\""),
            &at(3, "`slo` must be a duration in quotes"),
            &at(4, "[defaults] has no key \"moed\" | did you mean \"mode\"?"),
        ],
    );
}

#[test]
fn what_is_wrong_with_a_camera_is_reported_where_it_was_written() {
    let camera = |lines: &str| text(&format!("[cameras.door]\nuri = \"rtsp://door/live\"\n{lines}"));
    for (lines, line, expected) in [
        (
            "zone = {}",
            3,
            "camera \"door\" has no key \"zone\" | did you mean \"zones\"?",
        ),
        ("template = true", 3, "camera \"door\" has no key \"template\""),
        ("fps = \"5\"", 3, "`fps` must be a number, not a text"),
        (
            "zones = 3",
            3,
            "`zones` of camera \"door\" must be a table, not a whole number",
        ),
        (
            "zones.porch = 3",
            3,
            "\"porch\" of `zones` must be a table, not a whole number | or a list of points",
        ),
        (
            "\nzones.porch = [[0, 0], [1, 0]]",
            4,
            "transform \"door.porch\": `points` has 2 points",
        ),
        (
            "zones.porch = { pionts = [[0, 0], [1, 0], [0, 1]] }",
            3,
            "transform \"door.porch\" has no key \"pionts\" | did you mean \"points\"?",
        ),
        (
            "zones.porch = { points = [[0, 0], [1, 0], [0, 1]], classes = [\"dog\"] }",
            3,
            "\"door.porch\" can never match: none of its inputs finds the class \"dog\"",
        ),
        (
            "zones.porch = { type = \"zone\" }",
            3,
            "`type` has no meaning in `zones` of a camera",
        ),
        (
            "lines.step = { streams = [\"door\"] }",
            3,
            "`streams` has no meaning in `lines` of a camera",
        ),
        ("transforms.a = {}", 3, "transform \"door.a\" has no `type`"),
        ("rules.a = { zones = [\"prch\"] }", 3, "there is no zone \"prch\""),
        (
            "timezone = \"Berlin\"",
            3,
            "`timezone`: \"Berlin\" is not a time zone | did you mean \"Europe/Berlin\"?",
        ),
        (
            "tracker = \"detect\"\nlines.a = [[0, 0.5], [1, 0.5]]",
            3,
            "\"door.a\" follows objects over time, and none of its `inputs` is a tracker",
        ),
        (
            "schedule = { hour = \"01:00-02:00\" }\nrules.a = {}",
            3,
            "`schedule` has no key \"hour\" | did you mean \"hours\"?",
        ),
        (
            "schedule = { hours = \"1\" }\nrules.a = {}",
            3,
            "transform \"door.a\": `hours`: \"1\" is not a time of day",
        ),
    ] {
        check(&camera(lines), &[&at(line, expected)]);
    }
    check(
        &text("[cameras.south]\nuri = \"rtsp://door/live\""),
        &[&at(1, "names this source and the source of line")],
    );
    check(
        &text("[cameras.door]\nfps = 5"),
        &[&at(1, "source \"door\" has no `uri`")],
    );
}

#[test]
fn a_camera_takes_the_only_tracker_or_the_one_that_it_names() {
    let two = "[modules.other]\noperator = \"track\"\ninputs = [\"detect\"]\n";
    check(
        &text(&format!("{two}{DOOR}")),
        &[&at(
            7,
            "the graph has 2 trackers, and camera \"door\" names none of them | tracker = \"tracks\"",
        )],
    );
    for tracker in [
        format!("{DOOR}\ntracker = \"other\""),
        format!("[defaults]\ntracker = \"other\"\n{DOOR}"),
    ] {
        let graph = graph(&text(&format!("{two}{tracker}")));
        assert!(graph.transforms().iter().all(|node| node.trackers == [1]));
    }
    let none = text(DOOR).replace(
        "operator = \"track\"\ninputs",
        "operator = \"detect\"\nmodel = \"detector\"\ninputs",
    );
    check(
        &none,
        &[&at(
            5,
            "camera \"door\" has zones, lines or rules, and the graph has no tracker",
        )],
    );
}

#[test]
fn schedules_and_time_zones_are_those_of_the_rule_then_of_its_camera_then_of_all() {
    let site = "[defaults]
schedule = { hours = \"20:00-06:00\" }
[cameras.door]
uri = \"rtsp://door/live\"
timezone = \"Asia/Tokyo\"
rules.a = {}
rules.b = { hours = \"01:00-02:00\", days = [\"mon-fri\"] }
[cameras.gate]
uri = \"rtsp://gate/live\"
schedule = { days = [\"sun\"], except = [\"12-24\"] }
rules.c = { timezone = \"Europe/London\" }";
    let graph = graph(&text(site).replace("[app]", "[app]\ntimezone = \"Europe/Berlin\""));
    let schedule = |name: &str| &rule(&graph, name).schedule;
    let hours = |name: &str| schedule(name).hours.map(|hours| (hours.from, hours.until));
    assert_eq!(hours("door.a"), Some((1200, 360)));
    assert_eq!(
        (hours("door.b"), schedule("door.b").days.is_some()),
        (Some((60, 120)), true)
    );
    assert_eq!((hours("gate.c"), schedule("gate.c").except.len()), (None, 1));
    let zone = |name: &str| time_zone(name).ok();
    assert_eq!(
        (schedule("door.a").zone.clone(), schedule("gate.c").zone.clone()),
        (None, zone("Europe/London"))
    );
    let of = |name: &str| {
        graph
            .sources()
            .iter()
            .find(|node| node.name == name)
            .unwrap()
            .timezone
            .clone()
    };
    assert_eq!(
        (of("door"), of("gate"), graph.timezone().cloned()),
        (zone("Asia/Tokyo"), None, zone("Europe/Berlin"))
    );
    let unused = crate::common::graph(&text(
        "[cameras.door]\nuri = \"rtsp://door/live\"\nschedule = { hours = \"01:00-02:00\" }",
    ));
    assert_eq!(unused.warnings().len(), 1, "{:?}", unused.warnings());
}

#[test]
fn groups_are_a_name_or_a_list_of_names() {
    let camera = |group: &str| text(&format!("[cameras.door]\nuri = \"rtsp://door/live\"\n{group}"));
    let of = |group: &str| graph(&camera(group)).sources()[2].groups.clone();
    assert_eq!(of(""), [""; 0]);
    assert_eq!(of("group = \"yard\""), ["yard"]);
    assert_eq!(
        of("group = [\"yard\", \"night round\", \"yard\"]"),
        ["yard", "night round"]
    );
    let nine: Vec<String> = (1..=9).map(|number| format!("\"{number}\"")).collect();
    for (group, expected) in [
        (
            "group = 3".to_owned(),
            "`group` must be a name or a list of names",
        ),
        ("group = [3]".to_owned(), "`group` must hold texts"),
        (
            "group = \" yard\"".to_owned(),
            "\" yard\" is not a name of a group",
        ),
        (
            "group = [\"a\", \"\"]".to_owned(),
            "\"\" is not a name of a group",
        ),
        (
            "group = \"a\\tb\"".to_owned(),
            "\"a\\tb\" is not a name of a group",
        ),
        (
            format!("group = \"{}\"", "g".repeat(65)),
            "a name has at most 64 characters",
        ),
        (
            format!("group = [{}]", nine.join(", ")),
            "source \"door\" is in more than 8 groups",
        ),
    ] {
        check(&camera(&group), &[&at(3, expected)]);
    }
    // Another group leaves the stream as it runs.
    let changes = graph(&camera("group = \"yard\"")).changes_to(&graph(&camera("group = \"gate\"")));
    assert!(!changes.removed.contains(&"door".to_owned()));
    let door = changes.changed.iter().find(|node| node.name == "door");
    assert_eq!(door.unwrap().groups, ["gate"]);
}

#[test]
fn masks_and_sizes_are_read_and_what_is_wrong_with_them_is_reported() {
    let camera = |lines: &str| text(&format!("[cameras.door]\nuri = \"rtsp://door/live\"\n{lines}"));
    let keys = "only = [[0, 0.2], [1, 0.2], [1, 1], [0, 1]]
ignore = [[[0, 0], [0.1, 0], [0.1, 1]], [[0.9, 0], [1, 0], [1, 1]]]
objects.car = { min_area = 0.01, max_ratio = 3, ignore = [[0, 0], [1, 0], [1, 0.1]] }
objects.\"*\" = { min_score = 0.5 }";
    let with = graph(&camera(keys));
    let objects = &with.sources()[2].objects;
    assert_eq!(
        (
            objects.all.only.len(),
            objects.all.ignore.len(),
            objects.all.min_score
        ),
        (1, 2, Some(0.5))
    );
    assert_eq!(objects.classes["car"].max_ratio, Some(3.0));
    assert_eq!(objects.masks().count(), 4);
    // Another mask makes another source.
    let changes = with.changes_to(&graph(&camera(&keys.replace("0.2", "0.3"))));
    assert!(changes.removed.contains(&"door".to_owned()), "{changes:?}");
    for (line, expected) in [
        (
            "ignore = [[0, 0], [1, 0]]",
            "camera \"door\": `ignore` has 2 points",
        ),
        (
            "ignore = [[[0, 0], [1, 1], [1, 0], [0, 1]]]",
            "the polygon crosses itself",
        ),
        (
            "ignore = [[0, 0], [100, 0], [1, 1]]",
            "`ignore`: [100, 0] lies outside the frame",
        ),
        ("ignore = [3]", "`ignore` must hold polygons, not a whole number"),
        ("ignore = 3", "`ignore` must be a list of polygons"),
        (
            "objects.dog = { min_score = 0.5 }",
            "no detector finds the class \"dog\" in its frames | its frames have: car, plate",
        ),
        (
            "objects.car = { min_score = 2 }",
            "`min_score` must lie between 0 and 1, not 2",
        ),
        (
            "objects.car = { min_size = 2 }",
            "class \"car\", has no key \"min_size\"",
        ),
        (
            "objects.car = { min_area = 0.5, max_area = 0.1 }",
            "no object has a size between 0.5 and 0.1",
        ),
        ("objects = 3", "must be a table, not a whole number"),
    ] {
        let expected = expected.replace("camera \"door\":", "source \"door\":");
        check(&camera(line), &[&at(3, &expected)]);
    }
}

#[test]
fn a_star_in_inputs_stands_for_sources_of_modules_and_transforms_of_sinks() {
    let with = |module: &str, sink: &str| {
        let text = text(DOOR);
        text.replace("inputs = [\"*\"]", &format!("inputs = [{module}]"))
            .replace(
                "inputs = [\"plates\", \"*\"]",
                &format!("inputs = [\"plates\", {sink}]"),
            )
    };
    let some = graph(&with("\"no*\", \"d*\"", "\"*.porch\", \"door.step\""));
    assert_eq!(some.modules()[0].inputs, [Vertex::Source(0), Vertex::Source(2)]);
    assert_eq!(some.sinks()[0].transforms.len(), 2);
    let line = |part: &str, text: &str| text.lines().position(|line| line.contains(part)).unwrap() + 1;
    for (module, sink, part, expected) in [
        (
            "\"x*\"",
            "\"*\"",
            "\"x*\"",
            "\"x*\" is the name of no source | sources: door, north, south",
        ),
        (
            "\"*\"",
            "\"x*\"",
            "\"x*\"",
            "\"x*\" is the name of no transform | transforms: door.night, door.porch, door.step, door.still",
        ),
    ] {
        let text = with(module, sink);
        check(&text, &[&format!("{}: {expected}", line(part, &text))]);
    }
    let tracker = text(DOOR).replace("inputs = [\"detect\"]\n[cameras", "inputs = [\"det*\"]\n[cameras");
    check(
        &tracker,
        &[&at(
            0,
            "\"det*\" has a star, and `inputs` of a tracker name modules",
        )],
    );
    let rule = text(&format!(
        "{DOOR}\n[transforms.any]\ntype = \"rule\"\ninputs = [\"*.porch\"]"
    ));
    assert_eq!(rule_zones(&graph(&rule)), ["door.porch"]);
}

fn rule_zones(graph: &Graph) -> Vec<String> {
    rule(graph, "any").zones.iter().map(ToString::to_string).collect()
}

#[test]
fn a_module_may_run_for_some_streams() {
    let with = |streams: &str| {
        text("").replace(
            "operator = \"read-text\"",
            &format!("operator = \"read-text\"\nstreams = {streams}"),
        )
    };
    let reader = graph(&with("[\"north\"]"));
    let names = &reader.modules()[1].streams;
    assert!(names.contains("north") && !names.contains("south") && reader.modules()[0].streams.are_all());
    let line = with("[\"nort\"]")
        .lines()
        .position(|line| line.contains("nort\""))
        .unwrap()
        + 1;
    check(
        &with("[\"nort\"]"),
        &[&format!(
            "{line}: there is no source \"nort\" | did you mean \"north\"?"
        )],
    );
}
