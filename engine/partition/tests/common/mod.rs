//! Fakes: partitions that compute sums, block, fail or panic, and a client whose events a test can await.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::disallowed_methods, reason = "a test hands the clock in")]

pub(crate) mod process;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};
use weir_flow::{DeviceKind, Element, PartitionLoader, PartitionSession, SessionError, Tensor};
use weir_partition::wire::{Address, BatchFailure, BatchKey, LoadPartition, PartitionId};
use weir_partition::{
    Client, ClientOptions, DispatchError, Emulation, Event, LocalWorkers, Now, Stage, Timeouts, Worker,
    WorkerId, WorkerOptions,
};
use weir_types::{BatchId, ModuleId, Timestamp};

/// No test waits longer for what must come.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn clock() -> Now {
    let began = Instant::now();
    Arc::new(move || Timestamp::from_micros(began.elapsed().as_micros() as u64))
}

/// Waits for what comes by itself, but is not reported.
pub(crate) fn wait_until(what: &str, came: impl Fn() -> bool) {
    let began = Instant::now();
    while !came() {
        assert!(began.elapsed() < LONG, "{what}: not so within {LONG:?}");
        std::thread::yield_now();
    }
}

/// Lets batches through one by one.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<(u64, u64)>, Condvar)>);

impl Gate {
    /// Lets this many more batches through.
    pub(crate) fn open(&self, count: u64) {
        self.0.0.lock().unwrap().0 += count;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let mut state = self.0.0.lock().unwrap();
        state.1 += 1;
        self.0.1.notify_all();
        let mut state = self.0.1.wait_while(state, |(tokens, _)| *tokens == 0).unwrap();
        state.0 -= 1;
    }

    /// Waits until this many batches have arrived in total.
    pub(crate) fn came(&self, count: u64) {
        let state = self.0.0.lock().unwrap();
        let waited = self
            .0
            .1
            .wait_timeout_while(state, LONG, |(_, came)| *came < count);
        assert!(
            !waited.unwrap().1.timed_out(),
            "{count} batches did not come to the gate"
        );
    }
}

/// Reads a model such as `mul 2`, `add 3`, `gate`, `fail`, `panic` (once a session), or refuses it.
#[derive(Clone, Default)]
pub(crate) struct Loader {
    pub(crate) gate: Gate,
}

struct Sums {
    word: String,
    by: f32,
    gate: Gate,
}

impl PartitionLoader for Loader {
    fn load(
        &self,
        partition: &[u8],
        _device: DeviceKind,
        _half: bool,
    ) -> Result<Box<dyn PartitionSession>, SessionError> {
        let text = String::from_utf8_lossy(partition).into_owned();
        let (word, by) = text.split_once(' ').unwrap_or((&text, "0"));
        if !["mul", "add", "gate", "fail", "panic"].contains(&word) {
            return Err(SessionError::Load {
                model: text.clone(),
                reason: "there is no such sum".to_owned(),
            });
        }
        Ok(Box::new(Sums {
            word: word.to_owned(),
            by: by.parse().unwrap(),
            gate: self.gate.clone(),
        }))
    }
}

impl PartitionSession for Sums {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, SessionError> {
        match self.word.as_str() {
            "gate" => self.gate.pass(),
            "panic" if values(&inputs[0])[0] < 0.0 => panic!("less than nothing"),
            "fail" if values(&inputs[0])[0] < 0.0 => {
                return Err(SessionError::Run {
                    model: "fail".to_owned(),
                    batch: 1,
                    reason: "less than nothing".to_owned(),
                });
            }
            _ => {}
        }
        let sum = |value: &f32| match self.word.as_str() {
            "mul" => value * self.by,
            _ => value + self.by,
        };
        Ok(inputs
            .iter()
            .map(|input| tensor(&values(input).iter().map(sum).collect::<Vec<_>>()))
            .collect())
    }
}

pub(crate) fn tensor(values: &[f32]) -> Tensor {
    Tensor {
        name: "x".into(),
        element: Element::F32,
        shape: vec![values.len()],
        data: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    }
}

