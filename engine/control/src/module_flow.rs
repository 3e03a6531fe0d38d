//! The flow of requests through a module, beside its policy: they join, enter, and go on or are dropped; batches end; what the
//! module knows of itself goes to the others.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_policy::reservations::{BookingId, ReserveEvent};
use weir_policy::{
    BatchSlice, BreakerEvent, FanOut, Join, Module, ModuleEffect, ModuleEvent, ModuleState, ModuleStats,
    Pool, PoolEffect, ScaledPool, ScalingSpec, SlotEvent,
};
use weir_types::{BatchId, DropReason, ModuleId, RequestId, SlotId, Span, Timestamp};

use crate::machine::Outbox;
use crate::message::{
    Address, BatchEnd, BooksMessage, Effect, EgressMessage, Entry, Message, ModuleMessage, Published,
    QueueMessage, ReservationMessage,
};
use crate::request::RequestInfo;
use crate::stage_load::StageLoad;

/// An edge of the graph, by which requests leave a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// Module that requests go to.
    pub to: ModuleId,
    /// The link that they cross, by its index.
    pub link: Option<usize>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ModuleFlow {
    id: ModuleId,
    pool: Pool,
    /// Edges that each of its requests takes, all of them. None: requests are complete.
    next: Vec<Edge>,
    /// Number of modules in the graph, this one included.
    modules: u32,
    join: Join<()>,
    stats: ModuleStats,
    /// Its load, where gears set it.
    load: Option<StageLoad>,
    /// Items that came since they were asked for last, where its batches run on booked paths.
    booked_items: u64,
    /// Its workers, where their number follows the load.
    scaled: Option<ScaledPool>,
}

impl ModuleFlow {
    /// A module without requests, on slots or paths of that kind.
    #[must_use]
    pub(crate) fn new(id: ModuleId, pool: Pool, next: Vec<Edge>, modules: u32) -> Self {
        Self {
            id,
            pool,
            next,
            modules,
            join: Join::default(),
            stats: ModuleStats::default(),
            load: None,
            booked_items: 0,
            scaled: None,
        }
    }

    /// Opens and closes the workers of `slots` with the load from now on; gives those that are closed.
    pub(crate) fn scale_by(&mut self, spec: ScalingSpec, slots: &[SlotId]) -> Vec<SlotId> {
        let pool = self.scaled.insert(ScaledPool::new(spec, slots));
        pool.closed().collect()
    }

    /// Its workers, where their number follows the load.
    pub(crate) fn scaled(&self) -> Option<&ScaledPool> {
        self.scaled.as_ref()
    }

    /// A request has come to the graph, and will pass the module.
    pub(crate) fn on_arrived(&mut self, now: Timestamp) {
        if let Some(pool) = &mut self.scaled {
            pool.on_request(now);
        }
    }

    /// Opens or closes workers, where their number follows the load; `room` more may be there.
    pub(crate) fn scale(
        &mut self,
        room: u32,
        now: Timestamp,
        facts: &mut Vec<ModuleEvent>,
        out: &mut Outbox,
    ) {
        self.on_pool(facts, out, |pool, changes| pool.scale(room, now, changes));
    }

    /// Changes the pool, where its number of workers follows the load. Its policy learns which slots it may use.
    fn on_pool(
        &mut self,
        facts: &mut Vec<ModuleEvent>,
        out: &mut Outbox,
        change: impl FnOnce(&mut ScaledPool, &mut Vec<PoolEffect>),
    ) {
        let Some(pool) = &mut self.scaled else { return };
        let module = self.id;
        let mut changes = Vec::new();
        change(pool, &mut changes);
        for change in changes {
            match change {
                PoolEffect::Open(slot) => out.act(Effect::OpenWorker { module, slot }),
                PoolEffect::Close(slot) => out.act(Effect::CloseWorker { module, slot }),
                PoolEffect::Up(slot) => facts.push(ModuleEvent::SlotUp { slot }),
                PoolEffect::Down(slot) => facts.push(ModuleEvent::SlotDown { slot }),
            }
        }
    }

