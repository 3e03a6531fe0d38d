//! Sections of a graph by the rows of their keys.

use serde_json::{Map, Value, json};
use weir_analytics::transforms::TRANSFORM_TYPES;
use weir_flow::{Catalog, KeyKind, KeySpec};
use weir_graph::keys::{SectionKey, ValueKind};
use weir_policy::{DropRule, Policy};

use super::named_in_catalog;
use super::shapes::{
    closed, described, kind, or_variable, point, reference, spec_properties, text, texts, whole,
    with_release, words,
};

/// A table with the keys of a section and no others.
pub(super) fn table(section: &str, keys: &[SectionKey], catalog: &Catalog) -> Value {
    let required = keys.iter().filter(|key| key.is_required());
    let required: Vec<&str> = required.map(|key| key.name).collect();
    closed(&required, properties(section, keys, catalog))
}

/// Properties of keys of a section.
pub(super) fn properties(section: &str, keys: &[SectionKey], catalog: &Catalog) -> Map<String, Value> {
    let properties = keys.iter().map(|key| {
        let value = described(value(key.kind, catalog), &key.sentence());
        (key.name.to_owned(), with_release(value, section, key.name))
    });
    properties.collect()
}

fn value(of: ValueKind, catalog: &Catalog) -> Value {
    match of {
        ValueKind::Plain(plain) => kind(plain),
        ValueKind::Above(min) => or_variable(json!({ "type": "number", "exclusiveMinimum": min })),
        ValueKind::AtLeast(min) => or_variable(json!({ "type": "number", "minimum": min })),
        ValueKind::FrameRate => json!({ "type": "string", "examples": ["5fps", "0.5fps"] }),
        ValueKind::Bandwidth => json!({ "type": "string", "examples": ["10Gbps", "500Mbps"] }),
        ValueKind::DurationIn(..) => kind(KeyKind::Duration),
        ValueKind::TextOrTexts(max) => {
            let mut list = texts();
            list["maxItems"] = json!(max);
            json!({ "anyOf": [text(), list] })
        }
        ValueKind::Polygon => polygon(),
        ValueKind::Polygons(max) => {
            json!({ "anyOf": [polygon(), { "type": "array", "maxItems": max, "items": polygon() }] })
        }
        ValueKind::FourPoints => {
            json!({ "type": "array", "items": point(), "minItems": 4, "maxItems": 4 })
        }
        ValueKind::Regions(max) => {
            let region = json!({ "anyOf": [polygon(), reference("region")] });
            json!({ "anyOf": [polygon(), { "type": "array", "maxItems": max, "items": region }] })
        }
        ValueKind::Table(section) => reference(section),
        ValueKind::Tables(section) => named(&reference(section)),
        ValueKind::TableList { section, min, max } => {
            json!({ "type": "array", "minItems": min, "maxItems": max, "items": reference(section) })
        }
        ValueKind::Parts(Some(type_name)) => parts_of_type(type_name),
        ValueKind::Parts(None) => parts_of_any_type(),
        ValueKind::Options => closed(&[], spec_properties("options", catalog.connection_options)),
        ValueKind::Batches(max) => {
            json!({ "type": "array", "minItems": 1, "items": whole(1, max) })
        }
        ValueKind::Profile => profile(),
        ValueKind::Profiles => named(&profile()),
        ValueKind::DropRule => json!({ "anyOf": [
            words(DropRule::NAMES),
            { "type": "object", "required": ["rule"], "properties": { "rule": words(DropRule::NAMES) } },
        ] }),
        ValueKind::Preset => words(&Policy::presets()),
        ValueKind::Operations => json!({
            "type": "array",
            "items": words(&["pull", "evict", "swap", "balance", "warm-start", "reorder"]),
            "contains": { "const": "pull" },
        }),
        ValueKind::Strategy => json!({ "type": ["string", "boolean", "object"] }),
    }
}

fn polygon() -> Value {
    json!({ "type": "array", "items": point(), "minItems": 3 })
}

/// Durations by batch size, or a file with them.
fn profile() -> Value {
    json!({ "anyOf": [text(), named(&text())] })
}

/// Values under names that the user chooses.
fn named(value: &Value) -> Value {
    json!({ "type": "object", "additionalProperties": value })
}

/// Transforms of a camera, all of one type. Zones and lines may be points alone.
fn parts_of_type(type_name: &str) -> Value {
    let spec = TRANSFORM_TYPES.iter().find(|spec| spec.name == type_name);
    let own = spec.map_or(&[][..], |spec| spec.keys);
    let table = closed(&[], part(type_name, own));
    if own.iter().any(|key| key.name == "points") {
        named(&json!({ "anyOf": [kind(KeyKind::Points), table] }))
    } else {
        named(&table)
    }
}

/// Transforms of a camera that name their types.
fn parts_of_any_type() -> Value {
    let variants = TRANSFORM_TYPES.iter().map(|spec| {
        let mut keys = part(spec.name, spec.keys);
        keys.insert("type".to_owned(), named_in_catalog(spec.name, spec.about));
        closed(&["type"], keys)
    });
    let variants: Vec<Value> = variants.collect();
    named(&json!({ "oneOf": variants }))
}

/// Keys of a transform of a camera.
fn part(type_name: &str, specs: &[KeySpec]) -> Map<String, Value> {
    let mut keys = spec_properties(&format!("transform {type_name}"), specs);
    let about = "Trackers whose objects it takes; default the tracker of the camera.";
    keys.insert("inputs".to_owned(), described(texts(), about));
    keys
}
