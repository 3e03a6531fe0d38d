//! Detects silence of a camera. Only pictures count: a camera that sends sound, or data of which no picture
//! can be decoded, is silent. Waiting time is measured by polls with a bounded gap, so that a stall of the
//! process itself does not count as silence of the camera.

use weir_types::{Span, Timestamp};

/// Time between two polls that counts at most. Readers poll every 100 ms while they wait.
const MAX_POLL_GAP: Span = Span::from_millis(500);

/// Timeout of opening a source, and then of its first picture.
pub const OPEN_TIMEOUT: Span = Span::from_secs(10);

/// Timeout of closing a source: the server of a camera that is frozen does not answer.
pub const CLOSE_TIMEOUT: Span = Span::from_secs(2);

/// Groups of pictures without one that was decoded whole, after which a source counts as silent: it is not a lost packet.
const UNDECODED_GROUPS: u64 = 3;

/// The timeout that this makes while the length of a group is not known: groups of cameras are rarely above ten seconds.
pub const UNDECODED_TIMEOUT: Span = Span::from_secs(30);

/// Timeout of silence for a stream with this frame interval: ten frames, at least two seconds.
#[must_use]
pub fn silence_limit(interval: Span) -> Span {
    (interval * 10).max(Span::from_secs(2))
}

/// Least timeout of silence for a stream that comes in segments: those of most are shorter.
const SEGMENTS_TIMEOUT: Span = Span::from_secs(10);

/// A source may bring nothing for so many times what it brought in one go, where it comes in segments: lists of segments are
/// looked at again at times that the segments do not keep to.
const SEGMENTS: u64 = 3;

/// Media time that a source brings in one go at most.
const MAX_AHEAD: Span = Span::from_secs(60);

/// A pause between two pictures after which the next go begins.
const GO_PAUSE: Span = Span::from_millis(500);

/// Goes that are remembered.
const RECENT_GOES: usize = 3;

/// Next step that is expected of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    /// The source opens, within [`OPEN_TIMEOUT`].
    Opening,
    /// It delivers its first frame after opening.
    FirstFrame,
    /// It delivers the next of its first frames, at this stated frame interval; a slow camera states a higher
    /// rate.
    EarlyFrame(Span),
    /// It delivers the next frame, at this measured frame interval.
    Frame(Span),
    /// The source closes, within [`CLOSE_TIMEOUT`].
    Closing,
}

/// Reason for which a wait timed out, with the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// It did not open.
    NotOpened(Span),
    /// It sent no data.
    NoData(Span),
    /// It sent data, such as sound, but no pictures.
    NoPictures(Span),
    /// It sent pictures of which none could be decoded whole.
    Undecoded(Span),
    /// It did not close.
    NotClosed(Span),
}

/// A wait for a source, with timeouts.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilenceWatch {
    waits_for: Option<WaitFor>,
    /// Time since the wait began, and, of data and of coded pictures, since the last.
    waited: Span,
    without_data: Span,
    without_picture: Span,
    /// Time of all waits since the last picture that was decoded whole, without the time before pictures that were left out.
    undecoded: Span,
    /// The same as of the arrival of the last two coded pictures.
    undecoded_at: [Span; 2],
    polled_at: Option<Timestamp>,
    silence: Option<Silence>,
    group: GroupLength,
    comes_in_segments: bool,
    arrival: Arrival,
}

/// Arrival of coded pictures: evenly, or many in one go.
#[derive(Debug, Clone, Copy, Default)]
struct Arrival {
    last: Option<Timestamp>,
    /// Media time that has arrived ahead of the clock.
    ahead: Span,
    /// The most of it in this go, and in those before.
    goes: [Span; RECENT_GOES],
}

impl Arrival {
    fn on_picture(&mut self, interval: Span, now: Timestamp) {
        let passed = self.last.replace(now).map_or(Span::ZERO, |last| now.since(last));
        if passed >= GO_PAUSE {
            self.goes.rotate_right(1);
            self.goes[0] = Span::ZERO;
        }
        self.ahead = (self.ahead.saturating_sub(passed) + interval).min(MAX_AHEAD);
        self.goes[0] = self.goes[0].max(self.ahead);
    }

    /// The most of recent goes.
    fn go(&self) -> Span {
        self.goes.into_iter().max().unwrap_or(Span::ZERO)
    }
}

/// Coded pictures from one key picture to the next.
#[derive(Debug, Clone, Copy, Default)]
struct GroupLength {
    /// Pictures since the last key picture.
    since_key: Option<u64>,
    /// Pictures of the last whole group.
    last: Option<u64>,
}

