//! Partitions of models on separate workers: the [`wire`] protocol between them and the engine, the
//! [`Worker`], and the engine's [`Client`].
//!
//! This crate makes no decisions: reservations determine the path of each batch, and measurements go back to
//! them. It is a crate of its own because a worker is not part of an engine: it knows tensors and spans of
//! time, but neither actors nor graphs.

mod carrier;
mod client;
mod connection;
mod liveness;
mod local_workers;
mod node;
mod pin;
mod receive_budget;
mod time;
mod timeouts;
pub mod wire;
mod worker;

pub use carrier::{Arrived, Carrier, NodeCarrier, Packet, Peer, Role};
pub use client::{
    Client, ClientOptions, DispatchError, Event, Listener, RemoteGenerator, Stage, WorkerId, WorkerInfo,
};
pub use local_workers::LocalWorkers;
pub use node::NodeName;
pub use pin::pin_to_core;
pub use time::{Now, Timebase};
pub use timeouts::Timeouts;
pub use worker::{
    AllowedHop, AllowedHops, ConnectionQuota, Emulation, Worker, WorkerError, WorkerOptions, WorkerStats,
};
