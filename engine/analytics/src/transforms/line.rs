//! Crossings of a line, by direction and class.
//!
//! A track crosses where the way of its anchor between two observations passes the segment, however far apart in time they
//! are; the moment is interpolated. A crossing counts, once, when the anchor stays further than `margin` times the object's
//! size behind the line for `settle`, or is further than [`FAR`] in two observations in a row: an object that jitters at the
//! line, or is beyond it in one frame, neither crosses nor crosses back.
//!
//! A track that ends before its crossing counts does cross if it came from or went to somewhere clearly off the line, or was
//! behind the line in [`MIN_SEEN`] observations in a row.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::{IncidentValue, Phase, Point};

use super::finding::{Drawing, Finding, count};
use super::geometry::{Anchor, Position, Segment};
use super::subject::Subject;
use crate::track::FrameTime;

/// Distance behind the line, in sizes of the object, beyond which two observations in a row are enough.
const FAR: f64 = 0.5;
/// Distance from the line, in sizes of the object, that an object which stands on the line does not reach.
const OFF: f64 = 0.4;
/// Observations in a row behind the line that are enough where the track ends.
const MIN_SEEN: u32 = 3;

/// A crossing that does not count yet.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pending {
    to_right: bool,
    at: FrameTime,
    /// First of the last observations in a row that were further than the margin behind the line, and their number.
    clear: Option<(FrameTime, u32)>,
    /// Observations in a row further than [`FAR`] behind the line.
    far: u32,
}

/// A track that has not ended.
#[derive(Debug, Clone, Copy, Default)]
struct Passer {
    /// Greatest distance from the line so far, in sizes of the object.
    reach: f64,
    pending: Option<Pending>,
}

pub(crate) struct Line {
    margin: f64,
    settle_ms: f64,
    anchor: Anchor,
    directions: [Arc<str>; 2],
    passers: BTreeMap<u64, Passer>,
    /// Number of crossings by direction.
    counts: [u64; 2],
    /// Number of crossings by direction and class.
    of_class: [BTreeMap<Arc<str>, u64>; 2],
    found: u64,
}

impl Line {
    pub(crate) fn new(anchor: Anchor, margin: f64, settle_ms: f64, directions: [Arc<str>; 2]) -> Self {
        Self {
            margin,
            settle_ms,
            anchor,
            directions,
            passers: BTreeMap::new(),
            counts: [0; 2],
            of_class: [BTreeMap::new(), BTreeMap::new()],
            found: 0,
        }
    }

    pub(crate) fn on_subject(&mut self, subject: &Subject, line: &Segment) -> Option<Finding> {
        let step = subject.step(self.anchor);
        let size = subject.size().max(f64::MIN_POSITIVE);
        let side = line.side(step.to);
        let passer = self.passers.entry(subject.track).or_default();
        passer.reach = passer.reach.max(side.abs() / size);
        if let Some((since, from)) = step.from {
            passer.reach = passer.reach.max(line.side(from).abs() / size);
            if let Some(part) = line.crossed_at(from, step.to) {
                let to_right = side >= 0.0;
                passer.pending = match passer.pending {
                    // It turned back before it counted.
                    Some(before) if before.to_right != to_right => None,
                    _ => Some(Pending {
                        to_right,
                        at: since.towards(step.at, part),
                        clear: None,
                        far: 0,
                    }),
                };
            }
        }
        let pending = passer.pending.as_mut()?;
        // Around the end of the line and back behind it, it did not cross again.
        let behind = if (side >= 0.0) == pending.to_right {
            side.abs()
        } else {
            0.0
        };
        pending.far = if behind > self.margin.max(FAR) * size {
            pending.far + 1
        } else {
            0
        };
        pending.clear = (behind > self.margin * size).then(|| match pending.clear {
            Some((since, seen)) => (since, seen + 1),
            None => (step.at, 1),
        });
        let (since, _) = pending.clear?;
        let is_settled = pending.far >= 2 || since.until(step.at) >= self.settle_ms;
        let crossing = *pending;
        is_settled.then(|| self.count(subject, crossing))
    }

    pub(crate) fn on_track_end(&mut self, subject: &Subject) -> Option<Finding> {
        let passer = self.passers.remove(&subject.track)?;
        let crossing = passer.pending?;
        let was_seen = crossing.clear.is_some_and(|(_, seen)| seen >= MIN_SEEN);
        (passer.reach >= OFF || was_seen).then(|| self.count(subject, crossing))
    }

    fn count(&mut self, subject: &Subject, crossing: Pending) -> Finding {
        if let Some(passer) = self.passers.get_mut(&subject.track) {
            passer.pending = None;
        }
        let direction = usize::from(!crossing.to_right);
        self.counts[direction] += 1;
        let of_class = self.of_class[direction]
            .entry(Arc::clone(&subject.class))
            .or_default();
        *of_class += 1;
        let values = vec![
            (
                "direction",
                IncidentValue::Text(Arc::clone(&self.directions[direction])),
            ),
            ("count", count(self.counts[direction])),
            ("count_of_class", count(*of_class)),
        ];
        let number = self.found;
        self.found += 1;
        Finding {
            number,
            phase: Phase::Ended,
            track: Some(subject.track),
            began: crossing.at,
            at: crossing.at,
            values,
            ghost: None,
        }
    }

    /// The line with its counts.
    pub(crate) fn drawing(&self, line: &Segment) -> Drawing {
        let [right, left] = &self.directions;
        let point = |at: Position| Point::new(at.x as f32, at.y as f32);
        Drawing {
            points: vec![point(line.from), point(line.to)],
            is_closed: false,
            text: format!("{right} {}, {left} {}", self.counts[0], self.counts[1]),
            tags: Vec::new(),
        }
    }
}