impl SilenceWatch {
    /// Starts a wait. Opening forgets what was known of the stream.
    pub fn begin(&mut self, what: WaitFor, now: Timestamp) {
        let kept = match what {
            WaitFor::Opening => Self::default(),
            WaitFor::FirstFrame | WaitFor::EarlyFrame(_) | WaitFor::Frame(_) | WaitFor::Closing => *self,
        };
        *self = Self {
            waits_for: Some(what),
            polled_at: Some(now),
            undecoded: kept.undecoded,
            undecoded_at: kept.undecoded_at,
            group: kept.group,
            comes_in_segments: kept.comes_in_segments,
            arrival: kept.arrival,
            ..Self::default()
        };
    }

    /// Says of an open source whether it comes in segments.
    pub fn on_open(&mut self, comes_in_segments: bool) {
        self.comes_in_segments = comes_in_segments;
    }

    /// Ends the wait.
    pub fn end(&mut self) {
        self.waits_for = None;
    }

    /// Data without a picture arrived.
    pub fn on_data(&mut self, now: Timestamp) {
        self.on_poll(now);
        self.without_data = Span::ZERO;
    }

    /// A coded picture arrived; `key`: it begins a group of pictures.
    pub fn on_picture(&mut self, key: bool, now: Timestamp) {
        self.on_data(now);
        self.without_picture = Span::ZERO;
        self.undecoded_at = [self.undecoded_at[1], self.undecoded];
        if let Some(WaitFor::EarlyFrame(interval) | WaitFor::Frame(interval)) = self.waits_for {
            self.arrival.on_picture(interval, now);
        }
        let GroupLength { since_key, last } = &mut self.group;
        if key {
            *last = since_key.or(*last);
            *since_key = Some(1);
        } else if let Some(pictures) = since_key {
            *pictures = pictures.saturating_add(1);
        }
    }

    /// The coded picture that arrived last is not given to the decoder: the time before it tells nothing of whether pictures can
    /// be decoded.
    pub fn on_left_out(&mut self, now: Timestamp) {
        self.on_data(now);
        // Until the rate is known, the timeouts are for all pictures.
        if let Some(WaitFor::Frame(_)) = self.waits_for {
            self.undecoded = self.undecoded_at[0];
            self.undecoded_at[1] = self.undecoded;
        }
    }

    /// A picture was decoded whole.
    pub fn on_decoded(&mut self) {
        self.undecoded = Span::ZERO;
        self.undecoded_at[1] = Span::ZERO;
    }

    /// The wait is polled; returns whether the source is silent.
    pub fn on_poll(&mut self, now: Timestamp) -> bool {
        if let (Some(what), Some(polled_at)) = (self.waits_for, self.polled_at) {
            let passed = now.since(polled_at).min(MAX_POLL_GAP);
            self.polled_at = Some(now);
            self.waited += passed;
            self.without_data += passed;
            self.without_picture += passed;
            self.undecoded += passed;
            self.silence = self.silence.or_else(|| self.exceeded(what));
        }
        self.silence.is_some()
    }

    fn exceeded(&self, what: WaitFor) -> Option<Silence> {
        let (picture, decoded) = match what {
            WaitFor::Opening => {
                return (self.waited > OPEN_TIMEOUT).then_some(Silence::NotOpened(OPEN_TIMEOUT));
            }
            WaitFor::Closing => {
                return (self.waited > CLOSE_TIMEOUT).then_some(Silence::NotClosed(CLOSE_TIMEOUT));
            }
            WaitFor::FirstFrame => (OPEN_TIMEOUT, UNDECODED_TIMEOUT),
            WaitFor::EarlyFrame(interval) => {
                let limit = self.limit(interval).max(OPEN_TIMEOUT);
                (limit, UNDECODED_TIMEOUT.max(limit))
            }
            WaitFor::Frame(interval) => {
                let limit = self.limit(interval);
                (limit, self.undecoded_limit(interval).max(limit))
            }
        };
        if self.without_picture > picture {
            // Whatever came since the last picture, came later than that.
            let other_data = self.without_data < self.without_picture;
            Some(if other_data {
                Silence::NoPictures(picture)
            } else {
                Silence::NoData(picture)
            })
        } else {
            (self.undecoded > decoded).then_some(Silence::Undecoded(decoded))
        }
    }

    /// Longest time without a picture: that of the stream, and as much as came ahead of the clock.
    fn limit(&self, interval: Span) -> Span {
        let limit = silence_limit(interval);
        if self.comes_in_segments {
            limit + SEGMENTS_TIMEOUT.max(self.arrival.go() * SEGMENTS)
        } else {
            // A picture is no more ahead than it is due.
            limit + self.arrival.ahead.saturating_sub(interval)
        }
    }

    /// Three groups of pictures at this frame interval.
    fn undecoded_limit(&self, interval: Span) -> Span {
        self.group.last.map_or(UNDECODED_TIMEOUT, |pictures| {
            interval * (UNDECODED_GROUPS * pictures)
        })
    }

