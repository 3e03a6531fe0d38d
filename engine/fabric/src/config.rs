//! The settings of a node as Zenoh takes them.
//!
//! What departs from its defaults, and why: a lease of a second, so that a node that is lost is seen to be; nobody is looked for, by
//! multicast or by hearsay; no administration space; received messages are bounded (by default a GiB each). Where there are
//! certificates, a tunnel stands in front of it, which it talks to over unix sockets.

use std::path::Path;

use serde_json::{Value, json};
use weir_tunnel::Tunnel;
use zenoh::Config;

use crate::error::FabricError;
use crate::identity::Identity;
use crate::settings::{Endpoint, FabricSettings};
use crate::transport_id::{text, transport_id};

/// How long a node that says nothing counts as there.
const LEASE_MS: u64 = 1_000;
/// Signs of life in that time.
const KEEP_ALIVES: u64 = 4;
/// Time between two tries to connect to a node that is not there, at first and at most.
const RETRY_MS: (u64, u64) = (100, 500);
/// How long a connection may take to be made: TLS, and who is who.
const ACCEPT_TIMEOUT_MS: u64 = 5_000;
/// Connections that are being made at a time.
const MAX_PENDING: u64 = 64;
/// Nodes that may be connected at a time.
const MAX_SESSIONS: u64 = 1_024;

/// The settings of a node. Its tunnel is there where it has certificates.
pub(crate) fn config(
    identity: &Identity,
    settings: &FabricSettings,
    tunnel: Option<&Tunnel>,
) -> Result<Config, FabricError> {
    let locators = Locators::new(settings, tunnel);
    let mut entries: Vec<(&str, Value)> = vec![
        ("mode", json!("peer")),
        ("connect/endpoints", json!(locators.connect)),
        // Again and again, and without waiting for it.
        ("connect/timeout_ms", json!(-1)),
        ("connect/exit_on_failure", json!(false)),
        (
            "connect/retry",
            json!({ "period_init_ms": RETRY_MS.0, "period_max_ms": RETRY_MS.1, "period_increase_factor": 2 }),
        ),
        ("listen/endpoints", json!(locators.listen)),
        ("listen/timeout_ms", json!(0)),
        ("listen/exit_on_failure", json!(true)),
        ("scouting/multicast/enabled", json!(false)),
        ("scouting/gossip/enabled", json!(false)),
        ("adminspace/enabled", json!(false)),
        ("transport/unicast/accept_timeout", json!(ACCEPT_TIMEOUT_MS)),
        ("transport/unicast/open_timeout", json!(ACCEPT_TIMEOUT_MS)),
        ("transport/unicast/accept_pending", json!(MAX_PENDING)),
        ("transport/unicast/max_sessions", json!(MAX_SESSIONS)),
        ("transport/unicast/max_links", json!(1)),
        ("transport/unicast/lowlatency", json!(false)),
        ("transport/link/protocols", json!([locators.protocol])),
        ("transport/link/tx/lease", json!(LEASE_MS)),
        ("transport/link/tx/keep_alive", json!(KEEP_ALIVES)),
        (
            "transport/link/rx/max_message_size",
            json!(settings.max_message_bytes),
        ),
    ];
    if tunnel.is_some() {
        let id = transport_id(identity.fleet(), &identity.member().id);
        entries.push(("id", json!(text(id))));
        entries.push(("access_control", access(identity, &settings.nodes)));
    }
    let mut config = Config::default();
    for (key, value) in entries {
        let set = config.insert_json5(key, &value.to_string());
        set.map_err(|error| FabricError::Open(format!("{key}: {error}")))?;
    }
    Ok(config)
}

/// Addresses as Zenoh writes them.
struct Locators {
    protocol: &'static str,
    listen: Vec<String>,
    connect: Vec<String>,
}

impl Locators {
    fn new(settings: &FabricSettings, tunnel: Option<&Tunnel>) -> Self {
        if let Some(tunnel) = tunnel {
            let protocol = "unixsock-stream";
            let locator = |path: &Path| format!("{protocol}/{}", path.display());
            return Self {
                protocol,
                listen: vec![locator(tunnel.inner())],
                connect: tunnel.dials().iter().map(|path| locator(path)).collect(),
            };
        }
        let protocol = "tcp";
        let locator = |endpoint: &Endpoint| format!("{protocol}/{endpoint}");
        Self {
            protocol,
            listen: settings.listen.iter().map(locator).collect(),
            connect: settings.connect.iter().map(locator).collect(),
        }
    }
}

/// Any node may listen to what is published, and to what is for it alone; what comes from a node must be under the keys of the name in
/// its certificate. The tunnel lets no node connect under the id of another.
fn access(identity: &Identity, nodes: &[String]) -> Value {
    let all = [identity.all_keys()];
    let mut rules = vec![json!({
        "id": "listen", "permission": "allow", "flows": ["ingress", "egress"], "key_exprs": all,
        "messages": ["declare_subscriber", "declare_liveliness_subscriber", "liveliness_query"],
    })];
    let (mut subjects, mut policies) = (Vec::new(), Vec::new());
    for node in nodes {
        let (take, send) = (format!("take-{node}"), format!("send-{node}"));
        rules.push(json!({
            "id": send, "permission": "allow", "flows": ["egress"], "key_exprs": identity.keys_for(node),
            "messages": ["put", "liveliness_token"],
        }));
        rules.push(json!({
            "id": take, "permission": "allow", "flows": ["ingress"], "key_exprs": identity.keys_of(node),
            "messages": ["put", "liveliness_token"],
        }));
        let id = text(transport_id(identity.fleet(), node));
        subjects.push(json!({ "id": node, "zids": [id] }));
        policies.push(json!({ "rules": ["listen", send, take], "subjects": [node] }));
    }
    json!({
        "enabled": true, "default_permission": "deny",
        "rules": rules, "subjects": subjects, "policies": policies,
    })
}
