//! Edits of keys in texts: the result has the key, and all other bytes are as they were.

use proptest::prelude::*;
use toml::{Table, Value};
use weir_graph::text_edit::{EditError, remove, set};

const SITE: &str = r#"# The site.
[app]
slo = "1s"    # for all

[cameras.door]
uri = "rtsp://10.0.0.7/1"   # main entrance
# The porch, measured in May.
zones.porch = [[0.2, 0.4], [0.8, 0.4], [0.8, 1.0]] # by hand
lines.step = { points = [[0.1, 0.6], [0.9, 0.6]], classes = ["person"] }

# The yard comes next.
[cameras.yard]
uri = "rtsp://10.0.0.8/1"

[cameras.yard.zones.parking]
# Cars only.
points = [[0.0, 0.5], [0.5, 0.5], [0.5, 1.0]]
classes = ["car"]

[sinks.events]
type = "jsonl"
inputs = [
  "*",  # all
]
# The end.
"#;

fn value(text: &str) -> Value {
    let table = format!("v = {text}").parse::<Table>();
    table.expect("the value parses")["v"].clone()
}

fn set_text(text: &str, path: &[&str], new: &str) -> String {
    set(text, path, &value(new)).expect("the edit is possible")
}

/// The text with `to` in the place of `from`, which it has once.
fn with(from: &str, to: &str) -> String {
    assert_eq!(SITE.matches(from).count(), 1, "{from}");
    SITE.replace(from, to)
}

#[test]
fn values_are_replaced_where_they_stand() {
    let points = "[[0.1, 0.1], [0.9, 0.1], [0.9, 0.9]]";
    assert_eq!(
        set_text(SITE, &["cameras", "door", "zones", "porch"], points),
        with("[[0.2, 0.4], [0.8, 0.4], [0.8, 1.0]]", points)
    );
    assert_eq!(
        set_text(
            SITE,
            &["cameras", "door", "lines", "step", "points"],
            "[[0.0, 0.5], [1.0, 0.5]]"
        ),
        with("[[0.1, 0.6], [0.9, 0.6]]", "[[0.0, 0.5], [1.0, 0.5]]")
    );
    assert_eq!(
        set_text(SITE, &["cameras", "yard", "zones", "parking", "points"], points),
        with("[[0.0, 0.5], [0.5, 0.5], [0.5, 1.0]]", points)
    );
    assert_eq!(set_text(SITE, &["app", "slo"], "\"1s\""), SITE, "nothing changes");
}

#[test]
fn keys_are_added_beside_their_siblings() {
    assert_eq!(
        set_text(
            SITE,
            &["cameras", "door", "zones", "gate"],
            "[[0, 0], [1, 0], [1, 1]]"
        ),
        with(
            "# by hand\n",
            "# by hand\nzones.gate = [[0, 0], [1, 0], [1, 1]]\n"
        )
    );
    assert_eq!(
        set_text(SITE, &["cameras", "door", "ignore"], "[[0, 0], [1, 0], [1, 1]]"),
        with(
            "classes = [\"person\"] }\n",
            "classes = [\"person\"] }\nignore = [[0, 0], [1, 0], [1, 1]]\n"
        )
    );
    assert_eq!(
        set_text(
            SITE,
            &["cameras", "door", "lines", "step", "anchor"],
            "\"center\""
        ),
        with("[\"person\"] }", "[\"person\"], anchor = \"center\" }")
    );
    let yard = set_text(
        SITE,
        &["cameras", "yard", "zones", "path"],
        "[[0, 0], [1, 0], [1, 1]]",
    );
    assert_eq!(
        yard.lines().filter(|line| !SITE.contains(*line)).count(),
        if yard.contains("[cameras.yard.zones]") {
            2
        } else {
            1
        },
        "{yard}"
    );
}

#[test]
fn tables_are_added_behind_those_of_their_kind() {
    let text = set_text(SITE, &["cameras", "new"], "{ uri = \"rtsp://a/1\", weight = 2 }");
    let added = "\n[cameras.new]\nuri = \"rtsp://a/1\"\nweight = 2\n";
    assert_eq!(
        text,
        with("classes = [\"car\"]\n", &format!("classes = [\"car\"]\n{added}"))
    );
    let text = set_text(
        SITE,
        &["transforms", "a b"],
        "{ inputs = [\"t\"], type = \"zone\" }",
    );
    assert_eq!(
        text,
        format!("{SITE}\n[transforms.\"a b\"]\ntype = \"zone\"\ninputs = [\"t\"]\n")
    );
    assert_eq!(set_text("", &["app", "slo"], "\"1s\""), "[app]\nslo = \"1s\"\n");
}

#[test]
fn a_table_with_lines_keeps_its_comments() {
    let text = set_text(
        SITE,
        &["cameras", "yard", "zones", "parking"],
        "{ points = [[0, 0], [1, 0], [1, 1]], margin = 0.1 }",
    );
    let meant = with(
        "points = [[0.0, 0.5], [0.5, 0.5], [0.5, 1.0]]\nclasses = [\"car\"]\n",
        "points = [[0, 0], [1, 0], [1, 1]]\nmargin = 0.1\n",
    );
    assert_eq!(text, meant);
}

