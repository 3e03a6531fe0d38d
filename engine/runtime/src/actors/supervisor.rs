//! The supervisor: counts lost batches, logs each kind of loss at powers of two, and takes slots out of use and puts them
//! back as the policy's `SlotBreaker` decides.

use std::collections::BTreeMap;

use actix::{Actor, ActorContext, Addr, Context, Handler};
use weir_policy::{BreakerEffect, BreakerEvent, BreakerSpec, SlotBreaker, SlotEvent};

use super::burst::{Burst, PolicyActor};
use super::messages::{ArbiterEvent, BatchLost, RequestLost, StopActor};
use super::slots::SlotActor;
use crate::clock::Clock;
use crate::record::Recorder;
use crate::telemetry;

/// Kinds of losses that are counted apart: reasons may hold numbers, so there may be as many kinds as losses.
const MAX_LOSS_KINDS: usize = 64;

/// What the supervisor is made from.
pub(crate) struct SupervisorSetup {
    pub(crate) clock: Clock,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) breaker: BreakerSpec,
    pub(crate) slots: Addr<SlotActor>,
}

pub(crate) struct Supervisor {
    burst: Burst<SlotBreaker>,
    cooldown_s: f64,
    slots: Addr<SlotActor>,
    /// By module and reason.
    counts: BTreeMap<(String, String), u64>,
}

impl Supervisor {
    pub(crate) fn new(setup: SupervisorSetup) -> Self {
        let breaker = SlotBreaker::new(setup.breaker);
        Self {
            burst: Burst::new(breaker, setup.clock, setup.recorder),
            cooldown_s: setup.breaker.cooldown.as_secs_f64(),
            slots: setup.slots,
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
}

impl PolicyActor for Supervisor {
    type Machine = SlotBreaker;

    fn burst(&mut self) -> &mut Burst<SlotBreaker> {
        &mut self.burst
    }

    fn apply(&mut self, effect: BreakerEffect, context: &mut Context<Self>) {
        match effect {
            BreakerEffect::TakeOut { slot } => {
                tracing::error!(
                    slot = slot.0,
                    "too many batches lost; the slot is out of use for {} s",
                    self.cooldown_s
                );
                self.slots.do_send(ArbiterEvent(SlotEvent::Down { slot }));
            }
            BreakerEffect::PutBack { slot } => self.slots.do_send(ArbiterEvent(SlotEvent::Up { slot })),
            BreakerEffect::SetTimer { at } => self.set_timer(at, context, Self::decide),
        }
    }
}

impl Handler<StopActor> for Supervisor {
    type Result = ();

    fn handle(&mut self, _: StopActor, context: &mut Self::Context) {
        context.stop();
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;
}

impl Handler<BatchLost> for Supervisor {
    type Result = ();

    fn handle(&mut self, lost: BatchLost, context: &mut Self::Context) {
        let BatchLost { module, slot, reason } = lost;
        telemetry::record_batches_lost(&module, 1);
        if let Some(times) = self.count_loss(&module, &reason) {
            tracing::warn!(module, slot = slot.0, times, "batch lost: {reason}");
        }
        self.on_event(BreakerEvent::BatchLost { slot }, context);
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
