//! Gears files: what they set each stage to, and what is wrong with one.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use weir_config::ConfigError;
use weir_graph::{GearsFile, Graph, parse};
use weir_policy::gears::StageSetting;
use weir_policy::gears::{ShiftDown, ShiftRule, ShiftScope};
use weir_types::Span;

use crate::common::{catalog, folder};

const GRAPH: &str = r#"[app]
name = "street"
slo = "400ms"
gears = "gears.toml"
[sources.camera]
uri = "emulated:uniform?rate=10"
[devices."emulated:a"]
slots = 1
[models.small]
device = "emulated:a"
profile = { "1" = "10ms" }
[models.middle]
device = "emulated:a"
profile = { "1" = "30ms" }
[models.large]
device = "emulated:a"
profile = { "1" = "70ms" }
[modules.read]
operator = "emulate"
inputs = ["camera"]
cascade = [{ model = "small", certainty = 0.9 }, { model = "middle", certainty = 0.8 }, { model = "large" }]
"#;

const GEARS: &str = r#"graph = "street"
number = 3
shift = { window = "2s", dwell = "5s", scope = "stream" }

[[gears]]
up_to = 30
accuracy = 0.93
[gears.cascades]
read = [{ model = "middle", certainty = 0.5 }, { model = "large" }]

[[gears]]
up_to = 90
[gears.cascades]
read = [{ model = "small", certainty = 0.25 }, { model = "middle" }]

[[gears]]
up_to = 100
[gears.cascades]
"#;

fn read(gears: &str) -> Result<Graph, ConfigError> {
    let folder = folder();
    std::fs::write(folder.path().join("gears.toml"), gears).unwrap();
    parse(GRAPH, &folder.path().join("graph.toml"), &catalog(), &|_| None)
}

#[test]
fn a_gear_says_which_stages_are_asked_and_how_certain_they_must_be() {
    let graph = read(GEARS).unwrap();
    let gears = graph.gears().unwrap();
    assert!(graph.files().contains(&gears.file));
    let rule = ShiftRule {
        window: Span::from_secs(2),
        down: ShiftDown::Dwell(Span::from_secs(5)),
        scope: ShiftScope::Stream,
    };
    assert_eq!((gears.number, gears.rule), (3, rule));
    assert_eq!(gears.shift_spec().bounds, [30.0, 90.0, 100.0]);
    let stages = |gear: usize| -> Vec<(bool, f32)> {
        let of = |setting: &StageSetting| (setting.is_used, setting.certainty);
        gears.gears[gear].stages.values().map(of).collect()
    };
    assert_eq!(stages(0), [(false, 0.0), (true, 0.5), (true, 0.0)]);
    assert_eq!(stages(1), [(true, 0.25), (true, 0.0), (false, 0.0)]);
    assert!(stages(2).is_empty(), "all as the graph has it");
    assert_eq!(gears.gears[0].accuracy, Some(0.93));
}

#[test]
fn what_is_wrong_with_a_gears_file_is_said() {
    let wrong = |from: &str, to: &str, expected: &str| {
        let text = GEARS.replacen(from, to, 1);
        assert_ne!(text, GEARS);
        let error = read(&text).unwrap_err();
        let said: Vec<(usize, &str)> = error
            .iter()
            .map(|problem| (problem.line, &*problem.message))
            .collect();
        assert!(
            said.len() == 1 && said[0].0 == 4 && said[0].1.contains(expected),
            "{said:?}"
        );
    };
    wrong(
        "graph = \"street\"",
        "graph = \"other\"",
        "it is for the graph \"other\", and this is \"street\"",
    );
    wrong(
        "up_to = 90",
        "up_to = 30",
        "gear 2 is for up to 30 requests a second, the one before it for up to 30",
    );
    wrong("up_to = 90", "upto = 90", "line 12: unknown field `upto`");
    wrong(
        "0.93",
        "93",
        "gear 1: `accuracy` must lie between 0 and 1, not 93",
    );
    wrong(
        "0.5",
        "5",
        "`certainty` of \"middle\" must lie between 0 and 1, not 5",
    );
    wrong(
        "\"large\" }",
        "\"large\", certainty = 0.1 }",
        "\"large\" is its last stage and takes the rest",
    );
    wrong(
        ", certainty = 0.25",
        "",
        "\"small\" has no `certainty`, and another stage comes after it",
    );
    wrong(
        "{ model = \"middle\" }",
        "{ model = \"tiny\" }",
        "\"tiny\" is not among its stages",
    );
    wrong(
        "model = \"small\"",
        "model = \"large\"",
        "\"middle\" is not among its stages, or not after those before it",
    );
    wrong(
        "\"large\" }",
        "\"large\", items = 0 }",
        "`items` of \"large\" must be from 1 to 1024, not 0",
    );
    wrong(
        "\"large\" }",
        "\"large\", wait = \"5ms\" }",
        "`wait` of \"large\" is the longest wait for `items`, and `items` is missing",
    );
    wrong(
        "\"large\" }",
        "\"large\", items = 2, wait = \"soon\" }",
        "`wait` of \"large\": \"soon\" is no duration",
    );
    wrong("\"stream\"", "\"camera\"", "unknown variant `camera`");
    wrong("read =", "raed =", "the graph has no cascade \"raed\"");
    wrong("\"5s\"", "\"soon\"", "\"soon\" is no duration above zero");
    wrong(
        "dwell",
        "waiting = 8, dwell",
        "give `waiting` or `dwell`, not both",
    );
    wrong("[[gears]]", "[[gears", "line 5:");
    wrong(
        GEARS,
        "graph = \"street\"\nnumber = 1\ngears = []",
        "it has 0 gears",
    );
}

#[test]
fn a_gears_file_is_written_as_it_is_read() {
    let file: GearsFile = toml::from_str(GEARS).unwrap();
    let written = file.text();
    assert_eq!(toml::from_str::<GearsFile>(&written).unwrap(), file, "{written}");
    let stages = "[{ model = \"middle\", certainty = 0.5 }, { model = \"large\" }]";
    assert!(written.contains(stages), "{written}");
}
