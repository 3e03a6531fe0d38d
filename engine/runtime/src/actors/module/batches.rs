//! Batches of a module: sent to a worker, and the results of all.

use actix::{AsyncContext, Context};
use weir_flow::{Inference, Item};
use weir_policy::{BatchSlice, ModuleEvent, SlotEvent};
use weir_types::{BatchId, SlotId, Span};

use super::{ModuleActor, RunningBatch};
use crate::actors::burst::PolicyActor;
use crate::actors::messages::{ArbiterEvent, BatchDone, BatchLost, RequestLost};
use crate::telemetry;
use crate::worker::{BatchResult, Job};

impl ModuleActor {
    /// Sends a batch to the worker of its slot. Its channel of one is free: a slot is granted only when it is.
    pub(super) fn run(
        &mut self,
        slot: SlotId,
        batch: BatchId,
        slices: Vec<BatchSlice>,
        context: &mut Context<Self>,
    ) {
        let items = self.items_of(&slices);
        self.stats.on_run(&slices);
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
        self.running.insert(batch, RunningBatch::on_slot(slices));
        if !sent {
            let result = BatchResult {
                slot,
                module: self.setup.id,
                batch,
                took: Span::ZERO,
                steps: crate::worker::StepTimes::default(),
                lost: false,
                result: Err("the worker of the slot is gone".to_owned()),
            };
            context.notify(BatchDone(result));
        }
    }

    /// The items of a batch, in its order.
    pub(super) fn items_of(&self, slices: &[BatchSlice]) -> Vec<Item> {
        let of_slice = |slice: &BatchSlice| {
            let (first, count) = (slice.first as usize, slice.count as usize);
            let pending = self.pending.get(&slice.request)?;
            pending.items.get(first..first + count)
        };
        slices.iter().filter_map(of_slice).flatten().cloned().collect()
    }

    pub(super) fn on_batch_done(&mut self, result: BatchResult, context: &mut Context<Self>) {
        let BatchResult {
            slot,
            module,
            batch,
            took,
            steps,
            lost,
            result,
        } = result;
        let Some(RunningBatch { slices, .. }) = self.running.remove(&batch) else {
            return;
        };
        self.stats.on_batch_done(took, result.is_err());
        telemetry::record_batch(&self.setup.name, took, &steps);
        let event = match result {
            Ok(inferences) => {
                self.check_outputs(&inferences);
                self.store_inferences(&slices, inferences);
                ModuleEvent::Finished { batch, took }
            }
            Err(reason) => {
                self.report_loss(slot, reason);
                if lost && self.setup.prepost.is_some() {
                    ModuleEvent::Lost { batch, took }
                } else {
                    ModuleEvent::Failed { batch, took }
                }
            }
        };
        self.on_event(event, context);
        if self.setup.shared {
            let finished = SlotEvent::Finished { module, slot, took };
            self.setup.actors.slots.do_send(ArbiterEvent(finished));
        }
    }

    fn check_outputs(&mut self, inferences: &[Inference]) {
        if !self.setup.has_model {
            return;
        }
        for warning in self.outputs.on_batch(inferences) {
            tracing::warn!(target: telemetry::OUTPUTS_TARGET, "module {}: {warning}", self.setup.name);
            self.stats.add_warning(warning);
        }
    }

    /// Stores inferences with their requests, where these have not ended.
    fn store_inferences(&mut self, slices: &[BatchSlice], inferences: Vec<Inference>) {
        let mut inferences = inferences.into_iter();
        for slice in slices {
            let own = inferences.by_ref().take(slice.count as usize);
            let Some(pending) = self.pending.get_mut(&slice.request) else {
                own.for_each(drop);
                continue;
            };
            for (place, inference) in (slice.first as usize..).zip(own) {
                if let Some(slot) = pending.inferences.get_mut(place) {
                    *slot = inference;
                }
            }
        }
    }

    fn report_loss(&self, slot: SlotId, reason: String) {
        let supervisor = &self.setup.actors.supervisor;
        let module = self.setup.name.clone();
        if self.setup.prepost.is_some() {
            supervisor.do_send(RequestLost { module, reason });
        } else {
            supervisor.do_send(BatchLost { module, slot, reason });
        }
    }
}
