//! Sinks of graphs as `weir check` takes or refuses them.

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
    ("mail", cfg!(feature = "mail")),
    ("nats", cfg!(feature = "nats")),
    ("parquet", cfg!(feature = "parquet")),
];

/// Output of `weir check` for the graph with a sink.
fn check_sink(sink: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let clip = concat!(env!("CARGO_MANIFEST_DIR"), "/../../videos/live-room.mp4");
    let graph = GRAPH.replace("CLIP", clip);
    std::fs::write(folder.path().join("graph.toml"), graph + sink).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["check", "graph.toml"]).current_dir(folder.path());
    for secret in ["KAFKA_PASSWORD", "MAIL_PASSWORD", "NATS_PASSWORD"] {
        command.env(secret, "hidden");
    }
    command.output().unwrap()
}

#[test]
fn a_sink_of_another_build_names_its_feature_and_shows_no_secret() {
    for (name, is_there) in FEATURES {
        let secret = format!("{}_PASSWORD", name.to_uppercase());
        let keys = match *name {
            "kafka" => {
                format!("brokers = [\"127.0.0.1\"]\nusername = \"weir\"\npassword = \"${{{secret}}}\"")
            }
            "mail" => format!(
                "server = \"127.0.0.1\"\nsecurity = \"none\"\nuser = \"weir\"\npassword = \"${{{secret}}}\"\nfrom = \"a@b.c\"\nto = [\"d@e.f\"]"
            ),
            "nats" => format!("servers = [\"127.0.0.1\"]\nusername = \"weir\"\npassword = \"${{{secret}}}\""),
            _ => "path = \"tables\"".to_owned(),
        };
        let checked = check_sink(&format!(
            "\n[sinks.out]\ntype = \"{name}\"\n{keys}\ninputs = [\"look\"]\n"
        ));
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(!said.contains("hidden"), "{said}");
        if *is_there {
            assert!(checked.status.success(), "{said}");
        } else {
            assert_eq!(checked.status.code(), Some(2), "{said}");
            assert!(said.contains(&format!("--features {name}")), "{said}");
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

#[test]
fn faults_of_templates_and_quiet_hours_are_refused_with_their_lines() {
    let sink = "\n[sinks.alarm]\ntype = \"webhook\"\nurl = \"http://127.0.0.1/SECRETpath\"\ninputs = [\"look\"]\n\
                body = '''{\"a\":\n \"{{ strem }}\"}'''\nquiet_hours = \"22-6\"\n";
    let line = |text: &str| {
        let graph = format!("{GRAPH}{sink}");
        1 + graph.lines().position(|line| line.starts_with(text)).unwrap()
    };
    let checked = check_sink(sink);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!(checked.status.code(), Some(2), "{said}");
    for (key, message) in [
        ("body", "sink \"alarm\": `body`: line 2: \"strem\" is no variable"),
        (
            "quiet_hours",
            "sink \"alarm\": `quiet_hours`: \"22-6\" is not a time of day",
        ),
    ] {
        let place = format!("graph.toml:{}", line(key));
        let found = said
            .lines()
            .any(|said| said.contains(&place) && said.contains(message));
        assert!(found, "{place} {message}: {said}");
    }
    assert!(!said.contains("SECRET"), "{said}");
}
