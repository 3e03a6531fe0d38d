//! Transforms in graph files: what they take, and what is said of those that are wrong.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use weir_analytics::transforms::TransformKind;
use weir_graph::Vertex;

use crate::common::{VALID, check, graph, read};

/// The valid graph with a tracker and transforms, of which the sink takes the first.
fn text(transforms: &str) -> String {
    let first = transforms.split(['.', ']']).nth(1).unwrap_or("cars");
    let inputs = format!("inputs = [\"plates\", \"{first}\"]");
    let sink = VALID.replace("inputs = [\"detect\", \"plates\"]", &inputs);
    format!("{sink}\n[modules.cars]\noperator = \"track\"\ninputs = [\"detect\"]\n{transforms}\n")
}

const GATE: &str = "[transforms.gate]
type = \"line\"
inputs = [\"cars\"]
points = [[0.1, 0.5], [0.9, 0.5]]";

const YARD: &str = "[transforms.yard]
type = \"zone\"
inputs = [\"cars\"]
points = [[0, 0], [1, 0], [0.5, 1]]";

#[test]
fn a_sink_of_a_transform_takes_what_the_transform_takes() {
    let graph = graph(&text(GATE));
    let [gate] = graph.transforms() else {
        panic!("one transform")
    };
    assert_eq!((&*gate.name, gate.spec.kind.name()), ("gate", "line"));
    assert_eq!((&*gate.modules, &*gate.trackers), (&[0][..], &[0][..]));
    let sink = &graph.sinks()[0];
    assert_eq!(sink.inputs, [Vertex::Module(1), Vertex::Module(0)]);
    assert_eq!((&*sink.trackers, &*sink.transforms), (&[0][..], &[0][..]));
    assert!(graph.warnings().is_empty(), "{:?}", graph.warnings());
    for drawing in [graph.to_mermaid(), graph.to_dot()] {
        assert!(drawing.contains("t0 -") && drawing.contains("x0 -"), "{drawing}");
    }
}

#[test]
fn a_rule_takes_from_zones_by_input_and_by_name() {
    for keys in ["inputs = [\"yard\"]", "inputs = [\"cars\"]\nzones = [\"yard\"]"] {
        let rule = format!(
            "[transforms.night]\ntype = \"rule\"\nclasses = [\"car\"]\nhours = \"22:00-06:00\"\n{keys}\n"
        );
        let graph = graph(&text(&format!("{rule}{YARD}")));
        let night = &graph.transforms()[0];
        let TransformKind::Rule(rule) = &night.spec.kind else {
            panic!("a rule")
        };
        assert_eq!(rule.zones, ["yard".into()]);
        assert_eq!(night.trackers, [0]);
        assert!(graph.warnings().is_empty(), "{:?}", graph.warnings());
    }
}

#[test]
fn another_line_makes_another_graph() {
    let (one, other) = (graph(&text(GATE)), graph(&text(&GATE.replace("0.9", "0.8"))));
    let others = one.changes_to(&other).others;
    assert!(others.contains(&"transform gate".to_owned()), "{others:?}");
}

#[test]
fn a_transform_a_tracker_and_a_sink_may_be_for_some_streams() {
    let with = |streams: &str| text(&format!("{GATE}\nstreams = {streams}"));
    let streams = ["north", "south", "south-2"];
    for (given, expected) in [
        ("[\"north\"]", [true, false, false]),
        ("[\"s*\"]", [false, true, true]),
        ("[\"south\", \"north\"]", [true, true, false]),
        // No source: streams that are added later.
        ("[\"yard-*\"]", [false; 3]),
    ] {
        let graph = graph(&with(given));
        let own = &graph.transforms()[0].streams;
        assert_eq!(streams.map(|stream| own.contains(stream)), expected, "{given}");
        assert!(graph.trackers()[0].streams.are_all() && graph.sinks()[0].streams.are_all());
    }
    let others = graph(&text(GATE)).changes_to(&graph(&with("[\"north\"]"))).others;
    assert!(others.contains(&"transform gate".to_owned()), "{others:?}");
    let tracker = text(GATE).replace(
        "operator = \"track\"",
        "operator = \"track\"\nstreams = [\"south\"]",
    );
    assert!(!graph(&tracker).trackers()[0].streams.contains("north"));
    let sink = text(GATE).replace("type = \"jsonl\"", "type = \"jsonl\"\nstreams = [\"south\"]");
    assert!(!graph(&sink).sinks()[0].streams.contains("north"));
    // Any name may come where streams are added by a template.
    let template = with("[\"door\"]")
        .replace(
            "[modules.detect]",
            "[sources.camera]\ntemplate = true\n[modules.detect]",
        )
        .replace("[\"north\", \"south\"]", "[\"north\", \"south\", \"camera\"]");
    assert!(graph(&template).transforms()[0].streams.contains("door"));
}

#[test]
fn streams_that_are_not_there_are_reported() {
    let begin = text("").lines().count();
    let at = |line: usize, what: &str| format!("{}: {what}", begin + line - 1);
    for (streams, expected) in [
        ("[]", "transform \"gate\" is for no stream: `streams` is empty"),
        (
            "[\"nort\"]",
            "there is no source \"nort\" | did you mean \"north\"?",
        ),
        (
            "[\"door\"]",
            "there is no source \"door\" | sources: north, south",
        ),
        ("[\"north\", 3]", "`streams` must hold texts, not a whole number"),
    ] {
        check(
            &text(&format!("{GATE}\nstreams = {streams}")),
            &[&at(5, expected)],
        );
    }
    let alone = text(&format!("{GATE}\nstreams = [\"south\"]"))
        .replace("inputs = [\"north\", \"south\"]", "inputs = [\"north\"]")
        .replace("\"plates\", \"gate\"", "\"plates\", \"gate\", \"south\"");
    check(
        &alone,
        &[&at(
            5,
            "frames of \"south\" never reach \"gate\" | streams that reach it: north",
        )],
    );
    let rule = "[transforms.night]\ntype = \"rule\"\ninputs = [\"cars\"]\nzones = [\"yard\"]\nstreams = [\"north\", \"south\"]";
    let yard = format!("{YARD}\nstreams = [\"north\"]");
    check(
        &text(&format!("{rule}\n{yard}")),
        &[&at(
            5,
            "\"night\" can never match on \"south\": none of its zones is for that stream",
        )],
    );
    graph(&text(&format!(
        "{}\n{yard}",
        rule.replace("\nstreams = [\"north\", \"south\"]", "")
    )));
}

#[test]
fn what_is_wrong_with_a_transform_is_said_with_its_line() {
    let begin = text("").lines().count();
    let at = |line: usize, what: &str| format!("{}: {what}", begin + line - 1);
    for (table, line, expected) in [
        (GATE.replace("0.9, 0.5", "1.2, 0.5"), 4, "[1.2, 0.5] lies outside the frame"),
        (format!("{}\nunits = \"pixels\"", GATE.replace("0.1", "-4")), 4, "[-4, 0.5] lies outside the frame"),
        (GATE.replace("0.9, 0.5", "0.1, 0.5"), 4, "`points` has no length"),
        (GATE.replace(", [0.9, 0.5]", ""), 4, "has 1 points, and must have two"),
        (YARD.replace(", [0.5, 1]", ""), 4, "has 2 points, and a polygon at least three"),
        (YARD.replace("[1, 0], [0.5, 1]", "[1, 1], [1, 0], [0, 1]"), 4, "the polygon crosses itself"),
        (YARD.replace("[0.5, 1]", "[0.5, 0]"), 4, "next to no area"),
        (YARD.replace("[0.5, 1]", "[0.5]"), 4, "must hold points, each of two numbers"),
        (GATE.replace("\npoints = [[0.1, 0.5], [0.9, 0.5]]", ""), 1, "it has no `points`"),
        (GATE.replace("\"cars\"", "\"detect\""), 3, "none of its `inputs` is a tracker"),
        (GATE.replace("\"cars\"", "\"crs\""), 3, "\"crs\""),
        (format!("{GATE}\nclasses = [\"lorry\"]"), 5, "none of its inputs finds the class \"lorry\""),
        (format!("{GATE}\nclases = [\"car\"]"), 5, "no key \"clases\""),
        (format!("{GATE}\nmargin = -1"), 5, "`margin` must lie between 0 and 5"),
        (format!("{GATE}\ndirections = [\"in\"]"), 5, "two different names"),
        (GATE.replace("\"line\"", "\"lime\""), 2, "no transform type \"lime\""),
        (
            "[transforms.r]\ntype = \"rule\"\ninputs = [\"cars\"]\nmin_score = 1.5".to_owned(),
            4,
            "`min_score` must lie between 0 and 1",
        ),
        (
            "[transforms.r]\ntype = \"rule\"\ninputs = [\"cars\"]\nhours = \"08:00-08:00\"".to_owned(),
            4,
            "empty time of day",
        ),
        (
            "[transforms.r]\ntype = \"rule\"\ninputs = [\"cars\"]\nzones = [\"yrd\"]".to_owned(),
            4,
            "there is no zone \"yrd\"",
        ),
        (
            "[transforms.r]\ntype = \"rule\"\ninputs = [\"cars\"]\nattributes = [\"plate\"]".to_owned(),
            4,
            "names no value",
        ),
        (
            "[transforms.s]\ntype = \"speed\"\ninputs = [\"cars\"]\npoints = [[0.4, 0.2], [0.6, 0.2], [0.9, 0.9], [0.1, 0.9]]\nground = [[0, 9], [0, 0], [3, 9], [3, 0]]".to_owned(),
            5,
            "no camera sees",
        ),
        (
            "[transforms.w]\ntype = \"wrong-way\"\ninputs = [\"cars\"]\ndirection = [[0.5, 0.5]]".to_owned(),
            4,
            "must have two",
        ),
    ] {
        check(&text(&table), &[&at(line, expected)]);
    }
    let source = GATE.replace("\"cars\"", "\"north\"");
    let (objects, tracks) = (
        at(3, "sources have none"),
        at(3, "none of its `inputs` is a tracker"),
    );
    check(&text(&source), &[&objects, &tracks]);
}

#[test]
fn what_can_never_hold_is_refused() {
    let rule = |keys: &str| format!("[transforms.r]\ntype = \"rule\"\ninputs = [\"cars\"]\n{keys}");
    let named = |text: String| {
        let plates = "regions = [\"plate\"]";
        text.replace(plates, &format!("{plates}\nattribute = \"plate\""))
    };
    let ends = |transforms: &str, tracker: &str| {
        let text = named(text(transforms));
        text.replace(
            "operator = \"track\"\n",
            &format!("operator = \"track\"\n{tracker}"),
        )
    };
    let followed = "no tracker among its inputs follows the class";
    for (transforms, tracker, key, expected) in [
        (
            rule("classes = [\"plate\"]"),
            "classes = [\"car\"]\n",
            "classes",
            followed,
        ),
        (
            rule("classes = [\"plate\"]"),
            "parts = [\"plate of car\"]\n",
            "classes",
            followed,
        ),
        (
            format!(
                "{}\n{YARD}\nclasses = [\"car\"]",
                rule("classes = [\"plate\"]\nzones = [\"yard\"]")
            ),
            "",
            "classes",
            "its zones take none of its classes",
        ),
        (
            rule("attributes = [\"plate=A1\", \"plate!=A1\"]"),
            "",
            "attributes",
            "it requires `plate` to be both equal and unequal to \"A1\"",
        ),
        (
            rule("attributes = [\"identity=unknown\"]"),
            "",
            "attributes",
            "no module produces the attribute `identity`",
        ),
    ] {
        let text = ends(&transforms, tracker);
        let begin = text.lines().position(|line| line == "[transforms.r]").unwrap();
        let line = text
            .lines()
            .skip(begin)
            .position(|line| line.starts_with(key))
            .unwrap();
        let expected = format!("{}: \"r\" can never match: {expected}", begin + line + 1);
        check(&text, &[&expected]);
    }
    for holds in [
        rule("attributes = [\"plate=A1\", \"plate=A2\", \"plate!=A1\"]"),
        rule("attributes = [\"plate=*\", \"plate!=A1\"]"),
        format!(
            "{}\n{YARD}\nclasses = [\"car\"]",
            rule("classes = [\"car\", \"plate\"]\nzones = [\"yard\"]")
        ),
    ] {
        graph(&ends(&holds, ""));
    }
}

#[test]
fn rules_on_attributes_that_nobody_gives_are_refused_by_default_names_too() {
    let rule = |attribute: &str| {
        format!("[transforms.r]\ntype = \"rule\"\ninputs = [\"cars\"]\nattributes = [\"{attribute}=A1\"]")
    };
    // `plates` has no `attribute`: it gives `text`.
    graph(&text(&rule("text")));
    let line = text(&rule("text"))
        .lines()
        .position(|line| line.starts_with("attributes"))
        .unwrap()
        + 1;
    for attribute in ["plate", "Text", "text_tokens"] {
        let expected =
            format!("{line}: \"r\" can never match: no module produces the attribute `{attribute}`");
        check(&text(&rule(attribute)), &[&expected]);
    }
}

#[test]
fn hours_have_the_time_zone_that_is_named() {
    let rule = |keys: &str| {
        format!("[transforms.r]\ntype = \"rule\"\ninputs = [\"cars\"]\nhours = \"22:00-06:00\"\n{keys}")
    };
    for keys in [
        "timezone = \"Europe/Berlin\"",
        "timezone = \"UTC\"",
        "timezone = \"america/new_york\"",
    ] {
        graph(&text(&rule(keys)));
    }
    for (keys, expected) in [
        ("timezone = \"Berlin\"", "\"Berlin\" is not a time zone"),
        ("timezone = \"\"", "\"\" is not a time zone"),
        ("timezone = \"../../etc/passwd\"", "is not a time zone"),
        ("utc_offset = \"Europe/Berlin\"", "`utc_offset` is not an offset"),
        (
            "utc_offset = \"+01:00\"\ntimezone = \"Europe/Berlin\"",
            "`utc_offset` is beside `timezone`",
        ),
    ] {
        let problems = read(&text(&rule(keys))).unwrap_err().to_string();
        assert!(problems.contains(expected), "{keys}: {problems}");
    }
}

#[test]
fn a_line_that_nothing_can_cross_is_remarked_on() {
    let warnings = |points: &str| {
        let gate = GATE.replace("[[0.1, 0.5], [0.9, 0.5]]", points);
        let graph = graph(&text(&gate));
        let warnings = graph.warnings().iter();
        warnings
            .map(|warning| warning.message.clone())
            .collect::<Vec<_>>()
    };
    for (points, edge) in [
        ("[[0, 1], [1, 1]]", "lower"),
        ("[[1, 0], [0, 0.001]]", "upper"),
        ("[[0, 0], [0, 1]]", "left"),
        ("[[1, 0.2], [1, 0.8]]", "right"),
    ] {
        let found = warnings(points);
        assert_eq!(found.len(), 1, "{points}: {found:?}");
        let expected = format!("nothing can cross \"gate\": it lies on the {edge} edge of the picture");
        assert!(found[0].starts_with(&expected), "{found:?}");
    }
    for points in ["[[0, 0.99], [1, 0.99]]", "[[0, 1], [1, 0.9]]", "[[0, 0], [1, 1]]"] {
        assert!(warnings(points).is_empty(), "{points}");
    }
}

#[test]
fn only_sinks_and_rules_take_from_transforms() {
    let plates = text(GATE).replace(
        "model = \"reader\"\ninputs = [\"detect\"]",
        "model = \"reader\"\ninputs = [\"gate\"]",
    );
    let line = plates
        .lines()
        .position(|line| line == "inputs = [\"gate\"]")
        .unwrap()
        + 1;
    check(
        &plates,
        &[&format!("{line}: only sinks and rules take from transforms")],
    );
    let zone = YARD.replace("\"cars\"", "\"gate\"");
    let both = text(&format!("{GATE}\n{zone}"));
    let line = both.lines().count() - 1;
    check(
        &both,
        &[&format!("{line}: cannot take from the transform \"gate\"")],
    );
}

#[test]
fn a_transform_that_no_sink_is_given_is_remarked_on() {
    let unused = text(&format!("{GATE}\n{YARD}"));
    let warnings = graph(&unused).warnings().to_vec();
    let warnings: Vec<&str> = warnings.iter().map(|warning| &*warning.message).collect();
    assert_eq!(warnings, ["no sink receives the results of \"yard\""]);
}
