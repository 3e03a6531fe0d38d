//! The front of a model that is cut: a thread that turns the items of a batch into its input and sends it on its way.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_flow::{Ends, Item};
use weir_partition::wire::{BatchFailure, BatchKey};
use weir_partition::{Client, Event, Stage};

use super::Post;
use crate::worker::words;

/// Batches that may wait to be prepared; what is booked comes at the pace of the workers.
const WAITING_MOST: usize = 256;

/// A batch that is to go.
pub(crate) struct Going {
    pub(crate) key: BatchKey,
    pub(crate) items: Vec<Item>,
    pub(crate) way: Vec<Stage>,
}

/// The other end of the thread.
pub(crate) struct Front {
    queue: Sender<Going>,
}

impl Front {
    pub(crate) fn start(
        name: &str,
        mut ends: Box<dyn Ends>,
        client: Arc<Client>,
        post: Post,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (queue, batches): (_, Receiver<Going>) = bounded(WAITING_MOST);
        let thread = std::thread::Builder::new()
            .name(format!("weir-front-{name}"))
            .spawn(move || {
                for Going { key, items, way } in batches {
                    if let Err(failure) = send(ends.as_mut(), &client, key, &items, &way) {
                        drop(items);
                        post.tell(Event::Failed {
                            key,
                            stage: 0,
                            failure,
                        });
                    }
                }
            })?;
        Ok((Self { queue }, thread))
    }

    /// Sends a batch; gives it back where too many wait.
    pub(crate) fn send(&self, going: Going) -> Result<(), BatchFailure> {
        self.queue.try_send(going).map_err(|_| BatchFailure::QueueFull)
    }
}

fn send(
    ends: &mut dyn Ends,
    client: &Client,
    key: BatchKey,
    items: &[Item],
    way: &[Stage],
) -> Result<(), BatchFailure> {
    let prepared = catch_unwind(AssertUnwindSafe(|| ends.prepare(items)));
    let tensors = match prepared {
        Ok(Ok(tensors)) => tensors,
        Ok(Err(error)) => return Err(BatchFailure::Session(error.to_string())),
        Err(panic) => return Err(BatchFailure::Panicked(words(panic.as_ref()))),
    };
    let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
    let taken = client.run(key, count, way, tensors);
    // Whoever is not up was lost just now; the batch has not been anywhere.
    taken.map_err(|error| BatchFailure::Unreachable(error.to_string()))
}
