//! Answers for clients that see some cameras only. Of the state, what is listed here is kept; all else is left out, so that a key that is
//! added later shows nothing of other cameras.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::role::Identity;

/// Keys of the state that concern no camera.
const STATE_KEYS: [&str; 4] = ["stopping", "slo_ms", "policy", "incidents"];

/// Keys of the graph in the state that concern no camera.
const GRAPH_KEYS: [&str; 2] = ["name", "reloads"];

/// Keys of the report that concern the engine: its run, and the load and latency of its modules.
const REPORT_KEYS: [&str; 4] = ["run", "modules", "latency_ms", "invalid_rate"];

/// Returns the streams of a list that a client sees.
pub(crate) fn streams(list: Value, identity: &Identity) -> Value {
    only(list, "name", identity)
}

/// Returns a list of incidents, of which the backend has left out those of other cameras; here they are once more.
pub(crate) fn incidents(list: Value, identity: &Identity) -> Value {
    with_own(list, "incidents", identity)
}

/// Returns the tracks of a search that are of cameras of the client: the backend has left out all others, and here they are once more.
pub(crate) fn search(found: Value, identity: &Identity) -> Value {
    with_own(found, "results", identity)
}

/// Returns the cameras with archives that a client sees.
pub(crate) fn archives(list: Value, identity: &Identity) -> Value {
    with_own(list, "cameras", identity)
}

/// Returns an answer whose list of that key has only objects of streams that the client sees.
fn with_own(mut answer: Value, key: &str, identity: &Identity) -> Value {
    if identity.cameras.is_some() {
        answer[key] = only(answer[key].take(), "stream", identity);
    }
    answer
}

/// Objects of a list whose stream, by the value of `key`, the client sees.
fn only(list: Value, key: &str, identity: &Identity) -> Value {
    let Value::Array(list) = list else {
        return json!([]);
    };
    let seen = list
        .into_iter()
        .filter(|object| object[key].as_str().is_some_and(|stream| identity.sees(stream)));
    seen.collect()
}

/// Returns the state without other cameras: its streams, their part of the report, and the modules with their load.
pub(crate) fn state(mut state: Value, identity: &Identity) -> Value {
    let streams = only(state["streams"].take(), "name", identity);
    let mut shown = kept(&state, &STATE_KEYS);
    let mut report = kept(&state["report"], &REPORT_KEYS);
    report.insert("requests".to_owned(), sums(&streams));
    let of_streams = state["report"]["streams"].as_object().into_iter().flatten();
    let of_streams = of_streams.filter(|(name, _)| identity.sees(name));
    let of_streams: Map<String, Value> = of_streams.map(|(name, of)| (name.clone(), of.clone())).collect();
    report.insert("streams".to_owned(), of_streams.into());
    report.insert("drops".to_owned(), json!([]));
    report.insert("sinks".to_owned(), json!({}));
    let mut graph = kept(&state["graph"], &GRAPH_KEYS);
    graph.insert("problems".to_owned(), json!([]));
    shown.insert("modules".to_owned(), modules(state["modules"].take(), identity));
    shown.insert("streams".to_owned(), streams);
    shown.insert("sinks".to_owned(), json!([]));
    shown.insert("report".to_owned(), report.into());
    shown.insert("graph".to_owned(), graph.into());
    shown.into()
}

fn kept(object: &Value, keys: &[&str]) -> Map<String, Value> {
    let kept = keys
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), object.get(key)?.clone())));
    kept.collect()
}

/// Sums of the numbers in `requests` over streams.
fn sums(streams: &Value) -> Value {
    let mut sums = Map::new();
    let requests = streams
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|stream| stream["requests"].as_object());
    for (key, count) in requests.flatten() {
        if let Some(count) = count.as_u64() {
            let sum = sums.get(key).and_then(Value::as_u64).unwrap_or(0);
            sums.insert(key.clone(), (sum + count).into());
        }
    }
    sums.into()
}

/// Modules, of whose inputs the sources of other cameras are left out.
fn modules(modules: Value, identity: &Identity) -> Value {
    let Value::Array(mut modules) = modules else {
        return json!([]);
    };
    let names: BTreeSet<String> = modules
        .iter()
        .filter_map(|module| module["name"].as_str().map(str::to_owned))
        .collect();
    for module in &mut modules {
        if let Some(inputs) = module["inputs"].as_array_mut() {
            inputs.retain(|input| {
                input
                    .as_str()
                    .is_some_and(|input| names.contains(input) || identity.sees(input))
            });
        }
    }
    modules.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::Role;

    fn viewer() -> Identity {
        Identity {
            cameras: Some(["door".to_owned()].into()),
            ..Identity::new("lobby", Role::View)
        }
    }

    #[test]
    fn state_names_no_other_camera() {
        let stream = |name: &str| json!({ "name": name, "state": "live", "requests": { "arrived": 3, "in_flight": 1 } });
        let whole = json!({
            "stopping": false,
            "slo_ms": 400.0,
            "streams": [stream("door"), stream("yard")],
            "modules": [{ "name": "detect", "inputs": ["door", "yard"] }, { "name": "plates", "inputs": ["detect", "yard"] }],
            "sinks": [{ "name": "events", "inputs": ["yard"] }],
            "warnings": ["yard reserves too much"],
            "report": {
                "run": { "preset": "weir" },
                "requests": { "arrived": 6, "in_flight": 2 },
                "streams": { "door": {}, "yard": {} },
                "sinks": { "events": { "trouble": "yard" } },
                "drops": [{ "module": "yard" }],
                "removed_streams": { "names": ["yard"] },
            },
            "graph": { "name": "site", "reloads": 1, "problems": ["yard"] },
            "later": "yard",
        });
        let shown = state(whole, &viewer());
        assert!(!shown.to_string().contains("yard"), "{shown}");
        assert_eq!(shown["streams"].as_array().map(Vec::len), Some(1));
        assert_eq!(
            shown["report"]["requests"],
            json!({ "arrived": 3, "in_flight": 1 })
        );
        assert_eq!(shown["modules"][1]["inputs"], json!(["detect"]));
        assert_eq!(
            (&shown["graph"]["name"], &shown["slo_ms"]),
            (&json!("site"), &json!(400.0))
        );
    }

    #[test]
    fn lists_have_own_cameras_only() {
        let list = json!({ "count": 9, "incidents": [{ "stream": "door" }, { "stream": "yard" }, {}] });
        let shown = incidents(list, &viewer());
        assert_eq!(shown["incidents"], json!([{ "stream": "door" }]));
        assert_eq!(
            streams(json!([{ "name": "yard" }, { "name": "door" }]), &viewer()),
            json!([{ "name": "door" }])
        );
        assert_eq!(streams(json!(null), &viewer()), json!([]));
    }
}
