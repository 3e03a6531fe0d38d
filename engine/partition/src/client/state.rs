//! What the client knows: its workers, their partitions, and the batches under way. All of it is under one lock, held
//! for moments; nothing here waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_flow::Tensor;
use weir_types::{Span, Timestamp};

use super::book::{Book, Struck};
use super::event::{Stage, WorkerId};
use super::{ClientOptions, RunError};
use crate::wire::{Address, BatchKey, Hop, Leg, Load, Message, PartId};

/// Messages that wait for one worker, at most; a connection on which more wait is given up, and begins anew.
const WAITING_MOST: usize = 1024;

/// Stages of a way, at most.
const STAGES_MOST: usize = 32;

/// A connection.
struct Line {
    out: Sender<Message>,
    /// Partitions that are still to be loaded, one at a time.
    loads: VecDeque<PartId>,
    /// The one that is being loaded, and since when.
    loading: Option<(PartId, Timestamp)>,
    up: bool,
    /// More waited than may.
    overrun: bool,
}

/// A worker, whether it is connected or not.
#[derive(Default)]
struct Known {
    /// None before it is added.
    address: Option<Address>,
    parts: BTreeMap<PartId, Load>,
    line: Option<Line>,
}

/// See the module.
#[derive(Default)]
pub(super) struct State {
    workers: BTreeMap<WorkerId, Known>,
    pub(super) book: Book,
}

impl Line {
    fn say(&mut self, message: Message) {
        self.overrun |= self.out.try_send(message).is_err();
    }

    /// Sends the next partition, if none is under way.
    fn load_next(&mut self, parts: &BTreeMap<PartId, Load>, now: Timestamp) {
        while self.loading.is_none() {
            let Some(part) = self.loads.pop_front() else {
                return;
            };
            // One that was unloaded meanwhile is passed over.
            if let Some(load) = parts.get(&part) {
                self.loading = Some((part, now));
                self.say(Message::Load(load.clone()));
            }
        }
    }
}

impl State {
    /// False where it was added before.
    pub(super) fn add(&mut self, worker: WorkerId, address: Address) -> bool {
        let known = self.workers.entry(worker).or_default();
        let fresh = known.address.is_none();
        known.address.get_or_insert(address);
        fresh
    }

    pub(super) fn is_up(&self, worker: WorkerId) -> bool {
        let line = self.workers.get(&worker).and_then(|known| known.line.as_ref());
        line.is_some_and(|line| line.up)
    }

    pub(super) fn load(&mut self, worker: WorkerId, load: Load, now: Timestamp) {
        let known = self.workers.entry(worker).or_default();
        let part = load.part;
        known.parts.insert(part, load);
        if let Some(line) = &mut known.line {
            line.loads.push_back(part);
            line.load_next(&known.parts, now);
        }
    }

    pub(super) fn unload(&mut self, worker: WorkerId, part: PartId) {
        let Some(known) = self.workers.get_mut(&worker) else {
            return;
        };
        known.parts.remove(&part);
        if let Some(line) = &mut known.line {
            line.say(Message::Unload { part });
        }
    }

    pub(super) fn activate(&mut self, plan: u64) {
        for known in self.workers.values_mut() {
            known.parts.retain(|_, load| load.plan == plan);
            if let Some(line) = &mut known.line {
                line.say(Message::Activate { plan });
            }
        }
    }

    pub(super) fn run(
        &mut self,
        key: BatchKey,
        items: u32,
        way: &[Stage],
        tensors: Vec<Tensor>,
        options: &ClientOptions,
        now: Timestamp,
    ) -> Result<(), RunError> {
        let [first, rest @ ..] = way else {
            return Err(RunError::Way);
        };
        if way.len() > STAGES_MOST {
            return Err(RunError::Way);
        }
        if self.book.holds(key) {
            return Err(RunError::Twice(key));
        }
        if self.book.len() >= options.under_way_most {
            return Err(RunError::Full);
        }
        if let Some(stage) = way.iter().find(|stage| !self.is_up(stage.worker)) {
            return Err(RunError::Down(stage.worker));
        }
        let hop = |stage: &Stage| {
            let known = self.workers.get(&stage.worker);
            let address = known.and_then(|known| known.address);
            Ok(Hop {
                address: address.ok_or(RunError::Down(stage.worker))?,
                share: stage.share,
                part: stage.part,
            })
        };
        let leg = Leg {
            engine: options.engine,
            key,
            items,
            stage: 0,
            share: first.share,
            part: first.part,
            rest: rest.iter().map(hop).collect::<Result<_, RunError>>()?,
            times: Vec::new(),
            began: now,
            tensors,
        };
        let line = self
            .workers
            .get(&first.worker)
            .and_then(|known| known.line.as_ref());
        let line = line.ok_or(RunError::Down(first.worker))?;
        // A batch is not worth a connection: where too much waits, it alone is refused.
        line.out.try_send(Message::Run(leg)).map_err(|_| RunError::Full)?;
        let way = way.iter().map(|stage| stage.worker).collect();
        self.book.enter(key, way, now);
        Ok(())
    }

    /// A connection was made. What the worker still holds and should is not loaded again; gives what is to be said.
    pub(super) fn connected(
        &mut self,
        worker: WorkerId,
        kept: &[PartId],
        now: Timestamp,
    ) -> Receiver<Message> {
        let (out, said) = bounded(WAITING_MOST);
        if let Some(known) = self.workers.get_mut(&worker) {
            let kept: BTreeSet<PartId> = kept.iter().copied().collect();
            let mut line = Line {
                out,
                loads: known
                    .parts
                    .keys()
                    .copied()
                    .filter(|part| !kept.contains(part))
                    .collect(),
                loading: None,
                up: false,
                overrun: false,
            };
            for &part in kept.iter().filter(|part| !known.parts.contains_key(part)) {
                line.say(Message::Unload { part });
            }
            line.load_next(&known.parts, now);
            known.line = Some(line);
        }
        said
    }

    /// The partition was loaded, or refused.
    pub(super) fn answered(&mut self, worker: WorkerId, part: PartId, now: Timestamp) {
        if let Some(known) = self.workers.get_mut(&worker)
            && let Some(line) = &mut known.line
            && line.loading.is_some_and(|(loading, _)| loading == part)
        {
            line.loading = None;
            line.load_next(&known.parts, now);
        }
    }

    /// Calls a worker up if all its partitions are loaded and it was not; true where it is now. It is told the time
    /// before any batch.
    pub(super) fn rise(&mut self, worker: WorkerId, time: Message) -> bool {
        let known = self.workers.get_mut(&worker);
        let line = known.and_then(|known| known.line.as_mut());
        let ready = |line: &&mut Line| !line.up && line.loading.is_none() && line.loads.is_empty();
        let Some(line) = line.filter(ready) else {
            return false;
        };
        line.say(time);
        line.up = true;
        true
    }

    /// What is wrong with a connection, if anything is.
    pub(super) fn fault(&self, worker: WorkerId, load_most: Span, now: Timestamp) -> Option<&'static str> {
        let line = self.workers.get(&worker)?.line.as_ref()?;
        if line.overrun {
            return Some("too much waits for it");
        }
        let slow = |(_, since)| now.since(since) > load_most;
        line.loading
            .is_some_and(slow)
            .then_some("a partition takes too long to load")
    }

    /// A connection ended; says whether the worker was up, and which batches fall with it.
    pub(super) fn disconnected(&mut self, worker: WorkerId) -> (bool, Vec<Struck>) {
        let line = self.workers.get_mut(&worker).and_then(|known| known.line.take());
        (line.is_some_and(|line| line.up), self.book.down(worker))
    }
}