#[test]
fn keys_and_tables_are_removed_with_their_lines() {
    let gone = |path: &[&str]| remove(SITE, path).unwrap();
    assert_eq!(
        gone(&["cameras", "door", "zones", "porch"]),
        with(
            "zones.porch = [[0.2, 0.4], [0.8, 0.4], [0.8, 1.0]] # by hand\n",
            ""
        )
    );
    assert_eq!(
        gone(&["cameras", "door", "lines", "step", "classes"]),
        with(", classes = [\"person\"]", "")
    );
    assert_eq!(
        gone(&["cameras", "yard", "zones", "parking"]),
        with(
            "\n[cameras.yard.zones.parking]\n# Cars only.\npoints = [[0.0, 0.5], [0.5, 0.5], [0.5, 1.0]]\nclasses = [\"car\"]\n",
            ""
        )
    );
    let yard = gone(&["cameras", "yard"]);
    assert!(
        yard.contains("# The yard comes next.") && !yard.contains("parking"),
        "{yard}"
    );
    assert_eq!(gone(&["cameras", "none"]), SITE);
}

#[test]
fn line_ends_and_an_absent_last_one_stay() {
    let windows = SITE.replace('\n', "\r\n");
    let edited = set_text(
        &windows,
        &["cameras", "door", "zones", "gate"],
        "[[0, 0], [1, 0], [1, 1]]",
    );
    assert_eq!(edited.matches('\n').count(), edited.matches("\r\n").count());
    let open = "[cameras.a]\nuri = \"b\"";
    let edited = set_text(open, &["cameras", "a", "weight"], "2");
    assert_eq!(edited, "[cameras.a]\nuri = \"b\"\nweight = 2");
    assert_eq!(remove(&edited, &["cameras", "a", "weight"]).unwrap(), open);
}

#[test]
fn edits_that_cannot_be_made_are_refused() {
    assert!(matches!(
        set("[", &["a"], &value("1")),
        Err(EditError::NotToml(_))
    ));
    assert!(matches!(set(SITE, &[], &value("1")), Err(EditError::NotTable(_))));
    let through = set(SITE, &["app", "slo", "x"], &value("1"));
    assert!(matches!(through, Err(EditError::NotTable(_))), "{through:?}");
    let list = "[[a.b]]\nc = 1\n[[a.b]]\nc = 2\n";
    let refused = set(list, &["a", "b"], &value("{ x = 1 }"));
    assert!(matches!(refused, Err(EditError::Form(_))), "{refused:?}");
}

/// Keys that tables of the texts have, and new ones.
fn paths() -> impl Strategy<Value = Vec<&'static str>> {
    let name = prop::sample::select(vec![
        "app", "cameras", "door", "yard", "zones", "porch", "a b", "x", "ä\"", "points",
    ]);
    prop::collection::vec(name, 1..5)
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::hash_map("[a-z ]{1,4}", inner, 0..3)
                .prop_map(|table| Value::Table(table.into_iter().collect())),
        ]
    })
}

/// Lines with comments and blank ones, which no edit touches.
fn kept(text: &str) -> Vec<&str> {
    text.split_inclusive('\n')
        .filter(|line| line.trim_start().starts_with('#'))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_is_set_is_there_and_the_rest_is_as_it_was(path in paths(), value in values(), windows in any::<bool>()) {
        let text = if windows { SITE.replace('\n', "\r\n") } else { SITE.to_owned() };
        let Ok(edited) = set(&text, &path, &value) else { return Ok(()) };
        let parsed: Table = edited.parse().unwrap();
        let found = path.iter().try_fold(&Value::Table(parsed), |value, name| value.get(name)).cloned();
        prop_assert_eq!(found, Some(value));
        // Comments within a table go with it.
        let before: Value = Value::Table(text.parse().unwrap());
        let replaced = path.iter().try_fold(&before, |value, name| value.get(name));
        let is_whole = path.len() < 3 && ["app", "cameras"].contains(&path[0]);
        if !is_whole && !replaced.is_some_and(Value::is_table) {
            prop_assert_eq!(kept(&edited), kept(&text));
        }
        if windows {
            prop_assert_eq!(edited.matches('\n').count(), edited.matches("\r\n").count());
        }
        // The bytes outside of one changed place are the same.
        let common = |a: &mut dyn Iterator<Item = (u8, u8)>| a.take_while(|(a, b)| a == b).count();
        let start = common(&mut text.bytes().zip(edited.bytes()));
        let end = common(&mut text.bytes().rev().zip(edited.bytes().rev()));
        let is_new = text.parse::<Table>().is_ok_and(|table| {
            path.iter().try_fold(&Value::Table(table), |value, name| value.get(name)).is_none()
        });
        if is_new {
            prop_assert!(start + end >= text.len(), "{}", edited);
        }
    }

    #[test]
    fn what_is_set_and_removed_leaves_the_text(path in paths(), value in values()) {
        let Ok(edited) = set(SITE, &path, &value) else { return Ok(()) };
        let before: Table = SITE.parse().unwrap();
        let whole = Value::Table(before.clone());
        let has = |path: &[&str]| path.iter().try_fold(&whole, |value, name| value.get(name)).is_some();
        let Ok(removed) = remove(&edited, &path) else { return Ok(()) };
        prop_assert_eq!(kept(&removed).len() <= kept(SITE).len(), true);
        // A table on the way that was made for the key stays, empty.
        if !has(&path) && has(&path[..path.len() - 1]) && path.len() > 1 {
            let after: Table = removed.parse().unwrap();
            for (key, value) in &before {
                prop_assert_eq!(after.get(key), Some(value));
            }
        }
    }
}
