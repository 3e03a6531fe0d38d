//! The engine's side: keeps a connection to every worker, holds their partitions loaded, sends batches along their ways,
//! and tells what became of them.
//!
//! A worker is *up* once it is connected, its clock is known, and all its partitions are loaded (or refused). One that
//! goes away is called again, with growing pauses, and has its partitions loaded again before it is up. A batch that was
//! taken ends exactly once, as [`Event::Done`] or [`Event::Failed`]: also when workers die, stall, or lose it.

mod book;
mod event;
mod keeper;
mod line;
mod state;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;
use weir_flow::{StopFlag, Tensor};

use crate::line::Patience;
use crate::local::Locals;
use crate::time::Now;
use crate::wire::{Address, BatchKey, Failure, Limits, Load, PartId};

pub use event::{Event, Stage, WorkerId, WorkerInfo};
use state::State;

/// How a client behaves.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// A number that no other engine has that may call the same workers; a worker keeps partitions for it.
    pub engine: u64,
    /// How large messages may be.
    pub limits: Limits,
    /// How long is waited for what. `silence` is how long a stalled worker goes unnoticed, at most.
    pub patience: Patience,
    /// How often workers are pinged.
    pub ping_every: Duration,
    /// How often clocks are compared before a worker is up.
    pub comparisons: usize,
    /// The first pause before a worker is called again; it doubles up to `pause_most`.
    pub pause_first: Duration,
    /// The longest pause.
    pub pause_most: Duration,
    /// How long the loading of one partition may take.
    pub load_most: Duration,
    /// A batch of which nothing was heard for so long is lost.
    pub batch_most: Duration,
    /// Batches under way at a time, at most.
    pub under_way_most: usize,
    /// Workers of this process.
    pub locals: Locals,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            engine: drawn(),
            limits: Limits::default(),
            patience: Patience::default(),
            ping_every: Duration::from_millis(200),
            comparisons: 8,
            pause_first: Duration::from_millis(50),
            pause_most: Duration::from_secs(2),
            load_most: Duration::from_secs(60),
            batch_most: Duration::from_secs(10),
            under_way_most: 4096,
            locals: Locals::default(),
        }
    }
}

/// A number by which engines are told apart, from what the system seeds hash maps with.
fn drawn() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

/// Why a batch was not taken; nothing else is heard of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RunError {
    /// A worker on its way is not up.
    #[error("worker {} is not up", .0.0)]
    Down(WorkerId),
    /// The way is empty, or longer than plans have.
    #[error("a way has 1 to 32 stages")]
    Way,
    /// It is under way already.
    #[error("batch {} of module {} is under way already", .0.batch.0, .0.module.0)]
    Twice(BatchKey),
    /// Too many are under way, or wait for the first worker.
    #[error("too many batches are under way")]
    Full,
}

/// Called with what happens, on threads of the client, not under a lock: it may call the client, and must not block.
pub type Listener = Box<dyn Fn(Event) + Send + Sync>;

/// What the client's threads share.
struct Shared {
    options: ClientOptions,
    now: Now,
    stop: StopFlag,
    state: Mutex<State>,
    listener: Listener,
}

impl Shared {
    /// What is under it changes by whole steps, none of which panics.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|event| (self.listener)(event));
    }
}

/// See the module. Ends when it is dropped; batches under way fail.
pub struct Client {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Client {
    /// A client without workers.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn start(options: ClientOptions, now: Now, listener: Listener) -> io::Result<Self> {
        let shared = Arc::new(Shared {
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
        Ok(Self {
            shared,
            threads: Mutex::new(vec![watch]),
        })
    }

    /// Keeps a connection to the worker at `address` from now on. The address is also what other workers reach it by.
    /// Told of by [`Event::Up`] and [`Event::Down`]. A worker that was added before is not added again.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn add(&self, worker: WorkerId, address: Address) -> io::Result<()> {
        if !self.shared.state().add(worker, address) {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name(format!("weir-worker-{}", worker.0))
            .spawn(move || keeper::keep(&shared, worker, address))?;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.push(thread);
        Ok(())
    }

    /// Has a partition loaded on a worker, now if it is connected, and whenever it comes (back). Told of by
    /// [`Event::Loaded`] or [`Event::NotLoaded`]. What is asked for before the worker is added is loaded before it is up.
    pub fn load(&self, worker: WorkerId, load: Load) {
        self.shared.state().load(worker, load, (self.shared.now)());
    }

    /// Has a partition let go of.
    pub fn unload(&self, worker: WorkerId, part: PartId) {
        self.shared.state().unload(worker, part);
    }

    /// The switch to a plan, after its partitions are loaded and the batches of the one before are through: all workers
    /// let go of partitions of other plans. Each is told of by [`Event::Activated`].
    pub fn activate(&self, plan: u64) {
        self.shared.state().activate(plan);
    }

    /// Sends a batch of `items` along its way. `Ok` means that exactly one [`Event::Done`] or [`Event::Failed`] follows.
    ///
    /// # Errors
    /// [`RunError`]: the batch was not taken, and no event follows.
    pub fn run(
        &self,
        key: BatchKey,
        items: u32,
        way: &[Stage],
        tensors: Vec<Tensor>,
    ) -> Result<(), RunError> {
        let (options, now) = (&self.shared.options, (self.shared.now)());
        let mut state = self.shared.state();
        state.run(key, items, way, tensors, options, now)
    }

    /// Whether a worker is up.
    #[must_use]
    pub fn is_up(&self, worker: WorkerId) -> bool {
        self.shared.state().is_up(worker)
    }

    /// Batches under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.shared.state().book.len()
    }

    /// Closes all connections. Batches under way fail.
    pub fn stop(self) {}
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.stop.raise();
        let threads = std::mem::take(self.threads.get_mut().unwrap_or_else(PoisonError::into_inner));
        let here = std::thread::current().id();
        // Where it is dropped within a listener, that thread cannot wait for itself.
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != here) {
            let _ = thread.join();
        }
        // Those whose workers never were connected again have ended long ago; this is for those that slipped in between.
        let left = self.shared.state().book.all();
        let failure = || Failure::WorkerDown("the client stops".to_owned());
        self.shared
            .tell(left.into_iter().map(|(key, stage)| Event::Failed {
                key,
                stage,
                failure: failure(),
            }));
    }
}

/// Ends batches of which nothing was heard for too long.
fn watch(shared: &Shared) {
    while !shared.stop.is_raised() {
        std::thread::sleep(shared.options.patience.look_up);
        let most = crate::line::span(shared.options.batch_most);
        let lost = shared.state().book.overdue((shared.now)(), most);
        shared.tell(lost.into_iter().map(|(key, stage)| Event::Failed {
            key,
            stage,
            failure: Failure::Lost,
        }));
    }
}
