//! Visits of a polygon: entries, exits, the time that each object stays, and the number of objects within.
//!
//! An object is within where its anchor is. Between two observations it moves straight, so the moment of entering or
//! leaving is interpolated. Against jitter at the border, a change counts once the anchor is further than `margin` times
//! the object's size from the border, or on the new side for `settle`; its moment is that of the crossing all the same. A
//! visit of a track that ends meanwhile ends when the track was seen last.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::Phase;

use super::episodes::{Change, Delays, Episodes, Observed};
use super::finding::{Drawing, Finding, count, number, outline};
use super::geometry::{Anchor, Polygon};
use super::subject::{Subject, View};
use crate::track::FrameTime;

pub(crate) struct Zone {
    margin: f64,
    anchor: Anchor,
    visits: Episodes<u64>,
    /// Class of each visitor, as of its last observation.
    classes: BTreeMap<u64, Arc<str>>,
    entered: u64,
}

impl Zone {
    pub(crate) fn new(anchor: Anchor, margin: f64, settle_ms: f64, every_ms: f64) -> Self {
        Self {
            margin,
            anchor,
            visits: Episodes::new(Delays {
                after_ms: settle_ms,
                pending_ms: 0.0,
                end_after_ms: settle_ms,
                every_ms,
            }),
            classes: BTreeMap::new(),
            entered: 0,
        }
    }

    pub(crate) fn on_subject(&mut self, subject: &Subject, polygon: &Polygon) -> Option<Finding> {
        let observed = inside(subject, self.anchor, polygon, self.margin);
        let change = self.visits.on_observed(subject.track, observed)?;
        if change.phase != Phase::Ended {
            self.classes.insert(subject.track, Arc::clone(&subject.class));
        }
        self.entered += u64::from(change.phase == Phase::Began);
        Some(self.finding(subject, change))
    }

    pub(crate) fn on_track_end(&mut self, subject: &Subject) -> Option<Finding> {
        let change = self.visits.close(subject.track, subject.at)?;
        Some(self.finding(subject, change))
    }

    /// Whether a track is within.
    pub(crate) fn holds(&self, track: u64) -> bool {
        self.visits.is_open(track)
    }

    fn finding(&mut self, subject: &Subject, change: Change) -> Finding {
        if change.phase == Phase::Ended {
            self.classes.remove(&subject.track);
        }
        let of_class = self.classes.values().filter(|class| **class == subject.class);
        let values = vec![
            ("dwell_s", number(change.began.until(change.at) / 1e3, 3)),
            ("occupancy", count(self.classes.len() as u64)),
            ("occupancy_of_class", count(of_class.count() as u64)),
            ("entered", count(self.entered)),
        ];
        Finding {
            number: change.number,
            phase: change.phase,
            track: Some(subject.track),
            began: change.began,
            at: change.at,
            values,
            ghost: None,
        }
    }

    /// Its outline with how many are within, and since when each.
    pub(crate) fn drawing(&self, polygon: &Polygon, view: &View<'_>) -> Drawing {
        let dwell = |subject: &Subject| {
            let began = self.visits.began(subject.track)?;
            let text = format!("{:.0} s", began.until(view.now) / 1e3);
            Some((subject.track, text.into()))
        };
        Drawing {
            points: outline(polygon),
            is_closed: true,
            text: format!("{} in, {} entered", self.classes.len(), self.entered),
            tags: view.seen().filter_map(dwell).collect(),
        }
    }
}

/// Whether an object is within a polygon, and since when where that changed.
pub(crate) fn inside(subject: &Subject, anchor: Anchor, polygon: &Polygon, margin: f64) -> Observed {
    let step = subject.step(anchor);
    let holds = polygon.contains(step.to);
    let is_clear = polygon.border_distance(step.to) > margin * subject.size();
    Observed {
        holds,
        is_clear,
        changed: changed_at(subject, anchor, polygon, holds),
        now: step.at,
    }
}

/// Returns the time at which the anchor crossed the border since the observation before; if it did not, the
/// present time.
fn changed_at(subject: &Subject, anchor: Anchor, polygon: &Polygon, holds: bool) -> FrameTime {
    let step = subject.step(anchor);
    match step.from {
        Some((since, from)) if polygon.contains(from) != holds => {
            since.towards(step.at, polygon.last_crossing(from, step.to))
        }
        _ => step.at,
    }
}
