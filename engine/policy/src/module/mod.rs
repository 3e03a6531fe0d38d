//! One module as a state machine: a mailbox, a broker and a state planner, in events and effects.
//!
//! A driver collects a burst of events, calls [`Module::step`] once, and carries out the effects. The module knows
//! requests by number and counts their items; it never sees a frame.
//!
//! ```text
//! Arrived ──> mailbox ──(bind: drop or join)──> batch ──Granted──> Run ──Finished──> Forward
//!                └──────────── Drop <──────────────┘                └──Failed──> Drop
//! ```

pub(crate) mod api;
mod arrivals;
mod batcher;
mod booked;
mod completion;
mod early_drop;
mod generative;
mod instances;
mod mailboxes;
mod metrics;
mod moving;
mod objectives;
mod opening;
mod overlap;
mod owned;
mod peers;
mod policy_change;
mod publish;
mod queued;
mod routed;
mod routes;
mod running;
mod supply;
mod wakeups;
mod workers;

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use weir_types::{DropReason, ModuleId, SlotId, Span, Timestamp};

use crate::baselines::newest::NewestRequests;
use crate::flow::stream_shares::StreamShares;
use crate::gears::InvocationSize;
use crate::measure::starvation_reset::StarvationReset;
use crate::pard::priority::AdaptivePriority;
use crate::strategy::{BatchBinding, Mailboxes, Strategies};
use crate::weir::duration_spread::DurationSpreadSpec;
use crate::weir::fair_streams::FairStreams;
use crate::weir::slack::OverloadTracker;

pub use api::{BatchSlice, ModuleEffect, ModuleEvent, ModuleSpec, OverlapSpec, Pool, QueueFact};
pub use instances::{Answer, GenerateSpec};
use instances::{Generative, Prompted, Prompts};
use mailboxes::{Entry, MailboxSet};
use metrics::ModuleMetrics;
use overlap::Overlap;
use peers::Peers;
use routes::Routes;
use running::RunningBatches;
use supply::{BookedSupply, Booking, SharedSupply};
use wakeups::Wakeups;
use workers::Workers;

/// One module. Each kind of knowledge has its own type; the files of this folder use them in `impl Module`.
#[derive(Debug, Clone)]
pub struct Module {
    spec: ModuleSpec,
    /// Rules resolved from the policy in force.
    strategies: Strategies,
    /// States that the other modules published, and estimates derived from them.
    peers: Peers,
    /// Rates, delays and waits that the module measures of itself.
    metrics: ModuleMetrics,
    priority: AdaptivePriority,
    overload: OverloadTracker,
    /// Queued, bound and running requests.
    mailboxes: MailboxSet,
    /// Slots of the module, with the durations of batches on them.
    workers: Workers,
    /// Work assigned to each slot, if the slots differ in speed.
    routes: Option<Routes>,
    /// Measured times of preparation and read-out, if slots prepare ahead.
    overlap: Option<Overlap>,
    running: RunningBatches,
    shared: SharedSupply,
    booked: BookedSupply,
    /// Shares of streams under overload, if they differ.
    shares: Option<StreamShares>,
    fair: Option<FairStreams>,
    newest: NewestRequests,
    /// Number of items that a batch waits for, and the longest wait.
    invocation: InvocationSize,
    /// The same for slots whose replicas wait for more than one item of their own queues.
    triggers: BTreeMap<SlotId, InvocationSize>,
    wakeups: Wakeups,
    starvation_reset: StarvationReset,
    random: Pcg64Mcg,
    /// Instances of a generative model.
    generative: Option<Box<Generative>>,
}

impl Module {
    /// Creates a module without requests or measurements.
    #[must_use]
    pub fn new(spec: ModuleSpec) -> Self {
        let strategies = spec.policy.resolve();
        let max_batch = spec.batch.last().copied().unwrap_or(1);
        let spread = duration_spread(&spec, &strategies);
        let workers = Workers::new(&spec.slots, (&spec.profile, &spec.ends), max_batch, spread);
        let shares = StreamShares::new(&spec.shares);
        let by_stream = shares.is_some() || strategies.fair_streams.is_some();
        Self {
            peers: Peers::new(&spec, &strategies),
            metrics: ModuleMetrics::new(&strategies, spec.slo, spec.share),
            priority: AdaptivePriority::new(strategies.order),
            overload: OverloadTracker::default(),
            mailboxes: mailboxes(&spec, &strategies, workers.len(), by_stream),
            routes: (!spec.ends.is_empty()).then(|| Routes::new(workers.len())),
            workers,
            overlap: spec.overlap.as_ref().map(Overlap::new),
            running: RunningBatches::default(),
            shared: SharedSupply::default(),
            booked: BookedSupply::default(),
            shares,
            fair: strategies.fair_streams.map(FairStreams::new),
            newest: NewestRequests::default(),
            invocation: InvocationSize::default(),
            triggers: BTreeMap::new(),
            wakeups: Wakeups::default(),
            starvation_reset: StarvationReset::default(),
            random: Pcg64Mcg::seed_from_u64(spec.seed ^ u64::from(spec.id.0)),
            generative: spec.generate.as_ref().and_then(Generative::new).map(Box::new),
            strategies,
            spec,
        }
    }

