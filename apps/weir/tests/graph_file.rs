//! The graph file is read, checked, saved and restored over the API: secrets stay on the machine, bytes that were not edited stay as
//! they are, and the running graph follows.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::common::service::{GRAPH, Service, folder};

/// The graph with Windows line ends, comments, and secrets in addresses and keys.
fn graph() -> String {
    let camera = "[sources.camera]\nuri = \"rtsp://admin:SECRET1@127.0.0.1:1/main\"   # the door\n# was rtsp://admin:SECRET0@old/\n";
    let hook = "\n[sinks.hook]\ntype = \"webhook\"\nurl = \"http://127.0.0.1:1/\"\ntoken = \"SECRET2\"\ninputs = [\"find\"]\n";
    let graph = GRAPH.replace("[devices.", &format!("{camera}\n[devices."));
    (graph + hook).replace('\n', "\r\n")
}

/// An engine that is killed at the end: its camera never sends a frame, which would be an error of a run.
fn start(graph: &str, args: &[&str]) -> Service {
    let folder = folder();
    fs::write(folder.path().join("graph.toml"), graph).unwrap();
    let service = Service::start_in(folder, "127.0.0.1:0", args);
    service.wait_until(|list| list.contains(" live "));
    service
}

fn path(service: &Service) -> PathBuf {
    service.folder.path().join("graph.toml")
}

fn on_disk(service: &Service) -> String {
    fs::read_to_string(path(service)).unwrap()
}

fn ask(service: &Service, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let (status, answer) = service.ask(method, path, &body);
    (
        status,
        serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{answer}")),
    )
}

fn read(service: &Service) -> (String, String) {
    let (status, file) = ask(service, "GET", "/api/graph/file", &Value::Null);
    assert_eq!(status, 200, "{file}");
    let text = |key: &str| file[key].as_str().unwrap().to_owned();
    (text("text"), text("version"))
}

fn save(service: &Service, text: &str, version: &str) -> (u16, Value) {
    ask(
        service,
        "PUT",
        "/api/graph/file",
        &json!({ "text": text, "version": version }),
    )
}

#[test]
fn edits_keep_secrets_line_ends_and_comments() {
    let graph = graph();
    let service = start(&graph, &[]);
    let (text, version) = read(&service);
    assert!(
        !text.contains("SECRET") && text.contains("rtsp://***@127.0.0.1:1/main"),
        "{text}"
    );

    // As a browser has it: with other line ends, and with an edit of one key.
    let edits = json!([{ "path": ["sources", "camera", "weight"], "value": 2 }]);
    let check = json!({ "text": text.replace('\r', ""), "edits": edits });
    let (status, checked) = ask(&service, "POST", "/api/graph/check", &check);
    assert_eq!((status, &checked["is_valid"]), (200, &json!(true)), "{checked}");
    assert_eq!(checked["document"]["sources"]["camera"]["weight"], 2);
    assert_eq!(on_disk(&service), graph, "a check writes nothing");

    let (status, saved) = save(&service, checked["text"].as_str().unwrap(), &version);
    assert_eq!(status, 200, "{saved}");
    assert_eq!(saved["applied"]["changed"], json!(["camera"]));
    let line = "# the door\r\n";
    assert_eq!(
        on_disk(&service),
        graph.replace(line, &format!("{line}weight = 2\r\n"))
    );
    assert!(!saved.to_string().contains("SECRET"), "{saved}");
    let (_, state) = ask(&service, "GET", "/api/state", &Value::Null);
    assert_eq!(state["graph"]["problems"], json!([]));

    let (status, conflict) = save(&service, &text, &version);
    assert_eq!(status, 409, "{conflict}");
    let (_, version) = read(&service);
    let undo = json!({ "version": version });
    assert_eq!(ask(&service, "POST", "/api/graph/file/undo", &undo).0, 200);
    assert_eq!(on_disk(&service), graph);
    let (_, version) = read(&service);
    let undo = json!({ "version": version });
    assert_eq!(
        ask(&service, "POST", "/api/graph/file/undo", &undo).0,
        409,
        "no save is left"
    );
}

#[test]
fn files_that_changed_meanwhile_and_read_only_files_stay() {
    let graph = graph();
    let service = start(&graph, &["--no-watch"]);
    let (text, version) = read(&service);
    let by_hand = graph.replace("slo = \"20s\"", "slo = \"21s\"");
    fs::write(path(&service), &by_hand).unwrap();
    assert_eq!(save(&service, &text, &version).0, 409);
    assert_eq!(on_disk(&service), by_hand);

    let mut permissions = fs::metadata(path(&service)).unwrap().permissions();
    permissions.set_mode(0o444);
    fs::set_permissions(path(&service), permissions).unwrap();
    let (_, file) = ask(&service, "GET", "/api/graph/file", &Value::Null);
    assert_eq!(file["writable"], false, "{file}");
    assert!(file["why"].as_str().unwrap().contains("read-only"), "{file}");
    let (text, version) = read(&service);
    let text = text.replace("slo = \"21s\"", "slo = \"22s\"");
    let (status, refused) = save(&service, &text, &version);
    assert_eq!(status, 409, "{refused}");
    assert_eq!(on_disk(&service), by_hand);
}

