//! Models on model servers: their slots, and what is said of their keys.

use weir_graph::{DeviceClass, ModelOrigin};

use crate::common::{VALID, check, read};

/// The valid graph with its reader on a model server, these lines added to it.
fn on_server(lines: &str) -> String {
    let at = VALID.find("[models.reader]").expect("it has a reader");
    let (before, after) = VALID.split_at(at);
    let rest = after.find("\n[modules").map_or("", |end| &after[end..]);
    format!("{before}[models.reader]\nbackend = \"kserve\"\nhead = \"ctc\"\n{lines}\n{rest}")
}

/// Number of the first line that begins so.
fn line_of(text: &str, begin: &str) -> usize {
    let at = text.lines().position(|line| line.starts_with(begin));
    at.expect("it is there") + 1
}

/// Checks that the last of these lines is refused with these words.
fn refused(lines: &str, words: &str) {
    let text = on_server(lines);
    let number = line_of(&text, lines.lines().last().expect("a line"));
    check(&text, &[&format!("{number}: {words}")]);
}

#[test]
fn each_server_has_as_many_slots_as_calls_at_a_time() {
    let graph = read(&on_server(
        "url = [\"http://one:8000\", \"https://two:8443/base\"]\nworkers = 3\nname = \"lpr\"\ntimeout = \"300ms\"",
    ))
    .expect("it is whole");
    let reader = &graph.models()[1];
    let device = &graph.devices()[reader.device];
    assert_eq!(
        (&*device.name, &device.class),
        ("kserve:reader", &DeviceClass::Servers(2))
    );
    assert_eq!((device.slot_count(1), reader.workers), (6, None));
    let ModelOrigin::Server(servers) = &reader.origin else {
        panic!("it is on a server: {:?}", reader.origin);
    };
    assert_eq!(
        (
            &*servers.name,
            servers.urls.len(),
            servers.timeout.as_millis_f64()
        ),
        ("lpr", 2, 300.0)
    );
    let plain = read(&on_server("url = \"http://one:8000\"")).expect("it is whole");
    let reader = &plain.models()[1];
    assert_eq!(plain.devices()[reader.device].slot_count(16), 1);
    assert!(matches!(&reader.origin, ModelOrigin::Server(servers) if servers.name == "reader"));
}

#[test]
fn keys_of_model_servers_are_checked() {
    let url = "url = \"http://one:8000\"\n";
    for address in [
        "one:8000",
        "ftp://one",
        "http://",
        "http://user@",
        "http://one/?x=1",
        "http://o ne",
    ] {
        refused(&format!("url = \"{address}\""), "is no address of a server");
    }
    refused("url = []", "`url` must name from 1 to 64 servers");
    refused(
        "url = [\"http://one\", \"http://one\"]",
        "`url` names a server twice",
    );
    refused(
        &format!("{url}name = \"../other\""),
        "`name` holds letters, digits",
    );
    refused(
        &format!("{url}version = \"1/infer\""),
        "`version` holds letters, digits",
    );
    refused(
        &format!("{url}token_file = \"none.txt\""),
        "`token_file`: there is no file",
    );
    refused(
        &format!("{url}model = \"embedded:plate-reader\""),
        "is on a model server and has a `model`",
    );
    refused(
        &format!("{url}device = \"cuda:0\""),
        "is on a model server and has a `device`",
    );
    let without = on_server("");
    let table = line_of(&without, "[models.reader]");
    check(
        &without,
        &[&format!("{table}: is on a model server and has no `url`")],
    );
    let no_head = on_server(url).replace("head = \"ctc\"\n", "");
    check(&no_head, &[&format!("{table}: model \"reader\" has no `head`")]);
    let no_backend = on_server(url).replace("backend = \"kserve\"\n", "model = \"reader.onnx\"\n");
    let line = line_of(&no_backend, "url = ");
    check(&no_backend, &[&format!("{line}: has a `url` and no `backend`")]);
}
