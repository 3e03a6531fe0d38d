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
mod mailboxes;
mod metrics;
mod owned;
mod workers;

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use weir_types::{BatchId, ModuleId, SlotId, Span, Timestamp};

use crate::measure::profile_reset::StarvationReset;
use crate::pard::priority::AdaptivePriority;
use crate::pard::state_planner::{DownstreamEstimate, ModuleState, StatePlanner};
use crate::reservations::PathRequest;
use crate::slots::Bid;
use crate::strategy::{BatchBinding, Mailboxes, Strategies};
use crate::weir::branch_shedding::BranchShedding;
use crate::weir::joint_batching::JointSizing;
use crate::weir::slack::OverloadTracker;

pub use api::{BatchSlice, ModuleEffect, ModuleEvent, ModuleSpec, Pool};
use booked::Booking;
use mailboxes::{Entry, MailboxSet};
use metrics::ModuleMetrics;
use workers::Workers;

/// A batch on its slot.
#[derive(Debug, Clone)]
struct Running {
    slot: SlotId,
    slices: Vec<BatchSlice>,
    /// When it was sent on its way and how long that should take, where it was booked.
    booked: Option<(Timestamp, Span)>,
}

/// One module.
#[derive(Debug, Clone)]
pub struct Module {
    spec: ModuleSpec,
    /// What its decisions are made by.
    strategies: Strategies,
    planner: StatePlanner,
    downstream_estimate: DownstreamEstimate,
    priority: AdaptivePriority,
    metrics: ModuleMetrics,
    overload: OverloadTracker,
    /// What is about to arrive downstream, where that decides anything.
    branch_shedding: Option<BranchShedding>,
    joint_sizing: JointSizing,
    mailboxes: MailboxSet,
    workers: Workers,
    starvation_reset: StarvationReset,
    granted: Vec<SlotId>,
    /// Mailboxes about which something changed in this step.
    touched: Vec<usize>,
    running: BTreeMap<BatchId, Running>,
    next_batch: u64,
    batch_size: u32,
    /// Durations by batch size, as the profile has them.
    profiled: Vec<Span>,
    bid: Option<Bid>,
    asked: Option<PathRequest>,
    /// The earliest that what must not be let go would be through, where that is after its deadline.
    extended_deadline: Timestamp,
    /// Since when there has been no way through the pipelines at all.
    no_path_since: Option<Timestamp>,
    bookings: Vec<Booking>,
    timer_at: Option<Timestamp>,
    /// Whether something was heard that the outlook does not know of yet.
    stale: bool,
    random: Pcg64Mcg,
}

impl Module {
    /// A module that has seen nothing yet.
    #[must_use]
    pub fn new(spec: ModuleSpec) -> Self {
        let strategies = spec.policy.resolve();
        let mut joint_sizing = JointSizing::default();
        let states = (0..)
            .zip(&spec.peers)
            .map(|(id, peer)| ModuleState::initial(ModuleId(id), peer.profile.duration(1)))
            .collect();
        let mut planner =
            StatePlanner::new(spec.id, spec.slo, strategies.estimation(), &spec.topology, states);
        let downstream_estimate = planner.downstream_estimate();
        let batch_size = metrics::batch_size(&spec, &strategies, &planner, &mut joint_sizing, 1.0);
        let workers = Workers::new(&spec.slots);
        Self {
            downstream_estimate,
            priority: AdaptivePriority::new(strategies.order),
            metrics: ModuleMetrics::new(&strategies),
            overload: OverloadTracker::default(),
            branch_shedding: strategies.branch_shedding.map(BranchShedding::new),
            mailboxes: mailboxes(&spec, &strategies, workers.len()),
            workers,
            starvation_reset: StarvationReset::default(),
            granted: Vec::new(),
            touched: Vec::new(),
            running: BTreeMap::new(),
            next_batch: 0,
            batch_size,
            profiled: profiled(&spec),
            bid: None,
            asked: None,
            extended_deadline: Timestamp::ZERO,
            no_path_since: None,
            bookings: Vec::new(),
            timer_at: None,
            stale: false,
            random: Pcg64Mcg::seed_from_u64(spec.seed ^ u64::from(spec.id.0)),
            planner,
            joint_sizing,
            strategies,
            spec,
        }
    }

