//! Rows of the tables of keys agree with the parser: each key is read, refuses values of other types, and has the words and bounds
//! of its row.

use std::collections::BTreeSet;

use toml::{Table, Value};
use weir_flow::KeyKind;
use weir_graph::keys::{Mark, SectionKey, ValueKind, section, sections};
use weir_types::Span;

use super::common::{VALID, read};

/// Tables that [`VALID`] lacks.
const MORE: &str = r#"
[cameras.door]
uri = "rtsp://10.0.0.5/live"
schedule = {}
rules = { night = { after = "2s" } }

[cameras.door.ground]
points = [[0.3, 0.5], [0.7, 0.5], [0.9, 0.9], [0.1, 0.9]]
metres = [[0, 0], [5, 0], [5, 9], [0, 9]]

[workers.edge]
class = "fast"

[models.remote]
backend = "kserve"
url = "http://10.0.0.6:8000"
head = "ctc"

[modules.stages]
operator = "read-text"
cascade = [{ model = "reader", certainty = 0.9 }, { model = "remote" }]
inputs = ["detect"]
regions = ["plate"]

[modules.tracks]
operator = "track"
inputs = ["detect"]

[transforms.gate]
type = "line"
inputs = ["tracks"]
points = [[0.1, 0.5], [0.9, 0.5]]
"#;

/// Table of each section that is not an element of a list. Keys of `[defaults]` are those of sources.
const PLACES: [(&str, &[&str]); 18] = [
    ("app", &["app"]),
    ("policy", &["policy"]),
    ("source", &["sources", "north"]),
    ("camera", &["cameras", "door"]),
    ("schedule", &["cameras", "door", "schedule"]),
    ("object", &["sources", "north", "objects", "car"]),
    ("ground", &["cameras", "door", "ground"]),
    ("privacy", &["sources", "north", "privacy"]),
    ("device", &["devices", "cpu"]),
    ("worker", &["workers", "edge"]),
    ("model", &["models", "reader"]),
    ("model", &["models", "remote"]),
    ("scaling", &["models", "reader", "scaling"]),
    ("module", &["modules", "plates"]),
    ("module", &["modules", "stages"]),
    ("per_track", &["modules", "plates", "per_track"]),
    ("transform", &["transforms", "gate"]),
    ("sink", &["sinks", "events"]),
];

/// Messages with hints about the valid graph after one key was set.
fn problems(place: &[&str], key: &str, value: Value) -> Vec<(String, String)> {
    let mut graph: Table = format!("{VALID}{MORE}").parse().expect("the graph is TOML");
    let mut table = &mut graph;
    for name in place {
        let inner = table.entry(*name).or_insert_with(|| Value::Table(Table::new()));
        table = inner.as_table_mut().expect("a place is a table");
    }
    table.insert(key.to_owned(), value);
    let text = toml::to_string(&graph).expect("a table is written as TOML");
    match read(&text) {
        Ok(_) => Vec::new(),
        Err(problems) => {
            let problems = problems.iter();
            let both =
                problems.map(|problem| (problem.message.clone(), problem.hint.clone().unwrap_or_default()));
            both.collect()
        }
    }
}

/// Every key of every section with its place.
fn all() -> impl Iterator<Item = (&'static [&'static str], SectionKey)> {
    let places = PLACES.into_iter();
    places.flat_map(|(name, place)| section(name).into_iter().map(move |key| (place, key)))
}

#[test]
fn names_of_keys_are_unique_in_their_section() {
    for section in sections() {
        let names: BTreeSet<&str> = section.keys.iter().map(|key| key.name).collect();
        assert_eq!(names.len(), section.keys.len(), "{}", section.name);
    }
}

#[test]
fn values_of_other_types_are_refused() {
    // A list of a list of a flag is a value of no key.
    let wrong = Value::Array(vec![Value::Array(vec![Value::Boolean(true)])]);
    for (place, key) in all() {
        // Keys of servers are read only of models on servers.
        let is_of_servers = ["name", "version", "token_file", "timeout"].contains(&key.name);
        if is_of_servers && place == ["models", "reader"] {
            continue;
        }
        let found = problems(place, key.name, wrong.clone());
        assert!(
            found.iter().any(|(message, _)| message.contains(key.name)),
            "{place:?}: {}: {found:?}",
            key.name
        );
    }
}

#[test]
fn words_of_rows_are_words_that_the_parser_reads() {
    let mut count = 0;
    for (place, key) in all() {
        let ValueKind::Plain(KeyKind::OneOf(words)) = key.kind else {
            continue;
        };
        // They are read only of modules with a cascade.
        if key.has(Mark::Cascade) && place != ["modules", "stages"] {
            continue;
        }
        let wrong = problems(place, key.name, Value::String("zzzzzzzzzzzz".to_owned()));
        let hints: BTreeSet<&str> = wrong
            .iter()
            .filter_map(|(_, hint)| hint.strip_prefix("one of: "))
            .flat_map(|words| words.split(", "))
            .collect();
        // A queued source has a reader of its own.
        let words: BTreeSet<&str> = words.iter().copied().filter(|word| *word != "queued").collect();
        assert_eq!(hints, words, "{place:?}: {}: {wrong:?}", key.name);
        count += 1;
    }
    assert!(count > 15, "{count}");
}

#[test]
fn numbers_outside_the_bounds_of_rows_are_refused_and_bounds_are_not() {
    let mut count = 0;
    for (place, key) in all() {
        let is_refused = |value: Value| {
            let found = problems(place, key.name, value);
            let quoted = format!("`{}` must", key.name);
            found.iter().any(|(message, _)| message.contains(&quoted))
        };
        let (bounds, outside) = match key.kind {
            ValueKind::Plain(KeyKind::Number { min, max }) => (
                vec![min, max].into_iter().map(Value::Float).collect(),
                vec![Value::Float(min - 1.0), Value::Float(max * 2.0)],
            ),
            ValueKind::Plain(KeyKind::Integer { min, max }) => (
                vec![min, max].into_iter().map(Value::Integer).collect(),
                vec![Value::Integer(min - 1), Value::Integer(max + 1)],
            ),
            ValueKind::Above(min) => (vec![Value::Float(min + 1.0)], vec![Value::Float(min)]),
            ValueKind::AtLeast(min) => (vec![Value::Float(min)], vec![Value::Float(min - 0.5)]),
            ValueKind::DurationIn(min, max) => {
                let text = |span: Span| Value::String(span.to_string());
                (vec![text(min), text(max)], vec![text(min / 2), text(max * 2)])
            }
            _ => continue,
        };
        // A place decides whether other keys allow this one, which has a message of its own.
        if matches!(key.name, "length_error" | "streams" | "workers") {
            continue;
        }
        for value in outside {
            assert!(is_refused(value.clone()), "{place:?}: {} = {value}", key.name);
        }
        let bounds: Vec<Value> = bounds;
        for value in bounds {
            assert!(!is_refused(value.clone()), "{place:?}: {} = {value}", key.name);
        }
        count += 1;
    }
    assert!(count > 15, "{count}");
}
