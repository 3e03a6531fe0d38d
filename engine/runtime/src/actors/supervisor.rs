//! The supervisor: counts lost batches, logs each kind of loss at powers of two, and takes a slot out of use for a while
//! when it loses one batch after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler};
use weir_policy::SlotEvent;
use weir_types::{SlotId, Span, Timestamp};

use super::messages::{ArbiterEvent, BatchLost, RequestLost};
use super::slots::SlotActor;
use crate::clock::Clock;
use crate::telemetry;

/// As many losses within [`LOSS_WINDOW`] take a slot out of use.
const MAX_LOSSES: usize = 5;
const LOSS_WINDOW: Span = Span::from_secs(1);
/// How long a slot stays out of use.
const SLOT_COOLDOWN: Duration = Duration::from_secs(1);

/// Kinds of losses that are counted apart: reasons may hold numbers, so there may be as many kinds as losses.
const MAX_LOSS_KINDS: usize = 64;

/// What the supervisor is made from.
pub(crate) struct SupervisorSetup {
    pub(crate) clock: Clock,
    pub(crate) slots: Addr<SlotActor>,
}

pub(crate) struct Supervisor {
    setup: SupervisorSetup,
    losses: BTreeMap<SlotId, Vec<Timestamp>>,
    /// By module and reason.
    counts: BTreeMap<(String, String), u64>,
}

impl Supervisor {
    pub(crate) fn new(setup: SupervisorSetup) -> Self {
        Self {
            setup,
            losses: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Counts a loss of its kind; gives the count where it is to be logged: at 1, 2, 4 and so on.
    fn count_loss(&mut self, module: &str, reason: &str) -> Option<u64> {
        let kind = (module.to_owned(), reason.to_owned());
        let kind = if self.counts.len() < MAX_LOSS_KINDS || self.counts.contains_key(&kind) {
            kind
        } else {
            (module.to_owned(), String::new())
        };
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        count.is_power_of_two().then_some(*count)
    }

    /// Counts a loss of the slot; `true` where it lost too many recently.
    fn count_slot_loss(&mut self, slot: SlotId) -> bool {
        let now = self.setup.clock.now();
        let losses = self.losses.entry(slot).or_default();
        losses.push(now);
        losses.retain(|&at| now.since(at) <= LOSS_WINDOW);
        let exceeded = losses.len() >= MAX_LOSSES;
        if exceeded {
            losses.clear();
        }
        exceeded
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;
}

impl Handler<BatchLost> for Supervisor {
    type Result = ();

    fn handle(&mut self, lost: BatchLost, context: &mut Self::Context) {
        let BatchLost { module, slot, reason } = lost;
        telemetry::record_batch_lost(&module);
        if let Some(times) = self.count_loss(&module, &reason) {
            tracing::warn!(module, slot = slot.0, times, "batch lost: {reason}");
        }
        if self.count_slot_loss(slot) {
            tracing::error!(
                slot = slot.0,
                "too many batches lost; the slot is out of use for {} s",
                SLOT_COOLDOWN.as_secs()
            );
            self.setup.slots.do_send(ArbiterEvent(SlotEvent::Down { slot }));
            context.run_later(SLOT_COOLDOWN, move |actor, _| {
                actor.setup.slots.do_send(ArbiterEvent(SlotEvent::Up { slot }));
            });
        }
    }
}

impl Handler<RequestLost> for Supervisor {
    type Result = ();

    fn handle(&mut self, RequestLost { module, reason }: RequestLost, _context: &mut Self::Context) {
        if let Some(times) = self.count_loss(&module, &reason) {
            tracing::warn!(module, times, "request lost: {reason}");
        }
    }
}