    /// Counts its load from now on, a request as one item where `by_request` is set.
    pub(crate) fn count_load(&mut self, by_request: bool) {
        self.load = Some(StageLoad::new(by_request));
    }

    /// Gives its load since the last look, where that is counted.
    pub(crate) fn take_load(&mut self) -> Option<StageLoad> {
        self.load.as_mut().map(StageLoad::take)
    }

    /// Gives the items that came since this was asked last, where its batches run on booked paths.
    pub(crate) fn take_booked_items(&mut self) -> u64 {
        std::mem::take(&mut self.booked_items)
    }

    /// Gives the slot time of all batches so far.
    pub(crate) fn busy(&self) -> Span {
        Span::from_secs_f64(self.stats.totals().exec_s)
    }

    fn on_left(&mut self, request: RequestId) {
        if let Some(load) = &mut self.load {
            load.on_left(request);
        }
    }

    /// Requests that have come on some of their branches and not on all.
    #[must_use]
    pub(crate) fn joining(&self) -> usize {
        self.join.len()
    }

    /// Gives its statistics so far, with those of its policy.
    #[must_use]
    pub(crate) fn stats(&self, policy: &Module) -> ModuleStats {
        let mut stats = self.stats.clone();
        stats.set_priority_switches(policy.priority_switches());
        stats.set_instances(policy.instance_stats());
        stats.set_sequences(policy.sequence_stats());
        stats.set_workers(self.scaled.as_ref().map(ScaledPool::report));
        stats
    }

    /// Takes a message in. Facts for the policy go to `facts`.
    pub(crate) fn on(
        &mut self,
        message: ModuleMessage,
        now: Timestamp,
        facts: &mut Vec<ModuleEvent>,
        out: &mut Outbox,
    ) {
        let module = self.id;
        match message {
            ModuleMessage::Branch { request, branches } => {
                let joined = self.join.on_branch(request.id, branches, (), |_, ()| ());
                if joined.is_some() {
                    out.act(Effect::Enter(module, request));
                }
            }
            ModuleMessage::Entered(request, entry) => self.on_entered(request, entry, facts, out),
            ModuleMessage::Left { stage, is_degraded } => {
                if let Some(counts) = stage {
                    self.stats.on_stage(counts);
                }
                if is_degraded {
                    self.stats.on_degraded();
                }
            }
            // A pool whose workers open and close says which slots may be used.
            ModuleMessage::Fact(ModuleEvent::SlotDown { slot }) if self.scaled.is_some() => {
                self.on_pool(facts, out, |pool, changes| pool.on_lost(slot, changes));
            }
            ModuleMessage::Fact(ModuleEvent::SlotUp { slot }) if self.scaled.is_some() => {
                self.on_pool(facts, out, |pool, changes| pool.on_returned(slot, changes));
            }
            ModuleMessage::Fact(event) => {
                if let ModuleEvent::Cancelled { request } = event {
                    self.join.cancel(request);
                    self.on_left(request);
                }
                facts.push(event);
            }
            ModuleMessage::Worker(event) => {
                self.on_pool(facts, out, |pool, changes| pool.on(event, now, changes));
            }
            ModuleMessage::Foretold(items) => {
                if let Some(pool) = &mut self.scaled {
                    pool.on_foretold(items, now);
                }
            }
            ModuleMessage::Launched {
                slot,
                batch,
                prepared,
            } => {
                facts.push(ModuleEvent::Launched { batch, prepared });
                if self.pool == Pool::Shared {
                    out.send(Message::Slots(SlotEvent::Launched { module, slot }));
                }
            }
            ModuleMessage::BatchEnded { batch, took, end } => {
                self.on_batch_ended(batch, (took, end), facts, out);
            }
            ModuleMessage::Stepped {
                slot,
                took,
                finished,
                failed,
                predicted,
            } => {
                self.stats.on_batch_done(took, failed);
                facts.push(ModuleEvent::Stepped {
                    slot,
                    took,
                    finished,
                    failed,
                    predicted,
                });
            }
        }
    }

