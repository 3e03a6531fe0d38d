//! One track: its observations, its motion, and its settled class and attributes.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_flow::{Attribute, Point, Rect, TrackEnd, TrackState};

use crate::motion::Motion;
use crate::reading::{Candidate, PerTrack, Readings};
use crate::settle::Settled;
use crate::standing::Standing;

/// Observations that a direction is taken from.
const MAX_RECENT: usize = 8;
/// A direction is that since an observation at least this long ago, in milliseconds.
const DIRECTION_SPAN_MS: f64 = 250.0;
/// A gap that is bridged: observations between its ends are made up at most this far apart, in milliseconds.
const BRIDGE_STEP_MS: f64 = 100.0;
const MAX_BRIDGE_STEPS: u32 = 8;

/// Media time, in milliseconds, after which an object that has not left its place stands still.
const STOOD_MS: f64 = 2_000.0;
/// Media time, in milliseconds, after which it is stationary.
const STATIONARY_MS: f64 = 10_000.0;
/// Intersection over union down to which a box is at its place.
const SAME_PLACE: f32 = 0.6;
/// Part of the box of an object that is being hidden, and still lies where it stood.
const WITHIN_PLACE: f32 = 0.7;

/// Weight of a new embedding in the running mean.
const NEW_APPEARANCE: f32 = 0.2;

/// Media time and arrival of a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameTime {
    /// Media time in milliseconds.
    pub pts_ms: f64,
    /// Arrival, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
}

/// A track, confirmed or tentative.
#[derive(Debug)]
pub(crate) struct Track {
    /// Given when it is confirmed.
    pub(crate) id: Option<u64>,
    /// Frames in which it was seen.
    pub(crate) hits: u32,
    /// By the last observation.
    motion: Motion,
    pub(crate) seen: Rect,
    /// Time and box of the first observation.
    pub(crate) first: (FrameTime, Rect),
    pub(crate) last: FrameTime,
    /// Box at which it came to be, and the media time of that.
    place: (Rect, f64),
    /// Box at which it stands still, or stood before it was partly hidden.
    stood: Option<Rect>,
    /// Centres with their media times, the newest last.
    recent: VecDeque<(f64, Point)>,
    pub(crate) settled: Settled,
    /// Mean of its recent embeddings, of length one.
    appearance: Option<Vec<f32>>,
    /// Questions to modules that run per track, and their answers.
    pub(crate) readings: Readings,
    pub(crate) standing: Standing,
    /// Whether transforms have been shown it.
    is_shown: bool,
}

impl Track {
    pub(crate) fn new(rect: Rect, time: FrameTime) -> Self {
        Self {
            id: None,
            hits: 1,
            motion: Motion::new(&rect),
            seen: rect,
            first: (time, rect),
            last: time,
            place: (rect, time.pts_ms),
            stood: None,
            recent: VecDeque::from([(time.pts_ms, rect.centre())]),
            settled: Settled::default(),
            appearance: None,
            readings: Readings::default(),
            standing: Standing::default(),
            is_shown: false,
        }
    }

    /// Marks the track as shown to transforms. The first time, it returns the time and box of the first
    /// observation, if that was before this frame.
    pub(crate) fn on_shown(&mut self) -> Option<(FrameTime, Rect)> {
        let is_first = !std::mem::replace(&mut self.is_shown, true);
        (is_first && self.hits > 1).then_some(self.first)
    }

    /// Scales the track to pictures with this many times the width and height.
    pub(crate) fn on_resize(&mut self, x: f32, y: f32) {
        self.motion = self.motion.scaled(f64::from(x), f64::from(y));
        for rect in [&mut self.seen, &mut self.first.1, &mut self.place.0]
            .into_iter()
            .chain(&mut self.stood)
        {
            *rect = rect.scaled(x, y);
        }
        for (_, centre) in &mut self.recent {
            *centre = Point::new(centre.x * x, centre.y * y);
        }
    }

    /// Returns the predicted motion at a media time.
    pub(crate) fn predicted(&self, pts_ms: f64) -> Motion {
        self.motion.predicted((pts_ms - self.last.pts_ms) / 1e3)
    }

    /// Takes in an observation. After a gap the object is assumed to have moved evenly since the last
    /// observation (OC-SORT: Cao et al., *Observation-Centric SORT*, 2023, section 4.1), which replaces the
    /// predictions of the filter for the gap.
    pub(crate) fn observe(&mut self, rect: Rect, time: FrameTime) {
        let gap_ms = time.pts_ms - self.last.pts_ms;
        let steps = ((gap_ms / BRIDGE_STEP_MS).ceil() as u32).clamp(1, MAX_BRIDGE_STEPS);
        let seconds = gap_ms / 1e3 / f64::from(steps);
        for step in 1..=steps {
            let between = between(&self.seen, &rect, step as f32 / steps as f32);
            self.motion = self.motion.predicted(seconds).updated(&between);
        }
        self.on_place(&rect, time.pts_ms);
        (self.seen, self.last) = (rect, time);
        self.hits = self.hits.saturating_add(1);
        if self.recent.len() == MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((time.pts_ms, rect.centre()));
    }