    /// Returns the reason for which the last wait timed out, if it did.
    #[must_use]
    pub fn silence(&self) -> Option<Silence> {
        self.silence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: WaitFor = WaitFor::Frame(Span::from_millis(40));
    const TWO: Span = Span::from_secs(2);
    const TEN: Span = Span::from_secs(10);
    const THIRTY: Span = Span::from_secs(30);

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(ms * 1_000)
    }

    /// Data that arrives at one poll; only a `Key` begins a group of pictures.
    #[derive(Clone, Copy)]
    enum Sent {
        Nothing,
        Sound,
        Picture,
        Key,
    }

    /// Polls every 100 ms for 90 s, with data at some times; when and why the wait ended.
    fn check(what: WaitFor, sent: impl Fn(u64) -> Sent, ended: Option<(u64, Silence)>) {
        let mut watch = SilenceWatch::default();
        watch.begin(what, at(0));
        let found = (0..900).map(|look| look * 100).find(|ms| {
            match sent(*ms) {
                Sent::Nothing => {}
                Sent::Sound => watch.on_data(at(*ms)),
                Sent::Picture => watch.on_picture(false, at(*ms)),
                Sent::Key => watch.on_picture(true, at(*ms)),
            }
            watch.on_poll(at(*ms))
        });
        assert_eq!(found, ended.map(|(ms, _)| ms), "{what:?}");
        assert_eq!(watch.silence(), ended.map(|(_, silence)| silence), "{what:?}");
    }

    /// `what` every second, else nothing.
    fn each_second(what: Sent) -> impl Fn(u64) -> Sent {
        move |ms| {
            if ms.is_multiple_of(1_000) {
                what
            } else {
                Sent::Nothing
            }
        }
    }

    #[test]
    fn each_wait_has_its_limit() {
        let never = |_| Sent::Nothing;
        check(WaitFor::Opening, never, Some((10_100, Silence::NotOpened(TEN))));
        check(WaitFor::FirstFrame, never, Some((10_100, Silence::NoData(TEN))));
        check(FAST, never, Some((2_100, Silence::NoData(TWO))));
        check(WaitFor::Closing, never, Some((2_100, Silence::NotClosed(TWO))));
        let slow = WaitFor::Frame(Span::from_secs(4));
        check(slow, never, Some((40_100, Silence::NoData(Span::from_secs(40)))));
        let until_four = |ms| if ms < 4_000 { Sent::Picture } else { Sent::Nothing };
        check(FAST, until_four, Some((6_000, Silence::NoData(TWO))));
    }

    /// Pictures of 40 ms, `segment` of them in one go each `apart` seconds, and nothing after a minute; when the wait ended.
    fn ended_with_segments(segment: u64, apart: u64, comes_in_segments: bool) -> Option<u64> {
        let mut watch = SilenceWatch::default();
        watch.begin(WaitFor::Opening, at(0));
        watch.end();
        watch.on_open(comes_in_segments);
        (0..2_400).map(|look| look * 100).find(|ms| {
            watch.begin(FAST, at(*ms));
            let goes = (1..=60 / apart).map(|go| go * apart * 1_000);
            for ms in goes.filter(|go| go == ms) {
                for _ in 0..segment {
                    watch.on_picture(false, at(ms));
                }
            }
            watch.end();
            false
        });
        watch.begin(FAST, at(60_000));
        (0..1_200)
            .map(|look| 60_000 + look * 100)
            .find(|ms| watch.on_poll(at(*ms)))
    }

    #[test]
    fn what_came_in_one_go_is_not_waited_for() {
        let after_a_minute = |ms: u64| Some(60_000 + ms);
        // Three times the segment, ten seconds at least.
        assert_eq!(ended_with_segments(50, 2, true), after_a_minute(12_100));
        assert_eq!(ended_with_segments(150, 6, true), after_a_minute(20_100));
        // A source that is not known to come in segments is silent once its pictures are overdue.
        assert_eq!(ended_with_segments(50, 2, false), after_a_minute(4_000));
    }

    #[test]
    fn a_slow_camera_has_time_before_its_rate_is_known() {
        let every_three = |ms: u64| {
            if ms.is_multiple_of(3_000) {
                Sent::Picture
            } else {
                Sent::Nothing
            }
        };
        check(
            WaitFor::EarlyFrame(Span::from_millis(40)),
            every_three,
            Some((30_100, Silence::Undecoded(THIRTY))),
        );
        let never = |_| Sent::Nothing;
        check(
            WaitFor::EarlyFrame(Span::from_millis(40)),
            never,
            Some((10_100, Silence::NoData(TEN))),
        );
        let slow = Span::from_secs(15);
        check(WaitFor::EarlyFrame(slow), |_| Sent::Sound, None);
    }

