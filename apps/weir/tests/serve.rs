//! `weir serve` and `weir streams`: streams come and go over the API, SIGTERM drains.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

use crate::common::service::{GRAPH, Service, folder, weir};
use crate::common::{becomes, refuses, report, stderr, stdout};

#[test]
fn streams_come_and_go_and_sigterm_drains() {
    let mut service = Service::start(&[]);
    let added = service.streams(&["add", "guest", "emulated:uniform?rate=100"]);
    assert_eq!(stdout(&added), "added guest\n", "{}", stderr(&added));
    service.wait_until(|list| {
        list.lines()
            .any(|line| line.trim_start().starts_with("guest") && line.contains("live"))
    });
    refuses(
        &service.streams(&["add", "guest", "emulated:uniform?rate=100"]),
        &["guest is taken"],
    );
    refuses(
        &service.streams(&["remove", "nowhere"]),
        &["no stream nowhere", "guest"],
    );
    assert_eq!(stdout(&service.streams(&["pause", "guest"])), "paused guest\n");
    service.wait_until(|list| list.contains("paused"));
    assert_eq!(stdout(&service.streams(&["resume", "guest"])), "resumed guest\n");
    let removed = stdout(&service.streams(&["remove", "guest"]));
    assert!(removed.starts_with("removed guest: "), "{removed}");
    service.wait_until(|list| !list.contains("guest"));

    service.drain();
    let folder = &service.folder;
    let report = report(&folder.path().join("report.json"));
    assert_eq!(report["removed_streams"]["streams"], 1);
    assert_eq!(report["requests"]["in_flight"], 0);
    assert_eq!(report["streams"]["steady"]["requests"]["dropped"], 0);
    let lines = std::fs::read_to_string(folder.path().join("guest.jsonl")).unwrap();
    assert!(lines.lines().count() > 1, "{lines}");
}

#[test]
fn a_graph_without_sources_takes_streams_where_its_template_stands() {
    let folder = folder();
    let place = folder.path().to_owned();
    let text = GRAPH
        .replace("uri = \"emulated:uniform?rate=50\"", "template = true")
        .replace("steady", "cameras");
    let write = |text: &str| std::fs::write(place.join("graph.toml"), text).unwrap();
    write(&text);
    let checked = weir(&place).args(["check", "graph.toml"]).output().unwrap();
    let said = stdout(&checked) + &stderr(&checked);
    assert!(checked.status.success(), "{said}");
    assert!(
        said.contains("0 sources, 1 template") && said.contains("weir serve"),
        "{said}"
    );
    let ran = weir(&place).args(["run", "graph.toml"]).output().unwrap();
    refuses(&ran, &["templates and no sources", "weir serve"]);

    let mut service = Service::start_in(folder, "127.0.0.1:0", &[]);
    let is_ready = || service.ask("GET", "/readyz", "").0 == 200;
    assert!(becomes(is_ready), "an engine without streams is ready");
    let add = |name: &str, like: &[&str]| {
        let stream = ["add", name, "emulated:uniform?rate=50"];
        service.streams(&[&stream, like].concat())
    };
    refuses(&add("cameras", &[]), &["cameras is taken", "template"]);
    refuses(&add("north", &["--like", "doors"]), &["doors", "cameras"]);
    assert_eq!(stdout(&add("north", &["--like", "cameras"])), "added north\n");
    assert_eq!(stdout(&add("south", &[])), "added south\n");
    service.wait_until(|list| list.matches(" live ").count() == 2);
    // Another graph, whose template has another name.
    let kept = std::fs::read_to_string(place.join("graph.toml")).unwrap();
    assert!(
        kept.contains("like = \"cameras\"") && kept.contains("like = \"*\""),
        "{kept}"
    );
    write(&kept.replace("cameras", "doors"));
    let reloads = |body: &str| body.contains("\"reloads\":1");
    let swapped = becomes(|| reloads(&service.ask("GET", "/api/graph", "").1));
    assert!(swapped, "{}", service.ask("GET", "/api/graph", "").1);
    assert_eq!(stdout(&add("west", &["--like", "doors"])), "added west\n");
    service.wait_until(|list| list.matches(" live ").count() == 3);
    service.drain();

    let report = report(&place.join("report.json"));
    let requests = &report["requests"];
    assert_eq!(requests["arrived"], requests["delivered"], "{requests}");
    for name in ["north", "south", "west"] {
        let lines = std::fs::read_to_string(place.join(format!("{name}.jsonl"))).unwrap();
        let frames = lines.lines().filter(|line| line.contains("\"type\":\"frame\""));
        assert_eq!(report["streams"][name]["requests"]["delivered"], frames.count());
    }
}

