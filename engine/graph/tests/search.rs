//! Sinks of the type `search`: what they store must reach them.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use weir_flow::{Catalog, KeyKind, KeySpec, SinkSpec};
use weir_graph::parse;

use crate::common::{VALID, catalog, environment, folder};

const EMBED: KeySpec = KeySpec {
    name: "embed",
    kind: KeyKind::Text,
    about: "module of embeddings",
};
const VECTOR: KeySpec = KeySpec {
    name: "vector",
    kind: KeyKind::Flag,
    about: "whether embeddings are handed on",
};

/// The catalog with the sink, and with the key of modules that hand on embeddings.
fn with_search() -> Catalog {
    let mut catalog = catalog();
    catalog.sinks.push(SinkSpec {
        name: "search",
        about: "",
        keys: &[EMBED],
        check: Default::default(),
    });
    for operator in &mut catalog.operators {
        operator.keys.to_mut().push(VECTOR);
    }
    catalog
}

/// Errors, or else warnings, of the valid graph with a tracker, with `keys` in the module of the plates and with these tables.
fn problems(keys: &str, tables: &str) -> Vec<String> {
    let plates = "regions = [\"plate\"]";
    let text = VALID.replace(plates, &format!("{plates}\n{keys}"));
    let text = format!("{text}\n[modules.tracks]\noperator = \"track\"\ninputs = [\"detect\"]\n\n{tables}");
    let folder = folder();
    let shown = |message: &str, hint: Option<&str>| format!("{message} | {}", hint.unwrap_or_default());
    match parse(
        &text,
        &folder.path().join("graph.toml"),
        &with_search(),
        &environment,
    ) {
        Ok(graph) => graph
            .warnings()
            .iter()
            .map(|warning| shown(&warning.message, warning.hint.as_deref()))
            .collect(),
        Err(problems) => problems
            .iter()
            .map(|problem| shown(&problem.message, problem.hint.as_deref()))
            .collect(),
    }
}

const PICTURES: &str = "[transforms.pictures]\ntype = \"best-shot\"\ninputs = [\"tracks\"]\n";

#[test]
fn a_sink_that_is_given_tracks_embeddings_and_pictures_has_no_problem() {
    let sink = "[sinks.found]\ntype = \"search\"\ninputs = [\"tracks\", \"plates\", \"pictures\"]\nembed = \"plates\"\n";
    assert_eq!(problems("vector = true", &format!("{PICTURES}{sink}")), [""; 0]);
}

#[test]
fn what_a_sink_lacks_is_reported() {
    for (keys, inputs, embed, expected) in [
        ("", "\"detect\"", "", "its inputs have none"),
        ("", "\"tracks\"", "", "is given no pictures"),
        (
            "",
            "\"tracks\", \"pictures\", \"plates\"",
            "embed = \"plates\"",
            "vector = true",
        ),
        (
            "",
            "\"tracks\", \"pictures\"",
            "embed = \"plats\"",
            "did you mean \"plates\"",
        ),
        (
            "vector = true",
            "\"tracks\", \"pictures\"",
            "embed = \"plates\"",
            "add \"plates\" to `inputs`",
        ),
    ] {
        let sink = format!("[sinks.found]\ntype = \"search\"\ninputs = [{inputs}]\n{embed}\n");
        let used = "[sinks.other]\ntype = \"null\"\ninputs = [\"tracks\", \"pictures\"]\n";
        let found = problems(keys, &format!("{PICTURES}{sink}{used}"));
        assert!(
            found.len() == 1 && found[0].contains(expected),
            "{expected}: {found:#?}"
        );
    }
}

#[test]
fn a_second_sink_is_refused() {
    let sink =
        |name: &str| format!("[sinks.{name}]\ntype = \"search\"\ninputs = [\"tracks\", \"pictures\"]\n");
    let found = problems("", &format!("{PICTURES}{}{}", sink("one"), sink("two")));
    assert!(
        found.len() == 1 && found[0].contains("\"two\" is a second one"),
        "{found:#?}"
    );
}
