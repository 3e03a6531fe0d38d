//! Edits of texts: what is added parses to the graph and the stream, and removing it gives the bytes from before.

use proptest::prelude::*;

use super::*;

const GRAPH: &str = r#"# The site.
[app]   # no name
slo = "400ms"

[sources]
gate.uri = "rtsp://gate/1" # the first

[modules.find]
inputs = [
    "gate", # and others
]
# The end.
"#;

fn keys(uri: &str) -> Table {
    Table::from_iter([
        ("like".to_owned(), "*".into()),
        ("uri".to_owned(), uri.into()),
        ("weight".to_owned(), 2.5.into()),
    ])
}

#[test]
fn added_table_stands_at_the_end_and_is_removed_without_a_trace() {
    let one = with_table(GRAPH, "front", &keys("rtsp://front/1")).unwrap();
    let table = "\n# Added while weir serve ran.\n[sources.front]\nuri = \"rtsp://front/1\"\nlike = \"*\"\nweight = 2.5\n";
    assert_eq!(one, format!("{GRAPH}{table}"));
    let two = with_table(&one, "yard.2", &keys("rtsp://\"yard\"\\\u{7}/1")).unwrap();
    assert!(two.ends_with(
        "\n[sources.\"yard.2\"]\nuri = \"rtsp://\\\"yard\\\"\\\\\\u0007/1\"\nlike = \"*\"\nweight = 2.5\n"
    ));
    assert_eq!(
        with_table(&two, "front", &keys("x")),
        None,
        "there is one of that name"
    );
    assert_eq!(with_table(&two, "gate", &keys("x")), None);
    assert_eq!(without_table(&two, "yard.2").unwrap(), one);
    assert_eq!(
        without_table(&two, "front").unwrap(),
        with_table(GRAPH, "yard.2", &keys("rtsp://\"yard\"\\\u{7}/1")).unwrap()
    );
    assert_eq!(without_table(&one, "front").unwrap(), GRAPH);
}

#[test]
fn tables_of_the_user_are_left_alone() {
    let by_hand = format!("{GRAPH}\n[sources.yard]\nuri = \"rtsp://yard/1\"\n");
    for name in ["gate", "yard", "nothing"] {
        assert_eq!(without_table(&by_hand, name), None, "{name}");
        assert_eq!(with_keys(&by_hand, name, &[("weight", None)]), None, "{name}");
    }
    // A part of the table that stands behind a table of the user.
    let one = with_table(GRAPH, "front", &keys("a")).unwrap();
    let apart = format!("{one}[modules.b]\nweight = 2\n[sources.front.objects.person]\nmin_score = 0.5\n");
    assert_eq!(without_table(&apart, "front"), None);
    // A part behind it goes with it, and so does a comment within.
    let part = format!(
        "{}# Small ones do not count.\n[sources.front.objects.person]\nmin_area = 0.1 # of all\n# Mine.\n",
        one
    );
    assert_eq!(
        without_table(&part, "front").unwrap(),
        format!("{GRAPH}# Mine.\n")
    );
    let inline = "sources = { gate = { uri = \"a\" } }\n";
    assert_eq!(with_table(inline, "front", &keys("a")), None);
    assert_eq!(with_table("broken =", "front", &keys("a")), None);
}

#[test]
fn values_change_where_they_stand() {
    let one = with_table(GRAPH, "front", &keys("rtsp://front/1")).unwrap();
    let noted = one.replace("weight = 2.5", "weight = 2.5 # more than others");
    let changes = [
        ("slo", Some(Value::from("2s"))),
        ("weight", Some(Value::from(3.0))),
        ("reserve", None),
    ];
    let changed = with_keys(&noted, "front", &changes).unwrap();
    let expected = noted
        .replace("weight = 2.5 #", "weight = 3.0 #")
        .replace("[sources.front]\n", "[sources.front]\nslo = \"2s\"\n");
    assert_eq!(changed, expected);
    let back = with_keys(&changed, "front", &[("slo", None), ("weight", None)]).unwrap();
    assert_eq!(back, one.replace("weight = 2.5\n", ""));
}

/// Lines of a graph with comments and odd forms.
fn lines() -> impl Strategy<Value = Vec<String>> {
    let line = prop_oneof![
        Just(String::new()),
        Just("   ".to_owned()),
        "# [a-z \\[\\]\"']{0,12}",
        Just("# Added while weir serve ran.".to_owned()),
        (0_u8..200).prop_map(|n| format!("[sources.s{n}]\nuri = \"rtsp://cam/{n}\" # \"{n}\"")),
        (0_u8..200).prop_map(|n| format!("  [modules.m{n}]  # m\n\tinputs = [\"s{n}\",\n# in\n]")),
        (0_u8..200).prop_map(|n| format!("[sinks.k{n}]\ntext = '''\n[sources.x]\n# '''\nb = {{ c = 1 }}")),
        (0_u8..200)
            .prop_map(|n| format!("# Added while weir serve ran.\n[sources.own{n}]\nuri = \"emulated:{n}\"")),
    ];
    prop::collection::vec(line, 0..12)
}

proptest! {
    #[test]
    fn removing_an_added_table_gives_the_bytes_back(
        lines in lines(),
        crlf in any::<bool>(),
        ends in any::<bool>(),
        name in "[a-z.é]{1,6}",
        uri in "\\PC{1,20}|[\\x00-\\x7f]{1,12}",
        weight in prop::option::of(0.001_f64..1000.0),
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut text = lines.join("\n").replace('\n', end);
        if ends {
            text.push_str(end);
        }
        // The same table twice is no TOML.
        prop_assume!(text.parse::<Table>().is_ok());
        let mut keys = keys(&uri);
        keys.remove("weight");
        keys.extend(weight.map(|weight| ("weight".to_owned(), Value::from(weight))));
        let edited = with_table(&text, &name, &keys).unwrap();
        prop_assert!(edited.starts_with(&text));
        let mut meant: Table = text.parse().unwrap();
        let sources = meant.entry("sources").or_insert_with(|| Table::new().into());
        sources.as_table_mut().unwrap().insert(name.clone(), keys.into());
        prop_assert_eq!(edited.parse::<Table>().unwrap(), meant);

        let changed = with_keys(&edited, &name, &[("slo", Some("3s".into()))]).unwrap();
        prop_assert!(changed.starts_with(&text));
        prop_assert_eq!(with_keys(&changed, &name, &[("slo", None)]).unwrap(), edited.clone());
        let other = with_table(&changed, "other-one", &Table::from_iter([("uri".to_owned(), "a".into())]));
        let other = other.unwrap();
        let only_other = without_table(&other, &name).unwrap();
        prop_assert_eq!(without_table(&only_other, "other-one").unwrap(), text.clone());
        prop_assert_eq!(without_table(&edited, &name).unwrap(), text);
    }
}