pub(crate) fn values(tensor: &Tensor) -> Vec<f32> {
    let chunks = tensor.data.as_chunks::<4>().0;
    chunks.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

pub(crate) fn key(batch: u64) -> BatchKey {
    BatchKey {
        graph: 0,
        module: ModuleId(1),
        batch: BatchId(batch),
    }
}

pub(crate) fn stage(worker: u32, partition: u32) -> Stage {
    Stage {
        worker: WorkerId(worker),
        share: 0,
        partition: PartitionId(partition),
        booked: Timestamp::ZERO,
        sent: Timestamp::ZERO,
    }
}

pub(crate) fn model(partition: u32, text: &str) -> LoadPartition {
    LoadPartition {
        partition: PartitionId(partition),
        plan: 1,
        shares: vec![0],
        half: false,
        batch: 2,
        declared: Vec::new(),
        model: Arc::new(text.as_bytes().to_vec()),
    }
}

pub(crate) fn options(locals: &LocalWorkers) -> WorkerOptions {
    WorkerOptions {
        locals: locals.clone(),
        emulation: Emulation::default(),
        ..WorkerOptions::default()
    }
}

pub(crate) fn listen(at: &str, loader: &Loader) -> Worker {
    let at: SocketAddr = at.parse().unwrap();
    Worker::listen(
        at,
        options(&LocalWorkers::default()),
        Arc::new(loader.clone()),
        clock(),
    )
    .unwrap()
}

/// A client, and what it reported.
pub(crate) struct Heard {
    pub(crate) client: Client,
    events: Receiver<Event>,
}

impl Heard {
    pub(crate) fn start(options: ClientOptions) -> Self {
        let (sender, events) = unbounded();
        let listener = Box::new(move |event| drop(sender.send(event)));
        Self {
            client: Client::start(options, clock(), listener).unwrap(),
            events,
        }
    }

    /// Options with a short liveness timeout, but long enough for a busy machine.
    pub(crate) fn quick() -> ClientOptions {
        ClientOptions {
            ping_interval: Duration::from_millis(50),
            timeouts: Timeouts {
                liveness: Duration::from_millis(500),
                ..Timeouts::default()
            },
            ..ClientOptions::default()
        }
    }

    /// Adds a worker with its partitions and waits until it is up.
    pub(crate) fn add(&self, worker: u32, address: Address, loads: impl IntoIterator<Item = LoadPartition>) {
        for load in loads {
            self.client.load(WorkerId(worker), load);
        }
        self.client.add(WorkerId(worker), address).unwrap();
        self.up(worker);
    }

    /// Next event for which `command` returns a value; others are skipped.
    pub(crate) fn next<T>(&self, what: &str, command: impl Fn(&Event) -> Option<T>) -> T {
        loop {
            let event = self.events.recv_timeout(LONG);
            let event = event.unwrap_or_else(|_| panic!("{what} was not reported"));
            if let Some(found) = command(&event) {
                return found;
            }
        }
    }

    pub(crate) fn up(&self, worker: u32) -> weir_partition::WorkerInfo {
        self.next("up", |event| match event {
            Event::Up { worker: id, info } if id.0 == worker => Some(info.clone()),
            _ => None,
        })
    }

    pub(crate) fn loaded(&self, partition: u32) {
        self.next("loaded", |event| match event {
            Event::Loaded { partition: id, .. } if id.0 == partition => Some(()),
            _ => None,
        });
    }

    /// Sends a batch.
    pub(crate) fn run(&self, batch: u64, path: &[Stage], values: &[f32]) -> Result<(), DispatchError> {
        self.client.run(key(batch), 1, path, vec![tensor(values)])
    }

    /// The end of the next batch that ends.
    pub(crate) fn end(&self) -> (u64, Result<Vec<f32>, BatchFailure>) {
        self.next("the end of a batch", |event| match event {
            Event::Done { key, outputs, .. } => Some((key.batch.0, Ok(values(&outputs[0])))),
            Event::Failed { key, failure, .. } => Some((key.batch.0, Err(failure.clone()))),
            _ => None,
        })
    }

    /// Waits until a worker is reported to be down and these batches have failed for it, each once, in any order.
    pub(crate) fn fall(&self, worker: u32, batches: Range<u64>) -> String {
        let (mut reason, mut left) = (None, batches.collect::<BTreeSet<_>>());
        while reason.is_none() || !left.is_empty() {
            match self.next("a fall", |event| Some(event.clone())) {
                Event::Down {
                    worker: id,
                    reason: why,
                } if id.0 == worker => {
                    assert!(reason.replace(why).is_none(), "reported to be down twice");
                }
                Event::Failed {
                    key,
                    failure: BatchFailure::WorkerDown(_) | BatchFailure::Unreachable(_),
                    ..
                } => assert!(left.remove(&key.batch.0), "{key:?} ended twice"),
                Event::Used { .. } => {}
                other => panic!("not expected: {other:?}"),
            }
        }
        assert_eq!(self.client.in_flight_count(), 0);
        reason.unwrap_or_default()
    }

    /// Everything reported until the client has stopped.
    pub(crate) fn rest(self) -> Vec<Event> {
        drop(self.client);
        self.events.try_iter().collect()
    }
}
