//! What a worker is started with, and why it cannot be.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;
use weir_flow::DeviceKind;

use super::emulation::Emulation;
use super::hops::AllowedHops;
use crate::carrier::NodeCarrier;
use crate::local_workers::LocalWorkers;
use crate::node::NodeName;
use crate::timeouts::Timeouts;
use crate::wire::Limits;

/// What a worker is.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Its device class, as plans name it.
    pub class: String,
    /// Its shares: batches that it runs side by side.
    pub shares: u32,
    /// Where partitions run.
    pub device: DeviceKind,
    /// How it stands for another device than it is.
    pub emulation: Emulation,
    /// Batches that wait for one share, or for the link to one other worker, at most. Under overload they are booked
    /// and sent ahead for as long as the SLO, so this is an SLO in terms of the shortest batches.
    pub max_queue: usize,
    /// Bytes of all inputs that wait or run, and of all features that wait to be sent, at most.
    pub max_held_bytes: u64,
    /// Bytes of messages that have begun to come and are not whole yet, over all connections. Other workers together
    /// may take half of it, so that the engine is always received.
    pub max_receiving_bytes: u64,
    /// Bytes of the models of all partitions that are held.
    pub max_model_bytes: u64,
    /// Connections at a time, of each kind.
    pub max_connections: ConnectionQuota,
    /// How long another worker may say nothing before its connection is closed. It closes by itself what it has not
    /// used for half a minute.
    pub peer_timeout: Duration,
    /// Which addresses it connects to for sending features on.
    pub hops: AllowedHops,
    /// How large messages may be.
    pub limits: Limits,
    /// How long is waited for what.
    pub timeouts: Timeouts,
    /// The other workers of this process.
    pub locals: LocalWorkers,
    /// What carries messages between nodes of the fleet, and the name of this worker there.
    pub carrier: Option<(NodeCarrier, NodeName)>,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            class: "cpu".to_owned(),
            shares: 1,
            device: DeviceKind::Cpu,
            emulation: Emulation::default(),
            max_queue: 1024,
            max_held_bytes: 512 << 20,
            max_receiving_bytes: 768 << 20,
            max_model_bytes: 4 << 30,
            max_connections: ConnectionQuota::default(),
            peer_timeout: Duration::from_secs(60),
            hops: AllowedHops::default(),
            limits: Limits::default(),
            // An engine pings five times a second; one that is gone for so long is gone.
            timeouts: Timeouts {
                liveness: Duration::from_secs(5),
                ..Timeouts::default()
            },
            locals: LocalWorkers::default(),
            carrier: None,
        }
    }
}

/// Connections at a time, of each kind: none takes the places of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionQuota {
    /// Of the engine that is served. One is in use; others are of the same engine, which came anew, or are refused.
    pub engines: usize,
    /// Of other workers.
    pub peers: usize,
    /// Of engines that run an instance of a model that generates.
    pub generators: usize,
    /// Of those that have not said yet what they are.
    pub unidentified: usize,
}

impl Default for ConnectionQuota {
    fn default() -> Self {
        Self {
            engines: 4,
            // A plan's pipelines are short, but any worker of a large cluster may come before this one.
            peers: 64,
            generators: 16,
            unidentified: 16,
        }
    }
}

/// Why a worker cannot begin.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// The address is not to be had.
    #[error("cannot listen on {at}: {reason}")]
    Listen {
        /// The address.
        at: SocketAddr,
        /// Why, and what to do.
        reason: String,
    },
    /// The address is reached from other machines. Partitions are programs, and this protocol asks nobody who they are.
    #[error(
        "{0} is reached from other machines, and any of them could have this worker run programs: make it a node of a fleet, which \
         shows and asks for certificates (weir fleet keys DIR --node NAME=HOST, then weir worker --fleet FLEET.toml --node NAME), \
         or listen on 127.0.0.1"
    )]
    OpenToOthers(SocketAddr),
    /// Options that make no worker.
    #[error("{0}")]
    Options(&'static str),
    /// The system gives no more threads.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}
