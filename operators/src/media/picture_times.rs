//! Indices and times of the pictures of an open source, with gaps for those that are not decoded.

use ffmpeg_next::frame;

use super::packet_selection::LeftOut;
use super::timeline::Timeline;

/// Counts pictures, and gives each a time that is greater than the one before.
pub(super) struct PictureTimes {
    /// Milliseconds per tick of the stream's time stamps.
    tick_ms: f64,
    /// Whether the container has time stamps; else times follow from the frame rate.
    stamped: bool,
    /// `None` until the first picture is decoded.
    timeline: Option<Timeline>,
    /// Index of the next picture.
    index: u64,
}

impl PictureTimes {
    pub(super) fn new(tick_ms: f64, stamped: bool) -> Self {
        Self {
            tick_ms,
            stamped,
            timeline: None,
            index: 0,
        }
    }

    pub(super) fn tick_ms(&self) -> f64 {
        self.tick_ms
    }

    pub(super) fn is_stamped(&self) -> bool {
        self.stamped
    }

    /// Number of pictures so far, with those that were left out.
    pub(super) fn count(&self) -> u64 {
        self.index
    }

    /// Number of times that the clock of the pictures was rebased.
    pub(super) fn discontinuities(&self) -> u64 {
        self.timeline.as_ref().map_or(0, Timeline::discontinuities)
    }

    /// Index of a picture that was decoded.
    pub(super) fn next_index(&mut self) -> u64 {
        let index = self.index;
        self.index += 1;
        index
    }

    /// The time in milliseconds that the container gives a picture.
    pub(super) fn stamp_ms(&self, picture: &frame::Video) -> Option<f64> {
        let stamp = picture.timestamp().filter(|_| self.stamped)?;
        Some(stamp as f64 * self.tick_ms)
    }

    /// The time of the next picture in milliseconds; `begin` makes the timeline for the first one.
    pub(super) fn next_ms(&mut self, stamp_ms: Option<f64>, begin: impl FnOnce() -> Timeline) -> f64 {
        self.timeline.get_or_insert_with(begin).next(stamp_ms)
    }

    /// Gives pictures that were left out their indices and times, so that later ones keep their own.
    pub(super) fn pass_over(&mut self, left_out: &LeftOut) {
        self.index += left_out.times.len() as u64;
        if let Some(timeline) = &mut self.timeline {
            for stamp in &left_out.times {
                timeline.next(Some(*stamp as f64 * self.tick_ms));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_after_a_gap_keep_their_index_and_time() {
        let mut times = PictureTimes::new(0.5, true);
        let begin = || Timeline::new(25.0, false);
        assert_eq!((times.next_index(), times.next_ms(Some(0.0), begin)), (0, 0.0));
        times.pass_over(&LeftOut {
            times: vec![80, 160],
            still: 1,
        });
        // Without a time stamp, the time is a step after the last picture that was left out.
        assert_eq!((times.next_index(), times.next_ms(None, begin)), (3, 120.0));
        assert_eq!((times.count(), times.discontinuities()), (4, 0));
    }
}
