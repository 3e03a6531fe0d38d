//! Shapes of values that the schema is made of.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use weir_flow::{KeyKind, KeySpec};

/// A table that has these keys and no others.
pub(super) fn closed(required: &[&str], properties: Map<String, Value>) -> Value {
    let mut table = json!({ "type": "object", "additionalProperties": false });
    table["properties"] = Value::Object(properties);
    if !required.is_empty() {
        table["required"] = json!(required);
    }
    table
}

/// The keys of the catalog. One that is listed twice may be of either kind.
pub(super) fn spec_properties(keys: &[KeySpec]) -> Map<String, Value> {
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
        properties.insert(name.to_owned(), described(value, &about));
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

pub(super) fn described(mut value: Value, about: &str) -> Value {
    value["description"] = about.into();
    value
}

pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{name}") })
}

pub(super) fn kind(kind: KeyKind) -> Value {
    match kind {
        KeyKind::Number { min, max } => number(min, max),
        KeyKind::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        KeyKind::Text | KeyKind::File | KeyKind::Folder => text(),
        KeyKind::OneOf(known) => words(known),
        KeyKind::Texts => texts(),
        KeyKind::Flag => flag(),
        KeyKind::Duration => json!({ "type": "string", "examples": ["500ms", "2s", "24h"] }),
        KeyKind::Bytes => json!({ "type": "string", "examples": ["500kB", "64MiB"] }),
        KeyKind::Space => json!({ "type": "string", "examples": ["20GB", "10%"] }),
        KeyKind::Durations => json!({ "type": "object", "additionalProperties": text() }),
        KeyKind::Points => json!({ "type": "array", "items": point() }),
        KeyKind::Pair { min, max } => json!({
            "type": "array",
            "minItems": 2,
            "maxItems": 2,
            "items": { "type": "integer", "minimum": min, "maximum": max },
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

/// One of these, or what the environment says.
pub(super) fn words(words: &[&str]) -> Value {
    json!({ "anyOf": [{ "enum": words }, reference("variable")] })
}
