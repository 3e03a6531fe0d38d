//! Live view of streams for browsers: the camera's own video with the detected objects; for browsers that do
//! not play the video, pictures of its frames. A stream without watchers costs no copies.

mod channel;
mod drops;
mod encoders;
mod fragments;
#[cfg(test)]
mod fuzz;
mod h264;
mod h265;
mod incidents;
mod notes;
mod sink;
mod sound;
mod stills;
mod totals;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use weir_flow::PacketSubscription;
use weir_runtime::{Control, StreamError};
use weir_serve::{LiveQueue, LiveView};

use channel::Channel;
use drops::Drops;
use encoders::Encoders;
use incidents::Incidents;
use stills::Stills;

pub(crate) use incidents::{Bins, Filter, Page, PinRefused};
pub(crate) use sink::{LiveSink, NAME};
pub(crate) use stills::NoStill;
pub(crate) use totals::{Rule, RuleTotals, Totals};

/// Streams that are watched, by name: without sound, and with it.
type Streams = BTreeMap<String, [Weak<Shown>; 2]>;

/// The streams that are watched.
#[derive(Default)]
pub(crate) struct Live {
    shown: Mutex<Streams>,
    /// Those that watch.
    watched: AtomicUsize,
    pub(crate) incidents: Incidents,
    pub(crate) drops: Drops,
    pub(crate) stills: Stills,
    encoders: Encoders,
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
        view: LiveView,
        queue: Arc<LiveQueue>,
    ) -> Result<Watching, StreamError> {
        let with_sound = view == LiveView::Sound;
        let place = usize::from(with_sound);
        let known = self.lock().get(name).and_then(|shown| shown[place].upgrade());
        let shown = match known {
            Some(shown) => shown,
            None => {
                let channel = Arc::new(Channel::new(with_sound));
                let packets = control.observe_packets(name, Arc::clone(&channel) as _)?;
                let shown = Arc::new(Shown {
                    channel,
                    _packets: packets,
                });
                let mut all = self.lock();
                all.retain(|_, shown| shown.iter().any(|shown| shown.strong_count() > 0));
                let known = &mut all.entry(name.to_owned()).or_default()[place];
                // Another one may have come first.
                known.upgrade().unwrap_or_else(|| {
                    *known = Arc::downgrade(&shown);
                    shown
                })
            }
        };
        self.watched.fetch_add(1, Ordering::Relaxed);
        shown.channel.join(&queue, view == LiveView::Pictures);
        Ok(Watching {
            live: Arc::clone(self),
            shown,
            queue,
        })
    }

    /// The stream with this name where it is watched, without sound and with it.
    fn shown(&self, name: &str) -> impl Iterator<Item = Arc<Shown>> {
        let shown = if self.watched.load(Ordering::Relaxed) == 0 {
            None
        } else {
            let all = self.lock();
            all.get(name).map(|shown| shown.each_ref().map(Weak::upgrade))
        };
        shown.into_iter().flatten().flatten()
    }

    fn remove(&self, name: &str) {
        self.drops.remove(name);
        self.incidents.remove_stream(name);
        let removed = self.lock().remove(name);
        for shown in removed.iter().flatten().filter_map(Weak::upgrade) {
            shown.channel.close();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
