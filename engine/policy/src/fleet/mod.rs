//! Assignment of streams to the engines of a fleet, decided by each engine for itself.
//!
//! ```text
//! home(stream)     = the engine in use with the largest capacity / -ln(hash(stream, engine))      weighted
//! rendezvous
//! assigned(stream) = the engine that its home redirects it to, while that is in use; else its home
//! ```
//!
//! There is no leader. Engines that see the same members and redirections compute the same assignment. A
//! member that joins or leaves moves only the streams that it gets or had. Engines publish their state, not
//! messages, as tokens that disappear with the engine; so an engine that joins late sees the same.
//!
//! A stream is handed over without a gap: its new engine opens it, claims it once frames arrive, and only
//! then the old one releases it. An engine that is lost claims nothing: the engines that its streams are
//! assigned to take them at once.
//!
//! After engines have lost sight of each other (a link was cut, or one stood still), both may have the same
//! streams. An engine that claims streams is no newcomer: with its first claim all that see it count it among
//! the homes, and each stream stays with its home. An engine whose own clock jumped waits to hear such claims
//! before it takes streams: it was away itself, not the others.
//!
//! An overloaded engine redirects streams of which it is the home, one at a time, to an engine with room. To
//! avoid oscillation, a redirection ends only after its home has had plenty of room for a while, or when its
//! target is overloaded itself.
//!
//! Rendezvous hashing: Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998; weights after
//! Schindelhauer and Schomaker, "Weighted distributed hash tables", 2005.

mod api;
mod member;
mod rendezvous;
#[cfg(test)]
mod stops;
#[cfg(test)]
mod tests;

pub use api::{EngineId, FleetEffect, FleetEvent, FleetSpec, FleetStats, StreamKey};
pub use member::FleetMember;
pub use rendezvous::{home, score};
