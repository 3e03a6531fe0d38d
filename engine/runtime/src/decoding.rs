//! Limits on the processor time of decoding: only a bounded number of sources decode at once, in turns, and
//! their threads run at a lower priority. This file also detects that decoding alone needs more than the
//! machine has.
//!
//! Decoding a frame takes a millisecond or ten, and a hundred streams have a hundred threads for it; the thread that
//! carries control and those that run batches would have one turn in fifty. With as many decoding at once as there are
//! cores, and those at a lower priority, control has its turn at once and batches most of the rest.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use weir_flow::StopFlag;
use weir_policy::{DecodeLoad, DecodingReport};
use weir_types::{Span, StreamId, Timestamp};

/// Time between two looks of a source that waits for its turn whether the run stops: thousands that look would take a core
/// themselves, so the interval grows by itself with every [`WAITERS_PER_INTERVAL`] that wait, up to
/// [`MAX_POLL_INTERVAL`].
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const WAITERS_PER_INTERVAL: usize = 64;
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Recordings that are opened at once: finding out what is in a file means to decode some of it. Enough to hide the time
/// that a disk takes.
const MAX_OPENING: usize = 16;

/// Added to the niceness of the thread of a source. At 5 it has a third of a worker's share of a contended core:
/// enough to feed eleven streams of 640 by 360 on each core whose worker is never idle, and control is never late.
const NICENESS: i32 = 5;

/// Lowers the priority of the calling thread. That takes no privilege; where it is refused all the same, the bound alone
/// has to do.
pub(crate) fn lower_priority() {
    // Elsewhere niceness is the whole process's.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::debug!("a source's thread keeps its priority: {error}");
    }
}

/// Turns at decoding, first come, first served.
#[derive(Debug)]
pub(crate) struct DecodePermits {
    turns: Mutex<Turns>,
}

#[derive(Debug)]
struct Turns {
    free: usize,
    waiting: VecDeque<Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    thread: Thread,
    granted: AtomicBool,
}

/// A turn; passes to the next in the queue when it is dropped.
#[derive(Debug)]
pub(crate) struct DecodePermit<'a>(&'a DecodePermits);

impl DecodePermits {
    /// `count` sources decode at once, one at least.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            turns: Mutex::new(Turns {
                free: count.max(1),
                waiting: VecDeque::new(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn; `None` when the run stops meanwhile.
    pub(crate) fn acquire(&self, stop: &StopFlag) -> Option<DecodePermit<'_>> {
        let (waiter, interval) = {
            let mut turns = self.lock();
            if turns.free > 0 {
                turns.free -= 1;
                return Some(DecodePermit(self));
            }
            let waiter = Arc::new(Waiter {
                thread: std::thread::current(),
                granted: AtomicBool::new(false),
            });
            turns.waiting.push_back(Arc::clone(&waiter));
            let share = u32::try_from(turns.waiting.len() / WAITERS_PER_INTERVAL).unwrap_or(u32::MAX);
            let interval = POLL_INTERVAL.saturating_mul(share.saturating_add(1));
            (waiter, interval.min(MAX_POLL_INTERVAL))
        };
        while !waiter.granted.load(Ordering::Acquire) {
            if stop.is_raised() {
                let mut turns = self.lock();
                turns.waiting.retain(|other| !Arc::ptr_eq(other, &waiter));
                drop(turns);
                // Granted just now: then it is returned by dropping it.
                return if waiter.granted.load(Ordering::Acquire) {
                    Some(DecodePermit(self))
                } else {
                    None
                };
            }
            std::thread::park_timeout(interval);
        }
        Some(DecodePermit(self))
    }
}

impl Drop for DecodePermit<'_> {
    fn drop(&mut self) {
        let mut turns = self.0.lock();
        match turns.waiting.pop_front() {
            Some(next) => {
                next.granted.store(true, Ordering::Release);
                next.thread.unpark();
            }
            None => turns.free += 1,
        }
    }
}

/// Decoding of all streams of a run.
#[derive(Debug)]
pub(crate) struct Decoding {
    pub(crate) permits: DecodePermits,
    /// Turns at opening recordings.
    pub(crate) openings: DecodePermits,
    load: Mutex<DecodeLoad>,
}

impl Decoding {
    /// With as many turns as this machine has cores.
    pub(crate) fn for_machine() -> Arc<Self> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Arc::new(Self {
            permits: DecodePermits::new(cores),
            openings: DecodePermits::new(MAX_OPENING),
            load: Mutex::new(DecodeLoad::new(u32::try_from(cores).unwrap_or(u32::MAX))),
        })
    }

    fn load(&self) -> MutexGuard<'_, DecodeLoad> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A frame was decoded; as [`DecodeLoad::on_frame`].
    pub(crate) fn on_frame(
        &self,
        stream: StreamId,
        processor: Span,
        interval: Span,
        lag: Span,
        now: Timestamp,
    ) {
        let saturated = self.load().on_frame(stream, processor, interval, lag, now);
        if let Some(DecodingReport { needed_cores, cores }) = saturated {
            tracing::error!(
                "decoding alone needs more than this machine has: {needed_cores:.1} of {cores} cores; \
                 frames are late whatever the policy does: take fewer, smaller or slower streams"
            );
        }
    }

    pub(crate) fn on_ended(&self, stream: StreamId) {
        self.load().on_ended(stream);
    }

    pub(crate) fn report(&self) -> Option<DecodingReport> {
        self.load().saturation()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn no_more_sources_than_turns_decode_at_once_and_each_gets_its_turns() {
        let permits = DecodePermits::new(2);
        let (busy, most, turns) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let stop = StopFlag::default();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let permit = permits.acquire(&stop).unwrap();
                        most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        busy.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                        turns.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 2);
        assert_eq!(turns.load(Ordering::SeqCst), 16 * 200);
        assert_eq!(permits.lock().free, 2);
    }

    #[test]
    fn a_waiting_source_stops_when_asked_and_loses_no_turn() {
        let permits = DecodePermits::new(1);
        let stop = StopFlag::default();
        let held = permits.acquire(&stop).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| permits.acquire(&stop).is_none());
            stop.raise();
            assert!(waiting.join().unwrap());
        });
        assert!(permits.lock().waiting.is_empty());
        drop(held);
        assert_eq!(permits.lock().free, 1);
    }
}
