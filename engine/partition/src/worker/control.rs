//! Control thread: opens partitions while batches run, places them on shares, and unloads them.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use weir_types::Profile;

use super::permit::Permit;
use super::share::{PartitionSpec, PlacePartition, ShareCommand, ShareContext, ShareHandle, open};
use super::state::WorkerState;
use crate::wire::{LoadPartition, Message, PartitionId};

/// Orders that wait, at most: an engine sends the next partition when the one before is loaded.
const MAX_COMMANDS: usize = 64;

/// Partitions that a worker holds, at most.
const MAX_PARTITIONS: usize = 1 << 10;

/// The largest batch that a partition is made ready for: that of profiles.
const MAX_BATCH: u32 = 1 << 12;

/// Command of an engine to the control thread.
pub(super) enum ControlCommand {
    LoadPartition(LoadPartition, Permit),
    Unload(PartitionId),
    Activate(u64),
    /// Unloads everything, since another engine connected.
    Clear,
}

/// A partition that is held.
pub(super) struct LoadedPartition {
    plan: u64,
    /// Size of its model in bytes.
    bytes: u64,
}

type PartitionMap = BTreeMap<PartitionId, LoadedPartition>;

/// Partitions that are held.
pub(super) type LoadedPartitions = Arc<Mutex<PartitionMap>>;

struct Control {
    context: ShareContext,
    shares: Arc<Vec<ShareHandle>>,
    loaded: LoadedPartitions,
    /// Time in which a share must finish its running batch; after that a switch proceeds without its
    /// confirmation.
    timeouts: Duration,
    /// Limit in bytes for the models of all partitions together.
    max_model_bytes: u64,
}

/// Starts it; it ends when the sender is dropped.
pub(super) fn start(
    context: ShareContext,
    shares: Arc<Vec<ShareHandle>>,
    loaded: LoadedPartitions,
    timeouts: Duration,
    max_model_bytes: u64,
) -> io::Result<Sender<(u64, ControlCommand)>> {
    let (sender, command) = bounded(MAX_COMMANDS);
    let control = Control {
        context,
        shares,
        loaded,
        timeouts,
        max_model_bytes,
    };
    std::thread::Builder::new()
        .name("weir-control".to_owned())
        .spawn(move || control.work(&command))?;
    Ok(sender)
}

impl Control {
    fn state(&self) -> &WorkerState {
        &self.context.state
    }

    fn work(&self, command: &Receiver<(u64, ControlCommand)>) {
        for (generation, command) in command {
            match command {
                // Its bytes count as queued until it is placed, and as loaded from then on.
                ControlCommand::LoadPartition(load, _permit) => self.load(generation, load),
                ControlCommand::Unload(partition) => {
                    self.with_loaded(|loaded| loaded.remove(&partition));
                    self.broadcast(|| ShareCommand::Remove(partition));
                    tracing::info!(partition = partition.0, "partition unloaded");
                }
                ControlCommand::Activate(plan) => self.activate(generation, plan),
                ControlCommand::Clear => {
                    self.with_loaded(BTreeMap::clear);
                    self.broadcast(|| ShareCommand::Clear);
                }
            }
        }
    }

    fn with_loaded<T>(&self, change: impl FnOnce(&mut PartitionMap) -> T) -> T {
        change(&mut self.loaded.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn broadcast(&self, command: impl Fn() -> ShareCommand) {
        for share in self.shares.iter() {
            // A share that has ended has nothing to unload.
            let _ = share.commands.send(command());
        }
    }

    fn load(&self, generation: u64, load: LoadPartition) {
        if !self.state().is_serving(generation) {
            return;
        }
        let (partition, plan, bytes) = (load.partition, load.plan, load.model.len() as u64);
        let began = self.state().own_now();
        let answer = match self.place(load) {
            Ok(()) => {
                let took = self.state().own_now().since(began);
                self.with_loaded(|loaded| loaded.insert(partition, LoadedPartition { plan, bytes }));
                tracing::info!(partition = partition.0, plan, %took, "partition loaded");
                Message::Loaded { partition, took }
            }
            Err(reason) => {
                self.with_loaded(|loaded| loaded.remove(&partition));
                self.broadcast(|| ShareCommand::Remove(partition));
                tracing::warn!(partition = partition.0, plan, "partition not loaded: {reason}");
                Message::NotLoaded { partition, reason }
            }
        };
        self.state().report(generation, answer);
    }

    fn place(&self, load: LoadPartition) -> Result<(), String> {
        let count = self.shares.len();
        if let Some(share) = load.shares.iter().find(|&&share| share as usize >= count) {
            return Err(format!("there is no share {share}; this worker has {count}"));
        }
        if self.with_loaded(|loaded| loaded.len() >= MAX_PARTITIONS && !loaded.contains_key(&load.partition))
        {
            return Err(format!("{MAX_PARTITIONS} partitions are held already"));
        }
        if load.batch > MAX_BATCH {
            return Err(format!("batches of {} are larger than {MAX_BATCH}", load.batch));
        }
        let others = |loaded: &mut PartitionMap| -> u64 {
            let others = loaded
                .iter()
                .filter(|(partition, _)| **partition != load.partition);
            others.map(|(_, loaded)| loaded.bytes).sum()
        };
        if self.with_loaded(others) + load.model.len() as u64 > self.max_model_bytes {
            let most = self.max_model_bytes >> 20;
            return Err(format!("its models would take more than {most} MiB together"));
        }
        let declares = !load.declared.is_empty();
        let declared = Profile::new(load.declared);
        if declares && declared.is_none() {
            return Err("its declared durations begin with a batch of none".to_owned());
        }
        let spec = PartitionSpec {
            plan: load.plan,
            half: load.half,
            batch: load.batch,
            declared,
            model: load.model,
        };
        let (ready, answers) = bounded(load.shares.len());
        for share in &load.shares {
            let place = PlacePartition {
                partition: load.partition,
                spec: spec.clone(),
                session: open(&self.context, &spec)?,
                ready: ready.clone(),
            };
            let placed = self.shares[*share as usize]
                .commands
                .send(ShareCommand::Place(place));
            placed.map_err(|_| "the share has ended".to_owned())?;
        }
        drop(ready);
        for _ in &load.shares {
            match answers.recv_timeout(self.timeouts) {
                Ok(began) => began?,
                Err(RecvTimeoutError::Timeout) => {
                    tracing::warn!("a share is still busy: its partition will be ready after that");
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => return Err("the share has ended".to_owned()),
            }
        }
        Ok(())
    }

    fn activate(&self, generation: u64, plan: u64) {
        self.with_loaded(|loaded| loaded.retain(|_, loaded| loaded.plan == plan));
        let (done, answers) = bounded(self.shares.len());
        self.broadcast(|| ShareCommand::Keep {
            plan,
            done: done.clone(),
        });
        drop(done);
        let answers = (0..self.shares.len()).take_while(|_| answers.recv_timeout(self.timeouts).is_ok());
        if answers.count() < self.shares.len() {
            tracing::warn!(plan, "a share is still busy with a batch of the plan before");
        }
        tracing::info!(plan, "plan active");
        self.state().report(generation, Message::Activated { plan });
    }
}
