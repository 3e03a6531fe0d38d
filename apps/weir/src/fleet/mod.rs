//! Engines that share the streams of one graph: `weir serve GRAPH.toml --fleet FLEET.toml --node NAME`.
//!
//! Which engine takes which stream is decided by `weir_policy::fleet`, by each engine for itself. Here is what drives it: who is there
//! and what they report (`views`), what this engine can do (`meter`), and the streams that are added and removed as a client of the API
//! would (`driver`). Processes of `--fleet` that share no streams, workers and runs, are nodes alone (`node`); partitions of models go
//! between nodes as `carrier` has it.

#[cfg(feature = "fleet")]
mod carrier;
#[cfg(feature = "fleet")]
mod claims;
#[cfg(feature = "fleet")]
mod driver;
#[cfg(feature = "fleet")]
mod file;
#[cfg(feature = "fleet")]
mod held_streams;
#[cfg(feature = "fleet")]
mod keys;
#[cfg(feature = "fleet")]
mod member;
#[cfg(feature = "fleet")]
mod meter;
#[cfg(not(feature = "fleet"))]
mod missing;
#[cfg(feature = "fleet")]
mod names;
#[cfg(feature = "fleet")]
mod node;
#[cfg(feature = "fleet")]
mod report;
#[cfg(feature = "fleet")]
mod views;

#[cfg(feature = "fleet")]
pub(crate) use keys::make_keys;
#[cfg(feature = "fleet")]
pub(crate) use member::{Membership, log_layers};
#[cfg(not(feature = "fleet"))]
pub(crate) use missing::{FleetNode, Membership, log_layers, make_keys};
#[cfg(feature = "fleet")]
pub(crate) use node::FleetNode;
