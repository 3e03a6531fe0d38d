//! Interruption of blocking calls of a source: they end when the run stops or the source is silent for too
//! long. Decode turns also pass through here, since the packets that come with them show whether pictures
//! arrive.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_flow::{DecodeLimit, PacketKind, StopFlag};
use weir_policy::{Silence, SilenceWatch, WaitFor};

use crate::clock::Clock;
use crate::decoding::Decoding;

/// The silence watch of one source, checked from within its blocking calls.
#[derive(Debug, Clone)]
pub(super) struct SharedSilenceWatch {
    watch: Arc<Mutex<SilenceWatch>>,
    clock: Clock,
}

impl SharedSilenceWatch {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            watch: Arc::default(),
            clock,
        }
    }

    fn lock(&self) -> MutexGuard<'_, SilenceWatch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A flag that is raised when the run stops or the source is silent for too long.
    pub(super) fn stop_flag(&self, stop: &StopFlag) -> StopFlag {
        let watch = self.clone();
        stop.or_until(move || watch.lock().on_poll(watch.clock.now()))
    }

    /// Runs `call`, which may block for as long as `limit` says. `None`: without a limit.
    pub(super) fn run_within<T>(&self, limit: Option<WaitFor>, call: impl FnOnce() -> T) -> T {
        match limit {
            Some(limit) => self.lock().begin(limit, self.clock.now()),
            None => *self.lock() = SilenceWatch::default(),
        }
        let result = call();
        self.lock().end();
        result
    }

    /// A source is open.
    pub(super) fn on_open(&self, comes_in_segments: bool) {
        self.lock().on_open(comes_in_segments);
    }

    /// A picture was decoded whole.
    pub(super) fn on_decoded(&self) {
        self.lock().on_decoded();
    }

    /// The silence that ended the last call, where one did.
    pub(super) fn silence(&self) -> Option<Silence> {
        self.lock().silence()
    }
}

/// Why a stream is down, for the log and the report.
pub(super) fn silence_reason(silence: Silence) -> String {
    match silence {
        Silence::NotOpened(limit) => format!("it did not open within {limit}"),
        Silence::NoData(limit) => format!("silent: no data for {limit}"),
        Silence::NoPictures(limit) => {
            format!("it sends other data, such as sound, but no pictures for {limit}")
        }
        Silence::Undecoded(limit) => format!("no picture could be decoded whole for {limit}"),
        Silence::NotClosed(limit) => format!("it did not close within {limit}"),
    }
}

/// The turns of one source at decoding.
pub(super) struct DecodeTurns {
    pub(super) decoding: Arc<Decoding>,
    pub(super) silence_watch: SharedSilenceWatch,
    pub(super) stop: StopFlag,
}

impl DecodeLimit for DecodeTurns {
    fn decode(&self, work: &mut dyn FnMut()) {
        // A source that stops decodes this last frame without a turn: it must return what it holds.
        let _permit = self.decoding.permits.acquire(&self.stop);
        work();
    }

    fn on_packet(&self, packet: PacketKind) {
        let now = self.silence_watch.clock.now();
        let mut watch = self.silence_watch.lock();
        match packet {
            PacketKind::Picture { key } => watch.on_picture(key, now),
            PacketKind::Other => watch.on_data(now),
        }
    }

    fn on_left_out(&self) {
        let now = self.silence_watch.clock.now();
        self.silence_watch.lock().on_left_out(now);
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::Cause;
    use weir_types::Span;

    use super::*;

    #[test]
    fn each_silence_has_a_code_with_its_duration() {
        let limit = Span::from_secs(10);
        for (silence, code) in [
            (Silence::NotOpened(limit), "not-opened"),
            (Silence::NoData(limit), "no-data"),
            (Silence::NoPictures(limit), "no-pictures"),
            (Silence::Undecoded(limit), "undecoded"),
            (Silence::NotClosed(limit), "not-closed"),
        ] {
            let cause = Cause::of_source(&silence_reason(silence));
            let found = cause.map(|cause| (cause.code, cause.values));
            assert_eq!(found, Some((code, [("time", "10s".to_owned())].into())));
        }
    }
}
