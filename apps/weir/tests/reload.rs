//! `weir serve` takes what changes in the file of its graph and what clients send: policy, shares and streams at once, another
//! graph beside the one that runs; what is wrong is refused with all its problems, and nothing changes.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::service::{GRAPH, Service};
use crate::common::{refuses, report, stderr, stdout};

/// The state of the service when it is as it should be.
pub(crate) fn wait_for(service: &Service, holds: impl Fn(&Value) -> bool) -> Value {
    let mut last = String::new();
    for _ in 0..1_500 {
        let (status, body) = service.ask("GET", "/api/state", "");
        if status == 200 {
            let state: Value = serde_json::from_str(&body).unwrap();
            if holds(&state) {
                return state;
            }
        }
        last = body;
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it never came: {last}");
}

fn stream<'a>(state: &'a Value, name: &str) -> Option<&'a Value> {
    let mut streams = state["streams"].as_array().unwrap().iter();
    streams.find(|stream| stream["name"] == name)
}

fn is_live(state: &Value, name: &str) -> bool {
    stream(state, name).is_some_and(|stream| stream["state"] == "live")
}

fn write(folder: &Path, text: &str) {
    std::fs::write(folder.join("graph.toml"), text).unwrap();
}

/// The graph with another stream, and with shares and a policy.
fn changed() -> String {
    let text = GRAPH.replace("inputs = [\"steady\"]", "inputs = [\"steady\", \"second\"]");
    let steady = "[sources.steady]\nweight = 3\nreserve = 2\n";
    text.replace("[sources.steady]\n", steady)
        + "[sources.second]\nuri = \"emulated:uniform?rate=30\"\n[policy]\npreset = \"pard\"\n"
}

/// The graph with another module before the sink.
fn another() -> String {
    GRAPH.replace("inputs = [\"find\"]", "inputs = [\"name\"]")
        + "[modules.name]\noperator = \"emulate\"\nmodel = \"any\"\ninputs = [\"find\"]\n"
}

#[test]
fn the_watched_file_is_taken_when_it_is_whole_and_refused_when_it_is_not() {
    let mut service = Service::start(&["--record", "log"]);
    let folder = service.folder.path().to_owned();
    write(&folder, &changed());
    let taken = |state: &Value| is_live(state, "second") && state["graph"]["reloads"] == 1;
    let state = wait_for(&service, taken);
    assert_eq!(state["policy"]["drop"]["rule"], "pard");
    let steady = stream(&state, "steady").unwrap();
    assert_eq!(
        (&steady["weight"], &steady["reserve"]),
        (&json!(3.0), &json!(2.0))
    );

    // Half of it, as an editor may leave it for a while; then two problems at once.
    let text = changed();
    write(&folder, &text[..text.len() / 2]);
    let state = wait_for(&service, |state| state["graph"]["problems"] != json!([]));
    assert!(is_live(&state, "second") && state["graph"]["reloads"] == 1);
    let two = text
        .replace("weight = 3", "weight = 0")
        .replace("\"pard\"", "\"pardon\"");
    write(&folder, &two);
    let both = |state: &Value| {
        let problems = state["graph"]["problems"].to_string();
        problems.contains("`weight` must lie between") && problems.contains("pardon")
    };
    let state = wait_for(&service, both);
    assert!(is_live(&state, "second"));

    write(&folder, GRAPH);
    wait_for(&service, |state| {
        stream(state, "second").is_none() && state["graph"]["problems"] == json!([])
    });
    service.drain();
    let report = report(&folder.join("report.json"));
    assert_eq!(report["removed_streams"]["streams"], 1);
    let steady = &report["streams"]["steady"]["requests"];
    assert_eq!((&steady["dropped"], &steady["late"]), (&json!(0), &json!(0)));
    verify(&folder);
}

#[test]
fn another_graph_takes_over_without_a_frame_lost_and_the_report_goes_on() {
    let mut service = Service::start(&["--record", "log"]);
    let folder = service.folder.path().to_owned();
    write(&folder, &another());
    let has_name = |state: &Value| state["report"]["modules"]["name"]["items"].as_u64() > Some(10);
    wait_for(&service, has_name);
    // A sink that is open is not given other settings.
    let with_drops = |text: &str| text.replace("type = \"jsonl\"", "type = \"jsonl\"\ndrops = true");
    write(&folder, &with_drops(&another()));
    let state = wait_for(&service, |state| state["graph"]["problems"] != json!([]));
    let problem = state["graph"]["problems"].to_string();
    assert!(
        problem.contains("sink events") && problem.contains("another path"),
        "{problem}"
    );
    assert!(is_live(&state, "steady"));
    write(&folder, GRAPH);
    wait_for(&service, |state| state["graph"]["reloads"] == 2);
    let arrived = |state: &Value| state["report"]["requests"]["arrived"].as_u64().unwrap();
    let before = arrived(&wait_for(&service, |_| true));
    wait_for(&service, |state| arrived(state) > before + 10);
    service.drain();
    let report = report(&folder.join("report.json"));
    let all = &report["requests"];
    assert_eq!(
        (&all["dropped"], &all["late"], &all["in_flight"]),
        (&json!(0), &json!(0), &json!(0))
    );
    assert_eq!(report["modules"]["find"]["items"], all["arrived"]);
    assert_eq!(report["sinks"]["events"]["written"], all["delivered"]);
    let lines = std::fs::read_to_string(folder.join("steady.jsonl")).unwrap();
    let is_frame = |line: &&str| line.contains("\"type\":\"frame\"");
    assert_eq!(json!(lines.lines().filter(is_frame).count()), all["delivered"]);
    verify(&folder);
}

