//! Tests of a fleet's members and messages, in one program.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod common;
mod large;
mod members;
