//! What nodes of a fleet say to each other: who is there, and messages under keys that only their owner may write to. The only crate
//! that names Zenoh; it decides nothing.
//!
//! ```text
//! weir/<fleet>/alive/<kind>/<id>      a token that is there for as long as its node is
//! weir/<fleet>/<kind>/<id>/<topic>    what that node publishes, and no other
//! weir/<fleet>/<kind>/<id>/to/<kind>/<id>    what it sends to one node, and no other is given
//! ```
//!
//! Nodes connect to the addresses that they are given, and find nobody by themselves. Off loopback both ends show certificates of the
//! fleet's authority ([`make_keys`]), and each node takes from another only what lies under the keys of the name in its certificate.
//! TLS is that of `weir-tunnel`, which stands in front of Zenoh.
//!
//! Messages are sent blocking and at once; what may be lost is dropped before it is sent. Their size is bounded. What is refused is
//! counted ([`FabricCounts`], [`Refusals`]).
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
