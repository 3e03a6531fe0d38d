//! Ids by which Zenoh knows nodes, and the names to which they belong.
//!
//! Zenoh's access rules refer to ids. Each end writes its own id into the first message that it sends, and
//! the tunnel passes that message only if the id belongs to the name in the certificate. The messages are
//! those of the pinned version of Zenoh; `tests/members.rs` fails if they change.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use weir_tunnel::{Gate, Opening};

use crate::refusals::count_connection;

/// Number of the first message in the lower bits of its header, and the bit that a reply has.
const INIT: u8 = 0x01;
const NUMBER_BITS: u8 = 0x1f;
const REPLY_BIT: u8 = 0x20;
/// Bytes of a message before the id: header, version, and the length of the id with the role of the node.
const FIXED_BYTES: usize = 3;

/// The id of a node. Its highest bit is set: all have the same length.
pub(crate) fn transport_id(fleet: &str, node: &str) -> u128 {
    // Neither holds a slash.
    let digest = Sha256::digest(format!("weir/{fleet}/{node}"));
    let low = digest
        .iter()
        .take(16)
        .fold(0, |id, byte| id << 8 | u128::from(*byte));
    low | 1 << 127
}

/// Text of an id in Zenoh's settings.
pub(crate) fn text(id: u128) -> String {
    format!("{id:x}")
}

/// The id in a first message.
fn claimed(message: &[u8], opening: Opening) -> Option<u128> {
    let (fixed, rest) = message.split_at_checked(FIXED_BYTES)?;
    let is_reply = fixed[0] & REPLY_BIT != 0;
    if fixed[0] & NUMBER_BITS != INIT || is_reply != (opening == Opening::Reply) {
        return None;
    }
    let bytes = rest.get(..1 + usize::from(fixed[2] >> 4))?;
    Some(bytes.iter().rev().fold(0, |id, byte| id << 8 | u128::from(*byte)))
}

/// Admits each node of a fleet under its own id.
pub(crate) struct FleetGate {
    ids: BTreeMap<String, u128>,
}

impl FleetGate {
    pub(crate) fn new(fleet: &str, nodes: &[String]) -> Self {
        let id = |node: &String| (node.clone(), transport_id(fleet, node));
        Self {
            ids: nodes.iter().map(id).collect(),
        }
    }
}

impl Gate for FleetGate {
    fn admit(&self, name: &str, opening: Opening, message: &[u8]) -> Result<(), String> {
        let Some(id) = self.ids.get(name) else {
            return Err(format!(
                "its certificate is for {name:?}, which is no node of the fleet"
            ));
        };
        match claimed(message, opening) {
            Some(claimed) if claimed == *id => Ok(()),
            Some(_) => Err(format!(
                "its certificate is for {name:?}, and it says that it is another node"
            )),
            None => Err(format!(
                "{name:?} does not open a connection as this version does"
            )),
        }
    }

    fn on_refused(&self) {
        count_connection();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

    use super::*;

    fn message(header: u8, id: &[u8]) -> Vec<u8> {
        let length = u8::try_from(id.len() - 1).unwrap() << 4;
        [&[header, 9, length | 1], id, &[4, 5, 6]].concat()
    }

    #[test]
    fn ids_differ_by_fleet_and_node_and_have_one_length() {
        let id = transport_id("site", "north");
        assert_eq!(id, transport_id("site", "north"));
        for (fleet, node) in [("site", "south"), ("sites", "north"), ("north", "site")] {
            assert_ne!(id, transport_id(fleet, node), "{fleet} {node}");
        }
        for number in 0..100 {
            assert_eq!(text(transport_id("site", &number.to_string())).len(), 32);
        }
    }

    #[test]
    fn id_is_read_from_first_messages_alone() {
        let id = transport_id("site", "north");
        let (call, reply) = (message(0xc1, &id.to_le_bytes()), message(0xa1, &id.to_le_bytes()));
        assert_eq!(claimed(&call, Opening::Call), Some(id));
        assert_eq!(claimed(&reply, Opening::Reply), Some(id));
        assert_eq!(
            (claimed(&reply, Opening::Call), claimed(&call, Opening::Reply)),
            (None, None)
        );
        assert_eq!(claimed(&message(0x01, &[7]), Opening::Call), Some(7));
        for header in [0x00, 0x02, 0x05, 0x1f] {
            assert_eq!(claimed(&message(header, &[7]), Opening::Call), None, "{header}");
        }
        for length in 0..FIXED_BYTES + 16 {
            assert_eq!(claimed(&call[..length], Opening::Call), None, "{length}");
        }
    }

    #[test]
    fn node_is_admitted_under_its_own_id_alone() {
        let gate = FleetGate::new("site", &["north".to_owned(), "south".to_owned()]);
        let of = |node: &str| message(0x01, &transport_id("site", node).to_le_bytes());
        assert_eq!(gate.admit("north", Opening::Call, &of("north")), Ok(()));
        for (name, node) in [
            ("north", "south"),
            ("east", "east"),
            ("east", "north"),
            ("", "north"),
        ] {
            assert!(
                gate.admit(name, Opening::Call, &of(node)).is_err(),
                "{name} as {node}"
            );
        }
        assert!(gate.admit("north", Opening::Call, &[]).is_err());
    }
}