    fn on_place(&mut self, rect: &Rect, pts_ms: f64) {
        let (place, since_ms) = &self.place;
        if rect.iou(place) >= SAME_PLACE {
            if pts_ms - since_ms >= STOOD_MS {
                self.stood = Some(*place);
            }
            return;
        }
        let is_within = |stood: &Rect| rect.intersection(stood).area() >= WITHIN_PLACE * rect.area();
        self.stood = self.stood.filter(is_within);
        self.place = (*rect, pts_ms);
    }

    /// Box at which it stood still when it was seen last.
    pub(crate) fn stood(&self) -> Option<&Rect> {
        self.stood.as_ref()
    }

    /// Media time since it came to be at its place, if that is long ago.
    fn stationary_ms(&self) -> Option<f64> {
        let (_, since_ms) = self.place;
        let stood_ms = self.last.pts_ms - since_ms;
        (stood_ms >= STATIONARY_MS).then_some(stood_ms)
    }

    /// An embedding of it was made.
    pub(crate) fn on_appearance(&mut self, embedding: &[f32]) {
        let known = self
            .appearance
            .take()
            .filter(|known| known.len() == embedding.len());
        let mean: Vec<f32> = match known {
            Some(known) => {
                let pairs = known.iter().zip(embedding);
                pairs
                    .map(|(known, new)| known + NEW_APPEARANCE * (new - known))
                    .collect()
            }
            None => embedding.to_vec(),
        };
        let length = mean.iter().map(|value| value * value).sum::<f32>().sqrt();
        let is_sound = length.is_finite() && length > 1e-6;
        self.appearance = is_sound.then(|| mean.into_iter().map(|value| value / length).collect());
    }

    /// Mean of its recent embeddings, of length one.
    pub(crate) fn appearance(&self) -> Option<&[f32]> {
        self.appearance.as_deref()
    }

    /// Cosine between the direction in which it went and that to `centre`; `None` where it stands, or was seen once.
    pub(crate) fn alignment(&self, centre: Point) -> Option<f32> {
        let (newest_pts, newest) = *self.recent.back()?;
        let long_ago = |(pts, _): &&(f64, Point)| newest_pts - pts >= DIRECTION_SPAN_MS;
        let before = self.recent.iter().rev().find(long_ago).or(self.recent.front());
        let (_, before) = *before?;
        let went = (newest.x - before.x, newest.y - before.y);
        let goes = (centre.x - before.x, centre.y - before.y);
        let (length, other) = (went.0.hypot(went.1), goes.0.hypot(goes.1));
        let side = self.seen.area().sqrt();
        if length < 0.2 * side || other < 0.2 * side {
            return None;
        }
        Some((went.0 * goes.0 + went.1 * goes.1) / (length * other))
    }

    /// Returns whether a module is to run for an item of the track by that rule; if so, the item counts as
    /// asked.
    pub(crate) fn ask(&mut self, rule: &PerTrack, item: Candidate) -> bool {
        let certainty = self.settled.certainty(item.module).unwrap_or(0.0);
        self.readings.ask(rule, item, self.id.is_some(), certainty)
    }

    /// Returns the state of the track for a delivery; `None` while it is tentative.
    pub(crate) fn state(&self) -> Option<TrackState> {
        Some(TrackState {
            id: self.id?,
            age_ms: self.last.pts_ms - self.first.0.pts_ms,
            stationary_ms: self.stationary_ms(),
            velocity: self.motion.velocity(),
            class: self.settled.class(),
            attributes: self.settled.attributes(),
        })
    }

    /// Returns the summary of the track at its end; `None` if it was never confirmed.
    pub(crate) fn end(&self) -> Option<TrackEnd> {
        let attributes: Arc<[(Arc<str>, Attribute)]> = self.settled.attributes();
        Some(TrackEnd {
            id: self.id?,
            class: self.settled.class(),
            began_ms: self.first.0.time_ms,
            last_seen_ms: self.last.time_ms,
            began_pts_ms: self.first.0.pts_ms,
            last_pts_ms: self.last.pts_ms,
            attributes: attributes.to_vec(),
        })
    }
}

/// The box that part of the path from one to another.
fn between(from: &Rect, to: &Rect, part: f32) -> Rect {
    let mix = |from: f32, to: f32| from + (to - from) * part;
    Rect::new(
        mix(from.x0, to.x0),
        mix(from.y0, to.y0),
        mix(from.x1, to.x1),
        mix(from.y1, to.y1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_track_is_stationary_ten_seconds_after_it_came_to_its_place_until_it_leaves() {
        let time = |pts_ms: f64| FrameTime { pts_ms, time_ms: 0 };
        let rect = |x: f32| Rect::new(x, 0.0, x + 40.0, 40.0);
        let mut track = Track::new(rect(0.0), time(0.0));
        track.id = Some(1);
        let mut stationary = Vec::new();
        for (seconds, x) in [
            (1, 30.0),
            (2, 60.0),
            (11, 62.0),
            (12, 59.0),
            (20, 61.0),
            (21, 90.0),
        ] {
            track.observe(rect(x), time(f64::from(seconds) * 1e3));
            stationary.push(track.state().and_then(|state| state.stationary_ms));
        }
        assert_eq!(
            stationary,
            [None, None, None, Some(10_000.0), Some(18_000.0), None]
        );
    }
}
