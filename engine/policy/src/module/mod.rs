//! One module as a state machine: a mailbox, a broker and a state planner, in events and effects.
//!
//! A driver collects a burst of events, calls [`Module::step`] once, and carries out the effects. The module knows
//! requests by number and counts their items; it never sees a frame.
//!
//! ```text
//! Arrived ──> mailbox ──(bind: drop or join)──> batch ──Granted──> Run ──Finished──> Forward
//!                └──────────── Drop <──────────────┘                └──Failed──> Drop
//! ```

mod arrivals;
mod binding;
mod booked;
mod coming;
mod ends;
mod facts;
mod foresight;
mod load;
mod phases;
mod pool;
mod queues;
mod sweep;
mod workers;

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::id::{BatchId, ModuleId, SlotId};
use crate::order::Priority;
use crate::outlook::{ModuleState, Outlook, Planner};
use crate::reserve::Ask;
use crate::slots::Bid;
use crate::spare::Pressure;
use crate::time::{Span, Timestamp};
use crate::vain::Vain;
use crate::values::{DropRule, Forming, Mailboxes};

use booked::Booking;
pub use facts::{ModuleEffect, ModuleEvent, ModuleSpec, Part, Pool};
use foresight::Foresight;
use load::Load;
use queues::{Entry, Queues};
use sweep::sweeps;
use workers::Workers;

/// A batch on its slot.
#[derive(Debug, Clone)]
struct Running {
    slot: SlotId,
    parts: Vec<Part>,
    /// When it was sent on its way and how long that should take, where it was booked.
    booked: Option<(Timestamp, Span)>,
}

/// One module.
#[derive(Debug, Clone)]
pub struct Module {
    spec: ModuleSpec,
    planner: Planner,
    outlook: Outlook,
    priority: Priority,
    load: Load,
    pressure: Pressure,
    foresight: Foresight,
    queues: Queues,
    workers: Workers,
    vain: Vain,
    granted: Vec<SlotId>,
    /// Mailboxes about which something changed in this step.
    touched: Vec<usize>,
    running: BTreeMap<BatchId, Running>,
    next_batch: u64,
    batch_size: u32,
    /// Durations by batch size, as the profile has them.
    profiled: Vec<Span>,
    bid: Option<Bid>,
    asked: Option<Ask>,
    /// The earliest that what must not be let go would be through, where that is after its deadline.
    relaxed: Timestamp,
    /// Since when there has been no way through the pipelines at all.
    no_way_since: Option<Timestamp>,
    bookings: Vec<Booking>,
    wake_at: Option<Timestamp>,
    /// Whether something was heard that the outlook does not know of yet.
    stale: bool,
    random: Pcg64Mcg,
}