    fn on_entered(
        &mut self,
        request: RequestInfo,
        entry: Entry,
        facts: &mut Vec<ModuleEvent>,
        out: &mut Outbox,
    ) {
        let RequestInfo {
            id: number,
            stream,
            sent_at,
            slo,
            droppable,
            ..
        } = request;
        if let (Some(load), Entry::Prompts { prompts, .. }) = (&mut self.load, &entry) {
            load.on_entered(number, stream, prompts.len() as u32);
        }
        let arrived = match entry {
            Entry::Items(items) => {
                if let Some(pool) = &mut self.scaled {
                    pool.on_items(items);
                }
                if self.pool == Pool::Pipelines {
                    self.booked_items += u64::from(items);
                }
                if let Some(load) = &mut self.load {
                    load.on_entered(number, stream, items);
                }
                ModuleEvent::Arrived {
                    request: number,
                    stream,
                    sent_at,
                    items,
                    droppable,
                    slo,
                }
            }
            Entry::Prompts {
                prompts,
                predicted,
                prefixes,
            } => ModuleEvent::Prompted {
                request: number,
                stream,
                sent_at,
                prompts,
                predicted,
                prefixes,
                droppable,
                slo,
            },
            Entry::Failed => {
                return out.tell(Message::Egress(EgressMessage::Dropped {
                    request: number,
                    module: self.id,
                    reason: DropReason::Failed,
                    shortfall: None,
                }));
            }
        };
        facts.push(arrived);
    }

    fn on_batch_ended(
        &mut self,
        batch: BatchId,
        (took, end): (Span, BatchEnd),
        facts: &mut Vec<ModuleEvent>,
        out: &mut Outbox,
    ) {
        let module = self.id;
        let failed = end.is_failure();
        self.stats.on_batch_done(took, failed);
        out.act(Effect::BatchOver {
            module,
            batch,
            failed,
        });
        facts.push(match end {
            BatchEnd::Done(_) | BatchEnd::Out => ModuleEvent::Finished { batch, took },
            BatchEnd::LostOnPath => ModuleEvent::Lost { batch, took },
            BatchEnd::Failed(_) | BatchEnd::LostWith(_) | BatchEnd::FailedOnPath => {
                ModuleEvent::Failed { batch, took }
            }
        });
        match (end.slot(), self.pool) {
            (Some(slot), Pool::Shared) => {
                out.send(Message::Slots(SlotEvent::Finished { module, slot, took }));
            }
            (Some(slot), Pool::Own) => {
                self.on_pool(facts, out, |pool, changes| pool.on_run_over(slot, changes));
            }
            _ => {}
        }
        if let BatchEnd::Failed(slot) = end {
            out.tell(Message::Breaker(BreakerEvent::BatchLost { slot }));
        }
    }

    /// Turns an effect of the policy into messages and effects on the world.
    pub(crate) fn apply(&mut self, effect: ModuleEffect, out: &mut Outbox) {
        let module = self.id;
        match effect {
            ModuleEffect::Bid(bid) => out.send(Message::Slots(SlotEvent::Bid { module, bid })),
            ModuleEffect::CancelBid { .. } if self.pool == Pool::Pipelines => {
                out.send(Message::planned(ReserveEvent::RequestCancelled { module }));
            }
            ModuleEffect::CancelBid { slot } => {
                out.send(Message::Slots(SlotEvent::BidCancelled { module, slot }));
            }
            ModuleEffect::RequestPath(request) => {
                out.send(Message::planned(ReserveEvent::PathRequested { module, request }));
            }
            ModuleEffect::CancelBooking { booking } => {
                out.send(Message::planned(ReserveEvent::Declined { booking }));
            }
            ModuleEffect::Decline { slot } => out.send(Message::Slots(SlotEvent::Declined { module, slot })),
            ModuleEffect::Run {
                slot,
                batch,
                slices,
                expected,
            } => self.run(slot, batch, slices, expected, out),
            ModuleEffect::Dispatch {
                booking,
                batch,
                slices,
                expected,
            } => self.dispatch(booking, batch, slices, expected, out),
            ModuleEffect::Place {
                slot,
                sequence,
                request,
                item,
                cached,
            } => out.act(Effect::Place {
                module,
                slot,
                sequence,
                request,
                item,
                cached,
            }),
            ModuleEffect::Remove {
                slot,
                sequence,
                keeps_cache,
            } => out.act(Effect::Remove {
                module,
                slot,
                sequence,
                keeps_cache,
            }),
            ModuleEffect::EvictSequence { slot, sequence } => out.act(Effect::Evict {
                module,
                slot,
                sequence,
            }),
            ModuleEffect::RunStep { slot, step } => {
                self.stats.on_step(step.tokens);
                out.act(Effect::RunStep { module, slot, step });
            }
            ModuleEffect::Queue { fact } => out.tell(Message::Queues(QueueMessage::Fact(module, fact))),
            ModuleEffect::Forward { request } => self.forward(request, None, out),
            ModuleEffect::Accept { request, reason } => self.forward(request, Some(reason), out),
            ModuleEffect::Drop {
                request,
                reason,
                shortfall,
            } => {
                self.on_left(request);
                out.tell(Message::Egress(EgressMessage::Dropped {
                    request,
                    module,
                    reason,
                    shortfall,
                }));
            }
            ModuleEffect::Spent { request, span } => out.tell(Message::Books(BooksMessage::Spent {
                request,
                module,
                span,
            })),
            ModuleEffect::Publish(state) => self.publish(state, out),
            ModuleEffect::PublishFanOut { fan_out } => self.publish_fan_out(fan_out, out),
            ModuleEffect::SetTimer { at } => out.act(Effect::SetTimer {
                of: Address::Module(module),
                at,
            }),
        }
    }

