//! Streams that are added to a graph: its defaults, the masks of a table with their name, and the key `like`.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::path::Path;

use weir_graph::{Graph, SourceNode};

use crate::common::{VALID, catalog, check, graph};

const DEFAULTS: &str = r#"[app]
slo = "400ms"

[defaults]
transport = "udp"
sample = "5fps"
weight = 2
gate = "motion"
"#;

/// A source with masks.
const YARD: &str = r#"
[sources.yard]
uri = "rtsp://yard/1"
ignore = [[0, 0], [1, 0], [1, 0.25], [0, 0.25]]
gate_ignore = [[[0, 0], [0.3, 0], [0.3, 0.06], [0, 0.06]]]
timezone = "Europe/London"
slo = "300ms"
"#;

const TEMPLATE: &str = "\n[sources.cameras]\ntemplate = true\n";

const MODULES: &str = r#"
[models.any]
device = "emulated:a"
profile = { "1" = "1ms" }

[modules.find]
operator = "emulate"
model = "any"
inputs = ["*"]

[sinks.events]
type = "jsonl"
path = "out/events.jsonl"
inputs = ["find"]
"#;

fn site(sources: &str) -> String {
    [DEFAULTS, sources, MODULES].concat()
}

fn added(graph: &Graph, text: &str) -> SourceNode {
    let nodes = graph.parse_streams(text, Path::new("graph.toml"), &catalog());
    nodes.unwrap().remove(0)
}

#[test]
fn added_streams_have_the_defaults_and_the_masks_of_their_name() {
    let text = site(YARD);
    let site = graph(&text);
    let yard = &site.sources()[0];
    let again = added(&site, "[sources.yard]\nuri = \"rtsp://other/2\"\nweight = 1\n");
    assert_eq!((again.sample, again.share.weight), (Some(5.0), 1.0));
    assert_eq!(again.connection, yard.connection);
    assert_eq!(
        (&again.objects, &again.gate, &again.timezone),
        (&yard.objects, &yard.gate, &yard.timezone)
    );
    assert_eq!(again.slo, None, "an objective belongs to no picture");
    let other = added(
        &site,
        "[sources.gate]\nuri = \"rtsp://other/2\"\ngate = \"none\"\n",
    );
    assert_eq!(
        (other.sample, other.share.weight, &other.gate),
        (Some(5.0), 2.0, &None)
    );
    assert!(other.objects != yard.objects && other.timezone.is_none());
    // Defaults without a meaning for it are left out.
    let emulated = added(&site, "[sources.yard]\nuri = \"emulated:uniform?rate=5\"\n");
    assert_eq!(
        (emulated.sample, emulated.share.weight, &emulated.gate),
        (None, 2.0, &None)
    );
    // The same stream in the file is the same.
    let gate = "[sources.gate]\nuri = \"rtsp://gate/1\"\nfps = 5\n";
    let in_file = graph(&(text + gate));
    assert_eq!(added(&site, gate), in_file.sources()[1]);
}

#[test]
fn defaults_are_checked_without_a_source_and_variables_stay_unknown() {
    let text = site(TEMPLATE);
    let wrong = text.replace("\"udp\"", "\"${SET}\"");
    let path = Path::new("graph.toml");
    let value = |name: &str| (name == "SET").then(|| "SECRET".to_owned());
    // Nothing but the defaults has the key: it is reported before a stream is added.
    let error = weir_graph::parse(&wrong, path, &catalog(), &value).unwrap_err();
    assert!(error.to_string().contains("transport"), "{error}");
    let site = weir_graph::parse(&text, path, &catalog(), &value).unwrap();
    let variable = "[sources.gate]\nuri = \"rtsp://${SET}/1\"\n";
    let error = site.parse_streams(variable, path, &catalog()).unwrap_err();
    assert!(
        !error.to_string().contains("SECRET") && error.to_string().contains("SET"),
        "{error}"
    );
}

#[test]
fn sources_enter_where_those_that_they_are_like_do() {
    let like = |of: &str| format!("mode = \"live\"\nlike = \"{of}\"");
    let text = VALID.replace("\"north\", \"south\"", "\"south\"");
    for of in ["south", "*"] {
        let like = graph(&text.replace("mode = \"live\"", &like(of)));
        let both = graph(&VALID.replace("\"north\", \"south\"", "\"south\", \"north\""));
        assert_eq!(like.modules()[0].inputs, both.modules()[0].inputs, "{of}");
        let entered = |graph: &Graph| {
            let streams = graph.entered_streams().into_iter();
            streams
                .map(|(node, names)| (node.name, names))
                .collect::<Vec<_>>()
        };
        assert_eq!(entered(&like), entered(&both), "{of}");
    }
    // By way of another one, whatever their order.
    let third = "[sources.a]\nuri = \"emulated:uniform?rate=5\"\nlike = \"north\"\n";
    let chained = graph(&(text.replace("mode = \"live\"", &like("south")) + third));
    let entered = chained.entered_streams();
    assert!(
        entered.iter().all(|(_, names)| names == &["detect"]),
        "{entered:?}"
    );

    check(
        &VALID.replace("mode = \"live\"", &like("soth")),
        &["12: there is no source \"soth\" to be like"],
    );
    check(
        &VALID.replace("mode = \"live\"", &like("north")),
        &["12: \"north\" is like itself"],
    );
    let error = weir_graph::parse_streams(
        "[sources.a]\nuri = \"emulated:uniform?rate=5\"\nlike = \"*\"\n",
        Path::new("graph.toml"),
    );
    assert!(error.unwrap_err().to_string().contains("`like`"));
}
