//! Batches on their way: to a worker or to the reservations, and back.

use actix::{AsyncContext, Context};
use weir_flow::{Inference, Item};
use weir_policy::reservations::BookingId;
use weir_policy::{BatchSlice, ModuleEvent, SlotEvent};
use weir_types::{BatchId, SlotId, Span};

use super::{BatchBack, ModuleActor, Wire};
use crate::actors::reservations::Dispatch;
use crate::actors::slots::SlotFact;
use crate::actors::supervisor::{BatchLost, RequestLost};
use crate::telemetry;
use crate::worker::{Job, Ran};

impl ModuleActor {
    /// Hands a batch to the worker of its slot. The channel of one is free: a slot is granted only when it is.
    pub(super) fn run(
        &mut self,
        slot: SlotId,
        batch: BatchId,
        slices: Vec<BatchSlice>,
        context: &mut Context<Self>,
    ) {
        let items = slices.iter().flat_map(|slice| self.items_of(slice)).collect();
        self.tally.on_run(&slices);
        let job = Job {
            module: self.setup.id,
            model: self.setup.model,
            batch,
            items,
        };
        let sent = self
            .setup
            .jobs
            .get(&slot)
            .is_some_and(|jobs| jobs.try_send(job).is_ok());
        self.running.insert(batch, slices);
        if !sent {
            let ran = Ran {
                slot,
                module: self.setup.id,
                batch,
                took: Span::ZERO,
                steps: crate::worker::StepTimes::default(),
                lost: false,
                result: Err("the worker of the slot is gone".to_owned()),
            };
            context.notify(BatchBack(ran));
        }
    }

    /// Hands a batch to the reservations, which know its way.
    pub(super) fn dispatch(
        &mut self,
        booking: BookingId,
        batch: BatchId,
        slices: Vec<BatchSlice>,
        wire: &Wire,
    ) {
        let items = slices.iter().flat_map(|slice| self.items_of(slice)).collect();
        self.tally.on_run(&slices);
        self.running.insert(batch, slices);
        if let Some(reservations) = &wire.reservations {
            reservations.do_send(Dispatch {
                module: self.setup.id,
                booking,
                batch,
                items,
            });
        }
    }

    fn items_of(&self, slice: &BatchSlice) -> Vec<Item> {
        let (first, count) = (slice.first as usize, slice.count as usize);
        let items = self
            .held
            .get(&slice.request)
            .and_then(|held| held.items.get(first..first + count));
        items.map(<[Item]>::to_vec).unwrap_or_default()
    }

    pub(super) fn batch_back(&mut self, ran: Ran, context: &mut Context<Self>) {
        let Ran {
            slot,
            module,
            batch,
            took,
            steps,
            lost,
            result,
        } = ran;
        let Some(slices) = self.running.remove(&batch) else {
            return;
        };
        self.tally.on_batch_done(took, result.is_err());
        telemetry::batch(&self.setup.name, took, &steps);
        let fact = match result {
            Ok(inferences) => {
                self.check_outputs(&inferences);
                self.keep(&slices, inferences);
                ModuleEvent::Finished { batch, took }
            }
            Err(reason) => {
                self.tell_of_loss(slot, reason);
                if lost && self.setup.planned {
                    ModuleEvent::Lost { batch, took }
                } else {
                    ModuleEvent::Failed { batch, took }
                }
            }
        };
        self.fact(fact, context);
        if let Some(wire) = self.wire.as_ref().filter(|_| !self.setup.planned) {
            wire.slots
                .do_send(SlotFact(SlotEvent::Finished { module, slot, took }));
        }
    }

    fn check_outputs(&mut self, inferences: &[Inference]) {
        if !self.setup.infers {
            return;
        }
        for warning in self.outputs.on_batch(inferences) {
            tracing::warn!(target: telemetry::OUTPUTS, "module {}: {warning}", self.setup.name);
            self.tally.add_warning(warning);
        }
    }

    /// Puts what was inferred with the requests that are still here.
    fn keep(&mut self, slices: &[BatchSlice], inferences: Vec<Inference>) {
        let mut inferences = inferences.into_iter();
        for slice in slices {
            let own = inferences.by_ref().take(slice.count as usize);
            let Some(held) = self.held.get_mut(&slice.request) else {
                own.for_each(drop);
                continue;
            };
            for (place, inference) in (slice.first as usize..).zip(own) {
                if let Some(slot) = held.inferences.get_mut(place) {
                    *slot = inference;
                }
            }
        }
    }

    fn tell_of_loss(&self, slot: SlotId, reason: String) {
        let Some(wire) = &self.wire else { return };
        let module = self.setup.name.clone();
        if self.setup.planned {
            wire.supervisor.do_send(RequestLost { module, reason });
        } else {
            wire.supervisor.do_send(BatchLost { module, slot, reason });
        }
    }
}
