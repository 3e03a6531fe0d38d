//! A worker: it holds partitions on its shares and runs the batches that come, from the engine or from other workers,
//! and sends what comes out to the next worker or back.
//!
//! ```text
//!  engine ──► connection ──► control thread ──(parts)──► share threads ──► uplink: a thread a destination ──► worker
//!    ▲            └──(batches)──────────────────────────►  │
//!    └──────────── desk: reports, on the engine's clock ◄──┘
//! ```
//!
//! A batch that cannot be run is told with its reason. One that belongs to an engine that went away is dropped.

mod control;
mod core;
mod desk;
mod emulation;
mod hops;
mod permit;
mod server;
mod share;
mod uplink;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use weir_flow::{DeviceKind, PartitionLoader};

use crate::line::Patience;
use crate::local::Locals;
use crate::time::Now;
use crate::wire::{Address, Limits};

pub(crate) use self::core::Core;
pub use desk::WorkerTally;
pub use emulation::Emulation;
pub use hops::{AllowedHop, Hops};
use server::Server;

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
    pub queue_most: usize,
    /// Bytes of all inputs that wait or run, and of all features that wait to be sent, at most.
    pub held_bytes_most: u64,
    /// Bytes of messages that have begun to come and are not whole yet, over all connections. Other workers together
    /// may take half of it, so that the engine is always heard.
    pub max_receiving_bytes: u64,
    /// Bytes of the models of all partitions that are held.
    pub max_model_bytes: u64,
    /// Connections at a time, of each kind.
    pub max_connections: ConnectionQuota,
    /// How long another worker may say nothing before its connection is closed. It closes by itself what it has not
    /// used for half a minute.
    pub peer_silence: Duration,
    /// Which addresses it connects to for sending features on.
    pub hops: Hops,
    /// How large messages may be.
    pub limits: Limits,
    /// How long is waited for what.
    pub patience: Patience,
    /// The other workers of this process.
    pub locals: Locals,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            class: "cpu".to_owned(),
            shares: 1,
            device: DeviceKind::Cpu,
            emulation: Emulation::default(),
            queue_most: 1024,
            held_bytes_most: 512 << 20,
            max_receiving_bytes: 768 << 20,
            max_model_bytes: 4 << 30,
            max_connections: ConnectionQuota::default(),
            peer_silence: Duration::from_secs(60),
            hops: Hops::default(),
            limits: Limits::default(),
            // An engine pings five times a second; one that is gone for so long is gone.
            patience: Patience {
                silence: Duration::from_secs(5),
                ..Patience::default()
            },
            locals: Locals::default(),
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
    /// Of those that have not said yet what they are.
    pub unidentified: usize,
}

impl Default for ConnectionQuota {
    fn default() -> Self {
        Self {
            engines: 4,
            // A plan's pipelines are short, but any worker of a large cluster may come before this one.
            peers: 64,
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
    /// Options that make no worker.
    #[error("{0}")]
    Options(&'static str),
    /// The system gives no more threads.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A running worker; it ends when this is dropped.
pub struct Worker {
    core: Arc<Core>,
    address: Address,
    server: Option<Server>,
}

impl Worker {
    /// A worker that is reached over TCP. With port 0 the system chooses one.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn listen(
        at: SocketAddr,
        options: WorkerOptions,
        loader: Arc<dyn PartitionLoader>,
        now: Now,
    ) -> Result<Self, WorkerError> {
        let core = Core::start(options, loader, now)?;
        let server = Server::start(at, &core)?;
        Ok(Self {
            address: Address::Tcp(server.address()),
            core,
            server: Some(server),
        })
    }

    /// A worker that is reached by clients and workers of this process that share its [`Locals`]: messages are handed
    /// over, nothing is copied.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn local(
        options: WorkerOptions,
        loader: Arc<dyn PartitionLoader>,
        now: Now,
    ) -> Result<Self, WorkerError> {
        let core = Core::start(options, loader, now)?;
        let number = core.options().locals.enter(&core);
        Ok(Self {
            address: Address::Local(number),
            core,
            server: None,
        })
    }

    /// Where it is reached.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// What it did so far.
    #[must_use]
    pub fn tally(&self) -> WorkerTally {
        self.core.desk().tally()
    }

    /// Ends it: connections are closed, and what waits is dropped. A partition that is running is not waited for.
    pub fn stop(self) {}
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.core.stop();
        if let Some(server) = self.server.take() {
            server.join();
        }
    }
}
