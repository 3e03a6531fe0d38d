//! A share: the thread that owns the partitions placed on it and runs one batch at a time.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use weir_flow::{DeviceKind, PartitionLoader, PartitionSession, Tensor};
use weir_types::{Profile, SleepCompensator};

use super::desk::{Desk, count};
use super::emulation::{Emulation, keep};
use super::permit::Permit;
use super::uplink::Uplink;
use crate::wire::{Failure, Leg, Message, PartId, StageTimes, Usage, Use};

/// Orders that wait for a share, at most; the control thread waits for its turn beyond.
const ORDERS_MOST: usize = 16;

/// A batch that waits for a share.
pub(super) struct Job {
    pub(super) leg: Leg,
    pub(super) generation: u64,
    /// Its input on the way here.
    pub(super) transfer: Usage,
    /// Its inputs' place in memory.
    pub(super) permit: Permit,
}

/// What a partition is made from.
#[derive(Clone)]
pub(super) struct Recipe {
    pub(super) plan: u64,
    pub(super) half: bool,
    pub(super) declared: Option<Profile>,
    pub(super) model: Arc<Vec<u8>>,
}

/// What the control thread wants of a share.
pub(super) enum Order {
    /// Hold that partition.
    Place(PartId, Recipe, Box<dyn PartitionSession>),
    /// Let go of it.
    Remove(PartId),
    /// Let go of those of other plans, and say so.
    Keep { plan: u64, done: Sender<()> },
    /// Let go of all.
    Clear,
}

/// The way to a share.
pub(super) struct ShareHandle {
    pub(super) jobs: Sender<Job>,
    pub(super) orders: Sender<Order>,
}

/// What all shares of a worker have in common.
#[derive(Clone)]
pub(super) struct Means {
    pub(super) desk: Arc<Desk>,
    pub(super) uplink: Arc<Uplink>,
    pub(super) loader: Arc<dyn PartitionLoader>,
    pub(super) device: DeviceKind,
    pub(super) emulation: Emulation,
}

struct Share {
    means: Means,
    parts: BTreeMap<PartId, (Recipe, Option<Box<dyn PartitionSession>>)>,
    owed: SleepCompensator,
}

/// Starts share number `number`; it ends when its handle is dropped.
pub(super) fn start(number: u32, queue_most: usize, means: Means) -> io::Result<ShareHandle> {
    let (jobs, queue) = bounded(queue_most);
    let (orders, ordered) = bounded(ORDERS_MOST);
    let mut share = Share {
        means,
        parts: BTreeMap::new(),
        owed: SleepCompensator::default(),
    };
    std::thread::Builder::new()
        .name(format!("weir-share-{number}"))
        .spawn(move || share.work(&queue, &ordered))?;
    Ok(ShareHandle { jobs, orders })
}

impl Share {
    fn work(&mut self, queue: &Receiver<Job>, ordered: &Receiver<Order>) {
        loop {
            select! {
                recv(ordered) -> order => match order {
                    Ok(order) => self.order(order),
                    Err(_) => return,
                },
                recv(queue) -> job => {
                    // A partition is placed before anybody is told that batches for it may come.
                    while let Ok(order) = ordered.try_recv() {
                        self.order(order);
                    }
                    match job {
                        Ok(job) => self.run(job),
                        Err(_) => return,
                    }
                }
            }
        }
    }

    fn order(&mut self, order: Order) {
        match order {
            Order::Place(part, recipe, session) => {
                self.discard(part);
                self.parts.insert(part, (recipe, Some(session)));
            }
            Order::Remove(part) => self.discard(part),
            Order::Keep { plan, done } => {
                let others = self.parts.iter().filter(|(_, (recipe, _))| recipe.plan != plan);
                for part in others.map(|(part, _)| *part).collect::<Vec<_>>() {
                    self.discard(part);
                }
                // Whoever asked may have given up waiting.
                let _ = done.send(());
            }
            Order::Clear => {
                while let Some((&part, _)) = self.parts.first_key_value() {
                    self.discard(part);
                }
            }
        }
    }

    fn discard(&mut self, part: PartId) {
        let held = self.parts.remove(&part);
        // A broken session may panic as it is dropped, too.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(held)));
    }

    fn run(&mut self, job: Job) {
        let Job {
            mut leg,
            generation,
            transfer,
            permit,
        } = job;
        let desk = Arc::clone(&self.means.desk);
        if !desk.serves(generation) {
            return count(&desk.counts.stale);
        }
        let Some((recipe, _)) = self.parts.get(&leg.part) else {
            return desk.fail(generation, leg.key, leg.stage, Failure::NotHeld);
        };
        let declared = recipe.declared.clone();
        count(&desk.counts.batches);
        let (own, from) = (desk.own_now(), desk.engine_now());
        let result = self.infer(leg.part, std::mem::take(&mut leg.tensors));
        drop(permit);
        let took = desk.own_now().since(own);
        let rest = self.means.emulation.rest(declared.as_ref(), leg.items, took);
        keep(&desk, rest, &mut self.owed);
        // Both ends by one offset: a correction of the clock in between is no part of the run.
        let usage = Usage {
            from,
            to: from + desk.own_now().since(own),
        };
        desk.report(
            generation,
            Message::Used {
                key: leg.key,
                stage: leg.stage,
                what: Use::Run,
                usage,
            },
        );
        leg.times.push(StageTimes { transfer, run: usage });
        match result {
            Ok(outputs) if leg.rest.is_empty() => desk.report(
                generation,
                Message::Done {
                    key: leg.key,
                    times: leg.times,
                    outputs,
                },
            ),
            Ok(outputs) => self.means.uplink.send(leg, outputs, generation),
            Err(failure) => {
                desk.fail(generation, leg.key, leg.stage, failure);
                // While the share is still ours, so that the next batch does not wait for it. What cannot be built now
                // is tried again then, and told then.
                let _ = self.session(leg.part);
            }
        }
    }

    fn infer(&mut self, part: PartId, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Failure> {
        let session = self.session(part)?;
        let ran = catch_unwind(AssertUnwindSafe(|| session.run(inputs)));
        match ran {
            Ok(ran) => ran.map_err(|error| Failure::Part(error.to_string())),
            Err(panic) => {
                if let Some((_, session)) = self.parts.get_mut(&part) {
                    let broken = session.take();
                    let _ = catch_unwind(AssertUnwindSafe(move || drop(broken)));
                }
                Err(Failure::Panicked(words(panic.as_ref())))
            }
        }
    }

    /// The session of a partition, built anew where the last batch cost it.
    fn session(&mut self, part: PartId) -> Result<&mut Box<dyn PartitionSession>, Failure> {
        let (recipe, session) = self.parts.get_mut(&part).ok_or(Failure::NotHeld)?;
        if session.is_none() {
            let fresh = open(&self.means, recipe).map_err(Failure::Part)?;
            tracing::info!(part = part.0, "partition built anew");
            *session = Some(fresh);
        }
        session.as_mut().ok_or(Failure::NotHeld)
    }
}

/// Opens a partition, whatever its loader does.
pub(super) fn open(means: &Means, recipe: &Recipe) -> Result<Box<dyn PartitionSession>, String> {
    let load = || means.loader.load(&recipe.model, means.device, recipe.half);
    let opened = catch_unwind(AssertUnwindSafe(load));
    opened
        .map_err(|panic| format!("the loader panicked: {}", words(panic.as_ref())))?
        .map_err(|error| error.to_string())
}

/// What a panic said.
pub(super) fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
