//! `weir schema`: a JSON Schema of graphs, by which editors complete and check them, made from the catalog that graphs are
//! checked against. It takes all that `weir check` takes, and refuses unknown keys and values of the wrong kind; what hangs
//! together between tables is for `weir check`.

mod cameras;
mod model;
mod shapes;

use serde_json::{Map, Value, json};
use weir_analytics::transforms::TRANSFORM_TYPES;
use weir_flow::{Catalog, KeySpec, PYTHON_OPERATOR};
use weir_graph::{EMULATE, TRACK};
use weir_policy::{DropRule, Policy, SlotPlanning};

use crate::output;
use crate::zoo::Zoo;
use model::model;
use shapes::{
    closed, described, flag, integer, number, positive, properties, reference, spec_properties, text, texts,
    words,
};

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
        "definitions": {
            "variable": { "type": "string", "pattern": "\\$\\{", "description": "An environment variable: ${NAME} or ${NAME:-default}." },
            "app": app(),
            "policy": policy(),
            "source": cameras::source(catalog),
            "camera": cameras::camera(catalog),
            "defaults": cameras::defaults(catalog),
            "schedule": cameras::schedule(),
            "object": cameras::object(),
            "privacy": cameras::privacy(),
            "device": closed(&[], properties(&[
                ("slots", integer(1), "Number of batches that the device runs at once; default one per core on cpu, otherwise one."),
                ("prepare", words(&["overlap", "inline"]), "Preparation of the inputs of a batch: overlap, while the batch before runs; inline, by the thread that runs it. Default overlap on cuda, otherwise inline."),
                ("prepare_threads", integer(1), "On cuda: number of threads that prepare the inputs of a batch; default half of the cores, at most 8."),
                ("memory", text(), "Memory for all its models together, such as \"96MiB\": models are opened and closed as needed. By default all stay open."),
                ("host_memory", text(), "With `memory`: host memory that caches models, so that they open faster than from their files; default 512MiB."),
                ("slowdown", json!({ "type": "number", "minimum": 1 }), "Factor by which execution is slowed down, to emulate a slower device; default 1."),
            ])),
            "worker": worker(),
            "model": model(catalog),
            "module": module(catalog),
            "transform": transform(),
            "sink": sink(catalog),
        },
    })
}

fn app() -> Value {
    let keys = [
        (
            "name",
            text(),
            "The name of the application in reports; default the name of the file.",
        ),
        (
            "slo",
            text(),
            "The longest time from the arrival of a frame to its delivery, such as \"400ms\".",
        ),
        (
            "gears",
            text(),
            "The file of the gears of cascades (docs/explain/gears.md).",
        ),
        ("timezone", text(), cameras::TIMEZONE),
        (
            "stream_hosts",
            texts(),
            "Hosts that clients of the API may add streams of, such as \"10.0.7.0/24\"; default any.",
        ),
        (
            "stream_folders",
            texts(),
            "Folders with files that clients of the API may add as streams, beside that of the graph.",
        ),
    ];
    closed(&["slo"], properties(&keys))
}

