//! Tests of the queue of jobs, in one program.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

#[cfg(feature = "nats")]
#[path = "../../../tests/shared/certificates.rs"]
mod certificates;
mod common;
mod contract;
#[cfg(feature = "nats")]
#[path = "../../../tests/shared/nats_server.rs"]
mod nats_server;
mod queue;
#[cfg(feature = "nats")]
mod secure;
