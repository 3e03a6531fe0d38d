//! Nodes on loopback with certificates.

#![allow(dead_code, reason = "each test file takes some of it")]
#![allow(clippy::disallowed_methods, reason = "a test that waits gives up at last")]

pub(crate) mod stranger;

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use weir_fabric::{
    Certificates, Fabric, FabricSettings, Identity, Kind, MemberChange, Members, NodeNames, make_keys,
};

pub(crate) const FLEET: &str = "test";

/// Far longer than anything takes: what waits for it fails the test instead of hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until something holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "it never came: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port of loopback that was free.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

pub(crate) fn keys(folder: &Path, nodes: &[&str]) {
    let nodes: Vec<NodeNames> = nodes
        .iter()
        .map(|node| NodeNames {
            node: (*node).to_owned(),
            hosts: vec!["127.0.0.1".to_owned(), "localhost".to_owned()],
        })
        .collect();
    make_keys(folder, FLEET, &nodes).unwrap();
}

/// Ports of nodes by their number: each connects to those before it.
pub(crate) fn settings(
    folder: Option<&Path>,
    nodes: &[&str],
    ports: &[u16],
    number: usize,
) -> FabricSettings {
    let endpoint = |port: &u16| format!("127.0.0.1:{port}").parse().unwrap();
    let mut settings = FabricSettings::new(nodes.iter().map(|node| (*node).to_owned()).collect());
    settings.listen = ports.get(number).map(endpoint);
    settings.connect = ports[..number.min(ports.len())].iter().map(endpoint).collect();
    settings.certificates = folder.map(|folder| Certificates::in_folder(folder, nodes[number]));
    settings
}

pub(crate) fn engine(id: &str) -> Identity {
    Identity::new(FLEET, Kind::Engine, id).unwrap()
}

pub(crate) fn open(id: &str, settings: &FabricSettings) -> (Fabric, Members) {
    let fabric = Fabric::open(engine(id), settings).unwrap();
    let members = fabric.members().unwrap();
    fabric.announce().unwrap();
    (fabric, members)
}

/// Waits until exactly these are there; gives what changed until then.
pub(crate) fn wait_for_members(members: &mut Members, expected: &[&str]) -> Vec<MemberChange> {
    let mut changes = Vec::new();
    wait_until("members", || {
        changes.extend(members.changes());
        let ids: Vec<&str> = members.current().map(|member| member.id.as_str()).collect();
        ids == expected
    });
    changes
}
