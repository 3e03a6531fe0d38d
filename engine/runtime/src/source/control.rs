//! Requests to the source of a stream while the engine runs: pause, resume or end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_flow::StopFlag;
use weir_types::{Span, Timestamp};

/// Time between two looks of a paused source whether the run stops.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// See the module. Shared by the thread of the source and the control thread.
#[derive(Debug, Default)]
pub(crate) struct SourceControl {
    wanted: Mutex<Wanted>,
    changed: Condvar,
    /// The latency objective of its own in microseconds; 0: none.
    own_slo_us: AtomicU64,
    /// Time of the first of the frozen pictures, in microseconds and one more; 0: its picture is not frozen.
    frozen_since_us: AtomicU64,
    /// True while its frames come outside the times at which it is analysed.
    is_outside_schedule: AtomicBool,
}

#[derive(Debug, Default)]
struct Wanted {
    removed: bool,
    paused: bool,
    /// Whether it was paused since the source last looked: a pause that is over already closes the source, too, so that
    /// no pause depends on how soon the source notices it.
    interrupted: bool,
}

impl SourceControl {
    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the latency objective of the frames that come from now on; `None`: that of the graph.
    pub(crate) fn set_own_slo(&self, slo: Option<Span>) {
        let us = slo.map_or(0, |slo| slo.micros().max(1));
        self.own_slo_us.store(us, Ordering::Relaxed);
    }

    pub(super) fn own_slo(&self) -> Option<Span> {
        let us = self.own_slo_us.load(Ordering::Relaxed);
        (us > 0).then(|| Span::from_micros(us))
    }

    /// Publishes the time of the first of its pictures that all look the same; `None`: they do not.
    pub(super) fn set_frozen_since(&self, since: Option<Timestamp>) {
        let us = since.map_or(0, |since| since.micros().saturating_add(1));
        self.frozen_since_us.store(us, Ordering::Relaxed);
    }

    pub(crate) fn frozen_since(&self) -> Option<Timestamp> {
        let us = self.frozen_since_us.load(Ordering::Relaxed);
        us.checked_sub(1).map(Timestamp::from_micros)
    }

    /// Publishes whether its frames come outside the times at which it is analysed.
    pub(super) fn set_outside_schedule(&self, is_outside: bool) {
        self.is_outside_schedule.store(is_outside, Ordering::Relaxed);
    }

    pub(crate) fn is_outside_schedule(&self) -> bool {
        self.is_outside_schedule.load(Ordering::Relaxed)
    }

    pub(crate) fn pause(&self) {
        let mut wanted = self.lock();
        (wanted.paused, wanted.interrupted) = (true, true);
    }

    pub(crate) fn resume(&self) {
        self.lock().paused = false;
        self.changed.notify_all();
    }

    pub(crate) fn remove(&self) {
        self.lock().removed = true;
        self.changed.notify_all();
    }

    /// A flag for the source alone: raised when the run stops, and while the stream is paused or removed.
    pub(crate) fn stop_flag(self: &Arc<Self>, stop: &StopFlag) -> StopFlag {
        let control = Arc::clone(self);
        stop.or_until(move || {
            let wanted = control.lock();
            wanted.removed || wanted.interrupted
        })
    }

    /// Whether the source was interrupted by a pause.
    pub(super) fn is_interrupted(&self) -> bool {
        self.lock().interrupted
    }

    /// Waits while the stream is paused; whether it goes on after that: not where it is removed, or the run stops.
    pub(super) fn wait_for_resume(&self, stop: &StopFlag) -> bool {
        let mut wanted = self.lock();
        while wanted.paused && !wanted.removed && !stop.is_raised() {
            let woken = self.changed.wait_timeout(wanted, POLL_INTERVAL);
            wanted = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        if wanted.removed || stop.is_raised() {
            return false;
        }
        wanted.interrupted = false;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_interrupts_its_source_alone_even_where_it_is_over_before_that_is_noticed() {
        let (stop, control) = (StopFlag::default(), Arc::new(SourceControl::default()));
        let own = control.stop_flag(&stop);
        control.pause();
        control.resume();
        assert!(own.is_raised() && !stop.is_raised());
        assert!(control.wait_for_resume(&stop));
        assert!(!own.is_raised());
    }

    #[test]
    fn a_paused_source_waits_until_it_is_resumed_or_removed_or_the_run_stops() {
        let ends: [fn(&SourceControl, &StopFlag); 3] = [
            |control, _| control.resume(),
            |control, _| control.remove(),
            |_, stop| stop.raise(),
        ];
        let goes_on = ends.map(|end| {
            let (stop, control) = (StopFlag::default(), Arc::new(SourceControl::default()));
            control.pause();
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| control.wait_for_resume(&stop));
                end(&control, &stop);
                waiting.join().unwrap()
            })
        });
        assert_eq!(goes_on, [true, false, false]);
    }
}
