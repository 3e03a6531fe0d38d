//! Communication between nodes of a fleet: membership, and messages under keys to which only their owner may
//! write. This is the only crate that names Zenoh, and it holds no rules.
//!
//! ```text
//! weir/<fleet>/alive/<kind>/<id>      liveliness token, present for as long as its node is
//! weir/<fleet>/<kind>/<id>/<topic>    messages that only this node publishes
//! weir/<fleet>/<kind>/<id>/to/<kind>/<id>    messages from this node that only the other one receives
//! ```
//!
//! Nodes connect to the configured addresses; there is no discovery. Off loopback, both ends show
//! certificates of the fleet's authority ([`make_keys`]), and a node accepts from another only messages under
//! the keys of the name in its certificate. TLS is that of `weir-tunnel`, which stands in front of Zenoh.
//!
//! Messages are sent immediately and block while the connection is full; messages that may be lost are
//! dropped before they are sent. Their size is limited. Refused messages and connections are counted
//! ([`FabricCounts`], [`Refusals`]).
//!
//! Zenoh comes with the feature `zenoh`.

#[cfg(feature = "zenoh")]
mod config;
mod counts;
mod error;
#[cfg(feature = "zenoh")]
mod fabric;
mod identity;
#[cfg(feature = "zenoh")]
mod keys;
#[cfg(feature = "zenoh")]
mod members;
#[cfg(feature = "zenoh")]
mod message;
#[cfg(feature = "zenoh")]
mod refusals;
mod settings;
#[cfg(feature = "zenoh")]
mod transport_id;

pub use counts::{FabricCounts, Refusals};
pub use error::FabricError;
#[cfg(feature = "zenoh")]
pub use fabric::{Fabric, Subscription};
pub use identity::{Identity, Kind, MAX_NAME_BYTES, Member, is_name};
#[cfg(feature = "zenoh")]
pub use keys::{NodeNames, make_keys};
#[cfg(feature = "zenoh")]
pub use members::{MemberChange, Members};
#[cfg(feature = "zenoh")]
pub use message::{Message, PayloadReader, Urgency};
#[cfg(feature = "zenoh")]
pub use refusals::{RefusalLayer, refusals};
pub use settings::{Certificates, Endpoint, FabricSettings, MAX_MESSAGE_BYTES};
