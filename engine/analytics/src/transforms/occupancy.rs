//! Number of objects in a polygon at once: `crowd` reports many objects, `absence` reports that there is
//! none. Neither follows objects, so they need no tracker.

use weir_flow::{Phase, Rect};

use super::episodes::{Change, Delays, Episodes, Observed};
use super::finding::{Drawing, Finding, count, number, outline};
use super::geometry::{Anchor, Polygon};
use crate::track::FrameTime;

/// Media time without frames, in milliseconds, after which the number of objects meanwhile counts as unknown.
const MAX_GAP_MS: f64 = 5_000.0;

/// Condition on the number of objects.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wanted {
    AtLeast(u64),
    None,
}

pub(crate) struct Occupancy {
    anchor: Anchor,
    wanted: Wanted,
    incidents: Episodes<()>,
    seen: Option<FrameTime>,
    now: u64,
    top: u64,
}

impl Occupancy {
    pub(crate) fn crowd(anchor: Anchor, min: u32, after_ms: f64, every_ms: f64) -> Self {
        let delays = Delays {
            after_ms,
            pending_ms: 0.0,
            end_after_ms: after_ms,
            every_ms,
        };
        Self::new(anchor, Wanted::AtLeast(u64::from(min)), delays)
    }

    pub(crate) fn absence(anchor: Anchor, after_ms: f64, every_ms: f64) -> Self {
        let delays = Delays {
            after_ms,
            pending_ms: 0.0,
            end_after_ms: 0.0,
            every_ms,
        };
        Self::new(anchor, Wanted::None, delays)
    }

    fn new(anchor: Anchor, wanted: Wanted, delays: Delays) -> Self {
        Self {
            anchor,
            wanted,
            incidents: Episodes::new(delays),
            seen: None,
            now: 0,
            top: 0,
        }
    }

    pub(crate) fn on_frame<'r>(
        &mut self,
        boxes: impl Iterator<Item = &'r Rect>,
        area: &Polygon,
        now: FrameTime,
    ) -> Option<Finding> {
        let is_inside = |rect: &&Rect| area.contains(self.anchor.of(rect));
        self.now = boxes.filter(is_inside).count() as u64;
        let had_gap = self.seen.is_some_and(|seen| seen.until(now) > MAX_GAP_MS);
        self.seen = Some(now);
        let holds = match self.wanted {
            Wanted::AtLeast(min) => self.now >= min,
            Wanted::None => self.now == 0,
        };
        let mut observed = Observed {
            holds,
            is_clear: false,
            changed: now,
            now,
        };
        if had_gap && !self.incidents.is_open(()) {
            // Begins again: what holds now need not have held meanwhile.
            observed.holds = false;
            self.incidents.on_observed((), observed);
            observed.holds = holds;
        }
        self.top = if self.incidents.is_open(()) {
            self.top.max(self.now)
        } else {
            self.now
        };
        let change = self.incidents.on_observed((), observed)?;
        Some(self.finding(change))
    }

    /// Ends what goes on.
    pub(crate) fn close(&mut self) -> Option<Finding> {
        let change = self.incidents.close((), self.seen?)?;
        Some(self.finding(change))
    }

    fn finding(&self, change: Change) -> Finding {
        let lasted = number(change.began.until(change.at) / 1e3, 3);
        let values = match self.wanted {
            Wanted::AtLeast(_) => vec![("count", count(self.now)), ("top", count(self.top))],
            Wanted::None if change.phase == Phase::Ended => {
                vec![("absent_s", lasted), ("count", count(self.now))]
            }
            Wanted::None => vec![("absent_s", lasted)],
        };
        Finding {
            number: change.number,
            phase: change.phase,
            track: None,
            began: change.began,
            at: change.at,
            values,
            ghost: None,
        }
    }

    /// The area with the number of objects in it.
    pub(crate) fn drawing(&self, area: &Polygon) -> Drawing {
        let alarm = if self.incidents.is_open(()) { "!" } else { "" };
        Drawing {
            points: outline(area),
            is_closed: true,
            text: format!("{} in{alarm}", self.now),
            tags: Vec::new(),
        }
    }
}