#[test]
fn clients_name_no_files_of_this_machine_and_no_variables() {
    let mut service = Service::start(&[]);
    let outside = tempfile::NamedTempFile::new().unwrap();
    let path = outside.path().display().to_string();
    refuses(
        &service.streams(&["add", "a", &path]),
        &["not one that clients may name", "--allow-any-source"],
    );
    refuses(
        &service.streams(&["add", "a", "file:///etc/hostname"]),
        &["not one that clients may name"],
    );
    refuses(
        &service.streams(&["add", "a", "rtsp://${HOME}/stream"]),
        &["HOME"],
    );
    refuses(
        &service.streams(&["add", "a", "nothing.mp4"]),
        &["no file or folder \"nothing.mp4\""],
    );
    refuses(
        &service.streams(&["add", "a b", "emulated:uniform?rate=1"]),
        &["cannot be a name"],
    );
    refuses(
        &service.streams(&["add", &"n".repeat(201), "emulated:uniform?rate=1"]),
        &["has 201 bytes", "choose a shorter name"],
    );
    refuses(
        &service.streams(&["add", "a", "emulated:uniform?rate=1", "--mode", "fast"]),
        &["fast"],
    );
    service.drain();
}

#[test]
fn a_token_is_needed_where_others_reach_the_address_and_no_one_else_may_read_it() {
    let folder = folder();
    let serve = |args: &[&str]| {
        let mut weir = weir(folder.path());
        weir.args(["serve", "graph.toml", "--duration", "1s"])
            .args(args)
            .output()
            .unwrap()
    };
    refuses(
        &serve(&["--listen", "0.0.0.0:0"]),
        &["needs a token", "--token-file"],
    );
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    refuses(&serve(&["--token-file", "token"]), &["644", "chmod 600"]);

    let own = folder.path().join("own");
    std::fs::write(&own, "0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o600)).unwrap();
    let own = own.display().to_string();
    let mut service = Service::start_in(folder, "0.0.0.0:0", &["--token-file", &own]);
    refuses(&service.streams(&["list"]), &["needs a token", "Authorization"]);
    let is_answered = || stdout(&service.streams(&["list", "--token-file", &own])).contains("steady");
    let answered = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        is_answered()
    });
    assert!(answered);
    service.drain();
}

#[test]
fn what_no_engine_answers_is_said() {
    let folder = folder();
    let list = weir(folder.path())
        .args(["streams", "list", "--at", "127.0.0.1:1"])
        .output()
        .unwrap();
    refuses(
        &list,
        &["cannot connect to an engine at http://127.0.0.1:1", "weir serve"],
    );
}

#[test]
fn systemd_is_notified_that_it_is_ready_and_that_it_lives() {
    let folder = folder();
    let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut process = weir(folder.path())
        .args(["serve", "graph.toml", "--listen", "127.0.0.1:0"])
        .env("NOTIFY_SOCKET", folder.path().join("notify"))
        .env("WATCHDOG_USEC", "300000")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut word = [0; 64];
    let mut said = Vec::new();
    while said.len() < 3 {
        let length = socket.recv(&mut word).unwrap();
        said.push(String::from_utf8_lossy(&word[..length]).trim().to_owned());
    }
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(said, ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
}
