//! Shapes of values that the schema is made of.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use weir_flow::{KeyKind, KeySpec};
use weir_graph::keys;

/// A table that has these keys and no others.
pub(super) fn closed(required: &[&str], properties: Map<String, Value>) -> Value {
    let mut table = json!({ "type": "object", "additionalProperties": false });
    table["properties"] = Value::Object(properties);
    if !required.is_empty() {
        table["required"] = json!(required);
    }
    table
}

/// The keys of an entry of the catalog, such as `sink mqtt`. One that is listed twice may be of either kind.
pub(super) fn spec_properties(owner: &str, keys: &[KeySpec]) -> Map<String, Value> {
    let mut by_name: BTreeMap<&str, Vec<&KeySpec>> = BTreeMap::new();
    for key in keys {
        by_name.entry(key.name).or_default().push(key);
    }
    let mut properties = Map::new();
    for (name, specs) in by_name {
        let about = specs.iter().map(|spec| spec.about).collect::<Vec<_>>().join("; ");
        let value = match specs.as_slice() {
            [spec] => kind(spec.kind),
            several => json!({ "anyOf": several.iter().map(|spec| kind(spec.kind)).collect::<Vec<_>>() }),
        };
        let value = with_release(described(value, &about), owner, name);
        properties.insert(name.to_owned(), value);
    }
    properties
}

/// Adds a key that may be there with another kind: then it may be of either.
pub(super) fn merge(all: &mut Map<String, Value>, name: &str, value: &Value) {
    let Some(there) = all.get_mut(name) else {
        all.insert(name.to_owned(), value.clone());
        return;
    };
    if there == value {
        return;
    }
    // What was merged before has no text of its own.
    let merged = there.get("anyOf").filter(|_| there.get("description").is_none());
    let mut alternatives = match merged.and_then(Value::as_array) {
        Some(alternatives) => alternatives.clone(),
        None => vec![there.clone()],
    };
    if !alternatives.contains(value) {
        alternatives.push(value.clone());
        *there = json!({ "anyOf": alternatives });
    }
}

/// Keyword with the release that a key came with, if it is not in the first one.
const SINCE: &str = "x-since";

/// Adds the release that a key came with, unless that is the first one.
pub(super) fn with_release(mut value: Value, owner: &str, key: &str) -> Value {
    let release = keys::since(owner, key);
    if release != keys::FIRST_RELEASE {
        value[SINCE] = release.into();
    }
    value
}

/// The value of a key without its release, which differs between the entries that have the key.
pub(super) fn without_release(mut value: Value) -> Value {
    if let Some(keywords) = value.as_object_mut() {
        keywords.remove(SINCE);
    }
    value
}

pub(super) fn described(mut value: Value, about: &str) -> Value {
    value["description"] = about.into();
    value
}

pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{name}") })
}

pub(super) fn kind(kind: KeyKind) -> Value {
    match kind {
        KeyKind::Number { min, max } => or_variable(number(min, max)),
        KeyKind::Integer { min, max } => or_variable(whole(min, max)),
        KeyKind::Text | KeyKind::File | KeyKind::Folder => text(),
        KeyKind::OneOf(known) => words(known),
        KeyKind::Texts => texts(),
        KeyKind::Flag => or_variable(flag()),
        KeyKind::Duration => json!({ "type": "string", "examples": ["500ms", "2s", "24h"] }),
        KeyKind::Bytes => json!({ "type": "string", "examples": ["500kB", "64MiB"] }),
        KeyKind::Space => json!({ "type": "string", "examples": ["20GB", "10%"] }),
        KeyKind::Durations => json!({ "type": "object", "additionalProperties": text() }),
        KeyKind::Points => json!({ "type": "array", "items": point() }),
        KeyKind::Pair { min, max } => json!({
            "type": "array",
            "minItems": 2,
            "maxItems": 2,
            "items": whole(min, max),
        }),
    }
}

/// The two numbers of a point.
pub(super) fn point() -> Value {
    json!({ "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2 })
}

pub(super) fn text() -> Value {
    json!({ "type": "string" })
}

pub(super) fn texts() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

pub(super) fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn number(min: f64, max: f64) -> Value {
    json!({ "type": "number", "minimum": min, "maximum": max })
}

/// A whole number within bounds.
pub(super) fn whole(min: impl Into<i64>, max: impl Into<i64>) -> Value {
    let (min, max): (i64, i64) = (min.into(), max.into());
    json!({ "type": "integer", "minimum": min, "maximum": max })
}

/// The value, or a text with a variable.
pub(super) fn or_variable(mut value: Value) -> Value {
    value["type"] = json!([value["type"], "string"]);
    value["pattern"] = json!("\\$\\{");
    value
}

/// One of these, or what the environment says.
pub(super) fn words(words: &[&str]) -> Value {
    json!({ "anyOf": [{ "enum": words }, reference("variable")] })
}
