//! Decides when a module that runs per track reads an object again.
//!
//! The decision depends on the calls alone. For an item of a frame in flight it says whether the module runs;
//! afterwards it learns whether the frame was delivered or dropped. Let `c` be the certainty of the readings
//! so far (`Settled::certainty`: 0 until two readings agree), `until` the certainty that suffices, `every`
//! the longest wait, and `n` the number of readings at about the present size. The module runs
//!
//! - for an object that it has not read yet, and, with `until`, for every object of a tentative track, whose
//!   readings are lost if the track ends;
//! - as soon as the item has [`GROWTH`] times the area of the last reading, since a model reads a nearer
//!   object better;
//! - from `every * min(1, max(c / until, n / PATIENCE))` after the last reading on. A doubtful object is thus
//!   read again at the next frame, since it may be gone before `every` is over, and less and less often if it
//!   stays doubtful. Without `until`, the wait is always `every`;
//! - no more once `c >= until`, unless the item has [`CERTAIN_GROWTH`] times the largest area that was read:
//!   a model can be certain of a few pixels and still be wrong.
//!
//! A question in flight counts as a reading. If its frame is dropped, the module is asked again at the next
//! frame.
//!
//! With `once`, the module runs one time per track, as soon as the track is confirmed, and again only if that
//! frame is dropped. It never runs for an object without a track.

/// Factor of growth of an item's area since the last reading that justifies an early reading.
const GROWTH: f32 = 1.5;
/// Factor by which the area of an item must exceed the largest area read, if the result is certain: twice as
/// long and as high.
const CERTAIN_GROWTH: f32 = 4.0;
/// Number of doubtful readings at about one size after which the wait is all of `every`.
const PATIENCE: f32 = 16.0;
/// Media time, in milliseconds, after which an answer is no longer expected, even if no drop was reported.
const MAX_ANSWER_MS: f64 = 500.0;

/// Rule by which a module runs for the objects of one track.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PerTrack {
    /// Index of the tracker in the plan.
    pub tracker: usize,
    /// Longest media time from one reading to the next, in milliseconds.
    pub every_ms: f64,
    /// Certainty, 0 to 1, from which on the module does not run again; infinite: it always runs again.
    pub until: f32,
    /// Whether it runs one time for each confirmed track; `every_ms` and `until` have no effect then.
    pub once: bool,
}

/// A question to a module: the request and media time of the frame, and the area of the item in square
/// pixels.
#[derive(Debug, Clone, Copy)]
struct Asked {
    request: u64,
    pts_ms: f64,
    area: f32,
}

/// Open question to a module about one track, and a summary of its answers.
#[derive(Debug, Clone)]
struct Reading {
    module: u32,
    /// Question that has not been answered yet.
    asked: Option<Asked>,
    /// Media time and area of the newest answer.
    newest: Option<(f64, f32)>,
    /// Largest area that was read.
    largest: f32,
    /// Number of answers since the area was `counted_from`.
    count: u32,
    counted_from: f32,
}

/// The item that a module may run for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) module: u32,
    /// The request of its frame.
    pub(crate) request: u64,
    pub(crate) pts_ms: f64,
    /// Area of the item in square pixels.
    pub(crate) area: f32,
}

/// Questions about one track to all modules that run per track.
#[derive(Debug, Clone, Default)]
pub(crate) struct Readings(Vec<Reading>);

impl Readings {
    /// Whether the module is to run for the item, of a track that is confirmed or not, whose readings so far are certain to
    /// `certainty`; if so, it counts as asked.
    pub(crate) fn ask(
        &mut self,
        rule: &PerTrack,
        item: Candidate,
        is_confirmed: bool,
        certainty: f32,
    ) -> bool {
        let reading = self.of(item.module);
        let is_wanted = if rule.once {
            is_confirmed && reading.asked.is_none() && reading.newest.is_none()
        } else {
            let may_be_lost = !is_confirmed && rule.until.is_finite();
            may_be_lost || reading.is_wanted(rule, item, certainty)
        };
        if is_wanted {
            reading.asked = Some(Asked {
                request: item.request,
                pts_ms: item.pts_ms,
                area: item.area,
            });
        }
        is_wanted
    }

