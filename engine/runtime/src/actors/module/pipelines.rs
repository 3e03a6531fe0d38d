//! Batches of a module whose model is partitioned: sent along the paths that are booked for them, straight to the thread
//! before the first partition; what leaves the last one goes to the thread that decodes it.

use actix::{AsyncContext, Context};
use weir_flow::Tensor;
use weir_partition::Event;
use weir_partition::wire::{BatchFailure, BatchKey};
use weir_policy::reservations::BookingId;
use weir_policy::{BatchSlice, ModuleEvent};
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{BatchId, SlotId, Span};

use super::{ActorRefs, ModuleActor, RunningBatch};
use crate::actors::burst::PolicyActor;
use crate::actors::messages::{BatchDone, Dispatched, PipelineEvent};
use crate::batch::{BatchResult, StepTimes};
use crate::fleet::{FinishedBatch, OutboundBatch, WorkerEvent};
use crate::telemetry;

impl ModuleActor {
    pub(super) fn on_pipeline_event(&mut self, event: PipelineEvent, context: &mut Context<Self>) {
        match event {
            PipelineEvent::Booked {
                booking,
                size,
                finish,
                path,
            } => {
                self.paths.insert(booking, path);
                let event = ModuleEvent::Booked {
                    booking,
                    size,
                    finish,
                };
                self.on_event(event, context);
            }
            PipelineEvent::PathLost { booking } => {
                self.paths.remove(&booking);
            }
            PipelineEvent::OutputsReceived {
                batch,
                outputs,
                device_time,
            } => self.on_outputs(batch, outputs, device_time, context),
        }
    }

    /// A batch goes along a path: its items are kept until its outputs are decoded.
    pub(super) fn dispatch(&mut self, batch: BatchId, slices: Vec<BatchSlice>) {
        let items = self.items_of(&slices);
        telemetry::record_waits(&self.setup.name, &slices);
        self.setup.tracer.on_batch_started(&self.setup.name, &slices);
        let running = RunningBatch {
            slices,
            items,
            is_launched: false,
            watch: None,
        };
        self.running.insert(batch, running);
    }

    /// Sends a dispatched batch along its path. Where the path was lost meanwhile, the batch fails as it would on the way.
    pub(super) fn set_out(&mut self, booking: BookingId, batch: BatchId, items: u32, refs: &ActorRefs) {
        let (Some((preprocessor, _)), Some(reservations)) = (&self.setup.prepost, &refs.reservations) else {
            return;
        };
        let module = self.setup.id;
        let key = BatchKey { module, batch };
        // First of all, so that nothing is heard of a batch that the reservations do not know.
        reservations.do_send(Dispatched { booking, key, items });
        let running = self.running.get(&batch);
        let sent = match self.paths.remove(&booking) {
            Some(path) => preprocessor.send(OutboundBatch {
                key,
                items: running.map_or(Vec::new(), |running| running.items.clone()),
                path,
            }),
            None => Err(BatchFailure::WorkerDown("its path was lost with it".to_owned())),
        };
        if let Err(failure) = sent {
            reservations.do_send(WorkerEvent(Event::Failed {
                key,
                stage: 0,
                failure,
            }));
        }
    }

    /// Has the outputs of a batch decoded, with the items that they are of.
    fn on_outputs(
        &mut self,
        batch: BatchId,
        outputs: Vec<Tensor>,
        device_time: Span,
        context: &mut Context<Self>,
    ) {
        let running = self.running.get_mut(&batch);
        invariant!(
            running.is_some(),
            Kind::Batches,
            "outputs of batch {} of module {} arrive, which is on no path",
            batch.0,
            self.setup.id.0
        );
        let (Some((_, postprocessor)), Some(running)) = (&self.setup.prepost, running) else {
            return;
        };
        let queued = postprocessor.send(FinishedBatch {
            module: self.setup.id,
            batch,
            items: std::mem::take(&mut running.items),
            outputs,
            device_time,
        });
        if !queued {
            context.notify(BatchDone(BatchResult {
                slot: SlotId(0),
                module: self.setup.id,
                batch,
                took: Span::ZERO,
                steps: StepTimes::default(),
                lost: false,
                result: Err("too many batches wait to be decoded".to_owned()),
            }));
        }
    }
}
