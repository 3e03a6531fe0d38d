//! Gears files: what they set each stage to, and what is wrong with one.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use weir_config::ConfigError;
use weir_graph::{GearsFile, Graph, parse};
use weir_policy::gears::{
    BacklogRule, InvocationSize, ShiftBy, ShiftDown, ShiftRule, ShiftScope, StageSetting,
};
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
    read_for(GRAPH, gears)
}

fn read_for(graph: &str, gears: &str) -> Result<Graph, ConfigError> {
    let folder = folder();
    std::fs::write(folder.path().join("gears.toml"), gears).unwrap();
    parse(graph, &folder.path().join("graph.toml"), &catalog(), &|_| None)
}

/// The gears with another rule for shifting.
fn with_shift(shift: &str) -> String {
    GEARS.replacen(r#"window = "2s", dwell = "5s", scope = "stream""#, shift, 1)
}

/// The only problem of a graph with these gears.
fn refused(graph: &str, gears: &str, expected: &str) {
    let error = read_for(graph, gears).unwrap_err();
    let said: Vec<&str> = error.iter().map(|problem| &*problem.message).collect();
    assert!(said.len() == 1 && said[0].contains(expected), "{said:?}");
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
        by: ShiftBy::Rate,
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

#[test]
fn gears_shift_by_backlog_or_by_requests_in_flight() {
    let rule = |shift: &str| read(&with_shift(shift)).unwrap().gears().unwrap().rule;
    let by_backlog = rule(r#"by = "backlog", full = 0.9, losses = 0.1"#);
    let expected = BacklogRule {
        full: 0.9,
        losses: 0.1,
        ..BacklogRule::default()
    };
    assert_eq!(by_backlog.by, ShiftBy::Backlog(expected));
    assert_eq!(by_backlog.window, Span::from_secs(1));
    let in_flight = rule(r#"by = "in-flight", window = "3s""#);
    assert_eq!(in_flight.by, ShiftBy::InFlight);
    assert_eq!(in_flight.down, ShiftDown::Dwell(Span::from_secs(3)));
    for (shift, expected) in [
        (r#"by = "load""#, "unknown variant `load`"),
        (r#"by = "backlog", waiting = 8"#, "shifts down by `release`"),
        (r#"by = "backlog", scope = "stream""#, "one queue for all streams"),
        (
            r#"by = "backlog", first = 0.8"#,
            "`full` must lie between 0.8 and 10",
        ),
        (
            r#"by = "backlog", release = 1.5"#,
            "`release` must lie between 0 and 1",
        ),
        (r#"by = "in-flight", waiting = 8"#, "give `dwell`"),
        ("full = 0.9", "`full` is for by = \"backlog\" only"),
    ] {
        refused(GRAPH, &with_shift(shift), expected);
    }
}

#[test]
fn replicas_have_shares_and_triggers() {
    let two_slots = GRAPH.replace("slots = 1", "slots = 2");
    let with = |replicas: &str| GEARS.replacen("\"large\" }", &format!("\"large\", {replicas} }}"), 1);
    let replicas = "replicas = [{ share = 0.7, items = 4, wait = \"20ms\" }, { share = 0.3 }]";
    let graph = read_for(&two_slots, &with(replicas)).unwrap();
    let gears = graph.gears().unwrap();
    assert!(gears.has_replicas(2) && !gears.has_replicas(1));
    assert_eq!(
        [0, 1].map(|place| gears.share(0, 2, place)),
        [Some(0.7), Some(0.3)]
    );
    let waits = InvocationSize {
        items: 4,
        wait: Span::from_millis(20),
    };
    let triggers = [(0, 0), (0, 1), (1, 0)].map(|(gear, place)| gears.trigger(gear, 2, place));
    assert_eq!(
        triggers,
        [waits, InvocationSize::default(), InvocationSize::default()]
    );
    let file: GearsFile = toml::from_str(&with(replicas)).unwrap();
    assert_eq!(
        toml::from_str::<GearsFile>(&file.text()).unwrap(),
        file,
        "{}",
        file.text()
    );

    let wrong = |replicas: &str, expected: &str| refused(&two_slots, &with(replicas), expected);
    wrong(
        "items = 2, replicas = [{ share = 1.0 }]",
        "give `items` and `wait` of each of them",
    );
    wrong("shares = [1.0], replicas = [{ share = 1.0 }]", "give one of them");
    wrong("replicas = [{ share = 0.5 }]", "must add up to 1");
    wrong(
        "replicas = [{ share = 1.0, items = 0 }]",
        "must be from 1 to 1024",
    );
    wrong(
        "replicas = [{ share = 1.0 }, { share = 0.0 }, { share = 0.0 }]",
        "are of 3 slots",
    );
}

/// Memory for two of three models, of 10, 15 and 20 MiB.
fn limited() -> String {
    let graph = GRAPH.replace("slots = 1", "slots = 1\nmemory = \"30MiB\"");
    let with_memory = |graph: String, (model, memory): (&str, &str)| {
        let head = format!("[models.{model}]\n");
        graph.replace(&head, &format!("{head}memory = \"{memory}\"\n"))
    };
    let models = [("small", "10MiB"), ("middle", "15MiB"), ("large", "20MiB")];
    models.into_iter().fold(graph, with_memory)
}

#[test]
fn memory_of_gears_is_checked_by_device() {
    let graph = limited();
    let gears = |models: &str| GEARS.replacen("number = 3", &format!("number = 3\n{models}"), 1);
    let short = "gear 1 needs 36700160 bytes (35.0 MiB) for the models on device \"emulated:a\", whose `memory` is \
                 31457280 bytes (30.0 MiB)";
    refused(&graph, &gears("models = \"switched\""), short);
    // Without the key the models of a gear may take turns.
    let read = read_for(&graph, &gears("")).unwrap();
    assert!(
        read.warnings()
            .iter()
            .any(|warning| warning.message.contains(short))
    );

    // Each of two gears fits, and both together do not.
    let two = |models: &str| {
        let gears = gears(models);
        let gears = gears.replace(
            "{ model = \"middle\", certainty = 0.5 }, { model = \"large\" }",
            "{ model = \"large\" }",
        );
        gears.split("[[gears]]\nup_to = 100").next().unwrap().to_owned()
    };
    let read = read_for(&graph, &two("models = \"switched\"")).unwrap();
    assert!(
        !read
            .warnings()
            .iter()
            .any(|warning| warning.message.contains("take turns on the slots"))
    );
    refused(
        &graph,
        &two("models = \"resident\""),
        "gears 1 to 2 need 47185920 bytes (45.0 MiB)",
    );
    let more = graph.replace("30MiB", "45MiB");
    assert!(read_for(&more, &two("models = \"resident\"")).is_ok());
}
