//! Schemas of JSON values, as the API description has them.

use serde_json::{Map, Value, json};

/// Schema of a JSON value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum JsonSchema {
    /// Any JSON value.
    Any,
    /// A text of any length.
    Text,
    /// A text of at most this many characters.
    TextUpTo(usize),
    /// One of these texts.
    Words(&'static [&'static str]),
    /// The bytes of a file.
    Bytes,
    /// `true` or `false`.
    Flag,
    /// `true` or `false`, with the value if it is absent.
    FlagOr(bool),
    /// A whole number of any size.
    Whole,
    /// A whole number of at least this bound.
    WholeFrom(i64),
    /// A whole number within these bounds.
    WholeIn(i64, i64),
    /// A whole number: the value if it is absent, then its bounds.
    WholeOr(i64, i64, i64),
    /// A number of any size.
    Number,
    /// A number within these bounds.
    NumberIn(f64, f64),
    /// A list of any length.
    List(&'static JsonSchema),
    /// A list of at most this many items.
    ListUpTo(usize, &'static JsonSchema),
    /// A list of exactly this many items.
    ListOf(usize, &'static JsonSchema),
    /// An object whose keys this description does not list.
    Table,
    /// An object with these keys; the server may send further ones.
    Object(&'static [SchemaProperty]),
    /// An object that may have no other keys.
    Closed(&'static [SchemaProperty]),
    /// An object that may have no other keys, and has at least one of them.
    Changes(&'static [SchemaProperty]),
    /// Values of one schema under names that are not known beforehand.
    Map(&'static JsonSchema),
    /// A component of the description, by its name.
    Named(&'static str),
    /// A value of any of these schemas.
    Either(&'static [JsonSchema]),
    /// A value that may be `null`.
    OrNull(&'static JsonSchema),
}

/// Key of an object: its name, the schema of its value, and its meaning, which may be empty.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SchemaProperty {
    /// A key that every object has.
    Required(&'static str, JsonSchema, &'static str),
    /// A key that may be absent.
    Optional(&'static str, JsonSchema, &'static str),
}

/// A schema that other schemas name: its name, its meaning and the schema itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SchemaComponent(
    pub(crate) &'static str,
    pub(crate) &'static str,
    pub(crate) JsonSchema,
);

impl JsonSchema {
    /// Returns the schema in the form of OpenAPI 3.0.
    pub(crate) fn to_json(self) -> Value {
        match self {
            Self::Any => json!({}),
            Self::Text => json!({ "type": "string" }),
            Self::TextUpTo(max) => json!({ "type": "string", "maxLength": max }),
            Self::Words(words) => json!({ "type": "string", "enum": words }),
            Self::Bytes => json!({ "type": "string", "format": "binary" }),
            Self::Flag => json!({ "type": "boolean" }),
            Self::FlagOr(absent) => json!({ "type": "boolean", "default": absent }),
            Self::Whole => json!({ "type": "integer" }),
            Self::WholeFrom(min) => json!({ "type": "integer", "minimum": min }),
            Self::WholeIn(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
            Self::WholeOr(absent, min, max) => {
                json!({ "type": "integer", "minimum": min, "maximum": max, "default": absent })
            }
            Self::Number => json!({ "type": "number" }),
            Self::NumberIn(min, max) => json!({ "type": "number", "minimum": min, "maximum": max }),
            Self::List(items) => json!({ "type": "array", "items": items.to_json() }),
            Self::ListUpTo(max, items) => {
                json!({ "type": "array", "maxItems": max, "items": items.to_json() })
            }
            Self::ListOf(count, items) => {
                json!({ "type": "array", "minItems": count, "maxItems": count, "items": items.to_json() })
            }
            Self::Table => json!({ "type": "object" }),
            Self::Object(properties) => object(properties),
            Self::Closed(properties) => closed(properties),
            Self::Changes(properties) => {
                let mut schema = closed(properties);
                schema["minProperties"] = json!(1);
                schema
            }
            Self::Map(values) => json!({ "type": "object", "additionalProperties": values.to_json() }),
            Self::Named(name) => json!({ "$ref": format!("#/components/schemas/{name}") }),
            Self::Either(schemas) => {
                let schemas: Vec<Value> = schemas.iter().map(|schema| schema.to_json()).collect();
                json!({ "anyOf": schemas })
            }
            Self::OrNull(schema) => {
                let mut schema = schema.to_json();
                schema["nullable"] = json!(true);
                schema
            }
        }
    }
}

/// Adds the meaning of a value to its schema, unless it is empty.
pub(crate) fn described(mut schema: Value, about: &str) -> Value {
    if !about.is_empty() {
        schema["description"] = json!(about);
    }
    schema
}

fn object(properties: &[SchemaProperty]) -> Value {
    let (mut described_keys, mut required) = (Map::new(), Vec::new());
    for property in properties {
        let (SchemaProperty::Required(name, schema, about) | SchemaProperty::Optional(name, schema, about)) =
            *property;
        described_keys.insert(name.to_owned(), described(schema.to_json(), about));
        if matches!(property, SchemaProperty::Required(..)) {
            required.push(name);
        }
    }
    let mut schema = json!({ "type": "object", "properties": described_keys });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn closed(properties: &[SchemaProperty]) -> Value {
    let mut schema = object(properties);
    schema["additionalProperties"] = json!(false);
    schema
}
