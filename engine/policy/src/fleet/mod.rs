//! Which engine of a fleet takes which stream, decided by each engine for itself.
//!
//! ```text
//! home(stream)     = the engine that is up with the largest capacity / -ln(hash(stream, engine))     weighted rendezvous
//! assigned(stream) = where its home has redirected it, while that engine is up; else its home
//! ```
//!
//! There is no leader: engines that see the same members and redirections assign alike, and a member that comes or goes
//! moves the streams that it gets or had, and no others. What engines say of themselves is state and not messages (tokens that go
//! with their engine), so that one that joins late sees the same.
//!
//! A stream changes hands without a gap: its new engine takes it, says so once frames arrive, and only then the old one releases it. An
//! engine that is lost has said nothing: its streams are taken at once by whom they are assigned to.
//!
//! Engines that lost sight of each other (a link was cut, one stood still) each have what the other had. That an engine has streams says
//! that it is no newcomer: with the first word of that all who see it count it among the homes, and each stream stays with the one whose
//! home it is. An engine whose own time jumped waits to hear that before it takes over anything: it was away, not the others.
//!
//! An overloaded engine redirects streams of which it is the home, one at a time, to an engine with room. Hysteresis keeps that from
//! swinging: a redirection ends only when its home has had plenty of room for a while, or when its target is overloaded itself.
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
