//! Transport of packets for partitioned models between the nodes of a fleet.

use std::sync::Arc;
use std::time::Duration;

use weir_fabric::{Fabric, FabricError, Kind, Member, Members, Subscription, Urgency};
use weir_partition::{Arrived, Carrier, NodeName, Packet, Peer, Role};

/// Bytes of packets that may wait to be taken: some seconds of features.
const MAX_WAITING_BYTES: usize = 768 << 20;

/// A [`Carrier`] over the messages of the fleet's fabric.
pub(super) struct FabricCarrier {
    fabric: Arc<Fabric>,
    inbox: Subscription,
    members: Members,
}

impl FabricCarrier {
    /// Takes what is sent to this node from now on.
    pub(super) fn new(fabric: &Arc<Fabric>) -> Result<Self, FabricError> {
        Ok(Self {
            inbox: fabric.inbox(MAX_WAITING_BYTES)?,
            members: fabric.members()?,
            fabric: Arc::clone(fabric),
        })
    }
}

fn member(peer: Peer) -> Member {
    Member {
        kind: match peer.role {
            Role::Engine => Kind::Engine,
            Role::Worker => Kind::Worker,
        },
        id: peer.name.to_string(),
    }
}

impl Carrier for FabricCarrier {
    fn send(&self, to: Peer, packet: Packet) -> Result<(), String> {
        let urgency = if packet.is_urgent {
            Urgency::Control
        } else {
            Urgency::Features
        };
        let sent = self
            .fabric
            .send(&member(to), urgency, &packet.header, packet.body);
        sent.map_err(|error| error.to_string())
    }

    fn receive(&self, timeout: Duration) -> Option<Arrived> {
        let mut message = self.inbox.next(timeout)?;
        let from = Peer {
            role: match message.from.kind {
                Kind::Engine => Role::Engine,
                Kind::Worker => Role::Worker,
            },
            name: NodeName::new(&message.from.id)?,
        };
        Some(Arrived {
            from,
            header: std::mem::take(&mut message.header),
            body: Box::new(message.into_reader()),
        })
    }

    fn is_present(&self, node: Peer) -> bool {
        self.members.is_there(&member(node))
    }
}
