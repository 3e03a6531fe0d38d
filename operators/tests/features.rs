//! Sinks that are features of the build: their names and keys are always there, and a build without one says which feature it
//! needs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weir_flow::{Settings, Value};
use weir_operators::sinks::{catalog, check_writable};

/// Checks the sink of that name, which this build has or not.
fn check(name: &str, is_there: bool, keys: &[(&str, Value)]) {
    let spec = catalog().into_iter().find(|sink| sink.name == name).unwrap();
    assert!(spec.keys.iter().any(|key| key.name == keys[0].0), "{name}");
    let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    let checked = check_writable(name, &Settings(keys.collect()), &["north".to_owned()]);
    assert_eq!(checked.is_ok(), is_there, "{name}: {checked:?}");
    if let Err(error) = checked {
        let error = error.to_string();
        assert!(error.contains(&format!("--features {name}")), "{error}");
    }
}

#[test]
fn a_sink_that_is_not_built_in_is_refused_by_the_name_of_its_feature() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tables").display().to_string();
    check(
        "parquet",
        cfg!(feature = "parquet"),
        &[("path", Value::Text(path))],
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let server = Value::Texts(vec!["broker.lan".to_owned()]);
    check("nats", cfg!(feature = "nats"), &[("servers", server.clone())]);
    check("kafka", cfg!(feature = "kafka"), &[("brokers", server)]);
    let text = |text: &str| Value::Text(text.to_owned());
    let mail = [
        ("server", text("127.0.0.1")),
        ("security", text("none")),
        ("from", text("weir@example.org")),
        ("to", Value::Texts(vec!["me@example.org".to_owned()])),
    ];
    check("mail", cfg!(feature = "mail"), &mail);
}
