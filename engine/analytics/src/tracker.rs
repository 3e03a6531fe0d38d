//! Follows the objects of one stream through its frames, which come at irregular times: some are missing, by design.
//!
//! A frame's detections are assigned to tracks as in ByteTrack (Zhang et al., *ByteTrack*, 2022, algorithm
//! 1), by optimal assignment in rounds. The first round assigns certain detections to all confirmed tracks.
//! The second one assigns less certain detections, unless they lie on a certain one, to tracks that were seen
//! in the frame before. The third one compares the embeddings, if there are any, of the remaining certain
//! detections with those of tracks that were not seen for a while. The last ones compare them with the places
//! where tracks were last seen (OC-SORT, section 4.2), or stood still, and with tentative tracks. Certain
//! detections that still remain begin tracks if their score reaches `begin`; these are tentative until they
//! were seen `min_hits` times. Predictions are for the frame's own time, and boxes are compared with a margin
//! that grows with the uncertainty of the prediction. A track ends once it was not seen for `lost_after`. A
//! track that stood still, and may be hidden, ends later: its object is recognised by its place.

use std::sync::Arc;

use weir_flow::{KeyKind, KeySpec, Point, Rect, Settings, TrackEnd};

use crate::assignment::Gains;
use crate::ids::TrackIds;
use crate::track::{FrameTime, Track};

/// Detections of a frame that are looked at, those of highest score: assignment takes time with the cube of them.
const MAX_DETECTIONS: usize = 500;
/// Live tracks: no new ones begin beyond.
const MAX_TRACKS: usize = 1000;

/// Keys of a module with `operator = "track"`.
pub const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "lost_after",
        kind: KeyKind::Duration,
        about: "time without an observation after which a track ends, in media time; default \"2s\"",
    },
    KeySpec {
        name: "still_lost_after",
        kind: KeyKind::Duration,
        about: "the same of a track that stood still for two seconds, such as a parked car behind a truck: the track \
                continues when an object is at its place again; not below `lost_after`; default five times that",
    },
    KeySpec {
        name: "high",
        kind: KeyKind::Number { min: 0.0, max: 1.0 },
        about: "least score of an object that is certain enough to continue any track; default 0.5",
    },
    KeySpec {
        name: "begin",
        kind: KeyKind::Number { min: 0.0, max: 1.0 },
        about: "least score of an object that begins a track, not below `high`; default 0.1 above it. An object below the \
                operating threshold of its class (`class_thresholds` of the model) begins none",
    },
    KeySpec {
        name: "low",
        kind: KeyKind::Number { min: 0.0, max: 1.0 },
        about: "least score of an object that continues a track seen in the frame before, unless it lies on one \
                from `high` on; not above `high`; default 0.1. Only what the model gives counts: its `score_threshold` must \
                be as low",
    },
    KeySpec {
        name: "min_hits",
        kind: KeyKind::Integer { min: 1, max: 100 },
        about: "frames in a row in which an object is seen before its track counts; default 2",
    },
    KeySpec {
        name: "min_overlap",
        kind: KeyKind::Number { min: 0.0, max: 1.0 },
        about: "least intersection over union of a certain object and the predicted box of its track; default 0.2",
    },
    KeySpec {
        name: "classes",
        kind: KeyKind::Texts,
        about: "classes that it follows, such as [\"car\", \"person\"]; default all",
    },
    KeySpec {
        name: "parts",
        kind: KeyKind::Texts,
        about: "classes that are not followed but part of others in whose boxes they lie, such as [\"plate of car, van\", \
                \"face of person\"]: what is read of them belongs to the tracks of these; default none",
    },
    KeySpec {
        name: "confirm_candidates",
        kind: KeyKind::Texts,
        about: "classes of which candidates (`class_thresholds` of the model) are events where a track confirms them that was one \
                by itself in half of its last eight observations, such as [\"person\"]; default none",
    },
    KeySpec {
        name: "appearance",
        kind: KeyKind::Text,
        about: "a module of embeddings (`vector = true`) by which objects are known again that were not seen for a while; \
                default none",
    },
    KeySpec {
        name: "min_similarity",
        kind: KeyKind::Number { min: -1.0, max: 1.0 },
        about: "least cosine of the embeddings of an object and its track, with `appearance`; default 0.5",
    },
    KeySpec {
        name: "remember",
        kind: KeyKind::Duration,
        about: "time for which a track is recognised again by its embedding alone, with `appearance`; default `lost_after`",
    },
];

