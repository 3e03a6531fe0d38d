//! Ends a run by time or on request, from a thread of its own: whatever else keeps the machine busy, sources are stopped when
//! the time is up, and requests in flight are dropped when the grace is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_flow::StopFlag;

use crate::clock::{Clock, duration};

/// Longest time between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The thread that ends a run.
pub(crate) struct RunTimer {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl RunTimer {
    /// Raises `stop` when `limit` is over, and calls `abandon` once when `grace` is over since it was raised.
    ///
    /// # Errors
    /// Where the machine gives no thread.
    pub(crate) fn start(
        clock: Clock,
        stop: StopFlag,
        limit: Option<Duration>,
        grace: Duration,
        abandon: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let ended: Arc<AtomicBool> = Arc::default();
        let over = Arc::clone(&ended);
        let builder = std::thread::Builder::new().name("weir-timer".to_owned());
        let thread = builder.spawn(move || {
            let began = clock.now();
            let mut stopped_at = None;
            while !over.load(Ordering::Relaxed) {
                let now = clock.now();
                let left = limit.map(|limit| limit.saturating_sub(duration(now.since(began))));
                if left == Some(Duration::ZERO) {
                    stop.raise();
                }
                let mut wait = left.map_or(POLL_INTERVAL, |left| left.min(POLL_INTERVAL));
                if stop.is_raised() {
                    let since = *stopped_at.get_or_insert(now);
                    let left = grace.saturating_sub(duration(now.since(since)));
                    if left.is_zero() {
                        abandon();
                        return;
                    }
                    wait = left.min(POLL_INTERVAL);
                }
                std::thread::park_timeout(wait);
            }
        })?;
        Ok(Self { ended, thread })
    }

    /// Ends the thread: the run is over.
    pub(crate) fn end(self) {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the timer of the run panicked");
        }
    }
}
