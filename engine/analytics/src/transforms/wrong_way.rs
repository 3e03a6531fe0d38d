//! Objects that move against the allowed direction.
//!
//! The way of an object over the last `after` is compared with the allowed direction; ways shorter than half
//! of its size are ignored. An object that stands still, or has turned only a little, keeps its state.

use std::collections::{BTreeMap, VecDeque};

use super::episodes::{Delays, Episodes, Observed};
use super::finding::{Drawing, Finding, number, outline};
use super::geometry::{Anchor, Polygon, Position, Segment};
use super::subject::{Subject, View};
use crate::track::FrameTime;

/// Positions of one track that are kept.
const MAX_SAMPLES: usize = 64;

/// The least part of its size that an object must have moved.
const MIN_WAY: f64 = 0.5;

pub(crate) struct WrongWay {
    anchor: Anchor,
    tolerance_deg: f64,
    after_ms: f64,
    ways: BTreeMap<u64, VecDeque<(FrameTime, Position)>>,
    incidents: Episodes<u64>,
}

impl WrongWay {
    pub(crate) fn new(anchor: Anchor, tolerance_deg: f64, after_ms: f64, every_ms: f64) -> Self {
        Self {
            anchor,
            tolerance_deg,
            after_ms,
            ways: BTreeMap::new(),
            incidents: Episodes::new(Delays {
                after_ms: 0.0,
                pending_ms: 0.0,
                end_after_ms: 0.0,
                every_ms,
            }),
        }
    }

    /// Pictures have this many times the width and height that they had.
    pub(crate) fn on_resize(&mut self, x: f64, y: f64) {
        for (_, position) in self.ways.values_mut().flatten() {
            *position = position.scaled(x, y);
        }
    }

    pub(crate) fn on_subject(
        &mut self,
        subject: &Subject,
        area: &Polygon,
        allowed: &Segment,
    ) -> Option<Finding> {
        let (track, now) = (subject.track, subject.at);
        let at = self.anchor.of(&subject.rect);
        let way = self.ways.entry(track).or_default();
        if !area.contains(at) {
            way.clear();
        }
        way.push_back((now, at));
        // One position as old as the window stays, or frames that are missing would leave none.
        while way.len() > MAX_SAMPLES
            || way
                .get(1)
                .is_some_and(|(second, _)| second.until(now) >= self.after_ms)
        {
            way.pop_front();
        }
        let (since, from) = way.front().copied()?;
        let is_long = since.until(now) >= self.after_ms;
        let moved = from.distance(at) >= MIN_WAY * subject.size();
        let against = angle(from, at, allowed.to, allowed.from);
        let is_open = self.incidents.is_open(track);
        let holds = match (is_open, moved) {
            (false, moved) => is_long && moved && against <= self.tolerance_deg,
            (true, true) => against <= 90.0 && area.contains(at),
            (true, false) => area.contains(at),
        };
        let changed = if holds { since } else { now };
        let observed = Observed {
            holds,
            is_clear: true,
            changed,
            now,
        };
        let change = self.incidents.on_observed(track, observed)?;
        Some(Finding {
            number: change.number,
            phase: change.phase,
            track: Some(track),
            began: change.began,
            at: change.at,
            values: vec![("off_deg", number(against, 0))],
            ghost: None,
        })
    }

    pub(crate) fn on_track_end(&mut self, subject: &Subject) -> Option<Finding> {
        self.ways.remove(&subject.track);
        let change = self.incidents.close(subject.track, subject.at)?;
        Some(Finding {
            number: change.number,
            phase: change.phase,
            track: Some(subject.track),
            began: change.began,
            at: change.at,
            values: Vec::new(),
            ghost: None,
        })
    }

    /// The area, and the objects that move the wrong way.
    pub(crate) fn drawing(&self, area: Option<&Polygon>, view: &View<'_>) -> Drawing {
        let is_wrong = |subject: &&Subject| self.incidents.is_open(subject.track);
        let wrong = view.seen().filter(is_wrong);
        Drawing {
            points: area.map(outline).unwrap_or_default(),
            is_closed: true,
            text: String::new(),
            tags: wrong.map(|subject| (subject.track, "wrong way".into())).collect(),
        }
    }
}

/// The angle between the ways from `a` to `b` and from `c` to `d`, in degrees; 180 where one has no length.
fn angle(a: Position, b: Position, c: Position, d: Position) -> f64 {
    let (ux, uy, vx, vy) = (b.x - a.x, b.y - a.y, d.x - c.x, d.y - c.y);
    let lengths = ux.hypot(uy) * vx.hypot(vy);
    if lengths <= 0.0 {
        return 180.0;
    }
    ((ux * vx + uy * vy) / lengths)
        .clamp(-1.0, 1.0)
        .acos()
        .to_degrees()
}