impl Module {
    /// A module that has seen nothing yet.
    #[must_use]
    pub fn new(spec: ModuleSpec) -> Self {
        let states = (0..)
            .zip(&spec.peers)
            .map(|(id, peer)| ModuleState::initial(ModuleId(id), peer.profile.duration(1)))
            .collect();
        let mut planner = Planner::new(
            spec.id,
            spec.slo,
            spec.policy.drop.clone(),
            &spec.topology,
            states,
        );
        let outlook = planner.outlook();
        let batch_size = load::batch_size(&spec, &mut planner, 1.0);
        let workers = Workers::new(&spec.slots);
        Self {
            outlook,
            priority: Priority::new(spec.policy.order),
            load: Load::new(&spec.policy.drop),
            pressure: Pressure::default(),
            foresight: Foresight::default(),
            queues: queues(&spec, workers.len()),
            workers,
            vain: Vain::default(),
            granted: Vec::new(),
            touched: Vec::new(),
            running: BTreeMap::new(),
            next_batch: 0,
            batch_size,
            profiled: profiled(&spec),
            bid: None,
            asked: None,
            relaxed: Timestamp::ZERO,
            no_way_since: None,
            bookings: Vec::new(),
            wake_at: None,
            stale: false,
            random: Pcg64Mcg::seed_from_u64(spec.seed ^ u64::from(spec.id.0)),
            planner,
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
        if !told || self.queues.mailboxes() == 1 {
            self.touched.clear();
            self.touched.extend(0..self.queues.mailboxes());
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
            self.use_granted(slot, now, effects);
        }
        self.granted = granted;
        let mut bookings = std::mem::take(&mut self.bookings);
        for booking in bookings.drain(..) {
            self.use_booking(booking, now, effects);
        }
        self.bookings = bookings;
        match self.spec.pool {
            Pool::Own => {
                for &mailbox in &touched {
                    self.use_own(mailbox, now, effects);
                }
            }
            Pool::Shared => self.ask_for_slot(effects),
            Pool::Pipelines => self.ask_for_way(effects),
        }
        self.set_alarm(&touched, now, effects);
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
            ModuleEvent::Cancelled { request } => {
                self.take_out(request);
            }
            ModuleEvent::Granted { slot } => {
                self.bid = None;
                match self.workers.of_mut(slot) {
                    Some(view) => {
                        view.free_at = now;
                        self.granted.push(slot);
                    }
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
            ModuleEvent::Planned {
                profile,
                batch,
                lanes,
                share,
            } => self.planned(profile, batch, lanes, share),
            ModuleEvent::Unbookable { finish } => self.unbookable(finish, now, effects),
            ModuleEvent::Forecast { slot, free_at } => {
                if let Some(view) = self.workers.of_mut(slot) {
                    view.free_at = free_at;
                }
            }
            ModuleEvent::Finished { batch, took } => self.finished(batch, took, now, effects),
            ModuleEvent::Failed { batch, took } => self.failed(batch, took, now, effects),
            ModuleEvent::Lost { batch, took } => self.lost(batch, took, now, effects),
            ModuleEvent::Heard(state) => {
                self.planner.heard(state);
                self.stale = true;
            }
            ModuleEvent::Up { slot } => self.up(slot, true),
            ModuleEvent::Down { slot } => self.up(slot, false),
            ModuleEvent::Share { share } => self.load.share(share),
            ModuleEvent::Tick => {
                self.ask_again();
                self.tick(now, effects);
            }
        }
    }

    /// Whether the rule is `weir`, which adds to PARD what is told in `spare`, `phases` and `foresight`.
    fn is_weir(&self) -> bool {
        matches!(self.spec.policy.drop, DropRule::Weir(_))
    }

    /// Whether batches are formed before their slots are free.
    fn is_eager(&self) -> bool {
        self.spec.policy.forming == Forming::Eager
    }

    /// Requests that are here: waiting, bound or running.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.queues.len()
    }

    /// The batch size that dynamic batching has chosen for now.
    #[must_use]
    pub fn batch_size(&self) -> u32 {
        self.batch_size
    }

    /// Its priority at present.
    #[must_use]
    pub fn priority(&self) -> &Priority {
        &self.priority
    }

    /// How often the priority changed.
    #[must_use]
    pub fn priority_switches(&self) -> u64 {
        self.priority.switches()
    }
}

/// A mailbox for the pool, or one for each worker.
fn queues(spec: &ModuleSpec, workers: usize) -> Queues {
    // Whose slot is granted next is the arbiter's choice: in a shared pool nobody waits at one worker.
    let mailboxes = match (spec.policy.mailbox, spec.pool) {
        (Mailboxes::Worker, Pool::Own) => workers,
        (Mailboxes::Pool, _) | (_, Pool::Shared | Pool::Pipelines) => 1,
    };
    Queues::new(mailboxes, sweeps(&spec.policy) || spec.pool == Pool::Pipelines)
}

/// Durations by batch size, from none to the largest.
fn profiled(spec: &ModuleSpec) -> Vec<Span> {
    let most = spec.batch.last().copied().unwrap_or(1).min(PROFILED_MOST);
    (0..=most).map(|size| spec.profile.duration(size)).collect()
}

/// Batch sizes whose durations are kept.
const PROFILED_MOST: u32 = 1_024;
