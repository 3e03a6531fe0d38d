//! Partitions of models on workers of their own: the [`wire`] between them and the engine, the [`Worker`], and the
//! engine's [`Client`].
//!
//! Nothing here decides: which batch takes which way comes from reservations, and what is measured goes back to them.
//! It is a crate of its own because a worker is no part of an engine: it knows tensors and spans of time, and neither
//! actors nor graphs.

mod client;
mod line;
mod local;
mod pin;
mod receiving;
mod silence;
mod time;
pub mod wire;
mod worker;

pub use client::{Client, ClientOptions, Event, Listener, RunError, Stage, WorkerId, WorkerInfo};
pub use line::Patience;
pub use local::Locals;
pub use pin::pin_to_core;
pub use time::{Now, Timebase};
pub use worker::{
    AllowedHop, ConnectionQuota, Emulation, Hops, Worker, WorkerError, WorkerOptions, WorkerTally,
};