    /// Runs a batch on a slot, which the arbiter of shared slots learns.
    fn run(
        &mut self,
        slot: SlotId,
        batch: BatchId,
        slices: Vec<BatchSlice>,
        expected: Span,
        out: &mut Outbox,
    ) {
        let module = self.id;
        if self.pool == Pool::Shared {
            out.send(Message::Slots(SlotEvent::Started {
                module,
                slot,
                expected,
            }));
        }
        if let Some(pool) = &mut self.scaled {
            pool.on_run(slot);
        }
        self.stats.on_run(&slices);
        out.act(Effect::Run {
            module,
            slot,
            batch,
            slices,
            expected,
        });
    }

    /// Sends a batch along its booked path, which the reservations learn.
    fn dispatch(
        &mut self,
        booking: BookingId,
        batch: BatchId,
        slices: Vec<BatchSlice>,
        expected: Span,
        out: &mut Outbox,
    ) {
        let module = self.id;
        self.stats.on_run(&slices);
        let items = slices.iter().map(|slice| slice.count).sum();
        out.act(Effect::Dispatch {
            module,
            batch,
            slices,
            expected,
        });
        out.tell(Message::Reservations(ReservationMessage::Dispatched {
            booking,
            module,
            batch,
            items,
        }));
    }

    /// A request is done here. With a reason to fall back it goes on as far as it has come.
    fn forward(&mut self, request: RequestId, fallback: Option<DropReason>, out: &mut Outbox) {
        self.on_left(request);
        out.act(Effect::Leave {
            module: self.id,
            request,
            fallback,
        });
        if self.next.is_empty() {
            out.send(Message::Egress(EgressMessage::Completed(request)));
        }
        for edge in &self.next {
            out.send_over(Message::Goes(request, edge.to), edge.link);
        }
    }

    fn publish(&self, state: Arc<ModuleState>, out: &mut Outbox) {
        for to in self.peers() {
            out.send(Message::fact(to, ModuleEvent::PeerState(Arc::clone(&state))));
        }
        out.act(Effect::Published(self.id, Published::State(state)));
    }

    fn publish_fan_out(&self, fan_out: Arc<FanOut>, out: &mut Outbox) {
        let module = self.id;
        for to in self.peers() {
            let fan_out = Arc::clone(&fan_out);
            out.send(Message::fact(to, ModuleEvent::PeerFanOut { module, fan_out }));
        }
        out.act(Effect::Published(module, Published::FanOut(fan_out)));
    }

    /// All other modules.
    fn peers(&self) -> impl Iterator<Item = ModuleId> {
        let own = self.id;
        (0..self.modules)
            .map(ModuleId)
            .filter(move |module| *module != own)
    }
}