/// Thresholds and timeouts of a tracker; see [`KEYS`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrackerSettings {
    /// Media time, in milliseconds, after which a track that is not seen ends.
    pub lost_after_ms: f64,
    /// The same for a track that stood still; at least `lost_after_ms`.
    pub still_lost_after_ms: f64,
    /// Least score of an object that continues any track.
    pub high: f32,
    /// Least score of an object that begins a track. ByteTrack, too, requires more for this than for
    /// continuing one.
    pub begin: f32,
    /// Least score of an object that continues a track seen in the frame before.
    pub low: f32,
    /// Frames in a row in which an object is seen before its track is confirmed.
    pub min_hits: u32,
    /// Least intersection over union with the predicted box.
    pub min_overlap: f32,
    /// Least cosine of embeddings by which an object is recognised.
    pub min_similarity: f32,
    /// Media time, in milliseconds, for which a track with an embedding is recognised by it; at least
    /// `lost_after_ms`.
    pub remember_ms: f64,
}

impl Default for TrackerSettings {
    fn default() -> Self {
        Self {
            lost_after_ms: 2_000.0,
            still_lost_after_ms: 10_000.0,
            high: 0.5,
            begin: 0.6,
            low: 0.1,
            min_hits: 2,
            min_overlap: 0.2,
            min_similarity: 0.5,
            remember_ms: 2_000.0,
        }
    }
}

impl From<&Settings> for TrackerSettings {
    fn from(settings: &Settings) -> Self {
        let default = Self::default();
        let number = |key: &str, value: f32| settings.number(key, f64::from(value)) as f32;
        let lost_after = settings.number("lost_after", default.lost_after_ms / 1e3);
        Self {
            lost_after_ms: lost_after * 1e3,
            still_lost_after_ms: settings
                .number("still_lost_after", STILL_TIMES * lost_after)
                .max(lost_after)
                * 1e3,
            high: number("high", default.high),
            begin: number("begin", (number("high", default.high) + 0.1).min(1.0)),
            low: number("low", default.low),
            min_hits: settings.number("min_hits", f64::from(default.min_hits)) as u32,
            min_overlap: number("min_overlap", default.min_overlap),
            min_similarity: number("min_similarity", default.min_similarity),
            remember_ms: settings.number("remember", lost_after).max(lost_after) * 1e3,
        }
    }
}

/// An object of a frame, as far as it is needed to follow it.
#[derive(Debug, Clone, PartialEq)]
pub struct Detection<'a> {
    /// Box in source pixels.
    pub rect: Rect,
    /// Confidence, 0 to 1.
    pub score: f32,
    /// Class of the object, as the module reports it.
    pub class: &'a Arc<str>,
    /// Its embedding of length one, where a module made one.
    pub appearance: Option<&'a [f32]>,
    /// Whether it is below the operating threshold of its class: it begins no track.
    pub candidate: bool,
}

/// Follows the objects of one stream.
#[derive(Debug)]
pub struct Tracker {
    settings: TrackerSettings,
    tracks: Vec<Track>,
    /// Time of the newest frame.
    newest: Option<FrameTime>,
}

