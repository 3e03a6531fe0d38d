//! The part of JSON Schema that our schemas use. A keyword that is not known here is a mistake.

use serde_json::Value;

/// Holds a value against a schema.
pub(crate) fn check(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    for (keyword, says) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "$schema" | "title" | "description" | "$defs" | "definitions" | "examples" | "x-since" => {}
            "$ref" => check(root, target(root, says), value)?,
            "oneOf" | "anyOf" => alternatives(root, keyword, says, value)?,
            "properties" => {
                for (key, schema) in says.as_object().unwrap() {
                    value
                        .get(key)
                        .map_or(Ok(()), |value| check(root, schema, value))?;
                }
            }
            "additionalProperties" => additional(root, schema, value)?,
            "items" => {
                let mut items = value.as_array().into_iter().flatten();
                items.try_for_each(|item| check(root, says, item))?;
            }
            _ => plain(keyword, says, value)?,
        }
    }
    Ok(())
}

fn target<'a>(root: &'a Value, says: &Value) -> &'a Value {
    root.pointer(says.as_str().unwrap().trim_start_matches('#'))
        .unwrap()
}

fn alternatives(root: &Value, keyword: &str, says: &Value, value: &Value) -> Result<(), String> {
    let all = says.as_array().unwrap().iter();
    let results: Vec<_> = all.map(|one| check(root, one, value)).collect();
    let fitting = results.iter().filter(|result| result.is_ok()).count();
    if fitting == 1 || fitting > 1 && keyword == "anyOf" {
        return Ok(());
    }
    Err(format!("{fitting} of {} fit: {results:?}", results.len()))
}

/// Keys that `properties` does not have.
fn additional(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let known = |key: &str| schema["properties"].get(key).is_some();
    let entries = value.as_object().into_iter().flatten();
    for (key, value) in entries.filter(|(key, _)| !known(key)) {
        match &schema["additionalProperties"] {
            Value::Bool(true) => {}
            Value::Bool(false) => return Err(format!("there is no key {key}")),
            other => check(root, other, value)?,
        }
    }
    Ok(())
}

fn plain(keyword: &str, says: &Value, value: &Value) -> Result<(), String> {
    let length = value.as_array().map(Vec::len);
    let wanted = says.as_u64().map(|wanted| wanted as usize);
    let fits = match keyword {
        "const" => value == says,
        "enum" => says.as_array().unwrap().contains(value),
        "type" => match says {
            Value::Array(names) => names.iter().any(|name| is_a(name.as_str().unwrap(), value)),
            name => is_a(name.as_str().unwrap(), value),
        },
        "minimum" => value
            .as_f64()
            .is_none_or(|number| number >= says.as_f64().unwrap()),
        "maximum" => value
            .as_f64()
            .is_none_or(|number| number <= says.as_f64().unwrap()),
        "exclusiveMinimum" => value
            .as_f64()
            .is_none_or(|number| number > says.as_f64().unwrap()),
        "minItems" => length.is_none_or(|length| length >= wanted.unwrap()),
        "maxItems" => length.is_none_or(|length| length <= wanted.unwrap()),
        "pattern" => value
            .as_str()
            .is_none_or(|text| matches(says.as_str().unwrap(), text)),
        "required" => {
            let mut keys = says.as_array().unwrap().iter();
            keys.all(|key| value.get(key.as_str().unwrap()).is_some())
        }
        other => panic!("the schema says {other}, which is not known here"),
    };
    if fits {
        return Ok(());
    }
    Err(format!("{value} does not fit {keyword} {says}"))
}

/// The patterns that there are: a time in UTC, a variable, and an operator in Python.
fn matches(pattern: &str, text: &str) -> bool {
    if pattern == "\\$\\{" {
        return text.contains("${");
    }
    if pattern == "^python:" {
        return text.starts_with("python:");
    }
    let digit = |c: char| if c.is_ascii_digit() { '0' } else { c };
    text.chars().map(digit).eq("0000-00-00T00:00:00.000Z".chars())
}

fn is_a(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the schema says {other}, which is not known here"),
    }
}

/// Keys of a value that its schema does not describe, with the places where they are. Objects without `properties` hold
/// what they like.
pub(crate) fn undescribed(root: &Value, schema: &Value, value: &Value) -> Vec<String> {
    if let Some(says) = schema.get("$ref") {
        return undescribed(root, target(root, says), value);
    }
    if let Some(all) = schema.get("oneOf").and_then(Value::as_array) {
        let fitting = all.iter().find(|one| check(root, one, value).is_ok());
        return fitting.map_or(Vec::new(), |one| undescribed(root, one, value));
    }
    if let (Some(items), Value::Array(list)) = (schema.get("items"), value) {
        return list
            .iter()
            .flat_map(|item| undescribed(root, items, item))
            .collect();
    }
    let (Some(known), Value::Object(entries)) = (schema.get("properties"), value) else {
        return Vec::new();
    };
    let of = |(key, value): (&String, &Value)| match known.get(key) {
        None => vec![key.clone()],
        Some(schema) => {
            let below = undescribed(root, schema, value).into_iter();
            below.map(|name| format!("{key}.{name}")).collect()
        }
    };
    entries.iter().flat_map(of).collect()
}
