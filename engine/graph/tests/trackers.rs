//! Trackers in graph files: they are no modules to the policy, what names them takes from what they follow, and what is wrong
//! with them is said.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use weir_graph::Vertex;

use crate::common::{VALID, check, graph};

/// The valid graph with a tracker, of which the plates and the sink take.
fn text(keys: &str) -> String {
    let sink = VALID.replace(
        "inputs = [\"detect\", \"plates\"]",
        "inputs = [\"plates\", \"cars\"]",
    );
    format!("{sink}\n[modules.cars]\noperator = \"track\"\n{keys}\n")
}

const FOLLOWS: &str = "inputs = [\"detect\"]";

#[test]
fn a_tracker_is_no_module_and_what_names_it_takes_from_what_it_follows() {
    let graph = graph(&text(&format!("{FOLLOWS}\nlost_after = \"3s\"\nhigh = 0.6")));
    let names: Vec<&str> = graph.modules().iter().map(|module| &*module.name).collect();
    assert_eq!(names, ["detect", "plates"]);
    let [tracker] = graph.trackers() else {
        panic!("one tracker")
    };
    assert_eq!((&*tracker.name, &*tracker.modules), ("cars", &[0][..]));
    assert_eq!(tracker.settings.number("lost_after", 0.0), 3.0);
    let sink = &graph.sinks()[0];
    assert_eq!(sink.inputs, [Vertex::Module(1), Vertex::Module(0)]);
    assert_eq!(sink.trackers, [0]);
    for drawing in [graph.to_mermaid(), graph.to_dot()] {
        assert!(drawing.contains("cars") && drawing.contains("t0 -"), "{drawing}");
    }
}

#[test]
fn a_module_may_take_from_a_tracker_and_its_sinks_are_shown_the_tracks() {
    let plates = "model = \"reader\"\ninputs = [\"detect\"]";
    assert!(VALID.contains(plates));
    let text = text(FOLLOWS)
        .replace(plates, "model = \"reader\"\ninputs = [\"cars\"]")
        .replace("inputs = [\"plates\", \"cars\"]", "inputs = [\"plates\"]");
    let graph = graph(&text);
    assert_eq!(graph.modules()[1].inputs, [Vertex::Module(0)]);
    assert_eq!(graph.sinks()[0].trackers, [0]);
    assert!(graph.warnings().is_empty(), "{:?}", graph.warnings());
}

#[test]
fn a_graph_without_its_tracker_is_another_graph() {
    let (with, without) = (graph(&text(FOLLOWS)), graph(VALID));
    assert!(
        with.changes_to(&without)
            .others
            .contains(&"module cars".to_owned())
    );
    let other = graph(&text(&format!("{FOLLOWS}\nhigh = 0.7")));
    assert!(with.changes_to(&other).others.contains(&"module cars".to_owned()));
    assert!(with.changes_to(&with.clone()).is_empty());
}

#[test]
fn what_no_sink_is_shown_is_remarked_on() {
    let graph = graph(&text(FOLLOWS).replace("[\"plates\", \"cars\"]", "[\"plates\"]"));
    let warnings: Vec<&str> = graph.warnings().iter().map(|warning| &*warning.message).collect();
    assert_eq!(warnings, ["no sink receives the tracks of \"cars\""]);
}

#[test]
fn what_is_wrong_with_a_tracker_is_said_with_a_hint() {
    let line = text("").lines().count();
    let at = |offset: isize, what: &str| format!("{}: {what}", line.saturating_add_signed(offset));
    for (keys, expected) in [
        ("inputs = [\"north\"]", at(0, "name modules with a detector")),
        ("inputs = [\"plates\"]", at(0, "\"plates\" finds none")),
        ("inputs = [\"cars\"]", at(0, "name modules with a detector")),
        ("inputs = [\"detct\"]", at(0, "detect")),
        ("", at(-2, "has no `inputs`")),
        (
            "inputs = [\"detect\"]\nmodel = \"detector\"",
            at(1, "is a tracker, which has no `model`"),
        ),
        ("inputs = [\"detect\"]\nlow = 0.6", at(1, "above `high`")),
        (
            "inputs = [\"detect\"]\nhigh = 0.7\nbegin = 0.6",
            at(2, "below `high`"),
        ),
        ("inputs = [\"detect\"]\nlost_after = \"0s\"", at(1, "lost_after")),
        ("inputs = [\"detect\"]\nhigh = 2", at(1, "high")),
        ("inputs = [\"detect\"]\nhihg = 0.5", at(1, "high")),
        (
            "inputs = [\"detect\"]\nparts = [\"plate in car\"]",
            at(1, "write \"plate of car, van\""),
        ),
    ] {
        check(&text(keys), &[&expected]);
    }
}

#[test]
fn a_module_that_runs_per_track_knows_the_tracker_before_it() {
    let plates = "inputs = [\"detect\"]\nregions = [\"plate\"]";
    assert!(VALID.contains(plates));
    let with = |keys: &str| text(FOLLOWS).replace(plates, &format!("{plates}\n{keys}"));
    let rule = |keys: &str| graph(&with(keys)).modules()[1].per_track.unwrap();
    assert!(rule("per_track = { once = true }").once && !rule("per_track = {}").once);
    let rule = rule("per_track = { every = \"2s\", until = 0.9 }");
    assert_eq!(
        (rule.tracker, rule.every.as_millis_f64(), rule.until),
        (0, 2000.0, Some(0.9))
    );
    let line = 1
        + with("")
            .lines()
            .position(|line| line.starts_with("regions"))
            .unwrap()
        + 1;
    for (keys, expected) in [
        ("per_track = { until = 1.5 }", "`until` must lie between 0 and 1"),
        ("per_track = { evry = \"1s\" }", "every"),
        ("per_track = { once = true, until = 0.9 }", "`once` stands alone"),
        ("per_track = \"1s\"", "per_track"),
        ("per_track = { every = \"0s\" }", "every"),
    ] {
        check(&with(keys), &[&format!("{line}: {expected}")]);
    }
    let alone = VALID.replace(plates, &format!("{plates}\nper_track = {{}}"));
    check(
        &alone,
        &[&format!(
            "{line}: no tracker follows what module \"plates\" takes"
        )],
    );
}