    /// A module read an item of that area in a frame that is delivered.
    pub(crate) fn on_read(&mut self, module: u32, pts_ms: f64, area: f32) {
        self.of(module).on_answer(pts_ms, area);
    }

    /// The frame of that time is delivered: what was asked in it or before, in the order of frames, has its answer.
    pub(crate) fn on_delivered(&mut self, pts_ms: f64) {
        for reading in &mut self.0 {
            if let Some(asked) = reading.asked.take_if(|asked| asked.pts_ms <= pts_ms) {
                reading.on_answer(asked.pts_ms, asked.area);
            }
        }
    }

    /// The frame of that request is not delivered.
    pub(crate) fn on_dropped(&mut self, request: u64) {
        for reading in &mut self.0 {
            reading.asked.take_if(|asked| asked.request == request);
        }
    }

    fn of(&mut self, module: u32) -> &mut Reading {
        let position = self.0.iter().position(|reading| reading.module == module);
        let position = position.unwrap_or_else(|| {
            self.0.push(Reading::new(module));
            self.0.len() - 1
        });
        &mut self.0[position]
    }
}

impl Reading {
    fn new(module: u32) -> Self {
        Self {
            module,
            asked: None,
            newest: None,
            largest: 0.0,
            count: 0,
            counted_from: 0.0,
        }
    }

    fn on_answer(&mut self, pts_ms: f64, area: f32) {
        if self.newest.is_some_and(|(newest, _)| newest >= pts_ms) {
            // A frame has several parts of one object, or the newer one is known by now.
            return;
        }
        if area >= GROWTH * self.counted_from {
            (self.count, self.counted_from) = (0, area);
        }
        self.count = self.count.saturating_add(1);
        self.newest = Some((pts_ms, area));
        self.largest = self.largest.max(area);
    }