fn policy() -> Value {
    let part = |about: &str| json!({ "type": ["string", "boolean", "object"], "description": about });
    let drop = json!({ "anyOf": [
        words(DropRule::NAMES),
        { "type": "object", "required": ["rule"], "properties": { "rule": words(DropRule::NAMES) } },
    ] });
    let mut keys = properties(&[
        (
            "preset",
            words(&Policy::presets()),
            "A preset for the whole policy, which the other keys override; default pard.",
        ),
        (
            "drop",
            drop,
            "The rule that drops requests: its name, or a table with `rule` and its parameters.",
        ),
        (
            "order",
            words(&["adaptive", "fcfs", "hbf", "lbf", "instant"]),
            "Order in which requests of a mailbox are considered; default adaptive.",
        ),
        (
            "forming",
            words(&["eager", "late"]),
            "Time at which requests are bound to a batch; default late.",
        ),
        (
            "arbitration",
            words(&["least-slack", "downstream-first", "fifo", "weighted"]),
            "Choice of the module whose batch runs next on a shared slot; default downstream-first.",
        ),
        (
            "queues",
            words(&["fcfs", "edf", "shepherd", "sticky", "virtual"]),
            "Choice of the next work on a device with memory for some of its models; default by the arbitration and turns.",
        ),
        (
            "delta",
            json!({ "type": "integer", "minimum": 1, "maximum": SlotPlanning::MAX_DELTA }),
            "Maximum number of batches in a group of planned queues; default 4.",
        ),
        (
            "operations",
            json!({ "type": "array", "items": words(&["pull", "balance", "warm-start", "reorder"]), "contains": { "const": "pull" } }),
            "Operations of planned queues, which must include `pull`; default all.",
        ),
        (
            "mailbox",
            words(&["pool", "worker"]),
            "Place where requests wait; default pool.",
        ),
        (
            "sizing",
            words(&["fair", "together"]),
            "Rule that chooses batch sizes.",
        ),
        (
            "length",
            words(&["mean", "history", "stream", "experts", "single"]),
            "Prediction of the number of tokens in a sequence of a generative model; default mean.",
        ),
        (
            "tables",
            words(&["intervals", "until"]),
            "Bookings that reservations keep: all intervals, or only the end of the last one (until); default intervals.",
        ),
        (
            "sweep",
            flag(),
            "true: requests that will certainly miss their deadline are dropped at once; default true.",
        ),
        (
            "fair",
            flag(),
            "true: requests that are about equally urgent run in random order; default true.",
        ),
        (
            "head_min_fraction",
            number(0.0, 1.0),
            "For models with a plan: the smallest batch, as a fraction of the planned batch; default 0.95.",
        ),
        (
            "booking_margin",
            number(0.0, 1.0),
            "For models with a plan: the fraction of the SLO that is kept as a margin; default 0.02.",
        ),
    ]);
    for name in weir_graph::POLICY_PARTS {
        let about = "A part of the policy: see docs/reference/policy.md for its parameters.";
        keys.insert((*name).to_owned(), part(about));
    }
    closed(&[], keys)
}

fn worker() -> Value {
    let keys = [
        ("class", text(), "The class of its device, as named in the plan."),
        (
            "address",
            text(),
            "HOST:PORT of its process; without it, the worker runs in this process.",
        ),
        (
            "server",
            text(),
            "The server on which it runs; default its own name.",
        ),
        (
            "bandwidth",
            text(),
            "Bandwidth of its server's link in each direction; default 10Gbps.",
        ),
        (
            "emulated",
            flag(),
            "true: it emulates a device of its class; default false.",
        ),
        (
            "slowdown",
            json!({ "type": "number", "minimum": 1 }),
            "In this process: factor by which execution is slowed down; default 1.",
        ),
        (
            "core",
            integer(0),
            "In this process: the core to which it is pinned.",
        ),
    ];
    closed(&["class"], properties(&keys))
}

fn module(catalog: &Catalog) -> Value {
    let stage = closed(
        &["model"],
        properties(&[
            ("model", text(), "The name of a [models] table."),
            (
                "certainty",
                number(0.0, 1.0),
                "Answers with a lower certainty go to the next stage.",
            ),
        ]),
    );
    let per_track = closed(
        &[],
        properties(&[
            (
                "every",
                text(),
                "Interval between runs for a track, in media time; default 1s.",
            ),
            (
                "until",
                number(0.0, 1.0),
                "Certainty of the attribute from which on the module no longer runs for a track.",
            ),
            (
                "once",
                flag(),
                "true: one run per track, as soon as the track counts; not with the other keys.",
            ),
        ]),
    );
    let shared = properties(&[
        ("model", text(), "The name of a [models] table."),
        (
            "cascade",
            json!({ "type": "array", "minItems": 2, "maxItems": 8, "items": stage }),
            "Several models in place of `model`, the smallest first.",
        ),
        (
            "settle",
            words(&["last", "surest"]),
            "Stage of the cascade whose answer counts; default last.",
        ),
        (
            "on_late",
            words(&["drop", "accept"]),
            "Handling of a frame for which the next stage of a cascade would be late; default drop.",
        ),
        (
            "escalate",
            words(&["frames", "regions"]),
            "Part of a frame that a detector in a cascade hands on; default frames.",
        ),
        (
            "on_drop",
            words(&["drop", "degrade"]),
            "Handling of a frame that the module cannot serve in time; default drop.",
        ),
        (
            "inputs",
            texts(),
            "Names of the sources and modules that it waits for.",
        ),
        (
            "regions",
            texts(),
            "Classes of objects whose crops are its items.",
        ),
        (
            "per_track",
            per_track,
            "Limits how often the module runs for a track.",
        ),
        (
            "streams",
            texts(),
            "Names of the streams that it runs for; frames of others pass it; default all.",
        ),
        (
            "weight",
            positive(),
            "Its share under the arbitration `weighted`; default 1.",
        ),
    ]);
    let variant = |name: &str, about: &str, mut keys: Map<String, Value>| {
        let named = if name == PYTHON_OPERATOR {
            json!({ "type": "string", "pattern": "^python:", "description": about })
        } else {
            json!({ "const": name, "description": about })
        };
        keys.insert("operator".to_owned(), named);
        closed(&["operator", "inputs"], keys)
    };
    let with = |specs: &[KeySpec]| {
        let mut keys = shared.clone();
        keys.extend(spec_properties(specs));
        keys
    };
    let mut variants: Vec<Value> = catalog
        .operators
        .iter()
        .map(|operator| variant(operator.name, operator.about, with(&operator.keys)))
        .collect();
    variants.push(variant(
        EMULATE,
        "stands for a model on an emulated device",
        with(&[]),
    ));
    let mut keys = spec_properties(catalog.tracker_keys);
    keys.insert(
        "inputs".to_owned(),
        described(texts(), "Modules whose objects it follows."),
    );
    keys.insert("streams".to_owned(), streams());
    variants.push(variant(
        TRACK,
        "follows objects through the frames of each stream",
        keys,
    ));
    json!({ "oneOf": variants })
}