/// Least overlap of a less certain object with the prediction of its track, beyond its overlap with any
/// certain object. An object that lies on a certain one is mostly a second box of it; a track hidden behind
/// it would change places with it.
const MIN_OVERLAP_LOW: f32 = 0.4;
/// Least overlap with the place where a track was last seen.
const MIN_OVERLAP_SEEN: f32 = 0.3;
/// Least overlap with the place where a track stood that was not seen for `lost_after`.
const MIN_OVERLAP_STOOD: f32 = 0.5;
/// Default of `still_lost_after`, as a multiple of `lost_after`.
const STILL_TIMES: f64 = 5.0;
/// Least overlap with a tentative track.
const MIN_OVERLAP_TENTATIVE: f32 = 0.3;
/// Penalty, in units of overlap, of an object of another class than the track's.
const OTHER_CLASS: f32 = 0.5;
/// Media time, in milliseconds, without an observation after which an object may be elsewhere: appearance
/// counts in addition to place from then on.
const GAP_MS: f64 = 250.0;
/// Distance below `min_similarity` at which a cosine means another object. Between the two, the appearance
/// decides nothing, since embeddings of one face differ, too, as it turns.
const UNLIKE: f32 = 0.5;
/// Penalty of an object that looks different from its track after a gap. It exceeds any overlap, so the
/// object is not assigned to that track.
const OTHER_LOOK: f32 = 2.0;
/// Distance from the predicted centre within which an object is recognised by its embedding: a number of
/// standard deviations of the prediction, plus a number of sides of the box.
const REACH: f32 = 4.0;
const REACH_SIDES: f32 = 1.0;
/// Weight of the direction of motion, beside the overlap.
const DIRECTION_WEIGHT: f32 = 0.1;
/// Margin in standard deviations of the predicted centre, and the most in sides of the box.
const MARGIN: f32 = 1.0;
const MAX_MARGIN: f32 = 0.5;

impl Tracker {
    /// A tracker that has seen nothing.
    #[must_use]
    pub fn new(settings: TrackerSettings) -> Self {
        Self {
            settings,
            tracks: Vec::new(),
            newest: None,
        }
    }

    /// Scales all tracks to pictures with this many times the width and height, so that they keep their
    /// places.
    pub fn on_resize(&mut self, x: f32, y: f32) {
        self.tracks.iter_mut().for_each(|track| track.on_resize(x, y));
    }

