//! The supervisor: counts lost batches, says each kind of loss once in the log, and takes a slot out of use for a while
//! when it loses one batch after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use weir_policy::SlotEvent;
use weir_types::{SlotId, Span, Timestamp};

use super::slots::{SlotActor, SlotFact};
use crate::clock::Clock;
use crate::telemetry;

/// So many losses within [`WINDOW`] take a slot out of use.
const LOSSES_MOST: usize = 5;
/// See [`LOSSES_MOST`].
const WINDOW: Span = Span::from_secs(1);
/// For how long.
const REST: Duration = Duration::from_secs(1);

/// A batch was lost; its worker has discarded the session and builds a new one for the next batch.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct BatchLost {
    pub(crate) module: String,
    pub(crate) slot: SlotId,
    pub(crate) reason: String,
}

/// A request was lost outside a batch.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct RequestLost {
    pub(crate) module: String,
    pub(crate) reason: String,
}

/// Kinds of losses that are told apart: reasons may hold numbers, so there may be as many as losses.
const KINDS_MOST: usize = 64;

/// What the supervisor is made from.
pub(crate) struct SupervisorSetup {
    pub(crate) clock: Clock,
    pub(crate) slots: Addr<SlotActor>,
}

pub(crate) struct Supervisor {
    setup: SupervisorSetup,
    losses: BTreeMap<SlotId, Vec<Timestamp>>,
    said: BTreeMap<(String, String), u64>,
}

impl Supervisor {
    pub(crate) fn new(setup: SupervisorSetup) -> Self {
        Self {
            setup,
            losses: BTreeMap::new(),
            said: BTreeMap::new(),
        }
    }

    /// Counts a loss of its kind; gives the count where it is worth a line: the first, the second, the fourth and so on.
    fn say(&mut self, module: &str, reason: &str) -> Option<u64> {
        let kind = (module.to_owned(), reason.to_owned());
        let kind = if self.said.len() < KINDS_MOST || self.said.contains_key(&kind) {
            kind
        } else {
            (module.to_owned(), String::new())
        };
        let times = self.said.entry(kind).or_default();
        *times += 1;
        times.is_power_of_two().then_some(*times)
    }

    /// Whether the slot lost so many batches lately that it needs a rest.
    fn exhausted(&mut self, slot: SlotId) -> bool {
        let now = self.setup.clock.now();
        let losses = self.losses.entry(slot).or_default();
        losses.push(now);
        losses.retain(|&at| now.since(at) <= WINDOW);
        let exhausted = losses.len() >= LOSSES_MOST;
        if exhausted {
            losses.clear();
        }
        exhausted
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;
}

impl Handler<BatchLost> for Supervisor {
    type Result = ();

    fn handle(&mut self, lost: BatchLost, context: &mut Self::Context) {
        let BatchLost { module, slot, reason } = lost;
        telemetry::batch_lost(&module);
        if let Some(times) = self.say(&module, &reason) {
            tracing::warn!(module, slot = slot.0, times, "batch lost: {reason}");
        }
        if self.exhausted(slot) {
            tracing::error!(
                slot = slot.0,
                "too many batches lost; the slot rests for {} s",
                REST.as_secs()
            );
            self.setup.slots.do_send(SlotFact(SlotEvent::Down { slot }));
            context.run_later(REST, move |actor, _| {
                actor.setup.slots.do_send(SlotFact(SlotEvent::Up { slot }));
            });
        }
    }
}

impl Handler<RequestLost> for Supervisor {
    type Result = ();

    fn handle(&mut self, RequestLost { module, reason }: RequestLost, _context: &mut Self::Context) {
        if let Some(times) = self.say(&module, &reason) {
            tracing::warn!(module, times, "request lost: {reason}");
        }
    }
}
