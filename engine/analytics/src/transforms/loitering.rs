//! Objects that are in a polygon for long, standing or walking; leaving it for a moment changes nothing.

use super::episodes::{Change, Delays, Episodes};
use super::finding::{Drawing, Finding, number, outline};
use super::geometry::{Anchor, Polygon};
use super::subject::{Subject, View};
use super::zone::inside;

pub(crate) struct Loitering {
    anchor: Anchor,
    stays: Episodes<u64>,
}

impl Loitering {
    pub(crate) fn new(anchor: Anchor, after_ms: f64, leave_ms: f64, every_ms: f64) -> Self {
        Self {
            anchor,
            stays: Episodes::new(Delays {
                after_ms,
                pending_ms: leave_ms,
                end_after_ms: leave_ms,
                every_ms,
            }),
        }
    }

    pub(crate) fn on_subject(&mut self, subject: &Subject, area: &Polygon) -> Option<Finding> {
        let mut observed = inside(subject, self.anchor, area, 0.0);
        observed.is_clear = false;
        let change = self.stays.on_observed(subject.track, observed)?;
        Some(finding(subject, change))
    }

    pub(crate) fn on_track_end(&mut self, subject: &Subject) -> Option<Finding> {
        let change = self.stays.close(subject.track, subject.at)?;
        Some(finding(subject, change))
    }

    /// The area, and for how long those loiter who do.
    pub(crate) fn drawing(&self, area: &Polygon, view: &View<'_>) -> Drawing {
        let stay = |subject: &Subject| {
            let began = self.stays.began(subject.track)?;
            let text = format!("here {:.0} s", began.until(view.now) / 1e3);
            Some((subject.track, text.into()))
        };
        Drawing {
            points: outline(area),
            is_closed: true,
            text: String::new(),
            tags: view.seen().filter_map(stay).collect(),
        }
    }
}

fn finding(subject: &Subject, change: Change) -> Finding {
    Finding {
        number: change.number,
        phase: change.phase,
        track: Some(subject.track),
        began: change.began,
        at: change.at,
        values: vec![("dwell_s", number(change.began.until(change.at) / 1e3, 3))],
        ghost: None,
    }
}
