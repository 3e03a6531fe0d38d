//! The supervisor: counts lost batches, says each kind of loss once in the log, and takes a slot out of use for a while
//! when it loses one batch after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use weir_policy::{SlotEvent, SlotId, Span, Timestamp};

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
        let times = self.said.entry((module.clone(), reason.clone())).or_default();
        *times += 1;
        if times.is_power_of_two() {
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
