//! Machines of whole graphs, in one program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod behaviour;
mod common;
mod invariants;
