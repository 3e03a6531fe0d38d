//! Sinks that are one client of an MQTT broker.

use weir_flow::{Catalog, KeyKind, KeySpec, SinkSpec};
use weir_graph::parse;

use crate::common::{VALID, catalog, environment, folder};

const fn key(name: &'static str, kind: KeyKind) -> KeySpec {
    KeySpec {
        name,
        kind,
        about: "",
    }
}

const KEYS: &[KeySpec] = &[
    key("host", KeyKind::Text),
    key("port", KeyKind::Integer { min: 1, max: 65_535 }),
    key("client_id", KeyKind::Text),
];

fn with_mqtt() -> Catalog {
    let mut catalog = catalog();
    catalog.sinks.push(SinkSpec {
        name: "mqtt",
        about: "",
        keys: KEYS,
        check: Default::default(),
    });
    catalog
}

/// Errors of the valid graph with two sinks for MQTT brokers that have these keys.
fn problems(first: &str, second: &str) -> Vec<String> {
    let sink =
        |name: &str, keys: &str| format!("[sinks.{name}]\ntype = \"mqtt\"\ninputs = [\"detect\"]\n{keys}\n");
    let text = format!("{VALID}\n{}{}", sink("home", first), sink("work", second));
    let folder = folder();
    let path = folder.path().join("graph.toml");
    match parse(&text, &path, &with_mqtt(), &environment) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(|problem| problem.message.clone()).collect(),
    }
}

#[test]
fn two_sinks_are_not_one_client_of_a_broker() {
    let named = "host = \"broker.lan\"\nclient_id = \"weir\"";
    let found = problems(named, named);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("sinks \"home\" and \"work\" have the `client_id` \"weir\""),
        "{found:?}"
    );
    for other in [
        "host = \"broker.lan\"",
        "host = \"broker.lan\"\nclient_id = \"weir-2\"",
        "host = \"other.lan\"\nclient_id = \"weir\"",
        "host = \"broker.lan\"\nport = 1884\nclient_id = \"weir\"",
    ] {
        assert_eq!(problems(named, other), Vec::<String>::new(), "{other}");
    }
    let default_port = "host = \"broker.lan\"\nport = 1883\nclient_id = \"weir\"";
    assert_eq!(problems(named, default_port).len(), 1);
    // A number may be a variable, which is not set here.
    let of_variable = "host = \"broker.lan\"\nport = \"${MQTT_PORT:-1884}\"\nclient_id = \"weir\"";
    assert_eq!(problems(named, of_variable), Vec::<String>::new());
    let given = "host = \"broker.lan\"\nport = 1884\nclient_id = \"weir\"";
    assert_eq!(problems(given, of_variable).len(), 1);
    let found = problems(named, &of_variable.replace("1884", "many"));
    assert_eq!(found, ["`port` must be a whole number, not a text"]);
    let unnamed = "host = \"broker.lan\"\nclient_id = \"\"";
    assert_eq!(problems(unnamed, unnamed), Vec::<String>::new());
}
