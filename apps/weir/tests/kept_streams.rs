//! Streams that were added to `weir serve` are there after a restart: in the graph's file, all other bytes of which stay as they
//! are, or in a file of the engine.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::service::{GRAPH, Service, folder};
use crate::common::{refuses, stderr, stdout};
use crate::reload::wait_for;
use crate::small_disk::SmallDisk;

/// Kills the engine and starts it again in the same folder, after `change`.
pub(crate) fn restart(mut service: Service, args: &[&str], change: impl FnOnce(&Path)) -> Service {
    let folder = std::mem::replace(&mut service.folder, tempfile::tempdir().unwrap());
    drop(service);
    change(folder.path());
    Service::start_in(folder, "127.0.0.1:0", args)
}

fn graph_file(service: &Service) -> PathBuf {
    service.folder.path().join("graph.toml")
}

/// The file of the engine in the folder of the test.
fn state_file(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder.join("state/weir/streams")).ok()?;
    let mut files = entries.map(|entry| entry.unwrap().path());
    files.find(|file| file.extension().is_some_and(|extension| extension == "toml"))
}

fn stream(service: &Service, name: &str) -> Value {
    let (_, body) = service.ask("GET", "/api/streams", "");
    let streams: Value = serde_json::from_str(&body).unwrap();
    let mut streams = streams.as_array().unwrap().iter();
    streams
        .find(|stream| stream["name"] == name)
        .cloned()
        .unwrap_or_default()
}

fn in_folder(text: &str) -> TempDir {
    let folder = folder();
    fs::write(folder.path().join("graph.toml"), text).unwrap();
    folder
}

/// A request by which a stream is added, and where its answer says that it is kept.
fn add(service: &Service, name: &str, uri: &str) -> Value {
    let body = json!({ "name": name, "uri": uri }).to_string();
    let (status, answer) = service.ask("POST", "/api/streams", &body);
    assert_eq!(status, 201, "{answer}");
    serde_json::from_str::<Value>(&answer).unwrap()["kept"].clone()
}

#[test]
fn added_stream_is_there_after_a_restart_and_leaves_the_rest_of_the_file() {
    let text = format!("# The site.\r\n{GRAPH}# Of all streams.\n[defaults]\nweight = 3 # times\n# The end");
    let mut service = Service::start_in(in_folder(&text), "127.0.0.1:0", &[]);
    let written = |service: &Service| fs::read_to_string(graph_file(service)).unwrap();
    let added = service.streams(&["add", "guest", "emulated:uniform?rate=100"]);
    assert_eq!(stdout(&added), "added guest\n");
    let kept = format!("kept in {}\n", graph_file(&service).display());
    assert_eq!(stderr(&added), kept);
    let table = "# Added while weir serve ran.\r\n[sources.guest]\r\nuri = \"emulated:uniform?rate=100\"\r\nlike = \"*\"";
    assert_eq!(written(&service), format!("{text}\r\n\r\n{table}"));
    assert_eq!(stream(&service, "guest")["weight"], 3.0, "it has the defaults");
    service.streams(&["set", "guest", "--slo", "10s"]);
    let changed = table.replace("guest]\r\n", "guest]\r\nslo = \"10s\"\r\n");
    assert_eq!(written(&service), format!("{text}\r\n\r\n{changed}"));
    let paused = service.streams(&["pause", "guest"]);
    assert!(stderr(&paused).contains("no key for it"), "{}", stderr(&paused));

    service = restart(service, &[], |_| {});
    service.wait_until(|list| {
        list.lines()
            .any(|line| line.contains("guest") && line.contains("paused"))
    });
    let guest = stream(&service, "guest");
    assert_eq!(
        (&guest["weight"], &guest["slo_ms"]),
        (&json!(3.0), &json!(10_000.0))
    );
    assert_eq!(stdout(&service.streams(&["resume", "guest"])), "resumed guest\n");
    // It enters what it entered when it was added.
    let delivered = |service: &Service| stream(service, "guest")["requests"]["delivered"].as_u64();
    service.wait_until(|_| delivered(&service) > Some(10));
    let removed = service.streams(&["remove", "guest"]);
    assert!(stderr(&removed).contains("kept in"), "{}", stderr(&removed));
    assert_eq!(written(&service), text);

    service = restart(service, &[], |_| {});
    service.wait_until(|list| list.contains(" live "));
    assert_eq!(stream(&service, "guest"), Value::Null);
    let (_, graph) = service.ask("GET", "/api/graph", "");
    let graph: Value = serde_json::from_str(&graph).unwrap();
    assert_eq!((&graph["reloads"], &graph["problems"]), (&json!(0), &json!([])));
    service.drain();
}

