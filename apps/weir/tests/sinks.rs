//! Sinks as documents show them are what graphs may have.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::{Command, Output};

const GRAPH: &str = r#"
[app]
name = "sinks"
slo = "10s"

[sources.camera]
uri = "CLIP"
mode = "lossless"

[models.any]
device = "emulated:any"
profile = { "1" = "1ms" }

[modules.look]
operator = "emulate"
model = "any"
inputs = ["camera"]
"#;

/// Sinks that are features of the build, and whether this one has them.
const FEATURES: &[(&str, bool)] = &[
    ("kafka", cfg!(feature = "kafka")),
    ("nats", cfg!(feature = "nats")),
    ("parquet", cfg!(feature = "parquet")),
];

/// What `weir check` says of the graph with a sink.
fn check_sink(sink: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let clip = concat!(env!("CARGO_MANIFEST_DIR"), "/../../videos/live-room.mp4");
    let graph = GRAPH.replace("CLIP", clip);
    std::fs::write(folder.path().join("graph.toml"), graph + sink).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["check", "graph.toml"]).current_dir(folder.path());
    for secret in [
        "KAFKA_PASSWORD",
        "MQTT_PASSWORD",
        "NATS_PASSWORD",
        "WEBHOOK_SECRET",
    ] {
        command.env(secret, "hidden");
    }
    command.output().unwrap()
}

/// The feature that a sink needs and this build does not have.
fn missing_feature(sink: &str) -> Option<&'static str> {
    let missing = FEATURES.iter().filter(|(_, is_there)| !is_there);
    let mut names = missing.map(|(name, _)| *name);
    names.find(|name| sink.contains(&format!("type = \"{name}\"")))
}

#[test]
fn sinks_of_the_documents_are_those_that_graphs_may_have() {
    let documents = [
        include_str!("../../../docs/recording.md"),
        include_str!("../../../docs/sinks.md"),
    ];
    for document in documents {
        let examples = document.split("```toml\n").skip(1);
        let examples: Vec<&str> = examples.map(|rest| rest.split("```").next().unwrap()).collect();
        assert!(!examples.is_empty());
        for example in examples {
            // On the module that this graph has.
            let of_graph = |line: &str| {
                let is_input = line.starts_with("inputs = ");
                if is_input {
                    "inputs = [\"look\"]\n".to_owned()
                } else {
                    format!("{line}\n")
                }
            };
            let sinks: String = example.lines().map(of_graph).collect();
            let checked = check_sink(&format!("\n{sinks}"));
            let said = String::from_utf8_lossy(&checked.stderr).into_owned();
            assert!(!said.contains("hidden"), "{said}");
            match missing_feature(&sinks) {
                None => assert!(checked.status.success(), "{said}"),
                Some(feature) => {
                    assert_eq!(checked.status.code(), Some(2), "{said}");
                    assert!(said.contains(&format!("--features {feature}")), "{said}");
                }
            }
        }
    }
}

#[test]
fn topics_with_wildcards_are_refused_before_a_run() {
    let checked = check_sink(
        "\n[sinks.home]\ntype = \"mqtt\"\nhost = \"127.0.0.1\"\nprefix = \"cameras/#\"\ninputs = [\"look\"]\n",
    );
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!(checked.status.code(), Some(2));
    assert!(said.contains("holds a wildcard"), "{said}");
}
