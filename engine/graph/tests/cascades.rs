//! Cascades in graph files: their stages become modules, and what is wrong with them is said.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use weir_flow::KeyKind;
use weir_graph::{Escalate, OnLate, Vertex, parse};
use weir_policy::gears::{Fallback, Settle};

use crate::common::{VALID, catalog, check, folder, graph};

/// A chain on emulated devices; `keys` are those of the module in the middle.
fn text(keys: &str) -> String {
    format!(
        r#"[app]
slo = "100ms"
[sources.camera]
uri = "emulated:uniform?rate=10"
[devices."emulated:a"]
slots = 1
[models.small]
device = "emulated:a"
profile = {{ "1" = "10ms" }}
[models.large]
device = "emulated:a"
profile = {{ "1" = "70ms" }}
[modules.find]
operator = "emulate"
model = "small"
inputs = ["camera"]
[modules.read]
operator = "emulate"
inputs = ["find"]
{keys}
[modules.last]
operator = "emulate"
model = "small"
inputs = ["read"]
"#
    )
}

const CASCADE: &str = "cascade = [{ model = \"small\", certainty = 0.9 }, { model = \"large\" }]";

#[test]
fn stages_are_modules_in_a_row_under_one_name() {
    let graph = graph(&text(&format!(
        "{CASCADE}\nsettle = \"surest\"\non_late = \"accept\""
    )));
    let names: Vec<&str> = graph.modules().iter().map(|module| &*module.name).collect();
    assert_eq!(names, ["find", "read/1", "read/2", "last"]);
    let labels: Vec<&str> = graph
        .modules()
        .iter()
        .map(weir_graph::ModuleNode::label)
        .collect();
    assert_eq!(labels, ["find", "read", "read", "last"]);
    let inputs: Vec<&[Vertex]> = graph.modules().iter().map(|module| &module.inputs[..]).collect();
    let after = |module| [Vertex::Module(module)];
    assert_eq!(inputs, [&[Vertex::Source(0)], &after(0), &after(1), &after(2)]);
    let stage = graph.modules()[1].stage.as_ref().unwrap();
    assert_eq!((stage.index, stage.count, stage.certainty), (0, 2, 0.9));
    assert_eq!((stage.settle, stage.on_late), (Settle::Surest, OnLate::Accept));
    let fallbacks: Vec<Fallback> = graph
        .modules()
        .iter()
        .map(weir_graph::ModuleNode::fallback)
        .collect();
    let never = Fallback::Never;
    assert_eq!(fallbacks, [never, never, Fallback::WhenLate, never]);
}

#[test]
fn a_stage_that_may_be_left_out_takes_no_time_of_the_objective() {
    let short = |keys: &str| text(keys).replace("100ms", "60ms");
    check(&short(CASCADE), &["2: 100ms: find -> read/1 -> read/2 -> last"]);
    check(&short(&format!("{CASCADE}\non_late = \"accept\"")), &[]);
}

