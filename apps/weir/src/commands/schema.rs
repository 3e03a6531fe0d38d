//! `weir schema`: a JSON Schema of graphs, by which editors complete and check them, made from the catalog that graphs are
//! checked against. It takes all that `weir check` takes, and refuses unknown keys and values of the wrong kind; what hangs
//! together between tables is for `weir check`.

mod model;
mod sections;
mod shapes;

use serde_json::{Map, Value, json};
use weir_analytics::transforms::TRANSFORM_TYPES;
use weir_flow::{Catalog, KeySpec, PYTHON_FUNCTION};
use weir_graph::keys::{self, Mark, SectionKey};
use weir_graph::{EMULATE, TRACK};

use crate::output;
use crate::zoo::Zoo;
use model::model;
use shapes::{closed, reference, spec_properties};

/// Prints the schema.
///
/// # Errors
/// Where standard output cannot be written.
pub(crate) fn schema(zoo: &Zoo) -> anyhow::Result<()> {
    output::say(&page(&crate::catalog::catalog(zoo)))
}

/// The schema as text: the same for every machine.
fn page(catalog: &Catalog) -> String {
    format!("{:#}", document(catalog))
}

fn document(catalog: &Catalog) -> Value {
    let tables = |of: &str, about: &str| json!({ "type": "object", "description": about, "additionalProperties": reference(of) });
    json!({
        // What editors of TOML know.
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A graph of Weir",
        "description": "See docs/reference/graph.md and docs/reference/operators.md.",
        "type": "object",
        "required": ["app"],
        "additionalProperties": false,
        "properties": {
            "app": reference("app"),
            "policy": reference("policy"),
            "sources": tables("source", "Sources of frames: cameras, recordings, folders of images."),
            "cameras": tables("camera", "Sources with the masks, zones, lines and rules of their pictures."),
            "defaults": reference("defaults"),
            "devices": tables("device", "Slots of devices: cpu, \"cuda:0\", \"emulated:NAME\"."),
            "workers": tables("worker", "Partition workers, for models with a plan."),
            "models": tables("model", "Models that modules run."),
            "modules": tables("module", "Modules: operators that process frames and objects."),
            "transforms": tables("transform", "Transforms of tracked objects: zones, lines, rules and others."),
            "sinks": tables("sink", "Outputs of deliveries."),
        },
        "definitions": definitions(catalog),
    })
}

/// Definitions of all sections. Those whose keys depend on an operator, a head or a type have a variant for each.
fn definitions(catalog: &Catalog) -> Map<String, Value> {
    let mut definitions: Map<String, Value> = keys::sections()
        .into_iter()
        .map(|section| {
            let table = sections::table(section.name, &section.keys, catalog);
            (section.name.to_owned(), table)
        })
        .collect();
    definitions["source"]["anyOf"] =
        json!([{ "required": ["uri"] }, { "required": ["template"] }, { "required": ["queue"] }]);
    definitions["camera"]["required"] = json!(["uri"]);
    definitions.extend([
        (
            "variable".to_owned(),
            json!({
                "type": "string",
                "pattern": "\\$\\{",
                "description": "An environment variable: ${NAME} or ${NAME:-default}.",
            }),
        ),
        ("model".to_owned(), model(catalog)),
        ("module".to_owned(), module(catalog)),
        ("transform".to_owned(), transform(catalog)),
        ("sink".to_owned(), sink(catalog)),
    ]);
    definitions
}

fn module(catalog: &Catalog) -> Value {
    let shared = sections::properties("module", keys::MODULE, catalog);
    let of_tracker = keys::MODULE.iter().filter(|key| key.has(Mark::Tracker));
    let of_tracker: Vec<SectionKey> = of_tracker.copied().collect();
    let of_tracker = sections::properties("module", &of_tracker, catalog);
    let operators = catalog.operators.iter();
    let operators = operators.map(|spec| {
        let owner = format!("operator {}", spec.name);
        variant("operator", (spec.name, spec.about), (&owner, &spec.keys), &shared)
    });
    let emulated = (EMULATE, "stands for a model on an emulated device");
    let tracker = (TRACK, "follows objects through the frames of each stream");
    let others = [
        variant("operator", emulated, ("operator emulate", &[]), &shared),
        variant(
            "operator",
            tracker,
            ("tracker", catalog.tracker_keys),
            &of_tracker,
        ),
    ];
    json!({ "oneOf": operators.chain(others).collect::<Vec<_>>() })
}

fn transform(catalog: &Catalog) -> Value {
    let shared = sections::properties("transform", keys::TRANSFORM, catalog);
    let variants = TRANSFORM_TYPES.iter().map(|spec| {
        let owner = format!("transform {}", spec.name);
        variant("type", (spec.name, spec.about), (&owner, spec.keys), &shared)
    });
    json!({ "oneOf": variants.collect::<Vec<_>>() })
}

