//! Objects that stand still: `stopped`, and `parked`, which also knows an object again whose track changed.
//!
//! An object stands still as long as its anchor stays within `within` times its size of where it came to stand; once it is
//! reported, within twice of that, so that jitter does not end it. The incident begins when it came to stand.
//!
//! Where a track ends that stands still, `parked` keeps its place for a while: a track that begins there, on a box that
//! overlaps by half, is the same object behind a bus that passed.

use std::collections::BTreeMap;

use super::episodes::{Change, Delays, Episodes, Observed};
use super::finding::{Drawing, Finding, number, outline};
use super::geometry::{Anchor, Polygon, Position};
use super::spec::Still;
use super::subject::{Subject, View};
use crate::track::FrameTime;

/// Intersection over union from which on a box is the same place.
const SAME_PLACE: f32 = 0.5;

/// Places that are kept; the oldest gives way.
const MAX_PLACES: usize = 256;

#[derive(Debug, Clone, Copy)]
struct Standing {
    place: Position,
    since: FrameTime,
}

/// The place of a track that ended while it stood still.
struct Place {
    standing: Standing,
    ghost: Box<Subject>,
}

pub(crate) struct StandingStill {
    anchor: Anchor,
    still: Still,
    /// Time in milliseconds for which a place is kept after its track has ended; 0: it is not kept.
    rejoin_ms: f64,
    standing: BTreeMap<u64, Standing>,
    places: BTreeMap<u64, Place>,
    incidents: Episodes<u64>,
}

impl StandingStill {
    pub(crate) fn new(anchor: Anchor, still: Still, rejoin_ms: f64, every_ms: f64) -> Self {
        Self {
            anchor,
            still,
            rejoin_ms,
            standing: BTreeMap::new(),
            places: BTreeMap::new(),
            incidents: Episodes::new(Delays {
                after_ms: 0.0,
                pending_ms: 0.0,
                end_after_ms: 0.0,
                every_ms,
            }),
        }
    }

    pub(crate) fn on_subject(&mut self, subject: &Subject, area: &Polygon) -> Option<Finding> {
        let track = subject.track;
        let at = self.anchor.of(&subject.rect);
        if !self.standing.contains_key(&track) {
            self.rejoin(subject);
        }
        let is_open = self.incidents.is_open(track);
        let standing = self.standing.entry(track).or_insert(Standing {
            place: at,
            since: subject.at,
        });
        let reach = self.still.within * subject.size() * if is_open { 2.0 } else { 1.0 };
        let is_still = standing.place.distance(at) <= reach && area.contains(at);
        if !is_still {
            *standing = Standing {
                place: at,
                since: subject.at,
            };
        }
        let stood = standing.since.until(subject.at);
        let observed = Observed {
            holds: is_still && (is_open || stood >= self.still.after_ms),
            is_clear: true,
            changed: if is_still { standing.since } else { subject.at },
            now: subject.at,
        };
        let change = self.incidents.on_observed(track, observed)?;
        Some(finding(track, change, None))
    }

    /// Pictures have this many times the width and height that they had.
    pub(crate) fn on_resize(&mut self, x: f64, y: f64) {
        for place in self.places.values_mut() {
            place.standing.place = place.standing.place.scaled(x, y);
            place.ghost.on_resize(x as f32, y as f32);
        }
        for standing in self.standing.values_mut() {
            standing.place = standing.place.scaled(x, y);
        }
    }

    /// Takes over from a track that stood at the same place.
    fn rejoin(&mut self, subject: &Subject) {
        let overlap = |place: &Place| place.ghost.rect.iou(&subject.rect);
        let best = self
            .places
            .iter()
            .filter(|(_, place)| place.ghost.class == subject.class && overlap(place) >= SAME_PLACE)
            .max_by(|(_, a), (_, b)| overlap(a).total_cmp(&overlap(b)));
        let Some(before) = best.map(|(track, _)| *track) else {
            return;
        };
        if let Some(place) = self.places.remove(&before) {
            self.standing.insert(subject.track, place.standing);
            self.incidents.rename(before, subject.track);
        }
    }

    pub(crate) fn on_track_end(&mut self, subject: &Subject) -> Option<Finding> {
        let track = subject.track;
        let standing = self.standing.remove(&track)?;
        if self.rejoin_ms > 0.0 && standing.since.until(subject.at) > 0.0 {
            let ghost = Box::new(subject.clone());
            self.places.insert(track, Place { standing, ghost });
            if self.places.len() > MAX_PLACES {
                let oldest = self
                    .places
                    .iter()
                    .min_by(|(_, a), (_, b)| a.ghost.at.pts_ms.total_cmp(&b.ghost.at.pts_ms));
                let oldest = oldest.map(|(track, _)| *track)?;
                return self.clear_place(oldest);
            }
            return None;
        }
        let change = self.incidents.close(track, subject.at)?;
        Some(finding(track, change, None))
    }

    /// Ends what stood where no track began for long.
    pub(crate) fn on_time(&mut self, now: FrameTime, out: &mut Vec<Finding>) {
        let is_over = |place: &Place| place.ghost.at.until(now) > self.rejoin_ms;
        let places = self.places.iter();
        let over: Vec<u64> = places
            .filter(|(_, place)| is_over(place))
            .map(|(track, _)| *track)
            .collect();
        out.extend(over.into_iter().filter_map(|track| self.clear_place(track)));
    }

    /// Ends all that stands at places whose tracks ended.
    pub(crate) fn close(&mut self, out: &mut Vec<Finding>) {
        let tracks: Vec<u64> = self.places.keys().copied().collect();
        out.extend(tracks.into_iter().filter_map(|track| self.clear_place(track)));
    }

    fn clear_place(&mut self, track: u64) -> Option<Finding> {
        let place = self.places.remove(&track)?;
        let change = self.incidents.close(track, place.ghost.at)?;
        Some(finding(track, change, Some(place.ghost)))
    }

    /// Returns the drawing of the area, with the time that each reported object has stood still.
    pub(crate) fn drawing(&self, area: Option<&Polygon>, view: &View<'_>) -> Drawing {
        let stood = |subject: &Subject| {
            let began = self.incidents.began(subject.track)?;
            let text = format!("still {:.0} s", began.until(view.now) / 1e3);
            Some((subject.track, text.into()))
        };
        Drawing {
            points: area.map(outline).unwrap_or_default(),
            is_closed: true,
            text: String::new(),
            tags: view.seen().filter_map(stood).collect(),
        }
    }
}

fn finding(track: u64, change: Change, ghost: Option<Box<Subject>>) -> Finding {
    Finding {
        number: change.number,
        phase: change.phase,
        track: Some(track),
        began: change.began,
        at: change.at,
        values: vec![("stood_s", number(change.began.until(change.at) / 1e3, 3))],
        ghost,
    }
}
