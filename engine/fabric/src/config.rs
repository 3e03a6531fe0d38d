//! Settings of a node as Zenoh takes them.
//!
//! Departures from the defaults of Zenoh: a lease of one second, so that the loss of a node is detected
//! quickly; no discovery of nodes, by multicast or by gossip; no administration space; a limit on the bytes
//! of received messages (by default 1 GiB each). With certificates, a tunnel stands in front of Zenoh, which
//! connects to it over unix sockets.

use std::path::Path;

use serde_json::{Value, json};
use weir_tunnel::Tunnel;
use zenoh::Config;

use crate::error::FabricError;
use crate::identity::Identity;
use crate::settings::{Endpoint, FabricSettings};
use crate::transport_id::{text, transport_id};

/// Lease: time without messages after which a node counts as lost, in milliseconds.
const LEASE_MS: u64 = 1_000;
/// Number of keep-alive messages within a lease.
const KEEP_ALIVES: u64 = 4;
/// Interval between attempts to connect to an absent node, in milliseconds: the first and the longest.
const RETRY_MS: (u64, u64) = (100, 500);
/// Timeout in milliseconds for establishing a connection: TLS and authentication.
const ACCEPT_TIMEOUT_MS: u64 = 5_000;
/// Maximum number of connections that are being established.
const MAX_PENDING: u64 = 64;
/// Maximum number of connected nodes.
const MAX_SESSIONS: u64 = 1_024;

/// Builds the settings of a node. `tunnel` is set if the node has certificates.
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

/// Access rules: any node may receive what is published, and what is sent to itself; a node may send only
/// under the keys of the name in its certificate. The tunnel prevents connections under the id of another
/// node.
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
