//! Keys of a detector in a graph, apart from its model: the classes to keep, and the classes to suppress
//! together.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::path::Path;

use weir::{Zoo, load};
use weir_graph::Graph;

/// A graph on a shipped model, with more keys of the module and of the model.
fn graph(module: &str, model: &str) -> anyhow::Result<Graph> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.toml");
    let text = format!(
        r#"
[app]
name = "streets"
slo = "1s"

[sources.north]
uri = "emulated:uniform?rate=30"

[models.detector]
model = "embedded:street-detector"
{model}

[modules.detect]
operator = "detect"
model = "detector"
inputs = ["north"]
{module}

[modules.plates]
operator = "detect"
model = "detector"
inputs = ["detect"]
regions = ["van"]

[sinks.nowhere]
type = "null"
inputs = ["plates"]
"#
    );
    std::fs::write(&path, text).unwrap();
    load(&path, &Zoo::in_folder(Path::new("nowhere")).unwrap())
}

fn refused(module: &str) -> String {
    graph(module, "")
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

#[test]
fn classes_that_are_kept_are_the_shipped_models() {
    let kept = graph("labels = [\"van\", \"bus\"]", "").unwrap();
    let labels = kept.modules()[0].settings.texts("labels").unwrap();
    assert_eq!(labels, ["van", "bus"]);

    let reason = refused("labels = [\"van\", \"buss\"]");
    assert!(
        reason.contains("no class \"buss\"") && reason.contains("did you mean \"bus\"?"),
        "{reason}"
    );
    let reason = refused("labels = [\"car\"]");
    assert!(
        reason.contains("nothing upstream finds the class \"van\""),
        "{reason}"
    );
}

#[test]
fn vehicles_of_the_shipped_model_are_a_group_unless_the_graph_says_otherwise() {
    let groups = |model: &str| {
        let graph = graph("", model).unwrap();
        graph.models()[0]
            .settings
            .texts("nms_groups")
            .map(<[String]>::to_vec)
    };
    assert_eq!(groups(""), Some(vec!["car, van, bus".to_owned()]));
    assert_eq!(groups("nms_groups = []"), Some(Vec::new()));
    // Groups name classes: under other names they are not those of the model.
    let others = r#"labels = ["a", "van", "b", "c", "d", "e", "f"]"#;
    assert_eq!(groups(others), None);
}
