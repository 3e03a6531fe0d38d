//! State of the client: its workers, their partitions, and the batches in flight. One lock guards all of it
//! and is held only briefly; nothing here blocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_flow::Tensor;
use weir_types::{Span, Timestamp, WorkerId};

use super::event::Stage;
use super::in_flight::{FailedBatch, InFlight};
use super::options::{ClientOptions, DispatchError};
use crate::wire::{Address, BatchKey, Hop, LoadPartition, Message, PartitionId, StageInput};

/// Maximum number of queued messages per worker. A connection with more is closed, and the client reconnects.
const MAX_QUEUED_MESSAGES: usize = 1024;

/// Maximum number of stages of a batch.
const MAX_STAGES: usize = 32;

/// State of a connection to a worker.
struct Connection {
    out: Sender<Message>,
    /// Partitions that are still to be loaded, one at a time.
    loads: VecDeque<PartitionId>,
    /// Partition that is being loaded, and the time at which loading began.
    loading: Option<(PartitionId, Timestamp)>,
    up: bool,
    /// True once more messages were queued than `MAX_QUEUED_MESSAGES`.
    overflowed: bool,
}

/// A worker, whether it is connected or not.
#[derive(Default)]
struct WorkerEntry {
    /// Address of the worker; `None` before it is added.
    address: Option<Address>,
    partitions: BTreeMap<PartitionId, LoadPartition>,
    connection: Option<Connection>,
}

/// See the module.
#[derive(Default)]
pub(super) struct ClientState {
    workers: BTreeMap<WorkerId, WorkerEntry>,
    pub(super) in_flight: InFlight,
}

impl Connection {
    fn enqueue(&mut self, message: Message) {
        self.overflowed |= self.out.try_send(message).is_err();
    }

    /// Sends the next partition, unless one is being loaded.
    fn load_next(&mut self, partitions: &BTreeMap<PartitionId, LoadPartition>, now: Timestamp) {
        while self.loading.is_none() {
            let Some(partition) = self.loads.pop_front() else {
                return;
            };
            // A partition that was unloaded in the meantime is skipped.
            if let Some(load) = partitions.get(&partition) {
                self.loading = Some((partition, now));
                self.enqueue(Message::LoadPartition(load.clone()));
            }
        }
    }
}

impl ClientState {
    /// Adds a worker; returns false if it was added before.
    pub(super) fn add(&mut self, worker: WorkerId, address: Address) -> bool {
        let entry = self.workers.entry(worker).or_default();
        let fresh = entry.address.is_none();
        entry.address.get_or_insert(address);
        fresh
    }

    pub(super) fn is_up(&self, worker: WorkerId) -> bool {
        let connection = self
            .workers
            .get(&worker)
            .and_then(|entry| entry.connection.as_ref());
        connection.is_some_and(|connection| connection.up)
    }

    pub(super) fn load(&mut self, worker: WorkerId, load: LoadPartition, now: Timestamp) {
        let entry = self.workers.entry(worker).or_default();
        let partition = load.partition;
        entry.partitions.insert(partition, load);
        if let Some(connection) = &mut entry.connection {
            connection.loads.push_back(partition);
            connection.load_next(&entry.partitions, now);
        }
    }

    pub(super) fn unload(&mut self, worker: WorkerId, partition: PartitionId) {
        let Some(entry) = self.workers.get_mut(&worker) else {
            return;
        };
        entry.partitions.remove(&partition);
        if let Some(connection) = &mut entry.connection {
            connection.enqueue(Message::Unload { partition });
        }
    }

    pub(super) fn activate(&mut self, plan: u64) {
        for entry in self.workers.values_mut() {
            entry.partitions.retain(|_, load| load.plan == plan);
            if let Some(connection) = &mut entry.connection {
                connection.enqueue(Message::Activate { plan });
            }
        }
    }

