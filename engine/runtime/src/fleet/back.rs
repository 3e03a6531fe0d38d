//! The back of a model that is cut: a thread that turns what came out of the last partition into inferences.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_flow::{Inference, Item, PrePost, Tensor};
use weir_types::{BatchId, ModuleId, SlotId, Span};

use crate::clock::Clock;
use crate::worker::{Answer, Ran, StepTimes, words};

/// Batches that may wait to be decoded.
const WAITING_MOST: usize = 256;

/// A batch that is through.
pub(crate) struct Through {
    pub(crate) module: ModuleId,
    pub(crate) batch: BatchId,
    pub(crate) items: Vec<Item>,
    pub(crate) outputs: Vec<Tensor>,
    /// Time on shares, in all stages.
    pub(crate) ran: Span,
}

/// The other end of the thread.
pub(crate) struct Back {
    queue: Sender<Through>,
}

impl Back {
    pub(crate) fn start(
        name: &str,
        mut ends: Box<dyn PrePost>,
        clock: Clock,
        answer: Answer,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (queue, batches): (_, Receiver<Through>) = bounded(WAITING_MOST);
        let thread = std::thread::Builder::new()
            .name(format!("weir-back-{name}"))
            .spawn(move || {
                for through in batches {
                    let began = clock.now();
                    let result = decode(ends.as_mut(), &through);
                    let Through {
                        module,
                        batch,
                        items,
                        outputs,
                        ran,
                    } = through;
                    drop((items, outputs));
                    let steps = StepTimes {
                        prepared: Span::ZERO,
                        inferred: ran,
                        decoded: clock.now().since(began),
                    };
                    answer(Ran {
                        slot: SlotId(0),
                        module,
                        batch,
                        took: ran,
                        steps,
                        lost: false,
                        result,
                    });
                }
            })?;
        Ok((Self { queue }, thread))
    }

    /// Hands a batch over; false where too many wait.
    pub(crate) fn take(&self, through: Through) -> bool {
        self.queue.try_send(through).is_ok()
    }
}

fn decode(ends: &mut dyn PrePost, through: &Through) -> Result<Vec<Inference>, String> {
    let decoded = catch_unwind(AssertUnwindSafe(|| {
        ends.postprocess(&through.items, &through.outputs)
    }));
    match decoded {
        Ok(Ok(inferences)) if inferences.len() == through.items.len() => Ok(inferences),
        Ok(Ok(inferences)) => {
            let (came, items) = (inferences.len(), through.items.len());
            Err(format!("{came} inferences came back for {items} items"))
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(format!("decoding panicked: {}", words(panic.as_ref()))),
    }
}
