//! Crossings of a line, by direction and class.
//!
//! A track crosses where the way of its anchor between two observations passes the segment, however far apart in time they
//! are; the moment is interpolated. A crossing counts, once, when the anchor is further than `margin` times the object's
//! size from the line: what jitters at the line, or turns back, does not count twice. A track that ends nearer to it counts
//! by where it was seen last.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::{IncidentValue, Phase, Point};

use super::finding::{Drawing, Finding, count};
use super::geometry::{Anchor, Position, Segment};
use super::subject::Subject;
use crate::track::FrameTime;

/// A crossing that does not count yet: whether it is to the right, and when it was.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pending {
    to_right: bool,
    at: FrameTime,
}

pub(crate) struct Line {
    margin: f64,
    anchor: Anchor,
    directions: [Arc<str>; 2],
    pending: BTreeMap<u64, Pending>,
    /// By direction.
    counts: [u64; 2],
    /// By direction and class.
    of_class: [BTreeMap<Arc<str>, u64>; 2],
    found: u64,
}

impl Line {
    pub(crate) fn new(anchor: Anchor, margin: f64, directions: [Arc<str>; 2]) -> Self {
        Self {
            margin,
            anchor,
            directions,
            pending: BTreeMap::new(),
            counts: [0; 2],
            of_class: [BTreeMap::new(), BTreeMap::new()],
            found: 0,
        }
    }

    pub(crate) fn on_subject(&mut self, subject: &Subject, line: &Segment) -> Option<Finding> {
        let step = subject.step(self.anchor);
        if let Some((since, from)) = step.from
            && let Some(part) = line.crossed_at(from, step.to)
        {
            let to_right = line.side(step.to) >= 0.0;
            match self.pending.get(&subject.track) {
                // It turned back before it counted.
                Some(before) if before.to_right != to_right => {
                    self.pending.remove(&subject.track);
                }
                _ => {
                    let at = since.towards(step.at, part);
                    self.pending.insert(subject.track, Pending { to_right, at });
                }
            }
        }
        let pending = *self.pending.get(&subject.track)?;
        let side = line.side(step.to);
        let is_clear = side.abs() > self.margin * subject.size();
        // Around the end of the line and back behind it, it did not cross again.
        (is_clear && (side >= 0.0) == pending.to_right).then(|| self.count(subject, pending))
    }

    pub(crate) fn on_track_end(&mut self, subject: &Subject) -> Option<Finding> {
        let pending = *self.pending.get(&subject.track)?;
        Some(self.count(subject, pending))
    }

    fn count(&mut self, subject: &Subject, crossing: Pending) -> Finding {
        self.pending.remove(&subject.track);
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
