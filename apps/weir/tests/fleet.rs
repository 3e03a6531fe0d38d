//! Several `weir serve` share the streams of one graph: each stream runs on one, those of one that is lost run elsewhere, and it gets
//! its part again when it is back.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::disallowed_methods, reason = "a test that waits gives up at last")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::service::{Service, weir};
use crate::common::{refuses, report, stderr, stdout};

const STREAMS: usize = 12;
const NODES: [&str; 3] = ["north", "south", "west"];
/// Far longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(180);

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn graph() -> String {
    let mut text = "[app]\nname = \"shared\"\nslo = \"20s\"\n".to_owned();
    let names: Vec<String> = (0..STREAMS).map(|number| format!("\"s{number}\"")).collect();
    for name in &names {
        write!(text, "[sources.{name}]\nuri = \"emulated:uniform?rate=5\"\n").unwrap();
    }
    text + &format!(
        "[devices.\"emulated:a\"]\nslots = 1\n\
         [models.any]\ndevice = \"emulated:a\"\nprofile = {{ \"1\" = \"1ms\", \"8\" = \"4ms\" }}\n\
         [modules.find]\noperator = \"emulate\"\nmodel = \"any\"\ninputs = [{names}]\n\
         [sinks.events]\ntype = \"jsonl\"\npath = \"{{stream}}.jsonl\"\ninputs = [\"find\"]\n",
        names = names.join(", ")
    )
}

/// Ports of the nodes, and their certificates.
struct Site {
    ports: Vec<u16>,
    keys: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let keys = tempfile::tempdir().unwrap();
        let mut make = weir(keys.path());
        make.args(["fleet", "keys", "keys"]);
        for node in NODES {
            make.args(["--node", &format!("{node}=127.0.0.1")]);
        }
        let made = make.output().unwrap();
        assert!(made.status.success(), "{}", stderr(&made));
        assert_eq!(stdout(&made).lines().count(), 8);
        let again = weir(keys.path())
            .args(["fleet", "keys", "keys", "--node", "north"])
            .output()
            .unwrap();
        refuses(&again, &["north.pem", "is there already"]);
        Self {
            ports: NODES.iter().map(|_| free_port()).collect(),
            keys,
        }
    }

    fn text(&self) -> String {
        let folder = self.keys.path().join("keys");
        let mut text = format!(
            "[fleet]\nname = \"site\"\ncertificates = \"{}\"\n[spread]\nsettle = \"1s\"\n",
            folder.display()
        );
        for (node, port) in NODES.iter().zip(&self.ports) {
            // Declared, so that streams do not move while the machine is slow.
            write!(
                text,
                "[nodes.{node}]\naddress = \"127.0.0.1:{port}\"\ncapacity = 100\n"
            )
            .unwrap();
        }
        text
    }

    fn start(&self, node: &str) -> Service {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("graph.toml"), graph()).unwrap();
        std::fs::write(folder.path().join("fleet.toml"), self.text()).unwrap();
        Service::start_in(folder, "127.0.0.1:0", &["--fleet", "fleet.toml", "--node", node])
    }
}

/// Streams that an engine has, by what itself says is live.
fn live(service: &Service) -> BTreeSet<String> {
    let (status, body) = service.ask("GET", "/api/streams", "");
    if status != 200 {
        return BTreeSet::new();
    }
    let streams: Value = serde_json::from_str(&body).unwrap();
    let streams = streams.as_array().unwrap().iter();
    streams
        .filter(|stream| stream["state"] == "live")
        .map(|stream| stream["name"].as_str().unwrap().to_owned())
        .collect()
}

fn fleet(service: &Service) -> Value {
    let (_, body) = service.ask("GET", "/api/fleet", "");
    serde_json::from_str(&body).unwrap_or_default()
}

