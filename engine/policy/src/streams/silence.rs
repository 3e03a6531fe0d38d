//! When a source that is waited for counts as silent. The wait is measured by the looks at it: a process that stood still
//! itself, or had no processor, has not waited for its camera.

use weir_types::{Span, Timestamp};

/// What counts of the time between two looks. Readers look every 100 ms while they wait.
const MAX_POLL_GAP: Span = Span::from_millis(500);

/// How long a source may take until it is open, and from then on until its first data.
pub const OPEN_TIMEOUT: Span = Span::from_secs(10);

/// How long data may come of which no frame can be decoded: key frames of cameras are rarely further apart than ten
/// seconds, and after three of them it is not the next one that helps.
pub const UNDECODED_TIMEOUT: Span = Span::from_secs(30);

/// How long a stream whose frames are `interval` apart may send nothing: ten frames, two seconds at least.
#[must_use]
pub fn silence_limit(interval: Span) -> Span {
    (interval * 10).max(Span::from_secs(2))
}

/// What a source is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    /// To be open.
    Opening,
    /// The first frame since.
    FirstFrame,
    /// The next one, with the time that is usual between them.
    Frame(Span),
}

/// Why a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// It did not open within so long.
    NotOpened(Span),
    /// It sent nothing for so long.
    NoData(Span),
    /// It sent data, and no frame could be decoded for so long.
    Undecoded(Span),
}

/// A wait for a source, with limits.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilenceWatch {
    waits_for: Option<WaitFor>,
    /// Since the wait began, and since data came.
    waited: Span,
    without_data: Span,
    polled_at: Option<Timestamp>,
    silence: Option<Silence>,
}

impl SilenceWatch {
    /// A wait begins.
    pub fn begin(&mut self, what: WaitFor, now: Timestamp) {
        *self = Self {
            waits_for: Some(what),
            polled_at: Some(now),
            ..Self::default()
        };
    }

    /// The wait is over.
    pub fn end(&mut self) {
        self.waits_for = None;
    }

    /// Data came, of which there may be a frame or none.
    pub fn on_data(&mut self, now: Timestamp) {
        self.on_poll(now);
        self.without_data = Span::ZERO;
    }

    /// Somebody looks; says whether the source is silent.
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

    /// Why the last wait was ended, where it was.
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

    /// Looks each 100 ms for a minute and a half, with data at times; when and why the wait ended.
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
