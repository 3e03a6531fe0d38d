//! Before the first partition of a model: a thread that turns the items of a batch into its input and sends it to the
//! first worker.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_flow::{Item, PrePost};
use weir_partition::wire::{BatchFailure, BatchKey};
use weir_partition::{Client, Event, Stage};

use super::event_relay::EventRelay;
use crate::panic_message::panic_message;
use crate::processor_time::{ProcessorTimes, ThreadKind};

/// Batches that may wait to be prepared; booked batches arrive at the pace of the workers.
const MAX_WAITING: usize = 256;

/// A batch to be sent along its path.
pub(crate) struct OutboundBatch {
    pub(crate) key: BatchKey,
    pub(crate) items: Vec<Item>,
    pub(crate) path: Vec<Stage>,
}

/// A handle of the thread.
pub(crate) struct Preprocessor {
    queue: Sender<OutboundBatch>,
}

impl Preprocessor {
    pub(crate) fn start(
        name: &str,
        mut prepost: Box<dyn PrePost>,
        client: Arc<Client>,
        relay: EventRelay,
        processor: &Arc<ProcessorTimes>,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (queue, batches): (_, Receiver<OutboundBatch>) = bounded(MAX_WAITING);
        let processor = Arc::clone(processor);
        let thread = std::thread::Builder::new()
            .name(format!("weir-preprocess-{name}"))
            .spawn(move || {
                let mut timer = processor.timer(ThreadKind::Workers);
                for OutboundBatch { key, items, path } in batches {
                    if let Err(failure) = send(prepost.as_mut(), &client, key, &items, &path) {
                        drop(items);
                        relay.publish(Event::Failed {
                            key,
                            stage: 0,
                            failure,
                        });
                    }
                    timer.update();
                }
            })?;
        Ok((Self { queue }, thread))
    }

    /// Queues a batch.
    ///
    /// # Errors
    /// [`BatchFailure::QueueFull`] where too many wait.
    pub(crate) fn send(&self, batch: OutboundBatch) -> Result<(), BatchFailure> {
        self.queue.try_send(batch).map_err(|_| BatchFailure::QueueFull)
    }
}

fn send(
    prepost: &mut dyn PrePost,
    client: &Client,
    key: BatchKey,
    items: &[Item],
    path: &[Stage],
) -> Result<(), BatchFailure> {
    let prepared = catch_unwind(AssertUnwindSafe(|| prepost.preprocess(items)));
    let tensors = match prepared {
        Ok(Ok(tensors)) => tensors,
        Ok(Err(error)) => return Err(BatchFailure::Session(error.to_string())),
        Err(panic) => return Err(BatchFailure::Panicked(panic_message(panic.as_ref()))),
    };
    let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
    let taken = client.run(key, count, path, tensors);
    // A worker that is not up was lost just now; nothing of the batch has run.
    taken.map_err(|error| BatchFailure::Unreachable(error.to_string()))
}