    /// Takes the detections of the next frame. The track of each that has one, by its number until the next call; and the
    /// tracks that ended before. The order of detections is of no effect.
    pub fn on_frame(
        &mut self,
        time: FrameTime,
        detections: &[Detection<'_>],
        ids: &mut TrackIds,
    ) -> (Vec<Option<usize>>, Vec<TrackEnd>) {
        let ended = self.end_lost(time);
        let previous = self.newest.replace(time);
        let (high, low) = self.split(detections);
        let mut track_of = self.associate((time, previous), detections, (&high, &low));
        for (detection, track) in track_of.iter().enumerate() {
            if let Some(track) = track {
                let (track, detection) = (&mut self.tracks[*track], &detections[detection]);
                track.observe(detection.rect, time);
                track.settled.on_class(detection.class, detection.score);
                if let Some(appearance) = detection.appearance {
                    track.on_appearance(appearance);
                }
            }
        }
        for detection in high {
            let begins = &detections[detection];
            let is_sure = begins.score >= self.settings.begin && !begins.candidate;
            if track_of[detection].is_some() || !is_sure || self.tracks.len() >= MAX_TRACKS {
                continue;
            }
            let mut track = Track::new(begins.rect, time);
            track.settled.on_class(begins.class, begins.score);
            if let Some(appearance) = begins.appearance {
                track.on_appearance(appearance);
            }
            track_of[detection] = Some(self.tracks.len());
            self.tracks.push(track);
        }
        self.drop_tentative(time, &mut track_of);
        for track in &mut self.tracks {
            if track.id.is_none() && track.hits >= self.settings.min_hits {
                track.id = Some(ids.next(time.time_ms));
            }
        }
        (track_of, ended)
    }

    /// Track of each detection, by rounds from the surest to the least sure: `high` and `low` are the detections by their scores.
    fn associate(
        &self,
        (time, previous): (FrameTime, Option<FrameTime>),
        detections: &[Detection<'_>],
        (high, low): (&[usize], &[usize]),
    ) -> Vec<Option<usize>> {
        let covered = covered(detections, low, high);
        let predicted: Vec<Predicted> = self
            .tracks
            .iter()
            .map(|track| {
                let motion = track.predicted(time.pts_ms);
                Predicted {
                    rect: motion.rect(),
                    spread: motion.spread(),
                }
            })
            .collect();
        let mut round = Round {
            tracks: &self.tracks,
            predicted: &predicted,
            detections,
            track_of: vec![None; detections.len()],
            detection_of: vec![None; self.tracks.len()],
            pts_ms: time.pts_ms,
            min_similarity: self.settings.min_similarity,
        };
        let (lost_after_ms, remember_ms) = (self.settings.lost_after_ms, self.settings.remember_ms);
        let is_live = |track: &Track| time.pts_ms - track.last.pts_ms <= lost_after_ms;
        let is_confirmed = |track: &Track| track.id.is_some() && is_live(track);
        let seen_before = |track: &Track| Some(track.last) == previous;
        let min_overlap = self.settings.min_overlap;
        round.assign(high, is_confirmed, |round, track, detection| {
            round.likeness(track, detection) - min_overlap
        });
        round.assign(
            low,
            |track| is_confirmed(track) && seen_before(track),
            |round, track, detection| {
                let rect = &round.detections[detection].rect;
                let overlap = rect.iou(&round.predicted[track].rect) - covered[detection];
                overlap - round.class_loss(track, detection) - MIN_OVERLAP_LOW
            },
        );
        if detections.iter().any(|detection| detection.appearance.is_some()) {
            round.assign(
                high,
                |track| {
                    let hidden_ms = time.pts_ms - track.last.pts_ms;
                    let most_ms = remember_ms.max(lost_after_ms);
                    track.id.is_some() && (GAP_MS..=most_ms).contains(&hidden_ms)
                },
                |round, track, detection| round.resemblance(track, detection, is_live) - round.min_similarity,
            );
        }
        round.assign(high, is_confirmed, |round, track, detection| {
            let overlap = round.detections[detection].rect.iou(&round.tracks[track].seen);
            overlap - round.loss(track, detection) - MIN_OVERLAP_SEEN
        });
        round.assign(
            high,
            |track| track.id.is_some() && track.stood().is_some() && !is_live(track),
            |round, track, detection| {
                let rect = &round.detections[detection].rect;
                let overlap = round.tracks[track].stood().map_or(0.0, |stood| rect.iou(stood));
                overlap - round.loss(track, detection) - MIN_OVERLAP_STOOD
            },
        );
        round.assign(
            high,
            |track| track.id.is_none(),
            |round, track, detection| round.likeness(track, detection) - MIN_OVERLAP_TENTATIVE,
        );
        round.track_of
    }

    /// The track of that number, as [`Tracker::on_frame`] gave it.
    pub(crate) fn track_mut(&mut self, number: usize) -> Option<&mut Track> {
        self.tracks.get_mut(number)
    }

    /// The id of the track of that number, as [`Tracker::on_frame`] gave it; `None` while it is tentative.
    #[must_use]
    pub fn id(&self, number: usize) -> Option<u64> {
        self.tracks.get(number)?.id
    }

    /// The track, tentative or not, that a box of a frame on its way is most likely of.
    pub(crate) fn nearest(&mut self, pts_ms: f64, rect: &Rect) -> Option<&mut Track> {
        let overlaps = self.tracks.iter().enumerate().map(|(number, track)| {
            let motion = track.predicted(pts_ms);
            let predicted = Predicted {
                rect: motion.rect(),
                spread: motion.spread(),
            };
            (number, overlap(rect, &predicted))
        });
        let best = overlaps.max_by(|(_, one), (_, other)| one.total_cmp(other));
        let (number, _) = best.filter(|(_, overlap)| *overlap >= MIN_OVERLAP_SEEN)?;
        self.tracks.get_mut(number)
    }

    /// The frame of that media time was delivered: questions up to it have their answers.
    pub(crate) fn on_delivered(&mut self, pts_ms: f64) {
        for track in &mut self.tracks {
            track.readings.on_delivered(pts_ms);
        }
    }

    /// The frame of that request was dropped: questions of it remain without an answer.
    pub(crate) fn on_dropped(&mut self, request: u64) {
        for track in &mut self.tracks {
            track.readings.on_dropped(request);
        }
    }

    /// Ids and boxes of the tracks, as they are expected to be at that media time.
    pub fn expected(&self, pts_ms: f64) -> impl Iterator<Item = (u64, Rect)> {
        let expected = move |track: &Track| Some((track.id?, track.predicted(pts_ms).rect()));
        self.tracks.iter().filter_map(expected)
    }

    /// Tracks that are followed, tentative ones counted.
    #[must_use]
    pub fn track_count(&self) -> usize {
        self.tracks.len()
    }

    /// The stream ended or was interrupted: all its tracks end.
    pub fn close(&mut self) -> Vec<TrackEnd> {
        self.newest = None;
        self.tracks.drain(..).filter_map(|track| track.end()).collect()
    }

    /// Ends what was not seen for too long by that time, and everything where time has gone back.
    fn end_lost(&mut self, time: FrameTime) -> Vec<TrackEnd> {
        if self.newest.is_some_and(|newest| time.pts_ms < newest.pts_ms) {
            return self.close();
        }
        let settings = &self.settings;
        let is_lost = |track: &mut Track| {
            let is_remembered = track.id.is_some() && track.appearance().is_some();
            let mut after_ms = settings.lost_after_ms;
            if is_remembered {
                after_ms = after_ms.max(settings.remember_ms);
            }
            if track.stood().is_some() {
                after_ms = after_ms.max(settings.still_lost_after_ms);
            }
            time.pts_ms - track.last.pts_ms > after_ms
        };
        self.tracks
            .extract_if(.., is_lost)
            .filter_map(|track| track.end())
            .collect()
    }

    /// Detections above the thresholds, in an order that depends on nothing but themselves.
    fn split(&self, detections: &[Detection<'_>]) -> (Vec<usize>, Vec<usize>) {
        let is_box = |rect: &Rect| {
            let sides = [rect.x0, rect.y0, rect.x1, rect.y1];
            sides.iter().all(|side| side.is_finite()) && rect.area() > 0.0
        };
        let mut order: Vec<usize> = (0..detections.len())
            .filter(|index| {
                let detection = &detections[*index];
                detection.score >= self.settings.low.min(self.settings.high) && is_box(&detection.rect)
            })
            .collect();
        order.sort_by(|one, other| {
            let (one, other) = (&detections[*one], &detections[*other]);
            let sides = |rect: &Rect| [rect.x0, rect.y0, rect.x1, rect.y1];
            let by_score = other.score.total_cmp(&one.score);
            let pairs = sides(&one.rect).into_iter().zip(sides(&other.rect));
            pairs
                .fold(by_score, |order, (one, other)| order.then(one.total_cmp(&other)))
                .then_with(|| one.class.cmp(other.class))
        });
        order.truncate(MAX_DETECTIONS);
        let certain = order
            .iter()
            .take_while(|index| detections[**index].score >= self.settings.high)
            .count();
        let low = order.split_off(certain);
        (order, low)
    }

    /// Drops tentative tracks that this frame does not show.
    fn drop_tentative(&mut self, time: FrameTime, track_of: &mut [Option<usize>]) {
        let stays = |track: &Track| track.id.is_some() || track.last == time;
        let mut next = 0;
        let numbers: Vec<usize> = self
            .tracks
            .iter()
            .map(|track| {
                next += usize::from(stays(track));
                next.saturating_sub(1)
            })
            .collect();
        self.tracks.retain(stays);
        for track in track_of.iter_mut().flatten() {
            *track = numbers[*track];
        }
    }
}

/// Predicted box of a track in one frame.
struct Predicted {
    rect: Rect,
    /// Standard deviation of its centre, in pixels.
    spread: f32,
}

/// The assignment of one frame, round by round.
struct Round<'a> {
    tracks: &'a [Track],
    predicted: &'a [Predicted],
    detections: &'a [Detection<'a>],
    track_of: Vec<Option<usize>>,
    detection_of: Vec<Option<usize>>,
    /// Media time of the frame.
    pts_ms: f64,
    min_similarity: f32,
}

impl Round<'_> {
    /// Assigns those of `detections` that have no track to tracks that have none of them and are `wanted`.
    fn assign(
        &mut self,
        detections: &[usize],
        wanted: impl Fn(&Track) -> bool,
        gain: impl Fn(&Self, usize, usize) -> f32,
    ) {
        let rows: Vec<usize> = (0..self.tracks.len())
            .filter(|track| self.detection_of[*track].is_none() && wanted(&self.tracks[*track]))
            .collect();
        let columns: Vec<usize> = detections
            .iter()
            .copied()
            .filter(|detection| self.track_of[*detection].is_none())
            .collect();
        if rows.is_empty() || columns.is_empty() {
            return;
        }
        let gains = Gains::new(rows.len(), columns.len(), |row, column| {
            f64::from(gain(self, rows[row], columns[column]))
        });
        for (row, column) in gains.assign() {
            let (track, detection) = (rows[row], columns[column]);
            self.track_of[detection] = Some(track);
            self.detection_of[track] = Some(detection);
        }
    }

