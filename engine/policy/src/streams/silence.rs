//! Silence detection of sources. Waiting time is measured by polls with a bounded gap, so that a stall of the process itself
//! does not count as silence of the camera.

use weir_types::{Span, Timestamp};

/// Time between two polls that counts at most. Readers poll every 100 ms while they wait.
const MAX_POLL_GAP: Span = Span::from_millis(500);

/// Timeout of opening a source, and then of its first data.
pub const OPEN_TIMEOUT: Span = Span::from_secs(10);

/// Timeout of data without a decodable frame: three key frame intervals of cameras, which are rarely above ten seconds.
pub const UNDECODED_TIMEOUT: Span = Span::from_secs(30);

/// Timeout of silence for a stream with this frame interval: ten frames, at least two seconds.
#[must_use]
pub fn silence_limit(interval: Span) -> Span {
    (interval * 10).max(Span::from_secs(2))
}

/// What a source is expected to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    /// To open.
    Opening,
    /// To deliver its first frame after opening.
    FirstFrame,
    /// To deliver the next frame, at this frame interval.
    Frame(Span),
}

/// Why a wait timed out, with the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// It did not open.
    NotOpened(Span),
    /// It sent no data.
    NoData(Span),
    /// It sent data without a decodable frame.
    Undecoded(Span),
}

/// A wait for a source, with timeouts.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilenceWatch {
    waits_for: Option<WaitFor>,
    /// Time since the wait began, and since the last data.
    waited: Span,
    without_data: Span,
    polled_at: Option<Timestamp>,
    silence: Option<Silence>,
}

impl SilenceWatch {
    /// Starts a wait.
    pub fn begin(&mut self, what: WaitFor, now: Timestamp) {
        *self = Self {
            waits_for: Some(what),
            polled_at: Some(now),
            ..Self::default()
        };
    }

    /// Ends the wait.
    pub fn end(&mut self) {
        self.waits_for = None;
    }

    /// Data arrived, with or without a frame.
    pub fn on_data(&mut self, now: Timestamp) {
        self.on_poll(now);
        self.without_data = Span::ZERO;
    }

    /// The wait is polled; returns whether the source is silent.
    pub fn on_poll(&mut self, now: Timestamp) -> bool {
        if let (Some(what), Some(polled_at)) = (self.waits_for, self.polled_at) {
            let passed = now.since(polled_at).min(MAX_POLL_GAP);
            self.polled_at = Some(now);
            self.waited += passed;
            self.without_data += passed;
            self.silence = self.silence.or_else(|| self.exceeded(what));
        }
        self.silence.is_some()
    }

    fn exceeded(&self, what: WaitFor) -> Option<Silence> {
        let (data, frame) = match what {
            WaitFor::Opening => {
                return (self.waited > OPEN_TIMEOUT).then_some(Silence::NotOpened(OPEN_TIMEOUT));
            }
            WaitFor::FirstFrame => (OPEN_TIMEOUT, UNDECODED_TIMEOUT),
            WaitFor::Frame(interval) => {
                let limit = silence_limit(interval);
                (limit, limit.max(UNDECODED_TIMEOUT))
            }
        };
        if self.without_data > data {
            Some(Silence::NoData(data))
        } else {
            (self.waited > frame).then_some(Silence::Undecoded(frame))
        }
    }

    /// Why the last wait timed out, if it did.
    #[must_use]
    pub fn silence(&self) -> Option<Silence> {
        self.silence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: WaitFor = WaitFor::Frame(Span::from_millis(40));

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(ms * 1_000)
    }

    /// Polls every 100 ms for 90 s, with data at some times; when and why the wait ended.
    fn check(what: WaitFor, data: impl Fn(u64) -> bool, ended: Option<(u64, Silence)>) {
        let mut watch = SilenceWatch::default();
        watch.begin(what, at(0));
        let found = (0..900).map(|look| look * 100).find(|ms| {
            if data(*ms) {
                watch.on_data(at(*ms));
            }
            watch.on_poll(at(*ms))
        });
        assert_eq!(found, ended.map(|(ms, _)| ms), "{what:?}");
        assert_eq!(watch.silence(), ended.map(|(_, silence)| silence), "{what:?}");
    }

    #[test]
    fn each_wait_has_its_limit() {
        let (two, ten, thirty) = (Span::from_secs(2), Span::from_secs(10), Span::from_secs(30));
        let never = |_| false;
        check(WaitFor::Opening, never, Some((10_100, Silence::NotOpened(ten))));
        check(WaitFor::FirstFrame, never, Some((10_100, Silence::NoData(ten))));
        check(FAST, never, Some((2_100, Silence::NoData(two))));
        let slow = WaitFor::Frame(Span::from_secs(4));
        check(slow, never, Some((40_100, Silence::NoData(Span::from_secs(40)))));
        let always = |ms| ms % 1_000 == 0;
        check(FAST, always, Some((30_100, Silence::Undecoded(thirty))));
        check(
            WaitFor::FirstFrame,
            always,
            Some((30_100, Silence::Undecoded(thirty))),
        );
        check(
            slow,
            always,
            Some((40_100, Silence::Undecoded(Span::from_secs(40)))),
        );
        check(
            FAST,
            |ms| ms % 1_000 == 0 && ms < 4_000,
            Some((5_100, Silence::NoData(two))),
        );
    }

    #[test]
    fn no_silence_without_a_wait() {
        let mut watch = SilenceWatch::default();
        assert!(!watch.on_poll(at(0)));
        watch.begin(FAST, at(0));
        watch.end();
        assert!(
            (0..1_000).all(|look| !watch.on_poll(at(look * 100))),
            "frames are handled"
        );
    }

    #[test]
    fn a_stalled_process_does_not_report_silence() {
        let mut watch = SilenceWatch::default();
        watch.begin(FAST, at(0));
        assert!(!watch.on_poll(at(60_000)));
        assert!(!watch.on_poll(at(60_100)));
    }
}