    pub(super) fn run(
        &mut self,
        key: BatchKey,
        items: u32,
        path: &[Stage],
        tensors: Vec<Tensor>,
        options: &ClientOptions,
        now: Timestamp,
    ) -> Result<(), DispatchError> {
        let [first, rest @ ..] = path else {
            return Err(DispatchError::Path);
        };
        if path.len() > MAX_STAGES {
            return Err(DispatchError::Path);
        }
        if self.in_flight.contains(key) {
            return Err(DispatchError::Duplicate(key));
        }
        if self.in_flight.len() >= options.max_in_flight {
            return Err(DispatchError::Full);
        }
        if let Some(stage) = path.iter().find(|stage| !self.is_up(stage.worker)) {
            return Err(DispatchError::Down(stage.worker));
        }
        let hop = |stage: &Stage| {
            let entry = self.workers.get(&stage.worker);
            let address = entry.and_then(|entry| entry.address);
            Ok(Hop {
                address: address.ok_or(DispatchError::Down(stage.worker))?,
                share: stage.share,
                partition: stage.partition,
                booked: stage.booked,
                sent: stage.sent,
            })
        };
        let input = StageInput {
            engine: options.engine,
            key,
            items,
            stage: 0,
            share: first.share,
            partition: first.partition,
            booked: first.booked,
            rest: rest.iter().map(hop).collect::<Result<_, DispatchError>>()?,
            times: Vec::new(),
            began: now,
            tensors,
        };
        let connection = self
            .workers
            .get(&first.worker)
            .and_then(|entry| entry.connection.as_ref());
        let connection = connection.ok_or(DispatchError::Down(first.worker))?;
        // If the queue is full, only this batch is rejected, so that the connection survives.
        connection
            .out
            .try_send(Message::Run(input))
            .map_err(|_| DispatchError::Full)?;
        let path = path.iter().map(|stage| stage.worker).collect();
        self.in_flight.insert(key, path, now);
        Ok(())
    }

    /// A connection was made. What the worker still holds and should is not loaded again; gives what is to be said.
    pub(super) fn on_connected(
        &mut self,
        worker: WorkerId,
        held: &[PartitionId],
        now: Timestamp,
    ) -> Receiver<Message> {
        let (out, outgoing) = bounded(MAX_QUEUED_MESSAGES);
        if let Some(entry) = self.workers.get_mut(&worker) {
            let held: BTreeSet<PartitionId> = held.iter().copied().collect();
            let mut connection = Connection {
                out,
                loads: entry
                    .partitions
                    .keys()
                    .copied()
                    .filter(|partition| !held.contains(partition))
                    .collect(),
                loading: None,
                up: false,
                overflowed: false,
            };
            for &partition in held
                .iter()
                .filter(|partition| !entry.partitions.contains_key(partition))
            {
                connection.enqueue(Message::Unload { partition });
            }
            connection.load_next(&entry.partitions, now);
            entry.connection = Some(connection);
        }
        outgoing
    }

    /// The partition was loaded, or refused.
    pub(super) fn on_load_answered(&mut self, worker: WorkerId, partition: PartitionId, now: Timestamp) {
        if let Some(entry) = self.workers.get_mut(&worker)
            && let Some(connection) = &mut entry.connection
            && connection
                .loading
                .is_some_and(|(loading, _)| loading == partition)
        {
            connection.loading = None;
            connection.load_next(&entry.partitions, now);
        }
    }

    /// Marks a worker as up if all its partitions are loaded and it was not up before; returns true in this
    /// case. The worker gets the clock offset before any batch.
    pub(super) fn mark_up(&mut self, worker: WorkerId, time: Message) -> bool {
        let entry = self.workers.get_mut(&worker);
        let connection = entry.and_then(|entry| entry.connection.as_mut());
        let ready = |connection: &&mut Connection| {
            !connection.up && connection.loading.is_none() && connection.loads.is_empty()
        };
        let Some(connection) = connection.filter(ready) else {
            return false;
        };
        connection.enqueue(time);
        connection.up = true;
        true
    }

    /// Returns a reason to close the connection: its queue overflowed, or a partition takes too long to load.
    pub(super) fn fault(&self, worker: WorkerId, load_timeout: Span, now: Timestamp) -> Option<&'static str> {
        let connection = self.workers.get(&worker)?.connection.as_ref()?;
        if connection.overflowed {
            return Some("its queue is full");
        }
        let slow = |(_, since)| now.since(since) > load_timeout;
        connection
            .loading
            .is_some_and(slow)
            .then_some("a partition takes too long to load")
    }

    /// A connection ended; says whether the worker was up, and which batches fall with it.
    pub(super) fn on_disconnected(&mut self, worker: WorkerId) -> (bool, Vec<FailedBatch>) {
        let connection = self
            .workers
            .get_mut(&worker)
            .and_then(|entry| entry.connection.take());
        (
            connection.is_some_and(|connection| connection.up),
            self.in_flight.fail_on_worker(worker),
        )
    }
}