fn sink(catalog: &Catalog) -> Value {
    let shared = sections::properties("sink", keys::SINK, catalog);
    let sinks = catalog.sinks.iter();
    let variants = sinks.map(|sink| {
        let owner = format!("sink {}", sink.name);
        variant("type", (sink.name, sink.about), (&owner, sink.keys), &shared)
    });
    json!({ "oneOf": variants.collect::<Vec<_>>() })
}

/// The value of a key that names an entry of the catalog: all functions in Python are one.
fn named_in_catalog(name: &str, about: &str) -> Value {
    if name == PYTHON_FUNCTION {
        json!({ "type": "string", "pattern": "^python:", "description": about })
    } else {
        json!({ "const": name, "description": about })
    }
}

/// A table that names an entry of the catalog by its key `by`: keys of the entry under the name that releases list them by, and those that
/// all entries share.
fn variant(
    by: &str,
    (name, about): (&str, &str),
    (owner, specs): (&str, &[KeySpec]),
    shared: &Map<String, Value>,
) -> Value {
    let mut keys = spec_properties(owner, specs);
    keys.extend(shared.clone());
    keys.insert(by.to_owned(), named_in_catalog(name, about));
    closed(&[by, "inputs"], keys)
}

#[cfg(test)]
mod tests {
    use super::shapes::{flag, merge, text};
    use super::*;

    const DOCS: &str = include_str!("../../../../docs/graph.schema.json");

    fn catalog() -> Catalog {
        Catalog {
            operators: weir_operators::operators(),
            tracker_keys: weir_analytics::TRACKER_KEYS,
            heads: weir_operators::heads(),
            sinks: weir_operators::sinks::catalog(),
            connection_options: weir_operators::media::CONNECTION_OPTIONS,
            ..Catalog::default()
        }
    }

    #[test]
    fn the_schema_in_docs_is_what_is_printed() {
        assert_eq!(
            DOCS.trim_end(),
            page(&catalog()),
            "write it anew: weir schema > docs/graph.schema.json"
        );
    }

    #[test]
    fn keys_that_came_after_the_first_release_name_theirs() {
        let document = document(&catalog());
        let source = &document["definitions"]["source"]["properties"];
        assert_eq!(source["active"]["x-since"], keys::since("source", "active"));
        assert!(source["uri"]["x-since"].is_null());
        assert!(sink_keys(&document, "webhook")["chat"]["x-since"].is_string());
        assert!(sink_keys(&document, "webhook")["url"]["x-since"].is_null());
        // A sink that is new as a whole; `inputs` is a key of all sinks.
        assert!(sink_keys(&document, "mail")["server"]["x-since"].is_string());
        assert!(sink_keys(&document, "mail")["inputs"]["x-since"].is_null());
    }

    /// Properties of the sinks of a type.
    fn sink_keys<'a>(document: &'a Value, name: &str) -> &'a Value {
        let sinks = document["definitions"]["sink"]["oneOf"].as_array();
        let mut sinks = sinks.unwrap().iter();
        let sink = sinks.find(|sink| sink["properties"]["type"]["const"] == name);
        &sink.unwrap()["properties"]
    }

    #[test]
    fn every_key_that_graphs_are_checked_against_is_in_the_schema() {
        let document = document(&catalog());
        let keys_of = |table: &Value| -> Vec<String> {
            let mut keys: Vec<String> = table["properties"].as_object().unwrap().keys().cloned().collect();
            keys.sort();
            keys
        };
        for section in keys::sections() {
            let name = section.name;
            let table = &document["definitions"][name];
            let variants = table["oneOf"]
                .as_array()
                .cloned()
                .unwrap_or_else(|| vec![table.clone()]);
            let mut known: Vec<String> = section.keys.iter().map(|key| key.name.to_owned()).collect();
            known.sort();
            if table.get("oneOf").is_none() {
                assert_eq!(keys_of(table), known, "{name}");
            }
            for variant in variants {
                // A tracker has few of the keys of modules; a model that is known by name needs no head.
                let is_tracker = variant["properties"]["operator"]["const"] == TRACK;
                let keys = keys_of(&variant);
                let lacks = known.iter().filter(|key| !keys.contains(key)).collect::<Vec<_>>();
                assert!(
                    is_tracker || lacks.is_empty() || lacks == ["head"],
                    "{name}: {lacks:?}"
                );
            }
        }
    }

    #[test]
    fn a_key_that_heads_have_with_other_bounds_may_be_of_either() {
        let mut all = Map::new();
        for value in [text(), flag(), text()] {
            merge(&mut all, "key", &value);
        }
        assert_eq!(
            all["key"],
            json!({ "anyOf": [{ "type": "string" }, { "type": "boolean" }] })
        );
    }
}