    /// Returns the likeness of a detection and the prediction of a track: overlap and direction, minus
    /// penalties; 0 without an overlap.
    fn likeness(&self, track: usize, detection: usize) -> f32 {
        let (rect, predicted) = (&self.detections[detection].rect, &self.predicted[track]);
        let overlap = overlap(rect, predicted);
        if overlap <= 0.0 {
            return 0.0;
        }
        let centre: Point = rect.centre();
        let alignment = self.tracks[track].alignment(centre).unwrap_or(0.0);
        overlap + DIRECTION_WEIGHT * alignment - self.loss(track, detection)
    }

    /// Cosine of the embeddings of a track and a detection that may be it; -1 where either has none, or it is out of reach.
    fn resemblance(&self, track: usize, detection: usize, is_live: impl Fn(&Track) -> bool) -> f32 {
        let (known, seen) = (&self.tracks[track], &self.detections[detection]);
        let predicted = &self.predicted[track];
        let (from, to) = (predicted.rect.centre(), seen.rect.centre());
        let reach = REACH * predicted.spread + REACH_SIDES * predicted.rect.area().sqrt();
        let is_near = (from.x - to.x).hypot(from.y - to.y) <= reach || !is_live(known);
        let cosine = self.cosine(track, detection).filter(|_| is_near);
        cosine.map_or(-1.0, |cosine| cosine - self.class_loss(track, detection))
    }

