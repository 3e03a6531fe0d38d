//! After the last partition of a model: a thread that decodes its outputs into inferences.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_flow::{Inference, Item, PrePost, Tensor};
use weir_types::{BatchId, ModuleId, SlotId, Span};

use crate::batch::{BatchDoneSender, BatchResult, StepTimes};
use crate::clock::Clock;
use crate::panic_message::panic_message;
use crate::processor_time::{ProcessorTimes, ThreadKind};

/// Batches that may wait to be decoded.
const MAX_WAITING: usize = 256;

/// A batch that left the last partition.
pub(crate) struct FinishedBatch {
    pub(crate) module: ModuleId,
    pub(crate) batch: BatchId,
    pub(crate) items: Vec<Item>,
    pub(crate) outputs: Vec<Tensor>,
    /// On the shares of all stages.
    pub(crate) device_time: Span,
}

/// A handle of the thread.
pub(crate) struct Postprocessor {
    queue: Sender<FinishedBatch>,
}

impl Postprocessor {
    pub(crate) fn start(
        name: &str,
        mut prepost: Box<dyn PrePost>,
        clock: Clock,
        on_done: BatchDoneSender,
        processor: &Arc<ProcessorTimes>,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (queue, batches): (_, Receiver<FinishedBatch>) = bounded(MAX_WAITING);
        let processor = Arc::clone(processor);
        let thread = std::thread::Builder::new()
            .name(format!("weir-postprocess-{name}"))
            .spawn(move || {
                let mut timer = processor.timer(ThreadKind::Workers);
                for finished in batches {
                    let began = clock.now();
                    let result = decode(prepost.as_mut(), &finished);
                    let FinishedBatch {
                        module,
                        batch,
                        items,
                        outputs,
                        device_time,
                    } = finished;
                    drop((items, outputs));
                    let steps = StepTimes {
                        prepared: Span::ZERO,
                        inferred: device_time,
                        decoded: clock.now().since(began),
                    };
                    on_done(BatchResult {
                        slot: SlotId(0),
                        module,
                        batch,
                        took: device_time,
                        steps,
                        lost: false,
                        result,
                    });
                    timer.update();
                }
            })?;
        Ok((Self { queue }, thread))
    }

    /// Queues a batch; `false` where too many wait.
    pub(crate) fn send(&self, finished: FinishedBatch) -> bool {
        self.queue.try_send(finished).is_ok()
    }
}

fn decode(prepost: &mut dyn PrePost, finished: &FinishedBatch) -> Result<Vec<Inference>, String> {
    let decoded = catch_unwind(AssertUnwindSafe(|| {
        prepost.postprocess(&finished.items, &finished.outputs)
    }));
    match decoded {
        Ok(Ok(inferences)) if inferences.len() == finished.items.len() => Ok(inferences),
        Ok(Ok(inferences)) => {
            let (count, items) = (inferences.len(), finished.items.len());
            Err(format!("{count} inferences for {items} items"))
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(format!("decoding panicked: {}", panic_message(panic.as_ref()))),
    }
}
