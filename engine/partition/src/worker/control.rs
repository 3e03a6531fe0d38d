//! The control thread: opens partitions beside the batches that run, places them on shares, and lets go of them.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_types::Profile;

use super::desk::Desk;
use super::permit::Permit;
use super::share::{Means, Order, Recipe, ShareHandle, open};
use crate::wire::{Load, Message, PartId};

/// Orders that wait, at most: an engine sends the next partition when the one before is loaded.
const ORDERS_MOST: usize = 64;

/// Partitions that a worker holds, at most.
const PARTS_MOST: usize = 1 << 10;

/// What an engine wants.
pub(super) enum Wanted {
    Load(Load, Permit),
    Unload(PartId),
    Activate(u64),
    /// Another engine came: everything goes.
    Clear,
}

/// A partition that is held.
pub(super) struct KeptPart {
    plan: u64,
    /// Of its model.
    bytes: u64,
}

type KeptParts = BTreeMap<PartId, KeptPart>;

/// Partitions that are held.
pub(super) type Kept = Arc<Mutex<KeptParts>>;

struct Control {
    means: Means,
    shares: Arc<Vec<ShareHandle>>,
    kept: Kept,
    /// How long a share may take to finish what it runs before a switch goes on without its word.
    patience: Duration,
    /// Bytes of the models of all partitions.
    max_model_bytes: u64,
}

/// Starts it; it ends when the sender is dropped.
pub(super) fn start(
    means: Means,
    shares: Arc<Vec<ShareHandle>>,
    kept: Kept,
    patience: Duration,
    max_model_bytes: u64,
) -> io::Result<Sender<(u64, Wanted)>> {
    let (sender, wanted) = bounded(ORDERS_MOST);
    let control = Control {
        means,
        shares,
        kept,
        patience,
        max_model_bytes,
    };
    std::thread::Builder::new()
        .name("weir-control".to_owned())
        .spawn(move || control.work(&wanted))?;
    Ok(sender)
}

impl Control {
    fn desk(&self) -> &Desk {
        &self.means.desk
    }

    fn work(&self, wanted: &Receiver<(u64, Wanted)>) {
        for (generation, wanted) in wanted {
            match wanted {
                // Its bytes count as waiting until it is placed, and as held from then on.
                Wanted::Load(load, _permit) => self.load(generation, load),
                Wanted::Unload(part) => {
                    self.with_kept(|kept| kept.remove(&part));
                    self.tell(|| Order::Remove(part));
                    tracing::info!(part = part.0, "partition unloaded");
                }
                Wanted::Activate(plan) => self.activate(generation, plan),
                Wanted::Clear => {
                    self.with_kept(BTreeMap::clear);
                    self.tell(|| Order::Clear);
                }
            }
        }
    }

    fn with_kept<T>(&self, change: impl FnOnce(&mut KeptParts) -> T) -> T {
        change(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn tell(&self, order: impl Fn() -> Order) {
        for share in self.shares.iter() {
            // A share that is gone has nothing to let go of.
            let _ = share.orders.send(order());
        }
    }

    fn load(&self, generation: u64, load: Load) {
        if !self.desk().serves(generation) {
            return;
        }
        let (part, plan, bytes) = (load.part, load.plan, load.model.len() as u64);
        let began = self.desk().own_now();
        let answer = match self.place(load) {
            Ok(()) => {
                let took = self.desk().own_now().since(began);
                self.with_kept(|kept| kept.insert(part, KeptPart { plan, bytes }));
                tracing::info!(part = part.0, plan, %took, "partition loaded");
                Message::Loaded { part, took }
            }
            Err(reason) => {
                self.with_kept(|kept| kept.remove(&part));
                self.tell(|| Order::Remove(part));
                tracing::warn!(part = part.0, plan, "partition not loaded: {reason}");
                Message::NotLoaded { part, reason }
            }
        };
        self.desk().report(generation, answer);
    }

    fn place(&self, load: Load) -> Result<(), String> {
        let count = self.shares.len();
        if let Some(share) = load.shares.iter().find(|&&share| share as usize >= count) {
            return Err(format!("there is no share {share}; this worker has {count}"));
        }
        if self.with_kept(|kept| kept.len() >= PARTS_MOST && !kept.contains_key(&load.part)) {
            return Err(format!("{PARTS_MOST} partitions are held already"));
        }
        let others = |kept: &mut KeptParts| -> u64 {
            let others = kept.iter().filter(|(part, _)| **part != load.part);
            others.map(|(_, kept)| kept.bytes).sum()
        };
        if self.with_kept(others) + load.model.len() as u64 > self.max_model_bytes {
            let most = self.max_model_bytes >> 20;
            return Err(format!("its models would take more than {most} MiB together"));
        }
        let declares = !load.declared.is_empty();
        let declared = Profile::new(load.declared);
        if declares && declared.is_none() {
            return Err("its declared durations begin with a batch of none".to_owned());
        }
        let recipe = Recipe {
            plan: load.plan,
            half: load.half,
            declared,
            model: load.model,
        };
        for share in &load.shares {
            let session = open(&self.means, &recipe)?;
            let order = Order::Place(load.part, recipe.clone(), session);
            let placed = self.shares[*share as usize].orders.send(order);
            placed.map_err(|_| "the share has ended".to_owned())?;
        }
        Ok(())
    }

    fn activate(&self, generation: u64, plan: u64) {
        self.with_kept(|kept| kept.retain(|_, kept| kept.plan == plan));
        let (done, heard) = bounded(self.shares.len());
        self.tell(|| Order::Keep {
            plan,
            done: done.clone(),
        });
        drop(done);
        let answers = (0..self.shares.len()).take_while(|_| heard.recv_timeout(self.patience).is_ok());
        if answers.count() < self.shares.len() {
            tracing::warn!(plan, "a share is still busy with a batch of the plan before");
        }
        tracing::info!(plan, "plan active");
        self.desk().report(generation, Message::Activated { plan });
    }
}
