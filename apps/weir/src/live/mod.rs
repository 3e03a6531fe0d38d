//! Streams as they are now, for those who watch them in a browser: the camera's own video, with what was found in it. While
//! nobody watches a stream, nothing of it is copied.

mod channel;
mod fragments;
mod h264;
mod incidents;
mod notes;
mod sink;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use weir_flow::PacketSubscription;
use weir_runtime::{Control, StreamError};
use weir_serve::LiveQueue;

use channel::Channel;
use incidents::Incidents;

pub(crate) use sink::{LiveSink, NAME};

/// The streams that are watched.
#[derive(Default)]
pub(crate) struct Live {
    shown: Mutex<BTreeMap<String, Weak<Shown>>>,
    /// Those that watch.
    watched: AtomicUsize,
    pub(crate) incidents: Incidents,
}

/// A stream that is watched, as long as it is.
struct Shown {
    channel: Arc<Channel>,
    _packets: PacketSubscription,
}

/// One that watches a stream, until it is dropped.
pub(crate) struct Watching {
    live: Arc<Live>,
    shown: Arc<Shown>,
    queue: Arc<LiveQueue>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.shown.channel.leave(&self.queue);
        self.live.watched.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Live {
    /// Messages of the stream of that name enter the queue until what this gives is dropped.
    ///
    /// # Errors
    /// There is no such stream.
    pub(crate) fn watch(
        self: &Arc<Self>,
        control: &Control,
        name: &str,
        queue: Arc<LiveQueue>,
    ) -> Result<Watching, StreamError> {
        let known = self.lock().get(name).and_then(Weak::upgrade);
        let shown = match known {
            Some(shown) => shown,
            None => {
                let channel = Arc::<Channel>::default();
                let packets = control.observe_packets(name, Arc::clone(&channel) as _)?;
                let shown = Arc::new(Shown {
                    channel,
                    _packets: packets,
                });
                let mut all = self.lock();
                all.retain(|_, shown| shown.strong_count() > 0);
                // Another one may have come first.
                let first = all.get(name).and_then(Weak::upgrade);
                first.unwrap_or_else(|| {
                    all.insert(name.to_owned(), Arc::downgrade(&shown));
                    shown
                })
            }
        };
        self.watched.fetch_add(1, Ordering::Relaxed);
        shown.channel.join(&queue);
        Ok(Watching {
            live: Arc::clone(self),
            shown,
            queue,
        })
    }

    /// Where the stream of that name is watched.
    fn shown(&self, name: &str) -> Option<Arc<Shown>> {
        if self.watched.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.lock().get(name).and_then(Weak::upgrade)
    }

    fn remove(&self, name: &str) {
        let removed = self.lock().remove(name);
        if let Some(shown) = removed.as_ref().and_then(Weak::upgrade) {
            shown.channel.close();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Weak<Shown>>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