    /// Returns the cosine of the embeddings; `None` if either has none.
    fn cosine(&self, track: usize, detection: usize) -> Option<f32> {
        let known = self.tracks[track].appearance()?;
        let seen = self.detections[detection].appearance?;
        let product = |(one, other): (&f32, &f32)| one * other;
        let cosine = || known.iter().zip(seen).map(product).sum::<f32>();
        (known.len() == seen.len())
            .then(cosine)
            .filter(|cosine| cosine.is_finite())
    }

    /// Returns the penalty for another class and, after a gap, for another appearance.
    fn loss(&self, track: usize, detection: usize) -> f32 {
        let is_gap = self.pts_ms - self.tracks[track].last.pts_ms >= GAP_MS;
        let cosine = self.cosine(track, detection).filter(|_| is_gap);
        let looks_otherwise = cosine.is_some_and(|cosine| cosine < self.min_similarity - UNLIKE);
        let loss = if looks_otherwise { OTHER_LOOK } else { 0.0 };
        loss + self.class_loss(track, detection)
    }

    fn class_loss(&self, track: usize, detection: usize) -> f32 {
        let same = self.tracks[track].settled.class() == *self.detections[detection].class;
        if same { 0.0 } else { OTHER_CLASS }
    }
}

/// The most that each of the detections in `low` overlaps one of those in `high`, by its place among all.
fn covered(detections: &[Detection<'_>], low: &[usize], high: &[usize]) -> Vec<f32> {
    let mut covered = vec![0.0; detections.len()];
    for index in low {
        let overlaps = high
            .iter()
            .map(|other| detections[*other].rect.iou(&detections[*index].rect));
        covered[*index] = overlaps.fold(0.0, f32::max);
    }
    covered
}

/// Intersection over union, both boxes grown by the uncertainty of the predicted place.
fn overlap(rect: &Rect, predicted: &Predicted) -> f32 {
    let side = rect.area().sqrt().min(predicted.rect.area().sqrt());
    let margin = (MARGIN * predicted.spread).min(MAX_MARGIN * side);
    let grown = |rect: &Rect| {
        Rect::new(
            rect.x0 - margin,
            rect.y0 - margin,
            rect.x1 + margin,
            rect.y1 + margin,
        )
    };
    grown(rect).iou(&grown(&predicted.rect))
}
