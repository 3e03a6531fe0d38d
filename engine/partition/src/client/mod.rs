//! The engine's side: keeps a connection to every worker, keeps their partitions loaded, sends batches
//! through their stages, and reports the results.
//!
//! A worker is *up* once it is connected, its clock is known, and all its partitions are loaded (or refused).
//! If a worker disconnects, the client reconnects with growing delays, and loads its partitions again before
//! it is up. Every dispatched batch ends exactly once, as [`Event::Done`] or [`Event::Failed`]: also when
//! workers die, stall, or lose it.

mod connection_manager;
mod event;
mod generator;
mod in_flight;
mod node_connections;
mod options;
mod shared;
mod state;
mod transport;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use weir_flow::{StopFlag, Tensor};

use crate::time::Now;
use crate::wire::{Address, BatchFailure, BatchKey, LoadPartition, PartitionId};

pub use event::{Event, Stage, WorkerInfo};
pub use generator::RemoteGenerator;
use node_connections::NodeConnections;
pub use options::{ClientOptions, DispatchError};
pub use shared::Listener;
use shared::Shared;
pub use weir_types::WorkerId;

/// See the module. Ends when it is dropped; batches in flight fail.
pub struct Client {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Client {
    /// Starts a client without workers.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub fn start(options: ClientOptions, now: Now, listener: Listener) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            nodes: options.carrier.clone().map(NodeConnections::new),
            options,
            now,
            stop: StopFlag::default(),
            state: Mutex::default(),
            listener,
        });
        let watching = Arc::clone(&shared);
        let watch = std::thread::Builder::new()
            .name("weir-batches".to_owned())
            .spawn(move || watch(&watching))?;
        let mut threads = vec![watch];
        if let Some(nodes) = shared.nodes.clone() {
            let (stop, poll_interval) = (shared.stop.clone(), shared.options.timeouts.poll_interval);
            let thread = std::thread::Builder::new().name("weir-nodes".to_owned());
            threads.push(thread.spawn(move || nodes.receive(&stop, poll_interval))?);
        }
        Ok(Self {
            shared,
            threads: Mutex::new(threads),
        })
    }

    /// Connects to the worker at `address`, and keeps reconnecting. Other workers use the same address.
    /// Changes are reported by [`Event::Up`] and [`Event::Down`]. Without effect if the worker was added
    /// before.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub fn add(&self, worker: WorkerId, address: Address) -> io::Result<()> {
        if !self.shared.state().add(worker, address) {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name(format!("weir-worker-{}", worker.0))
            .spawn(move || connection_manager::run(&shared, worker, address))?;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.push(thread);
        Ok(())
    }

    /// Loads a partition on a worker, now if it is connected, and after each reconnection. The result is
    /// reported by [`Event::Loaded`] or [`Event::NotLoaded`]. Partitions requested before the worker is added
    /// are loaded before it is up.
    pub fn load(&self, worker: WorkerId, load: LoadPartition) {
        self.shared.state().load(worker, load, (self.shared.now)());
    }

    /// Has a partition unloaded.
    pub fn unload(&self, worker: WorkerId, partition: PartitionId) {
        self.shared.state().unload(worker, partition);
    }

    /// The switch to a plan, after its partitions are loaded and the batches of the one before are through: all workers
    /// unload partitions of other plans. Each reports it by [`Event::Activated`].
    pub fn activate(&self, plan: u64) {
        self.shared.state().activate(plan);
    }

    /// Sends a batch of `items` along its way. `Ok` means that exactly one [`Event::Done`] or [`Event::Failed`] follows.
    ///
    /// # Errors
    /// [`DispatchError`]: the batch was not taken, and no event follows.
    pub fn run(
        &self,
        key: BatchKey,
        items: u32,
        path: &[Stage],
        tensors: Vec<Tensor>,
    ) -> Result<(), DispatchError> {
        let (options, now) = (&self.shared.options, (self.shared.now)());
        let mut state = self.shared.state();
        state.run(key, items, path, tensors, options, now)
    }

    /// True if the worker is up.
    #[must_use]
    pub fn is_up(&self, worker: WorkerId) -> bool {
        self.shared.state().is_up(worker)
    }

    /// Batches in flight.
    #[must_use]
    pub fn in_flight_count(&self) -> usize {
        self.shared.state().in_flight.len()
    }

    /// Closes all connections. Batches in flight fail.
    pub fn stop(self) {}
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.stop.raise();
        let threads = std::mem::take(self.threads.get_mut().unwrap_or_else(PoisonError::into_inner));
        let here = std::thread::current().id();
        // If the client is dropped within a listener, that thread cannot join itself.
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != here) {
            let _ = thread.join();
        }
        // Batches on workers that did not reconnect failed long ago; this fails those that were dispatched in
        // between.
        let left = self.shared.state().in_flight.fail_all();
        let failure = || BatchFailure::WorkerDown("the client stops".to_owned());
        self.shared
            .publish(left.into_iter().map(|(key, stage)| Event::Failed {
                key,
                stage,
                failure: failure(),
            }));
    }
}

/// Fails batches about which nothing was received for too long.
fn watch(shared: &Shared) {
    while !shared.stop.is_raised() {
        std::thread::sleep(shared.options.timeouts.poll_interval);
        let most = crate::timeouts::span(shared.options.batch_timeout);
        let lost = shared.state().in_flight.fail_overdue((shared.now)(), most);
        shared.publish(lost.into_iter().map(|(key, stage)| Event::Failed {
            key,
            stage,
            failure: BatchFailure::Lost,
        }));
    }
}