    /// Takes in a burst of events, decides once, and appends the resulting effects.
    pub fn step(
        &mut self,
        events: impl IntoIterator<Item = ModuleEvent>,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        if let Some(mut generative) = self.generative.take() {
            self.take_arrived(&mut generative, now, effects);
            for event in events {
                self.record_generative(&mut generative, event, now, effects);
            }
            self.ask_instances(&mut generative, now, effects);
            self.report_rooms(&mut generative, effects);
            self.generative = Some(generative);
            return;
        }
        let mut any = false;
        for event in events {
            any = true;
            self.record(event, now, effects);
        }
        if !any || self.mailboxes.count() == 1 || !self.triggers.is_empty() {
            self.wakeups.mark_all(self.mailboxes.count());
        }
        self.reroute_late(now);
        let changed = self.wakeups.take();
        for &mailbox in &changed {
            self.drop_early(mailbox, now, effects);
            if self.is_eager() && self.spec.pool != Pool::Pipelines {
                self.form_ahead(mailbox, now, effects);
            }
        }
        let mut granted = std::mem::take(&mut self.shared.granted);
        for slot in granted.drain(..) {
            self.run_on_slot(slot, now, effects);
        }
        self.shared.granted = granted;
        let mut bookings = std::mem::take(&mut self.booked.bookings);
        for booking in bookings.drain(..) {
            self.run_as_booked(booking, now, effects);
        }
        self.booked.bookings = bookings;
        match self.spec.pool {
            Pool::Own => {
                for &mailbox in &changed {
                    self.run_on_own(mailbox, now, effects);
                }
                self.run_rerouted(now, effects);
            }
            Pool::Shared => self.update_bids(&changed, now, effects),
            Pool::Pipelines => self.request_path(effects),
        }
        if let Some(at) = self
            .next_trigger(now)
            .filter(|&at| self.wakeups.set_timer(at, now))
        {
            effects.push(ModuleEffect::SetTimer { at });
        }
        self.set_timer(&changed, now, effects);
        self.wakeups.give_back(changed);
    }

    /// Takes in an event of a module whose model generates tokens.
    fn record_generative(
        &mut self,
        generative: &mut Generative,
        event: ModuleEvent,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        match event {
            ModuleEvent::Prompted {
                request,
                stream,
                sent_at,
                prompts,
                predicted,
                prefixes,
                droppable,
                slo,
            } => {
                let slo = slo.unwrap_or(self.spec.slo);
                let prompted = Prompted::new((stream, sent_at, now), slo, droppable);
                let prompts = Prompts {
                    tokens: &prompts,
                    predicted: &predicted,
                    prefixes: &prefixes,
                };
                self.on_prompted(generative, request, prompted, prompts, now, effects);
            }
            ModuleEvent::Stepped {
                slot,
                took,
                finished,
                failed,
                predicted,
            } => {
                let tokens = (&finished[..], &predicted[..]);
                self.on_stepped(generative, slot, (took, failed), tokens, now, effects);
            }
            ModuleEvent::SlotDown { slot } => self.on_instance_down(generative, slot, now, effects),
            ModuleEvent::SlotUp { slot } => self.on_instance_up(generative, slot, now, effects),
            ModuleEvent::Cancelled { request } => {
                self.remove_request(generative, request, now, effects);
            }
            ModuleEvent::SequenceStarted {
                slot,
                sequence,
                cached,
            } => self.on_sequence_started(generative, (slot, cached), sequence, effects),
            ModuleEvent::SequenceRecalled {
                slot,
                sequence,
                keeps_cache,
            } => self.on_sequence_recalled(generative, (slot, keeps_cache), sequence),
            ModuleEvent::SequenceRefused { sequence } => {
                self.on_sequence_refused(generative, sequence, now, effects);
            }
            ModuleEvent::PolicyApplied { policy } => self.on_policy_applied(*policy, now),
            ModuleEvent::Tick => self.on_generative_tick(generative, now, effects),
            // Knowledge about other modules is updated as in any module.
            event @ (ModuleEvent::PeerState(_)
            | ModuleEvent::PeerFanOut { .. }
            | ModuleEvent::StreamRemoved { .. }
            | ModuleEvent::StreamShareChanged { .. }) => self.record(event, now, effects),
            // Other events are about batches and shared slots, which the module does not have.
            _ => {}
        }
    }

