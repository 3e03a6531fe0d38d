//! Tests of the real server over loopback, in one program.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod api;
mod common;
mod kserve;
