//! What a source is given to look at while it waits: the run's stop, and the limit of its own silence. And its turns at
//! decoding, which are also the sign that data comes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_flow::{DecodeLimit, StopFlag};
use weir_policy::{Silence, SilenceWatch, WaitFor};

use crate::clock::Clock;
use crate::decoding::Decoding;

/// The silence of one source, looked at from within its blocking calls.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    silence: Arc<Mutex<SilenceWatch>>,
    clock: Clock,
}

impl Watch {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            silence: Arc::default(),
            clock,
        }
    }

    fn lock(&self) -> MutexGuard<'_, SilenceWatch> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A flag that ends a source's wait when the run stops or the source is silent.
    pub(super) fn flag(&self, stop: &StopFlag) -> StopFlag {
        let watch = self.clone();
        stop.or_until(move || watch.lock().on_poll(watch.clock.now()))
    }

    /// Carries out `wait`, in which the source may take as long as `what` says. `None`: as long as it likes.
    pub(super) fn within<T>(&self, what: Option<WaitFor>, wait: impl FnOnce() -> T) -> T {
        match what {
            Some(what) => self.lock().begin(what, self.clock.now()),
            None => *self.lock() = SilenceWatch::default(),
        }
        let result = wait();
        self.lock().end();
        result
    }

    /// Why the last wait was ended by silence, where it was.
    pub(super) fn silence(&self) -> Option<Silence> {
        self.lock().silence()
    }
}

/// How silence is reported.
pub(super) fn reason(silence: Silence) -> String {
    match silence {
        Silence::NotOpened(limit) => format!("it did not open within {limit}"),
        Silence::NoData(limit) => format!("silent: nothing came for {limit}"),
        Silence::Undecoded(limit) => format!("no picture could be decoded for {limit}"),
    }
}

/// The turns of one source at decoding.
pub(super) struct DecodeTurns {
    pub(super) decoding: Arc<Decoding>,
    pub(super) watch: Watch,
    pub(super) stop: StopFlag,
}

impl DecodeLimit for DecodeTurns {
    fn decode(&self, work: &mut dyn FnMut()) {
        self.watch.lock().on_data(self.watch.clock.now());
        // Who is to stop decodes this last frame without a turn: it must give back what it holds.
        let _permit = self.decoding.permits.take(&self.stop);
        work();
    }
}
