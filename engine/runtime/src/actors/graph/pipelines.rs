//! Batches of a module whose model is partitioned: their items are kept while they are on their paths, and decode what comes
//! out of these.

use weir_flow::Tensor;
use weir_policy::BatchSlice;
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{BatchId, SlotId, Span};

use super::module_site::{ModuleSite, RunningBatch};
use crate::batch::{BatchResult, StepTimes};
use crate::fleet::FinishedBatch;
use crate::telemetry;

impl ModuleSite {
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

    /// A batch is over. One that failed on its path has not come back as others do.
    pub(super) fn on_batch_over(&mut self, batch: BatchId) {
        let Some(RunningBatch { slices, .. }) = self.running.remove(&batch) else {
            return;
        };
        let took = Span::ZERO;
        telemetry::record_batch(&self.setup.name, took, &StepTimes::default());
        let tracer = &self.setup.tracer;
        tracer.on_batch_done(&self.setup.name, &slices, took, true);
    }

    /// Has the outputs of a batch decoded, with the items that they are of; gives its result where they cannot be.
    pub(super) fn on_outputs(
        &mut self,
        batch: BatchId,
        outputs: Vec<Tensor>,
        device_time: Span,
    ) -> Option<BatchResult> {
        let running = self.running.get_mut(&batch);
        invariant!(
            running.is_some(),
            Kind::Batches,
            "outputs of batch {} of module {} arrive, which is on no path",
            batch.0,
            self.setup.id.0
        );
        let (Some((_, postprocessor)), Some(running)) = (&self.setup.prepost, running) else {
            return None;
        };
        let queued = postprocessor.send(FinishedBatch {
            module: self.setup.id,
            batch,
            items: std::mem::take(&mut running.items),
            outputs,
            device_time,
        });
        (!queued).then(|| BatchResult {
            slot: SlotId(0),
            module: self.setup.id,
            batch,
            took: Span::ZERO,
            steps: StepTimes::default(),
            lost: false,
            result: Err("too many batches wait to be decoded".to_owned()),
        })
    }
}
