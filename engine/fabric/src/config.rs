//! The settings of a node as Zenoh takes them.
//!
//! What departs from its defaults, and why: a lease of a second, so that a node that is lost is seen to be; nobody is looked for, by
//! multicast or by hearsay; no administration space; received messages are bounded (by default a GiB each); TLS on both ends.

use serde_json::{Value, json};
use zenoh::Config;

use crate::error::FabricError;
use crate::identity::Identity;
use crate::settings::{Certificates, Endpoint, FabricSettings};

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

pub(crate) fn config(identity: &Identity, settings: &FabricSettings) -> Result<Config, FabricError> {
    let protocol = if settings.certificates.is_some() {
        "tls"
    } else {
        "tcp"
    };
    let locator = |endpoint: &Endpoint| format!("{protocol}/{endpoint}");
    let locators = |endpoints: &[Endpoint]| endpoints.iter().map(locator).collect::<Vec<_>>();
    let mut entries: Vec<(&str, Value)> = vec![
        ("mode", json!("peer")),
        ("connect/endpoints", json!(locators(&settings.connect))),
        // Again and again, and without waiting for it.
        ("connect/timeout_ms", json!(-1)),
        ("connect/exit_on_failure", json!(false)),
        (
            "connect/retry",
            json!({ "period_init_ms": RETRY_MS.0, "period_max_ms": RETRY_MS.1, "period_increase_factor": 2 }),
        ),
        ("listen/endpoints", json!(locators(settings.listen.as_slice()))),
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
        ("transport/link/protocols", json!([protocol])),
        ("transport/link/tx/lease", json!(LEASE_MS)),
        ("transport/link/tx/keep_alive", json!(KEEP_ALIVES)),
        (
            "transport/link/rx/max_message_size",
            json!(settings.max_message_bytes),
        ),
    ];
    if let Some(certificates) = &settings.certificates {
        entries.push(("transport/link/tls", tls(certificates)));
        entries.push(("access_control", access(identity, &settings.nodes)));
    }
    let mut config = Config::default();
    for (key, value) in entries {
        let set = config.insert_json5(key, &value.to_string());
        set.map_err(|error| FabricError::Open(format!("{key}: {error}")))?;
    }
    Ok(config)
}

/// Both ends show a certificate of the authority, and that of who is connected to is for the host that was asked for.
fn tls(certificates: &Certificates) -> Value {
    json!({
        "root_ca_certificate": certificates.authority,
        "listen_certificate": certificates.certificate,
        "listen_private_key": certificates.key,
        "connect_certificate": certificates.certificate,
        "connect_private_key": certificates.key,
        "enable_mtls": true,
        "verify_name_on_connect": true,
        "close_link_on_expiration": true,
    })
}

/// Any node may listen to what is published, and to what is for it alone; what comes from a node must be under the keys of the name in
/// its certificate.
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
        subjects.push(json!({ "id": node, "cert_common_names": [node] }));
        policies.push(json!({ "rules": ["listen", send, take], "subjects": [node] }));
    }
    json!({
        "enabled": true, "default_permission": "deny",
        "rules": rules, "subjects": subjects, "policies": policies,
    })
}