#[test]
fn password_of_an_added_stream_is_in_a_file_for_its_owner_alone() {
    let mut service = Service::start(&[]);
    let kept = add(&service, "gate", "rtsp://viewer:S3CR3T@127.0.0.1:1/live");
    assert_eq!(kept["in"], "state", "{kept}");
    let state = state_file(service.folder.path()).unwrap();
    assert_eq!(kept["file"], state.display().to_string());
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&state).unwrap().contains("S3CR3T"));
    assert_eq!(fs::read_to_string(graph_file(&service)).unwrap(), GRAPH);

    service = restart(service, &[], |_| {});
    let source = stream(&service, "gate")["source"].to_string();
    assert!(
        source.contains("127.0.0.1:1/live") && !source.contains("S3CR3T"),
        "{source}"
    );
    let set = service.streams(&["set", "gate", "--weight", "2"]);
    assert!(
        stderr(&set).contains("the stream is kept there"),
        "{}",
        stderr(&set)
    );
    assert!(
        fs::read_to_string(state_file(service.folder.path()).unwrap())
            .unwrap()
            .contains("weight = 2.0")
    );
    service.streams(&["remove", "gate"]);
    let said = fs::read_to_string(service.folder.path().join("weir.err")).unwrap();
    assert!(
        said.contains("streams that are added are kept in") && !said.contains("S3CR3T"),
        "{said}"
    );
    service = restart(service, &[], |_| {});
    assert_eq!(stream(&service, "gate"), Value::Null);
    service.drain();
}

#[test]
fn file_that_changed_or_is_read_only_is_left_alone() {
    let mut service = Service::start(&["--no-watch"]);
    let file = graph_file(&service);
    let foreign = format!("{GRAPH}# Another hand.\n");
    fs::write(&file, &foreign).unwrap();
    let kept = add(&service, "one", "emulated:uniform?rate=5");
    assert_eq!(kept["in"], "state", "{kept}");
    assert!(kept["why"].as_str().unwrap().contains("has changed"), "{kept}");
    assert_eq!(fs::read_to_string(&file).unwrap(), foreign);

    let read_only = |folder: &Path| {
        let mode = fs::Permissions::from_mode(0o444);
        fs::set_permissions(folder.join("graph.toml"), mode).unwrap();
    };
    service = restart(service, &["--no-watch"], read_only);
    let said = fs::read_to_string(service.folder.path().join("weir.err")).unwrap();
    assert!(said.contains("is read-only"), "{said}");
    let kept = add(&service, "two", "emulated:uniform?rate=5");
    assert!(
        kept["in"] == "state" && kept["why"].as_str().unwrap().contains("read-only"),
        "{kept}"
    );
    service = restart(service, &[], |_| {});
    service.wait_until(|list| list.matches(" live ").count() == 3);
    assert!(stream(&service, "one").is_object() && stream(&service, "two").is_object());
    assert_eq!(fs::read_to_string(graph_file(&service)).unwrap(), foreign);
    service.drain();
}

#[test]
fn tables_of_the_user_stay_and_answers_say_so() {
    let mut service = Service::start(&[]);
    let set = service.streams(&["set", "steady", "--weight", "2"]);
    let removed = service.streams(&["remove", "steady"]);
    for answer in [stderr(&set), stderr(&removed)] {
        assert!(
            answer.contains("only") && answer.contains("did not write its table"),
            "{answer}"
        );
    }
    let kept = add(&service, "steady", "emulated:uniform?rate=5");
    assert!(
        kept["in"] == "none" && kept["why"].as_str().unwrap().contains("this name"),
        "{kept}"
    );
    refuses(
        &service.streams(&["add", "a", "rtsp://${NOBODY:-camera}/live"]),
        &["`uri`", "${NOBODY:-camera}", "none is looked up"],
    );
    assert_eq!(fs::read_to_string(graph_file(&service)).unwrap(), GRAPH);
    assert!(state_file(service.folder.path()).is_none());
    service.wait_until(|list| list.contains(" live "));
    service.drain();
}

#[test]
fn edit_of_the_file_removes_a_kept_stream_while_it_runs() {
    let mut service = Service::start(&["--no-watch"]);
    assert_eq!(add(&service, "guest", "emulated:uniform?rate=5")["in"], "graph");
    service.hang_up();
    // The engine's own edit is no change.
    wait_for(&service, |state| state["graph"]["reloads"] == 1);
    assert!(stream(&service, "guest").is_object());
    fs::write(graph_file(&service), GRAPH).unwrap();
    service.hang_up();
    wait_for(&service, |state| state["graph"]["reloads"] == 2);
    service.wait_until(|list| !list.contains("guest"));
    service.drain();
}

#[test]
fn stream_runs_and_is_not_kept_where_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path(), "1m") else {
        return;
    };
    let path = folder.path().to_owned();
    fs::write(path.join("graph.toml"), GRAPH).unwrap();
    let service = Service::start_in(folder, "127.0.0.1:0", &[]);
    service.wait_until(|list| list.contains(" live "));
    disk.fill(0);
    let kept = add(&service, "guest", "emulated:uniform?rate=5");
    assert!(
        kept["in"] == "none" && kept["why"].as_str().unwrap().contains("disk is full"),
        "{kept}"
    );
    assert!(stream(&service, "guest").is_object());
    assert_eq!(fs::read_to_string(graph_file(&service)).unwrap(), GRAPH);
    drop(service);
    drop(disk);
    let _ = fs::remove_dir_all(path);
}