/// Numbers of the frames in the whole lines of a file.
fn frames(file: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter(|line| line["type"] == "frame")
        .map(|line| line["frame"].as_u64().unwrap())
        .collect()
}

#[test]
fn a_sink_with_other_settings_goes_into_another_file_from_one_frame_to_the_next() {
    let mut service = Service::start(&["--no-watch"]);
    let folder = service.folder.path().to_owned();
    let reload = |text: &str, reloads: u64| {
        write(&folder, text);
        service.hang_up();
        wait_for(&service, |state| state["graph"]["reloads"] == reloads);
    };
    let written = |file: &str| {
        let there = |_: &Value| folder.join(file).exists() && frames(&folder.join(file)).len() > 10;
        wait_for(&service, there);
    };
    let into = |file: &str| {
        GRAPH.replace(
            "path = \"{stream}.jsonl\"",
            &format!("path = \"{file}\"\ndrops = true"),
        )
    };
    written("steady.jsonl");
    reload(&into("second.jsonl"), 1);
    written("second.jsonl");
    reload(&into("third.jsonl"), 2);
    // The sink of that name that goes on is the one that was opened last.
    let third = into("third.jsonl").replace("slo = \"20s\"", "slo = \"19s\"");
    reload(&third, 3);
    let before = frames(&folder.join("third.jsonl")).len();
    wait_for(&service, |_| {
        frames(&folder.join("third.jsonl")).len() > before + 10
    });
    service.drain();
    let report = report(&folder.join("report.json"));
    let files = ["steady.jsonl", "second.jsonl", "third.jsonl"].map(|file| frames(&folder.join(file)));
    let all = files.concat();
    assert!(all.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{all:?}");
    let delivered = &report["requests"]["delivered"];
    assert_eq!(*delivered, json!(all.len()));
    assert_eq!(report["sinks"]["events"]["written"], *delivered);
}

#[test]
fn a_stream_that_a_client_added_keeps_its_name_and_the_file_is_refused_until_it_is_removed() {
    let mut service = Service::start(&["--no-watch"]);
    let folder = service.folder.path().to_owned();
    let reload = |text: &str| {
        write(&folder, text);
        service.hang_up();
    };
    let refused = |name: &str| {
        let message = format!("the name {name} is taken by a stream that a client added");
        wait_for(&service, |state| {
            state["graph"]["problems"].to_string().contains(&message)
        })
    };
    let add = |name: &str| service.streams(&["add", name, "emulated:uniform?rate=40"]);
    // A file that has changed since is not edited: the stream is the client's.
    write(&folder, &format!("{GRAPH}# A remark.\n"));
    assert_eq!(stdout(&add("second")), "added second\n");
    reload(&changed());
    let state = refused("second");
    let id = |state: &Value| stream(state, "second").unwrap()["id"].clone();
    let of_client = id(&state);
    assert!(is_live(&state, "steady") && state["graph"]["reloads"] == 0);
    let weight = &stream(&state, "steady").unwrap()["weight"];
    assert_eq!(weight, &json!(1.0), "nothing of the file is taken");
    // What was removed gives its name to the file.
    service.streams(&["remove", "second"]);
    service.hang_up();
    let taken = |state: &Value| is_live(state, "second") && state["graph"]["reloads"] == 1;
    assert_ne!(id(&wait_for(&service, taken)), of_client);

    // A name of the file that a client took over: the file changes and removes no stream of a client.
    service.streams(&["remove", "second"]);
    assert_eq!(stdout(&add("second")), "added second\n");
    reload(&changed().replace("rate=30", "rate=20"));
    refused("second");
    reload(
        &(changed() + "[sources.third]\nuri = \"emulated:uniform?rate=5\"\n").replace("rate=50", "rate=60"),
    );
    wait_for(&service, |state| state["graph"]["reloads"] == 2);
    let of_client = id(&wait_for(&service, |state| is_live(state, "second")));
    reload(GRAPH);
    let state = wait_for(&service, |state| state["graph"]["reloads"] == 3);
    assert!(id(&state) == of_client && is_live(&state, "second"));
    assert!(stream(&state, "third").is_none());
    service.drain();
}

#[test]
fn a_hangup_reloads_a_file_that_is_not_watched() {
    let mut service = Service::start(&["--no-watch"]);
    let folder = service.folder.path().to_owned();
    write(&folder, &changed());
    service.hang_up();
    wait_for(&service, |state| {
        is_live(state, "second") && state["graph"]["reloads"] == 1
    });
    service.drain();
}

#[test]
fn clients_send_a_graph_of_the_same_modules_and_change_policy_and_shares() {
    let mut service = Service::start(&["--no-watch"]);
    let (status, body) = service.ask("PUT", "/api/graph", &json!({ "text": changed() }).to_string());
    assert_eq!(status, 200, "{body}");
    let applied: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(applied["added"], json!(["second"]));
    let (status, body) = service.ask("PUT", "/api/graph", &json!({ "text": another() }).to_string());
    assert!(
        status == 409 && body.contains("--allow-any-source"),
        "{status} {body}"
    );
    let secret = changed().replace("rate=30", "rate=${HOME}");
    let (status, body) = service.ask("PUT", "/api/graph", &json!({ "text": secret }).to_string());
    assert!(status == 400 && body.contains("HOME"), "{status} {body}");
    let outside = changed().replace("emulated:uniform?rate=30", "file:///etc/hostname");
    let (status, body) = service.ask("PUT", "/api/graph", &json!({ "text": outside }).to_string());
    assert!(
        status == 409 && body.contains("not one that clients may name"),
        "{status} {body}"
    );

    let (status, body) = service.ask("PUT", "/api/policy", r#"{"preset": "weir", "slack": false}"#);
    assert_eq!(status, 200, "{body}");
    // What it answers can be sent back.
    let (_, policy) = service.ask("GET", "/api/policy", "");
    let (status, again) = service.ask("PUT", "/api/policy", &policy);
    assert_eq!((status, &again), (200, &policy));
    let (status, body) = service.ask("PUT", "/api/policy", r#"{"preset": "nothing", "fair": 3}"#);
    assert!(
        status == 400 && body.contains("nothing") && body.contains("fair"),
        "{body}"
    );
    let (status, body) = service.ask("PUT", "/api/policy", r#"{"preset": "pard-paper"}"#);
    assert!(status == 409 && body.contains("mailbox"), "{body}");

    let set = service.streams(&["set", "second", "--weight", "0.5", "--slo", "10s"]);
    assert_eq!(stdout(&set), "changed second\n", "{}", stderr(&set));
    refuses(
        &service.streams(&["set", "second", "--weight", "0"]),
        &["`weight` must lie between"],
    );
    let state = wait_for(&service, |_| true);
    let second = stream(&state, "second").unwrap();
    assert_eq!(
        (&second["weight"], &second["slo_ms"]),
        (&json!(0.5), &json!(10_000.0))
    );
    service.drain();
}

/// The log is decided the same again.
fn verify(folder: &Path) {
    let verified = Command::new(env!("CARGO_BIN_EXE_weir"))
        .current_dir(folder)
        .args(["verify", "log"])
        .output()
        .unwrap();
    assert!(verified.status.success(), "{}", stderr(&verified));
}

/// A plan of gears for the graph with a cascade.
fn gears(number: u64, certainty: f64) -> String {
    format!(
        "graph = \"service\"\nnumber = {number}\n[[gears]]\nup_to = 1000\n[gears.cascades]\n\
         find = [{{ model = \"any\", certainty = {certainty} }}, {{ model = \"all\" }}]\n"
    )
}

#[test]
fn gears_that_are_half_written_are_refused_and_those_in_force_go_on() {
    let mut service = Service::start(&["--record", "log"]);
    let folder = service.folder.path().to_owned();
    let plan = |text: &str| std::fs::write(folder.join("gears.toml"), text).unwrap();
    plan(&gears(1, 0.5));
    let cascade = GRAPH
        .replace("slo = \"20s\"", "slo = \"20s\"\ngears = \"gears.toml\"")
        .replace(
            "operator = \"emulate\"\nmodel = \"any\"",
            "operator = \"emulate\"\ncascade = [{ model = \"any\", certainty = 0.5 }, { model = \"all\" }]",
        )
        + "[models.all]\ndevice = \"emulated:a\"\nprofile = { \"1\" = \"2ms\" }\n";
    write(&folder, &cascade);
    let in_force = |state: &Value| state["report"]["gears"]["plan"].clone();
    wait_for(&service, |state| in_force(state) == 1);

    let next = gears(2, 0.25);
    plan(&next[..next.len() - 20]);
    let state = wait_for(&service, |state| state["graph"]["problems"] != json!([]));
    let problem = state["graph"]["problems"].to_string();
    assert!(
        problem.contains("gears.toml: line 6") && in_force(&state) == 1,
        "{problem}"
    );
    let items = |state: &Value| state["report"]["modules"]["find/1"]["items"].as_u64().unwrap();
    let before = items(&state);
    wait_for(&service, |state| items(state) > before + 10);

    plan(&next);
    let taken = |state: &Value| in_force(state) == 2 && state["graph"]["problems"] == json!([]);
    wait_for(&service, taken);
    service.drain();
    let requests = &report(&folder.join("report.json"))["requests"];
    assert_eq!((&requests["dropped"], &requests["late"]), (&json!(0), &json!(0)));
    verify(&folder);
}