fn streams() -> Value {
    let about = "Names of the streams that it is for, of those that its inputs have; * stands for any characters; default all.";
    described(texts(), about)
}

fn transform() -> Value {
    let variants = TRANSFORM_TYPES.iter().map(|kind| {
        typed(
            kind.name,
            kind.about,
            kind.keys,
            "Trackers whose objects it takes.",
            None,
        )
    });
    json!({ "oneOf": variants.collect::<Vec<_>>() })
}

fn sink(catalog: &Catalog) -> Value {
    let when_slow = described(
        words(&["wait", "skip"]),
        "wait: requests keep their permits until the sink has written them; skip: the sink skips deliveries and counts them.",
    );
    let variants = catalog.sinks.iter().map(|sink| {
        let about = "Names of the sources, modules, trackers and transforms whose deliveries it takes.";
        typed(sink.name, sink.about, sink.keys, about, Some(&when_slow))
    });
    json!({ "oneOf": variants.collect::<Vec<_>>() })
}

/// A table that says its `type`.
fn typed(name: &str, about: &str, specs: &[KeySpec], inputs: &str, when_slow: Option<&Value>) -> Value {
    let mut keys = spec_properties(specs);
    keys.insert("type".to_owned(), json!({ "const": name, "description": about }));
    keys.insert("inputs".to_owned(), described(texts(), inputs));
    keys.insert("streams".to_owned(), streams());
    keys.extend(when_slow.map(|value| ("when_slow".to_owned(), value.clone())));
    closed(&["type", "inputs"], keys)
}
#[cfg(test)]
mod tests {
    use super::shapes::merge;
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
    fn every_key_that_graphs_are_checked_against_is_in_the_schema() {
        let document = document(&catalog());
        let keys_of = |table: &Value| -> Vec<String> {
            let mut keys: Vec<String> = table["properties"].as_object().unwrap().keys().cloned().collect();
            keys.sort();
            keys
        };
        for (section, known) in weir_graph::section_keys() {
            let table = &document["definitions"][section];
            let variants = table["oneOf"]
                .as_array()
                .cloned()
                .unwrap_or_else(|| vec![table.clone()]);
            let mut known: Vec<String> = known.into_iter().map(str::to_owned).collect();
            known.sort();
            if table.get("oneOf").is_none() {
                assert_eq!(keys_of(table), known, "{section}");
            }
            for variant in variants {
                // A tracker has `inputs` alone of the keys of modules, a model that is known by name needs no head.
                let is_tracker = variant["properties"]["operator"]["const"] == TRACK;
                let keys = keys_of(&variant);
                let lacks = known.iter().filter(|key| !keys.contains(key)).collect::<Vec<_>>();
                assert!(
                    is_tracker || lacks.is_empty() || lacks == ["head"],
                    "{section}: {lacks:?}"
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