#[test]
fn what_is_wrong_with_a_cascade_is_said() {
    let wrong = |keys: &str, problems: &[&str]| check(&text(keys), problems);
    wrong("", &["17: module \"read\" has no `model`"]);
    wrong(
        "settle = \"last\"\nmodel = \"small\"",
        &["20: `settle` is of modules with a `cascade`"],
    );
    wrong(
        &format!("model = \"small\"\n{CASCADE}"),
        &["20: has a `cascade`, and a `model` beside it"],
    );
    wrong(
        "cascade = \"small\"",
        &["20: `cascade` must be a list of stages, not a text"],
    );
    wrong(
        "cascade = [{ model = \"small\" }]",
        &["20: has 1 stages; it may have 2 to 8"],
    );
    wrong(
        "cascade = [\"small\", \"large\"]",
        &["20: stage 1 of module \"read\" must be a table", "20: stage 2"],
    );
    wrong(
        "cascade = [{ model = \"small\" }, { model = \"large\" }]",
        &["20: stage 1 of module \"read\" has no `certainty`"],
    );
    wrong(
        &CASCADE.replace("0.9", "1.5"),
        &["20: `certainty` must lie between 0 and 1, not 1.5"],
    );
    wrong(
        &CASCADE.replace("0.9", "\"much\""),
        &["20: `certainty` must be a number from 0 to 1, not a text"],
    );
    wrong(
        &CASCADE.replace("\"large\" }", "\"large\", certainty = 0.5 }"),
        &["20: stage 2 of module \"read\" has a `certainty` | the last stage takes the rest"],
    );
    wrong(&format!("{CASCADE}\nescalate = \"crops\""), &["21: `escalate`"]);
    wrong(
        &format!("{CASCADE}\nescalate = \"regions\"\nregions = [\"car\"]"),
        &["21: \"read\" takes crops of objects, and `escalate = \"regions\"` is for detectors"],
    );
    wrong(
        &CASCADE.replace("large", "lage"),
        &["20: there is no model \"lage\" | did you mean \"large\"?"],
    );
    wrong(
        &format!("{CASCADE}\n[sinks.read]\ntype = \"jsonl\"\npath = \"x\"\ninputs = [\"find\"]"),
        &["21: \"read\" names this sink and the module of line 17"],
    );
    check(
        &text(CASCADE).replace("inputs = [\"read\"]", "inputs = [\"read/1\"]"),
        &["24: no source or module \"read/1\""],
    );
}

#[test]
fn models_of_stages_say_how_certain_they_are_and_know_the_same_classes() {
    let detectors = |stage: &str| {
        VALID
            .replace(
                "[models.reader]",
                &format!("[models.other]\n{stage}\n[models.reader]"),
            )
            .replace(
                "model = \"detector\"",
                "cascade = [{ model = \"other\", certainty = 0.5 }, { model = \"detector\" }]",
            )
    };
    let same = "model = \"embedded:street-detector\"";
    check(
        &detectors(same),
        &["33: stage 1 of \"detect\" needs the certainty of \"other\", whose head \"yolox\" reports none"],
    );
    let mut catalog = catalog();
    let yolox = &mut catalog.heads[0];
    yolox.keys.to_mut().push(weir_flow::KeySpec {
        name: "certainty",
        kind: KeyKind::OneOf(&["distance", "other"]),
        about: "",
    });
    let folder = folder();
    let file = folder.path().join("graph.toml");
    let read = |text: &str| parse(text, &file, &catalog, &|_| None);
    let graph = read(&detectors(same)).unwrap();
    let measure = |name: &str| {
        let model = graph.models().iter().find(|model| model.name == name).unwrap();
        model.settings.text("certainty").map(str::to_owned)
    };
    assert_eq!(
        measure("detector").as_deref(),
        Some("distance"),
        "which answer counts goes by the certainty of all"
    );
    assert_eq!(
        measure("other").as_deref(),
        Some("distance"),
        "the first measure is the default"
    );
    let regions = |text: &str| text.replace("cascade = [{", "escalate = \"regions\"\ncascade = [{");
    let graph = read(&regions(&detectors(same))).unwrap();
    let stages = graph.modules().iter().filter_map(|module| module.stage.as_ref());
    assert!(stages.clone().count() == 2 && stages.clone().all(|stage| stage.escalate == Escalate::Regions));
    catalog.heads[0].output = weir_flow::HeadOutput::Attribute;
    let error = parse(&regions(&detectors(same)), &file, &catalog, &|_| None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`escalate = \"regions\"` of \"detect\" is for detectors"),
        "{error}"
    );
    catalog.heads[0].output = weir_flow::HeadOutput::Boxes;
    let read = |text: &str| parse(text, &file, &catalog, &|_| None);
    let labels = "model = \"reader.onnx\"\nhead = \"yolox\"\nlabels = [\"car\", \"van\"]";
    let error = read(&detectors(labels)).unwrap_err().to_string();
    assert!(
        error.contains("know different classes: \"detector\" knows \"plate\", \"other\" does not"),
        "{error}"
    );
}