    fn record(&mut self, event: ModuleEvent, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        match event {
            // Meant for modules whose model generates tokens.
            ModuleEvent::Prompted { request, .. } => {
                effects.push(self.drop_or_accept(request, DropReason::Failed, None));
            }
            ModuleEvent::Stepped { .. }
            | ModuleEvent::SequenceStarted { .. }
            | ModuleEvent::SequenceRecalled { .. }
            | ModuleEvent::SequenceRefused { .. } => {}
            ModuleEvent::Arrived {
                request,
                stream,
                sent_at,
                items,
                droppable,
                slo,
            } => {
                let slo = slo.unwrap_or(self.spec.slo);
                let entry = Entry::new(stream, sent_at, slo, now, items, droppable);
                self.on_arrived(request, entry, now, effects);
            }
            // Siblings are notified whether or not they have the request.
            ModuleEvent::Cancelled { request } => {
                self.remove(request);
            }
            ModuleEvent::Granted { slot } => {
                let prepares = self.overlap_on(slot).is_some();
                let mailbox = self.workers.place(slot).map_or(0, |place| self.mailbox_of(place));
                self.shared.bids.remove(&mailbox);
                match self.workers.of_mut(slot) {
                    Some(view) => {
                        // On a slot that prepares ahead, the arbiter has published before when the current
                        // run ends.
                        view.free_at = if prepares { view.free_at.max(now) } else { now };
                        self.shared.granted.push(slot);
                        self.wakeups.mark(mailbox);
                    }
                    // The arbiter grants only slots that were placed. Declining any other keeps the slot from
                    // being lost.
                    None => effects.push(ModuleEffect::Decline { slot }),
                }
            }
            ModuleEvent::Booked {
                booking,
                size,
                finish,
            } => {
                self.booked.requested = None;
                self.booked.bookings.push(Booking {
                    id: booking,
                    size,
                    finish,
                });
            }
            ModuleEvent::PlanChanged {
                profile,
                batch,
                lanes,
                share,
            } => self.on_plan_changed(profile, batch, lanes, share),
            ModuleEvent::NoPath { finish } => self.on_no_path(finish, now, effects),
            ModuleEvent::Forecast { slot, free_at } => self.on_forecast(slot, free_at, now),
            ModuleEvent::Launched { batch, prepared } => self.on_launched(batch, prepared, now),
            ModuleEvent::Finished { batch, took } => self.on_finished(batch, took, now, effects),
            ModuleEvent::Failed { batch, took } => self.on_failed(batch, took, now, effects),
            ModuleEvent::Lost { batch, took } => self.on_lost(batch, took, now, effects),
            ModuleEvent::PeerState(state) => {
                self.peers.on_state(state);
            }
            ModuleEvent::PeerFanOut { module, fan_out } => self.peers.on_fan_out(module, fan_out),
            // The arbiter knows about shared slots, and the reservations about shares of a pipeline.
            ModuleEvent::SlotUp { .. } | ModuleEvent::SlotDown { .. } if self.spec.pool != Pool::Own => {}
            ModuleEvent::SlotUp { slot } => self.on_slot_change(slot, true, now),
            ModuleEvent::SlotDown { slot } => self.on_slot_change(slot, false, now),
            ModuleEvent::SlotShareSet { slot, share } => self.on_slot_share(slot, share),
            ModuleEvent::SlotInvocationSet { slot, invocation } => {
                match invocation.items > 1 {
                    true => self.triggers.insert(slot, invocation),
                    false => self.triggers.remove(&slot),
                };
                self.wakeups.mark_all(self.mailboxes.count());
            }
            ModuleEvent::StreamRemoved { stream } => {
                self.metrics.fan_out.remove(stream);
                self.newest.on_removed(stream);
                if let Some(fair) = &mut self.fair {
                    fair.on_removed(stream);
                }
                if let Some(shares) = &mut self.shares {
                    shares.on_removed(stream);
                }
            }
            ModuleEvent::PolicyApplied { policy } => self.on_policy_applied(*policy, now),
            ModuleEvent::StreamShareChanged { stream, share } => self.on_share_changed(stream, share, now),
            ModuleEvent::InvocationChanged { invocation } => {
                self.invocation = invocation;
                self.wakeups.mark_all(self.mailboxes.count());
            }
            ModuleEvent::Share { share } => self.metrics.set_share(share),
            ModuleEvent::Tick => {
                self.reset_request();
                if self.spec.pool == Pool::Shared {
                    // Bids follow estimates.
                    self.wakeups.mark_all(self.mailboxes.count());
                }
                self.on_tick(now, effects);
            }
        }
    }