    fn is_wanted(&self, rule: &PerTrack, item: Candidate, certainty: f32) -> bool {
        let part = if rule.until.is_finite() {
            (certainty / rule.until)
                .max(self.count as f32 / PATIENCE)
                .min(1.0)
        } else {
            1.0
        };
        let wait_ms = rule.every_ms * f64::from(part);
        let is_due = |asked: &Asked| item.pts_ms - asked.pts_ms < wait_ms.min(MAX_ANSWER_MS);
        if let Some(asked) = self.asked.filter(is_due) {
            return item.area >= GROWTH * asked.area;
        }
        let Some((newest, area)) = self.newest else {
            return true;
        };
        if certainty >= rule.until {
            return item.area >= CERTAIN_GROWTH * self.largest;
        }
        item.area >= GROWTH * area || item.pts_ms - newest >= wait_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: PerTrack = PerTrack {
        tracker: 0,
        every_ms: 1000.0,
        until: 0.9,
        once: false,
    };
    const ALWAYS: PerTrack = PerTrack {
        until: f32::INFINITY,
        ..RULE
    };

    const ONCE: PerTrack = PerTrack { once: true, ..RULE };

    fn item(pts_ms: f64, area: f32) -> Candidate {
        Candidate {
            module: 1,
            request: pts_ms as u64,
            pts_ms,
            area,
        }
    }

    #[test]
    fn it_waits_for_an_answer_unless_the_object_has_grown() {
        let mut readings = Readings::default();
        let mut ask = |pts_ms, area| readings.ask(&ALWAYS, item(pts_ms, area), true, 0.0);
        assert!(ask(0.0, 100.0), "never read");
        assert!(!ask(40.0, 110.0), "an answer may come");
        assert!(ask(80.0, 150.0), "half as large again");
        assert!(!ask(120.0, 200.0), "than when it was asked last");
        assert!(ask(580.0, 200.0), "no answer came");
    }

    #[test]
    fn after_a_drop_it_is_asked_at_the_next_frame() {
        let mut readings = Readings::default();
        let ask = |readings: &mut Readings, pts_ms| readings.ask(&ALWAYS, item(pts_ms, 100.0), true, 0.0);
        assert!(ask(&mut readings, 0.0));
        readings.on_dropped(7);
        assert!(!ask(&mut readings, 40.0), "another request");
        readings.on_dropped(0);
        assert!(ask(&mut readings, 80.0));
        readings.on_delivered(80.0);
        assert!(!ask(&mut readings, 1040.0), "answered, though with nothing");
        assert!(ask(&mut readings, 1080.0));
    }

    #[test]
    fn once_is_one_time_for_a_track_that_counts_and_again_only_after_a_drop() {
        let mut readings = Readings::default();
        let ask = |readings: &mut Readings, pts_ms, is_confirmed| {
            readings.ask(&ONCE, item(pts_ms, pts_ms as f32 + 100.0), is_confirmed, 0.0)
        };
        assert!(!ask(&mut readings, 0.0, false), "it may be nothing");
        assert!(ask(&mut readings, 40.0, true));
        assert!(
            !ask(&mut readings, 2000.0, true),
            "in flight, however long and however large"
        );
        readings.on_dropped(40);
        assert!(ask(&mut readings, 2040.0, true));
        readings.on_delivered(2040.0);
        assert!(!ask(&mut readings, 90_000.0, true));
    }

    #[test]
    fn what_is_doubtful_is_read_again_at_once_and_what_is_nearly_certain_late() {
        let mut readings = Readings::default();
        let mut ask = |pts_ms, certainty| readings.ask(&RULE, item(pts_ms, 100.0), true, certainty);
        assert!(ask(0.0, 0.0));
        assert!(ask(40.0, 0.0), "in flight, and doubtful");
        readings.on_read(1, 40.0, 100.0);
        let mut ask = |pts_ms, certainty| readings.ask(&RULE, item(pts_ms, 100.0), true, certainty);
        assert!(!ask(480.0, 0.45));
        assert!(ask(560.0, 0.45), "half as certain as it is to be");
        readings.on_delivered(560.0);
        let mut ask = |pts_ms, certainty| readings.ask(&RULE, item(pts_ms, 100.0), true, certainty);
        assert!(!ask(1480.0, 0.89));
        assert!(ask(1560.0, 0.89));
    }

    #[test]
    fn what_stays_doubtful_is_read_less_and_less_often_until_it_is_larger() {
        let mut readings = Readings::default();
        let mut times = Vec::new();
        for frame in 0..500 {
            let pts_ms = f64::from(frame) * 40.0;
            if readings.ask(&RULE, item(pts_ms, 100.0), true, 0.0) {
                times.push(pts_ms);
                readings.on_delivered(pts_ms);
            }
        }
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.is_sorted(), "{gaps:?}");
        assert!(gaps[0] <= 80.0 && gaps.last() == Some(&1000.0), "{gaps:?}");
        assert!(readings.ask(&RULE, item(20_000.0, 150.0), true, 0.0));
        readings.on_delivered(20_000.0);
        assert!(
            readings.ask(&RULE, item(20_080.0, 150.0), true, 0.0),
            "it counts anew"
        );
    }

    #[test]
    fn what_is_certain_is_read_again_twice_as_long_and_high() {
        let mut readings = Readings::default();
        readings.on_read(1, 0.0, 100.0);
        assert!(!readings.ask(&RULE, item(9000.0, 390.0), true, 0.95));
        assert!(readings.ask(&RULE, item(9040.0, 400.0), true, 0.95));
        readings.on_delivered(9040.0);
        assert!(!readings.ask(&RULE, item(9080.0, 900.0), true, 0.95));
    }

    #[test]
    fn a_tentative_track_is_read_in_each_frame_where_certainty_is_asked_for() {
        let mut readings = Readings::default();
        for frame in 0..3 {
            assert!(readings.ask(&RULE, item(f64::from(frame), 100.0), false, 1.0));
        }
        assert!(!readings.ask(&ALWAYS, item(4.0, 100.0), false, 0.0));
    }
}