    #[test]
    fn sound_is_no_picture() {
        check(
            FAST,
            each_second(Sent::Sound),
            Some((2_100, Silence::NoPictures(TWO))),
        );
        let first = WaitFor::FirstFrame;
        check(
            first,
            each_second(Sent::Sound),
            Some((10_100, Silence::NoPictures(TEN))),
        );
    }

    #[test]
    fn pictures_that_cannot_be_decoded_count_for_three_groups() {
        let pictures = || each_second(Sent::Picture);
        check(FAST, pictures(), Some((30_100, Silence::Undecoded(THIRTY))));
        check(
            WaitFor::FirstFrame,
            pictures(),
            Some((30_100, Silence::Undecoded(THIRTY))),
        );
        // Pictures at the interval that they state: none is ahead.
        let slow = WaitFor::Frame(Span::from_secs(4));
        let every_four = |ms: u64| {
            if ms.is_multiple_of(4_000) {
                Sent::Picture
            } else {
                Sent::Nothing
            }
        };
        check(
            slow,
            every_four,
            Some((40_100, Silence::Undecoded(Span::from_secs(40)))),
        );
        // A key picture in every ten, that is once a second.
        let fast = WaitFor::Frame(Span::from_millis(100));
        let groups = |ms: u64| {
            if ms.is_multiple_of(1_000) {
                Sent::Key
            } else {
                Sent::Picture
            }
        };
        check(
            fast,
            groups,
            Some((3_100, Silence::Undecoded(Span::from_secs(3)))),
        );
        // Groups of two pictures: shorter than the timeout of silence.
        let pairs = |ms: u64| {
            if ms.is_multiple_of(200) {
                Sent::Key
            } else {
                Sent::Picture
            }
        };
        check(fast, pairs, Some((2_100, Silence::Undecoded(TWO))));
    }

    #[test]
    fn pictures_that_are_decoded_in_part_count_as_none_until_one_is_whole() {
        // A frame every 100 ms, each a wait of its own; a key picture once a second.
        let run = |whole: fn(u64) -> bool| {
            let mut watch = SilenceWatch::default();
            watch.begin(WaitFor::Opening, at(0));
            (0..200_u64).find(|frame| {
                watch.begin(WaitFor::Frame(Span::from_millis(100)), at(frame * 100));
                watch.on_picture(frame % 10 == 0, at(frame * 100 + 100));
                watch.end();
                if whole(*frame) {
                    watch.on_decoded();
                }
                watch.silence().is_some()
            })
        };
        assert_eq!(run(|_| true), None);
        assert_eq!(run(|frame| frame % 25 == 0), None);
        assert_eq!(run(|frame| frame < 20), Some(50));
    }

    #[test]
    fn pictures_that_are_left_out_do_not_count_as_undecoded() {
        // A picture every 100 ms, a key picture once a second; one in a hundred is given to the decoder.
        let run = |watch: &mut SilenceWatch, mut frames: std::ops::Range<u64>, whole: bool| {
            frames.find(|frame| {
                let now = at(frame * 100);
                watch.on_picture(frame % 10 == 0, now);
                if frame % 100 > 0 {
                    watch.on_left_out(now);
                } else if whole {
                    watch.on_decoded();
                    watch.begin(WaitFor::Frame(Span::from_millis(100)), now);
                }
                watch.silence().is_some()
            })
        };
        let mut watch = SilenceWatch::default();
        watch.begin(WaitFor::Frame(Span::from_millis(100)), at(0));
        assert_eq!(run(&mut watch, 0..2_050, true), None);
        // Silence is found as soon as if all were decoded.
        let mut silent = watch;
        let found = (2_050..2_200_u64).find(|look| silent.on_poll(at(look * 100)));
        assert_eq!(found, Some(2_070));
        assert_eq!(silent.silence(), Some(Silence::NoData(TWO)));
        // Of each hundred pictures, the time before one counts.
        let found = run(&mut watch, 2_050..9_000, false);
        let thirty_later = |frame: u64| (4_900..=5_200).contains(&frame);
        assert!(found.is_some_and(thirty_later), "{found:?}");
        assert_eq!(watch.silence(), Some(Silence::Undecoded(Span::from_secs(3))));
    }

    #[test]
    fn opening_again_begins_anew() {
        let mut watch = SilenceWatch::default();
        watch.begin(FAST, at(0));
        watch.on_picture(true, at(100));
        watch.on_picture(true, at(200));
        assert_eq!(watch.undecoded_limit(TWO), Span::from_secs(6));
        watch.begin(WaitFor::Opening, at(300));
        assert_eq!(watch.undecoded_limit(TWO), THIRTY);
        assert_eq!(watch.undecoded, Span::ZERO);
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
