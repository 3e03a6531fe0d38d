//! A worker: it holds partitions on its shares and runs the batches that come, from the engine or from other workers,
//! and sends what comes out to the next worker or back.
//!
//! ```text
//!  engine ──► connection ──► control thread ──(parts)──► share threads ──► uplink: a thread a destination ──► worker
//!    ▲            └──(batches)──────────────────────────►  │
//!    └─────────── state: reports, on the engine's clock ◄──┘
//! ```
//!
//! A batch that cannot be run is reported with its reason. One that belongs to an engine that went away is dropped.

mod control;
mod core;
mod emulation;
mod generating;
mod hops;
mod link_turns;
mod node_server;
mod options;
mod permit;
mod server;
mod share;
mod state;
mod uplink;

use std::net::SocketAddr;
use std::sync::Arc;

use weir_flow::PartitionLoader;

use crate::time::Now;
use crate::wire::Address;

use self::core::Core;
pub use emulation::Emulation;
pub use hops::{AllowedHop, AllowedHops};
use node_server::NodeServer;
pub use options::{ConnectionQuota, WorkerError, WorkerOptions};
use server::Server;
pub use state::WorkerStats;

/// A running worker; it ends when this is dropped.
pub struct Worker {
    core: Arc<Core>,
    address: Address,
    server: Option<Serving>,
}

/// Server that accepts connections for the worker.
enum Serving {
    Tcp(Server),
    Nodes(NodeServer),
}

impl Worker {
    /// Starts a worker that listens on TCP, reachable only from this machine. With port 0 the system chooses
    /// a port.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn listen(
        at: SocketAddr,
        options: WorkerOptions,
        loader: Arc<dyn PartitionLoader>,
        now: Now,
    ) -> Result<Self, WorkerError> {
        if !at.ip().is_loopback() {
            return Err(WorkerError::OpenToOthers(at));
        }
        let core = Core::start(options, loader, now)?;
        let server = Server::start(at, &core)?;
        Ok(Self {
            address: Address::Tcp(server.address()),
            core,
            server: Some(Serving::Tcp(server)),
        })
    }

    /// Starts a worker for clients and workers of this process that share its [`LocalWorkers`]; messages are
    /// passed without a copy.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn local(
        options: WorkerOptions,
        loader: Arc<dyn PartitionLoader>,
        now: Now,
    ) -> Result<Self, WorkerError> {
        let core = Core::start(options, loader, now)?;
        let number = core.options().locals.register(Arc::downgrade(&core) as _);
        Ok(Self {
            address: Address::Local(number),
            core,
            server: None,
        })
    }

    /// Starts a worker that is a node of a fleet: only engines and other workers of the fleet reach it, over
    /// the carrier of its options.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn in_fleet(
        options: WorkerOptions,
        loader: Arc<dyn PartitionLoader>,
        now: Now,
    ) -> Result<Self, WorkerError> {
        let carrier = options.carrier.clone();
        let (carrier, name) = carrier.ok_or(WorkerError::Options("a node of a fleet needs a carrier"))?;
        let core = Core::start(options, loader, now)?;
        let server = NodeServer::start(&core, carrier)?;
        Ok(Self {
            address: Address::Node(name),
            core,
            server: Some(Serving::Nodes(server)),
        })
    }

    /// Address at which the worker is reached.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// Counters since the worker started.
    #[must_use]
    pub fn stats(&self) -> WorkerStats {
        self.core.state().stats()
    }

    /// Ends it: connections are closed, and what waits is dropped. A batch that is running is waited for as long as a connection
    /// may stall.
    pub fn stop(self) {}
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.core.stop();
        match self.server.take() {
            Some(Serving::Tcp(server)) => server.join(),
            Some(Serving::Nodes(server)) => server.join(),
            None => {}
        }
        self.core.join_shares();
    }
}
