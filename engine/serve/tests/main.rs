//! Tests of the real server over loopback, in one program.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod access;
mod api;
mod archive;
mod common;
mod graph_file;
mod incidents;
mod kserve;
mod search;
#[path = "../../../tests/shared/web_socket.rs"]
mod web_socket;
