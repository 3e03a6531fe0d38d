//! Options of a worker, and errors of its start.

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

/// Options of a worker.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Device class, as plans name it.
    pub class: String,
    /// Number of shares, that is of batches that it runs concurrently.
    pub shares: u32,
    /// Device on which partitions run.
    pub device: DeviceKind,
    /// Emulation of another device.
    pub emulation: Emulation,
    /// Maximum number of batches that wait for one share, or for the link to one other worker. Under
    /// overload, batches are booked and sent ahead by up to the SLO, so this should cover the SLO divided by
    /// the shortest batch.
    pub max_queue: usize,
    /// Limit in bytes for all inputs that wait or run, together with all features that wait to be sent.
    pub max_held_bytes: u64,
    /// Limit in bytes for partly received messages, over all connections. Other workers together may use half
    /// of it, so that there is always room for the engine.
    pub max_receiving_bytes: u64,
    /// Limit in bytes for the models of all loaded partitions.
    pub max_model_bytes: u64,
    /// Limits of the number of connections, by kind.
    pub max_connections: ConnectionQuota,
    /// Time without messages after which the connection of another worker is closed. The worker itself closes
    /// connections that it has not used for half a minute.
    pub peer_timeout: Duration,
    /// Addresses to which it may connect to send features.
    pub hops: AllowedHops,
    /// Upper limits of message sizes.
    pub limits: Limits,
    /// Timeouts for the phases of a connection.
    pub timeouts: Timeouts,
    /// Other workers of this process.
    pub locals: LocalWorkers,
    /// Carrier of the fleet, and the name of this worker in it; `None` outside a fleet.
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
            // An engine pings five times a second, so this silence means that it is gone.
            timeouts: Timeouts {
                liveness: Duration::from_secs(5),
                ..Timeouts::default()
            },
            locals: LocalWorkers::default(),
            carrier: None,
        }
    }
}

/// Limits of concurrent connections by kind, so that no kind uses up the places of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionQuota {
    /// Connections of the served engine. One is in use; others are reconnections of the same engine, or will
    /// be refused.
    pub engines: usize,
    /// Connections of other workers.
    pub peers: usize,
    /// Connections of engines that run an instance of a generative model.
    pub generators: usize,
    /// Connections that have not identified themselves yet.
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

/// Reason why a worker cannot start.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// The address is not to be had.
    #[error("cannot listen on {at}: {reason}")]
    Listen {
        /// Address on which it should listen.
        at: SocketAddr,
        /// Cause, and a remedy.
        reason: String,
    },
    /// The address is reachable from other machines. Partitions are programs, and this protocol has no
    /// authentication.
    #[error(
        "other machines can reach {0} and could have this worker run programs: make it a node of a fleet, which \
         shows and asks for certificates (weir fleet keys DIR --node NAME=HOST, then weir worker --fleet FLEET.toml --node NAME), \
         or listen on 127.0.0.1"
    )]
    OpenToOthers(SocketAddr),
    /// The options contradict each other or are out of range.
    #[error("{0}")]
    Options(&'static str),
    /// The system cannot create another thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}