#[test]
fn problems_have_their_lines_and_no_secrets() {
    let service = start(&graph(), &["--allow-any-source"]);
    let (text, version) = read(&service);
    let line_of = |text: &str, what: &str| 1 + text.lines().position(|line| line.contains(what)).unwrap();
    for (from, to, what) in [
        ("inputs = [\"steady\"]", "inputs = [\"stedy\"]", "stedy"),
        ("slo = \"20s\"", "slo = 20 s", "slo = 20 s"),
        ("@127.0.0.1:1/main", "@192.0.2.1/main", "192.0.2.1"),
        ("token = \"***\"", "topic_token = \"***\"", "topic_token"),
    ] {
        let wrong = text.replacen(from, to, 1);
        assert_ne!(wrong, text, "{from}");
        let (status, checked) = ask(&service, "POST", "/api/graph/check", &json!({ "text": wrong }));
        assert_eq!((status, &checked["is_valid"]), (200, &json!(false)), "{checked}");
        let lines = checked["diagnostics"]
            .as_array()
            .unwrap()
            .iter()
            .map(|finding| &finding["line"]);
        assert!(
            lines.clone().any(|line| *line == line_of(&wrong, what)),
            "{what}: {checked}"
        );
        let (status, refused) = save(&service, &wrong, &version);
        assert_eq!(status, 400, "{refused}");
        assert!(refused["diagnostics"].is_array());
        assert!(!checked.to_string().contains("SECRET") && !refused.to_string().contains("SECRET"));
    }
    assert_eq!(on_disk(&service), graph());
}

#[test]
fn clients_save_what_names_no_file_or_server() {
    let outside = tempfile::NamedTempFile::new().unwrap();
    let service = start(&graph(), &[]);
    let (text, version) = read(&service);
    let sink = format!(
        "\n[sinks.more]\ntype = \"jsonl\"\npath = \"{}\"\ninputs = [\"find\"]\n",
        outside.path().display()
    );
    let with_clip = format!("\n[sources.file]\nuri = \"{}\"\n", outside.path().display());
    for wrong in [
        text.clone() + &sink,
        text.clone() + &with_clip,
        text.replace("http://127.0.0.1:1/", "http://192.0.2.1/"),
        text.replace("slo = \"20s\"", "slo = \"20s\"\r\nstream_folders = [\"/\"]"),
        text.replace("emulated:uniform?rate=50", "rtsp://${HOME}/1"),
        // A text that is not TOML names nothing that would be read.
        text.clone() + "\n[models.other]\nlabels = \"/etc/hostname\"\nmodel = ",
    ] {
        let (status, refused) = save(&service, &wrong, &version);
        assert_eq!(status, 400, "{refused}");
    }
    assert_eq!(on_disk(&service), graph());
    let slower = text.replace("rate=50", "rate=40");
    let (status, saved) = save(&service, &slower, &version);
    assert_eq!(status, 200, "{saved}");
    assert_eq!(on_disk(&service), graph().replace("rate=50", "rate=40"));

    let service = start(&graph(), &["--allow-any-source"]);
    let (text, version) = read(&service);
    let (status, saved) = save(&service, &(text + &sink), &version);
    assert_eq!(status, 200, "{saved}");
}

#[test]
fn pictures_of_streams_are_jpegs_unless_they_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let clip = concat!(env!("CARGO_MANIFEST_DIR"), "/../../videos/live-room.mp4");
    fs::copy(clip, folder.path().join("clip.mp4")).unwrap();
    let live = "uri = \"clip.mp4\"\nmode = \"live\"\nloop = true";
    let hidden = format!("\n[sources.office]\n{live}\nprivate = true\n");
    let graph = GRAPH.replace("uri = \"emulated:uniform?rate=50\"", live) + &hidden;
    let graph = graph.replace("inputs = [\"steady\"]", "inputs = [\"steady\", \"office\"]");
    fs::write(folder.path().join("graph.toml"), graph).unwrap();
    let mut service = Service::start_in(folder, "127.0.0.1:0", &[]);
    service.wait_until(|list| list.matches(" live ").count() == 2);
    // The answer is not UTF-8: only its head is looked at.
    let (status, jpeg) = service.ask("GET", "/api/streams/steady/picture", "");
    assert_eq!(status, 200, "{jpeg}");
    assert!(jpeg.contains("JFIF") && jpeg.len() > 1_000);
    let (status, refused) = service.ask("GET", "/api/streams/office/picture", "");
    assert_eq!(status, 403, "{refused}");
    assert_eq!(service.ask("GET", "/api/streams/none/picture", "").0, 404);
    service.drain();
}