    /// The module's index in the graph.
    #[must_use]
    pub fn id(&self) -> ModuleId {
        self.spec.id
    }

    /// Whether batches are formed before their slots are free.
    fn is_eager(&self) -> bool {
        self.strategies.binding == BatchBinding::Early
    }

    /// Number of requests in the module: waiting, bound or running.
    #[must_use]
    pub fn requests(&self) -> usize {
        let generating = self.generative.as_ref().map_or(0, |own| own.requests());
        self.mailboxes.len() + generating
    }

    /// Statistics of the instances so far; empty unless the model generates tokens.
    #[must_use]
    pub fn instance_stats(&self) -> Vec<crate::generate::InstanceStats> {
        self.generative.as_ref().map_or(Vec::new(), |own| own.stats())
    }

    /// Statistics of the sequences so far; `None` unless the model generates tokens.
    #[must_use]
    pub fn sequence_stats(&self) -> Option<&crate::generate::SequenceStats> {
        self.generative.as_ref().map(|own| &own.counted)
    }

    /// Current batch size that dynamic batching aims for.
    #[must_use]
    pub fn batch_size(&self) -> u32 {
        self.peers.batch_size()
    }

    /// Expected duration of a batch of the present size, as the slots were recently.
    #[must_use]
    pub fn expected_batch(&self) -> Span {
        self.workers.expected(self.batch_size().max(1))
    }

    /// Expected slot time of so many items in batches of the present size, as the slots were recently.
    #[must_use]
    pub fn expected_work(&self, items: u64) -> Span {
        let size = self.batch_size().max(1);
        let (full, rest) = (items / u64::from(size), items % u64::from(size));
        let rest = match rest as u32 {
            0 => Span::ZERO,
            rest => self.workers.expected(rest),
        };
        self.workers.expected(size) * full + rest
    }

    /// Number of slots that can be used. Of shared slots only the arbiter knows which are down.
    #[must_use]
    pub fn usable_slots(&self) -> usize {
        self.workers.up()
    }

    /// Current priority, with the load factor behind it.
    #[must_use]
    pub fn priority(&self) -> &AdaptivePriority {
        &self.priority
    }

    /// Number of changes of the priority so far.
    #[must_use]
    pub fn priority_switches(&self) -> u64 {
        self.priority.switches()
    }
}

/// Creates one mailbox for the pool, or one for each worker. With `by_stream`, requests are indexed by stream
/// too.
fn mailboxes(spec: &ModuleSpec, strategies: &Strategies, workers: usize, by_stream: bool) -> MailboxSet {
    let mailboxes = match (strategies.mailbox, spec.pool) {
        (Mailboxes::Worker, Pool::Own) => workers,
        // If slots differ in speed, a request is assigned to one on arrival.
        (_, Pool::Own | Pool::Shared) if !spec.ends.is_empty() => workers,
        // If slots are equal, the arbiter chooses one for each batch.
        (Mailboxes::Pool, _) | (_, Pool::Shared | Pool::Pipelines) => 1,
    };
    MailboxSet::new(mailboxes, asks_urgency(spec, strategies), by_stream)
}

/// Rule for measuring durations; none in pipelines, where measured stages and links already correct the
/// bookings.
fn duration_spread(spec: &ModuleSpec, strategies: &Strategies) -> Option<DurationSpreadSpec> {
    strategies
        .duration_spread
        .filter(|_| spec.pool != Pool::Pipelines)
}

/// Whether the mailboxes must index the most urgent requests.
fn asks_urgency(spec: &ModuleSpec, strategies: &Strategies) -> bool {
    strategies.drops_early() || spec.pool == Pool::Pipelines
}

#[cfg(test)]
mod generative_tests;
#[cfg(test)]
mod queued_tests;
#[cfg(test)]
mod routed_tests;
#[cfg(test)]
mod tests;