    /// Takes in a burst of events, decides once, and appends what is to be done.
    pub fn step(
        &mut self,
        events: impl IntoIterator<Item = ModuleEvent>,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let mut told = false;
        for event in events {
            told = true;
            self.record(event, now, effects);
        }
        if !told || self.mailboxes.count() == 1 {
            self.touched.clear();
            self.touched.extend(0..self.mailboxes.count());
        }
        let mut touched = std::mem::take(&mut self.touched);
        for &mailbox in &touched {
            self.sweep(mailbox, now, effects);
            if self.is_eager() && self.spec.pool != Pool::Pipelines {
                self.form_ahead(mailbox, now, effects);
            }
        }
        let mut granted = std::mem::take(&mut self.granted);
        for slot in granted.drain(..) {
            self.run_on_slot(slot, now, effects);
        }
        self.granted = granted;
        let mut bookings = std::mem::take(&mut self.bookings);
        for booking in bookings.drain(..) {
            self.run_as_booked(booking, now, effects);
        }
        self.bookings = bookings;
        match self.spec.pool {
            Pool::Own => {
                for &mailbox in &touched {
                    self.run_on_own(mailbox, now, effects);
                }
            }
            Pool::Shared => self.update_bid(effects),
            Pool::Pipelines => self.request_path(effects),
        }
        self.set_timer(&touched, now, effects);
        touched.clear();
        self.touched = touched;
    }

    /// Notes that something changed about a mailbox.
    fn touch(&mut self, mailbox: usize) {
        if !self.touched.contains(&mailbox) {
            self.touched.push(mailbox);
        }
    }

    fn record(&mut self, event: ModuleEvent, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        match event {
            ModuleEvent::Arrived {
                request,
                stream,
                sent_at,
                items,
                droppable,
            } => {
                let entry = Entry::new(stream, sent_at, now, items, droppable);
                self.arrived(request, entry, now, effects);
            }
            // Siblings are told whether or not they have the request.
            ModuleEvent::Cancelled { request } => {
                self.remove(request);
            }
            ModuleEvent::Granted { slot } => {
                self.bid = None;
                match self.workers.of_mut(slot) {
                    Some(view) => {
                        view.free_at = now;
                        self.granted.push(slot);
                    }
                    // The arbiter grants what is placed; of anything else it is told, so that no slot is lost.
                    None => effects.push(ModuleEffect::Decline { slot }),
                }
            }
            ModuleEvent::Booked {
                booking,
                size,
                finish,
            } => {
                self.asked = None;
                self.bookings.push(Booking {
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
            } => self.planned(profile, batch, lanes, share),
            ModuleEvent::NoPath { finish } => self.on_no_path(finish, now, effects),
            ModuleEvent::Forecast { slot, free_at } => {
                if let Some(view) = self.workers.of_mut(slot) {
                    view.free_at = free_at;
                }
            }
            ModuleEvent::Finished { batch, took } => self.finished(batch, took, now, effects),
            ModuleEvent::Failed { batch, took } => self.failed(batch, took, now, effects),
            ModuleEvent::Lost { batch, took } => self.lost(batch, took, now, effects),
            ModuleEvent::PeerState(state) => {
                self.planner.on_peer_state(state);
                self.stale = true;
            }
            ModuleEvent::SlotUp { slot } => self.up(slot, true),
            ModuleEvent::SlotDown { slot } => self.up(slot, false),
            ModuleEvent::Share { share } => self.metrics.set_share(share),
            ModuleEvent::Tick => {
                self.reset_request();
                self.tick(now, effects);
            }
        }
    }

    /// Whether batches are formed before their slots are free.
    fn is_eager(&self) -> bool {
        self.strategies.binding == BatchBinding::Early
    }

    /// Requests that are here: waiting, bound or running.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.mailboxes.len()
    }

    /// The batch size that dynamic batching has chosen for now.
    #[must_use]
    pub fn batch_size(&self) -> u32 {
        self.batch_size
    }

    /// Its priority at present.
    #[must_use]
    pub fn priority(&self) -> &AdaptivePriority {
        &self.priority
    }

    /// How often the priority changed.
    #[must_use]
    pub fn priority_switches(&self) -> u64 {
        self.priority.switches()
    }
}

/// A mailbox for the pool, or one for each worker.
fn mailboxes(spec: &ModuleSpec, strategies: &Strategies, workers: usize) -> MailboxSet {
    // Whose slot is granted next is the arbiter's choice: in a shared pool nobody waits at one worker.
    let mailboxes = match (strategies.mailbox, spec.pool) {
        (Mailboxes::Worker, Pool::Own) => workers,
        (Mailboxes::Pool, _) | (_, Pool::Shared | Pool::Pipelines) => 1,
    };
    MailboxSet::new(
        mailboxes,
        strategies.drops_early() || spec.pool == Pool::Pipelines,
    )
}

/// Durations by batch size, from none to the largest.
fn profiled(spec: &ModuleSpec) -> Vec<Span> {
    let most = spec.batch.last().copied().unwrap_or(1).min(MAX_PROFILED);
    (0..=most).map(|size| spec.profile.duration(size)).collect()
}

/// Batch sizes whose durations are kept.
const MAX_PROFILED: u32 = 1_024;

#[cfg(test)]
mod tests;