/// Waits until each stream is on exactly one of the engines, and each engine has one or more; gives which has which.
fn wait_until_shared(engines: &[(&str, &Service)]) -> BTreeMap<String, String> {
    let begin = Instant::now();
    loop {
        let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (node, service) in engines {
            for stream in live(service) {
                places.entry(stream).or_default().push((*node).to_owned());
            }
        }
        let is_once = places.len() == STREAMS && places.values().all(|nodes| nodes.len() == 1);
        let busy: BTreeSet<&String> = places.values().flatten().collect();
        // All of them see it so.
        let is_seen = || {
            engines.iter().all(|(_, service)| {
                let seen = fleet(service);
                let streams = seen["streams"].as_array().cloned().unwrap_or_default();
                streams.len() == STREAMS
                    && streams.iter().all(|stream| {
                        let name = stream["name"].as_str().unwrap();
                        stream["engines"] == serde_json::json!(places[name])
                            && stream["assigned"] == places[name][0].as_str()
                    })
            })
        };
        if is_once && busy.len() == engines.len() && is_seen() {
            return places
                .into_iter()
                .map(|(stream, mut nodes)| (stream, nodes.remove(0)))
                .collect();
        }
        assert!(begin.elapsed() < PATIENCE, "it never came: {places:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn engines_share_streams_take_over_those_of_one_that_is_killed_and_give_them_back() {
    let site = Site::new();
    let (mut north, mut south) = (site.start("north"), site.start("south"));
    let west = site.start("west");
    let before = wait_until_shared(&[("north", &north), ("south", &south), ("west", &west)]);
    let status = weir(north.folder.path())
        .args(["fleet", "status", "--at", &north.at])
        .output()
        .unwrap();
    let status = stdout(&status);
    assert!(
        status.contains("west") && status.contains("s11") && status.contains("100.0/s"),
        "{status}"
    );
    assert_eq!(status.matches("emulated:a x 1").count(), NODES.len(), "{status}");
    let (code, body) = north.ask("DELETE", "/api/streams/s0", "");
    assert!(code == 409 && body.contains("shared by a fleet"), "{code} {body}");

    // Dropping it kills it.
    drop(west);
    let without = wait_until_shared(&[("north", &north), ("south", &south)]);
    for (stream, node) in &before {
        if node != "west" {
            assert_eq!(&without[stream], node, "only streams of the lost engine move");
        }
    }
    let mut west = site.start("west");
    let after = wait_until_shared(&[("north", &north), ("south", &south), ("west", &west)]);
    assert_eq!(before, after);

    let state: Value = serde_json::from_str(&north.ask("GET", "/api/state", "").1).unwrap();
    assert_eq!(state["fleet"]["node"], "north");
    let top = weir(north.folder.path())
        .args(["top", "--once", "--at", &north.at])
        .output()
        .unwrap();
    assert!(stdout(&top).contains("west"), "{}", stdout(&top));
    let streams = |service: &Service| {
        let metrics = service.ask("GET", "/metrics", "").1;
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix("weir_fleet_streams "));
        line.unwrap().parse::<usize>().unwrap()
    };
    let all = [&north, &south, &west].map(streams);
    assert_eq!(all.iter().sum::<usize>(), STREAMS, "{all:?}");

    // One that stands still is lost to the others, and has its own again as soon as it goes on.
    west.stand_still();
    wait_until_shared(&[("north", &north), ("south", &south)]);
    west.go_on();
    let after = wait_until_shared(&[("north", &north), ("south", &south), ("west", &west)]);
    assert_eq!(before, after);
    // Those that stay take over the streams of one that ends: it ends no sooner than they have frames of all.
    drain(&mut west);
    wait_until_shared(&[("north", &north), ("south", &south)]);
    drain(&mut south);
    wait_until_shared(&[("north", &north)]);
    drain(&mut north);
}

fn drain(service: &mut Service) {
    service.drain();
    let report = report(&service.folder.path().join("report.json"));
    let requests = &report["requests"];
    assert_eq!(requests["in_flight"], 0, "{requests}");
    assert!(requests["delivered"].as_u64() > Some(0), "{requests}");
}

#[test]
fn what_keeps_an_engine_from_its_fleet_is_said_before_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let place: &Path = folder.path();
    std::fs::write(place.join("graph.toml"), graph()).unwrap();
    let serve = |text: &str, node: &str| {
        std::fs::write(place.join("fleet.toml"), text).unwrap();
        weir(place)
            .args([
                "serve",
                "graph.toml",
                "--listen",
                "127.0.0.1:0",
                "--duration",
                "1s",
            ])
            .args(["--fleet", "fleet.toml", "--node", node])
            .output()
            .unwrap()
    };
    let open = "[fleet]\nname = \"site\"\n[nodes.north]\naddress = \"10.0.0.1:7447\"\n";
    refuses(&serve(open, "north"), &["10.0.0.1:7447", "weir fleet keys"]);
    refuses(&serve(open, "south"), &["no such node", "north"]);
    refuses(
        &serve(
            &open.replace("name =", "certificates = \"keys\"\nname ="),
            "north",
        ),
        &["authority.pem", "weir fleet keys"],
    );
    refuses(
        &serve("[fleet]\nnme = \"site\"\n", "north"),
        &["fleet.toml:2", "nme"],
    );
}
