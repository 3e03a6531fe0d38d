//! The picture in which each track is seen best.
//!
//! The quality of a picture depends on the confidence of the object, on its size and sharpness, on whether
//! the edge of the frame cuts it, and on the part of it that a nearer object covers. A new picture replaces
//! the old one only if it is clearly better, and the number of pictures a second is limited: taking one
//! copies pixels, which deliveries should not wait for.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::{BestShot, Phase, Rect};

use super::finding::{Finding, number};
use super::spec::BestShotSpec;
use super::subject::{Subject, View};
use crate::track::FrameTime;

/// Maximum number of tracks whose sharpness is measured in a frame: each measurement reads some of its
/// pixels.
const MAX_LOOKS: usize = 4;
/// Media time until a track is measured again, in milliseconds.
const LOOK_INTERVAL_MS: f64 = 200.0;
/// Media time, in milliseconds, for which pictures of ended tracks are kept for incidents that end later.
const ENDED_KEPT_MS: f64 = 60_000.0;

/// Factor on the quality if the edge of the frame cuts the object.
const CUT: f64 = 0.3;
/// Factor on the quality if a nearer object covers the object completely; partial cover counts in proportion.
const COVERED: f64 = 0.3;
/// Factor on the quality if the picture has no sharpness; partial sharpness counts in proportion.
const BLURRED: f64 = 0.5;
/// Part of the smaller of two boxes from which on it counts as part of the other object, and not as behind
/// it.
const PART_OF: f32 = 0.9;

/// Best pictures of the tracks of one stream, and the allowance for taking more.
pub(crate) struct BestShots {
    spec: BestShotSpec,
    every_ms: f64,
    tracks: BTreeMap<u64, Kept>,
    /// Number of pictures that may be taken now, and the media time of its last change.
    allowance: f64,
    allowed_at: Option<f64>,
    begun: u64,
}

/// Best picture of a track so far.
struct Kept {
    number: u64,
    began: FrameTime,
    shot: Arc<BestShot>,
    quality: f64,
    sharpness: f32,
    /// Media time of the last measurement.
    looked: f64,
    /// Frame of the picture that was reported last, and the media time of the report.
    reported: Option<(u64, f64)>,
    ended: Option<f64>,
}

/// A track that may be seen better in this frame than before.
struct Candidate<'a> {
    subject: &'a Subject,
    /// Media time of its last measurement; `None` if it has no picture.
    looked: Option<f64>,
}

impl BestShots {
    pub(crate) fn new(spec: BestShotSpec, every_ms: f64) -> Self {
        Self {
            allowance: spec.per_second.max(1.0),
            spec,
            every_ms,
            tracks: BTreeMap::new(),
            allowed_at: None,
            begun: 0,
        }
    }

    pub(crate) fn on_frame<'a>(
        &mut self,
        view: &View<'a>,
        subjects: impl Iterator<Item = &'a Subject>,
        out: &mut Vec<Finding>,
    ) {
        self.refill(view.now.pts_ms);
        let subjects: Vec<&Subject> = subjects.collect();
        self.take(view, &subjects);
        for subject in subjects {
            out.extend(self.report(subject));
        }
    }

    /// Refills the allowance for pictures, and forgets pictures of tracks that ended long ago.
    fn refill(&mut self, now: f64) {
        let since = self.allowed_at.replace(now).unwrap_or(now);
        let more = (now - since).max(0.0) / 1e3 * self.spec.per_second;
        self.allowance = (self.allowance + more).min(self.spec.per_second.max(1.0));
        let is_recent = |ended: f64| (now - ended).abs() <= ENDED_KEPT_MS;
        self.tracks.retain(|_, kept| kept.ended.is_none_or(is_recent));
    }

    fn take(&mut self, view: &View<'_>, subjects: &[&Subject]) {
        let Some(pixels) = view.pixels else { return };
        let now = view.now.pts_ms;
        let mut candidates: Vec<Candidate<'_>> = subjects
            .iter()
            .filter_map(|subject| self.candidate(subject, now))
            .collect();
        // Those without a picture first, then those that were looked at longest ago.
        let looked = |candidate: &Candidate<'_>| candidate.looked.unwrap_or(f64::NEG_INFINITY);
        candidates.sort_by(|one, other| looked(one).total_cmp(&looked(other)));
        candidates.truncate(MAX_LOOKS);
        for Candidate { subject, looked } in candidates {
            if self.allowance < self.needed(looked.is_some()) || !self.has_room(subject.track) {
                continue;
            }
            let sharpness = pixels.taker.sharpness(pixels.frame, &subject.rect);
            let quality = self.bound(subject)
                * (BLURRED + (1.0 - BLURRED) * f64::from(sharpness.clamp(0.0, 1.0)))
                * (1.0 - (1.0 - COVERED) * covered(subject, view));
            if let Some(kept) = self.tracks.get_mut(&subject.track) {
                kept.looked = now;
                if quality < kept.quality * self.spec.min_gain {
                    continue;
                }
            }
            let shown = around(&subject.rect, self.spec.margin);
            let Some(picture) = pixels.taker.take(pixels.frame, &shown, self.spec.limits) else {
                continue;
            };
            self.allowance -= 1.0;
            let shot = Arc::new(BestShot {
                picture,
                rect: subject.rect,
                score: subject.score,
                frame: pixels.frame.index,
                pts_ms: now,
            });
            self.keep(subject, shot, (quality, sharpness));
        }
    }

    /// Returns the allowance that must be left for taking a picture: half of it is reserved for tracks
    /// without a picture.
    fn needed(&self, has_picture: bool) -> f64 {
        let most = self.spec.per_second.max(1.0);
        let reserved = if has_picture { most / 2.0 } else { 0.0 };
        (1.0 + reserved).min(most)
    }

    /// Returns the track as a candidate if it may be seen better than before.
    fn candidate<'a>(&self, subject: &'a Subject, now: f64) -> Option<Candidate<'a>> {
        if self.spec.skips_stationary && subject.is_stationary {
            return None;
        }
        let kept = self.tracks.get(&subject.track);
        let may_be_better = kept.is_none_or(|kept| {
            let is_due = (now - kept.looked).abs() >= LOOK_INTERVAL_MS;
            is_due && self.bound(subject) >= kept.quality * self.spec.min_gain
        });
        let is_seen = self.bound(subject) > 0.0;
        (is_seen && may_be_better).then(|| Candidate {
            subject,
            looked: kept.map(|kept| kept.looked),
        })
    }

    /// Returns the upper bound of the quality of a picture: it is sharp, and nothing covers the object.
    fn bound(&self, subject: &Subject) -> f64 {
        let longest = subject.rect.width().max(subject.rect.height());
        let size = f64::from(longest) / f64::from(self.spec.limits.max_side.max(1));
        let whole = if subject.is_cut { CUT } else { 1.0 };
        f64::from(subject.score.max(0.0)) * size.clamp(0.0, 1.0) * whole
    }

    /// Returns whether a picture of the track can be kept; if need be, the oldest picture of an ended track
    /// is removed.
    fn has_room(&mut self, track: u64) -> bool {
        if self.tracks.len() < self.spec.keep || self.tracks.contains_key(&track) {
            return true;
        }
        let ended = self
            .tracks
            .iter()
            .filter_map(|(id, kept)| Some((kept.ended?, *id)));
        let oldest = ended.min_by(|one, other| one.0.total_cmp(&other.0));
        oldest.is_some_and(|(_, id)| self.tracks.remove(&id).is_some())
    }

    fn keep(&mut self, subject: &Subject, shot: Arc<BestShot>, (quality, sharpness): (f64, f32)) {
        let begun = &mut self.begun;
        let kept = self.tracks.entry(subject.track).or_insert_with(|| {
            let number = *begun;
            *begun += 1;
            Kept {
                number,
                began: subject.at,
                shot: Arc::clone(&shot),
                quality,
                sharpness,
                looked: subject.at.pts_ms,
                reported: None,
                ended: None,
            }
        });
        (kept.shot, kept.quality, kept.sharpness) = (shot, quality, sharpness);
    }

    /// Reports the first picture of a track at once, and better ones now and then.
    fn report(&mut self, subject: &Subject) -> Option<Finding> {
        let kept = self.tracks.get_mut(&subject.track)?;
        let phase = match kept.reported {
            None => Phase::Began,
            Some((frame, at)) => {
                let is_due = subject.at.pts_ms - at >= self.every_ms;
                (is_due && frame != kept.shot.frame).then_some(Phase::Updated)?
            }
        };
        kept.reported = Some((kept.shot.frame, subject.at.pts_ms));
        Some(kept.finding(phase, subject))
    }

    pub(crate) fn on_track_end(&mut self, subject: &Subject) -> Option<Finding> {
        let kept = self.tracks.get_mut(&subject.track)?;
        if kept.ended.replace(subject.at.pts_ms).is_some() {
            return None;
        }
        Some(kept.finding(Phase::Ended, subject))
    }

    /// The best picture of a track, for incidents of the transform of that name, which may be this one.
    pub(crate) fn best_of(&self, track: u64, transform: &str, is_own: bool) -> Option<&Arc<BestShot>> {
        let named = &self.spec.transforms;
        let is_for = is_own || named.is_empty() || named.iter().any(|name| **name == *transform);
        self.tracks.get(&track).filter(|_| is_for).map(|kept| &kept.shot)
    }

    pub(crate) fn forget(&mut self) {
        self.tracks.clear();
    }
}

impl Kept {
    fn finding(&self, phase: Phase, subject: &Subject) -> Finding {
        Finding {
            number: self.number,
            phase,
            track: Some(subject.track),
            began: self.began,
            at: subject.at,
            values: vec![
                ("quality", number(self.quality, 3)),
                ("sharpness", number(f64::from(self.sharpness), 2)),
            ],
            ghost: None,
        }
    }
}

/// A box with a margin in parts of its sides.
fn around(rect: &Rect, margin: f32) -> Rect {
    let (x, y) = (rect.width() * margin, rect.height() * margin);
    Rect::new(rect.x0 - x, rect.y0 - y, rect.x1 + x, rect.y1 + y)
}

/// Part of the object that another one is before, 0 to 1: what stands lower in the picture is nearer.
fn covered(subject: &Subject, view: &View<'_>) -> f64 {
    let rect = &subject.rect;
    let others = view.seen().filter(|other| {
        other.track != subject.track && other.tracker == subject.tracker && other.rect.y1 > rect.y1
    });
    let parts = others.map(|other| {
        let (left, top) = (rect.x0.max(other.rect.x0), rect.y0.max(other.rect.y0));
        let (right, bottom) = (rect.x1.min(other.rect.x1), rect.y1.min(other.rect.y1));
        let shared = (right - left).max(0.0) * (bottom - top).max(0.0);
        let smaller = rect.area().min(other.rect.area());
        if shared >= PART_OF * smaller {
            return 0.0;
        }
        f64::from(shared / rect.area().max(1.0))
    });
    parts.fold(0.0, f64::max).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;
    use weir_flow::{Frame, Image, Incident, Picture, PictureLimits, PictureTaker, StreamNames, TrackEnd};

    use super::super::geometry::Anchor;
    use super::super::spec::{TransformKind, TransformSpec};
    use super::super::{FramePixels, SceneFrame, SceneObject, StreamTransform, StreamTransforms};
    use super::*;

    const LIMITS: PictureLimits = PictureLimits {
        max_side: 100,
        max_bytes: 1 << 16,
    };

    /// Sharpness as the test says it, and when pictures were taken.
    #[derive(Debug, Default)]
    struct Taker {
        sharpness: Mutex<f32>,
        taken: Mutex<Vec<f64>>,
        /// Held by every picture that is there.
        alive: Arc<()>,
    }

    #[derive(Debug)]
    struct Fake {
        _alive: Arc<()>,
    }

    impl Picture for Fake {
        fn jpeg(&self) -> &[u8] {
            b"a jpeg"
        }
    }

    impl PictureTaker for Taker {
        fn sharpness(&self, _frame: &Frame, _rect: &Rect) -> f32 {
            *self.sharpness.lock().expect("whole")
        }

        fn take(&self, frame: &Frame, _rect: &Rect, _limits: PictureLimits) -> Option<Arc<dyn Picture>> {
            self.taken.lock().expect("whole").push(frame.pts_ms);
            Some(Arc::new(Fake {
                _alive: Arc::clone(&self.alive),
            }))
        }
    }

    fn spec() -> BestShotSpec {
        BestShotSpec {
            transforms: Vec::new(),
            margin: 0.1,
            limits: LIMITS,
            min_gain: 1.15,
            per_second: 5.0,
            keep: 4,
            skips_stationary: false,
        }
    }

    fn transform(name: &str, kind: TransformKind) -> StreamTransform {
        StreamTransform {
            streams: StreamNames::default(),
            name: name.into(),
            spec: TransformSpec {
                classes: Vec::new(),
                anchor: Anchor::Bottom,
                outline: None,
                every_ms: 0.0,
                kind,
            },
            modules: [].into(),
            trackers: [0].into(),
        }
    }

    struct Stream {
        transforms: StreamTransforms,
        taker: Taker,
        frames: u64,
    }

    impl Stream {
        fn new(transforms: Vec<StreamTransform>) -> Self {
            Self {
                transforms: StreamTransforms::new("north".into(), transforms, 1_700_000_000),
                taker: Taker::default(),
                frames: 0,
            }
        }

        /// Objects of 640 x 480 frames: track, box, confidence. Those that are not in `ended` stay.
        fn frame(&mut self, pts_ms: f64, objects: &[(u64, Rect, f32)], ended: &[u64]) -> Vec<Incident> {
            let class: Arc<str> = "car".into();
            let objects: Vec<SceneObject<'_>> = objects
                .iter()
                .map(|(track, rect, score)| SceneObject {
                    module: 0,
                    track: Some((0, *track)),
                    first: None,
                    class: &class,
                    score: *score,
                    rect: *rect,
                    is_stationary: false,
                    attributes: &[],
                })
                .collect();
            let at = FrameTime {
                pts_ms,
                time_ms: 1_700_000_000_000 + pts_ms as u64,
            };
            let end = |track: &u64| TrackEnd {
                id: *track,
                class: Arc::clone(&class),
                began_ms: 0,
                last_seen_ms: at.time_ms,
                began_pts_ms: 0.0,
                last_pts_ms: pts_ms,
                attributes: Vec::new(),
            };
            let ended: Vec<TrackEnd> = ended.iter().map(end).collect();
            let frame = Frame::new(self.frames, pts_ms, Image::from_rgb(1, 1, vec![0; 3]));
            self.frames += 1;
            self.transforms.on_frame(&SceneFrame {
                width: 640,
                height: 480,
                at,
                objects: &objects,
                ended: &ended,
                pixels: Some(FramePixels {
                    frame: &frame,
                    taker: &self.taker,
                }),
            })
        }
    }

    fn square(x: f32, y: f32, side: f32) -> Rect {
        Rect::new(x, y, x + side, y + side)
    }

    fn quality(incident: &Incident) -> f64 {
        match incident.values[0] {
            ("quality", weir_flow::IncidentValue::Number(quality)) => quality,
            ref other => panic!("{other:?}"),
        }
    }

    fn frame_of(incidents: &[Incident], phase: Phase) -> Vec<u64> {
        let of_phase = incidents.iter().filter(|incident| incident.phase == phase);
        of_phase
            .map(|incident| incident.best.as_ref().expect("a picture").frame)
            .collect()
    }

    #[test]
    fn the_best_is_large_sharp_whole_and_not_covered_and_the_end_of_the_track_has_it() {
        let mut stream = Stream::new(vec![transform("best", TransformKind::BestShot(spec()))]);
        let mut found = Vec::new();
        // Frame, box, sharpness: it grows, is blurred as it is larger, is cut by the edge as it is largest.
        for (frame, rect, sharpness) in [
            (0, square(300.0, 100.0, 20.0), 0.8),
            (1, square(300.0, 150.0, 40.0), 0.8),
            (2, square(300.0, 200.0, 44.0), 0.1),
            (3, square(300.0, 300.0, 80.0), 0.8),
            (4, square(300.0, 400.0, 90.0), 0.9),
        ] {
            *stream.taker.sharpness.lock().expect("whole") = sharpness;
            found.extend(stream.frame(f64::from(frame) * 300.0, &[(1, rect, 0.9)], &[]));
        }
        // Another car before it, at a size that would be better.
        let (rect, other) = (square(300.0, 250.0, 99.0), square(320.0, 280.0, 100.0));
        found.extend(stream.frame(1800.0, &[(1, rect, 0.99), (2, other, 0.9)], &[]));
        found.retain(|incident| incident.track == Some(1));
        found.extend(stream.frame(2400.0, &[], &[1]));
        assert_eq!(frame_of(&found, Phase::Began), [0]);
        assert_eq!(frame_of(&found, Phase::Updated), [1, 3]);
        assert_eq!(frame_of(&found, Phase::Ended), [3]);
        let rects: Vec<Rect> = found
            .iter()
            .filter_map(|incident| Some(incident.best.as_ref()?.rect))
            .collect();
        assert_eq!(rects[3], square(300.0, 300.0, 80.0));
    }

    #[test]
    fn incidents_of_other_transforms_have_the_pictures_of_their_tracks_where_they_are_to() {
        let zone = |name| {
            let kind = TransformKind::Rule(super::super::RuleSpec {
                end_after_ms: 1e4,
                ..Default::default()
            });
            transform(name, kind)
        };
        let best = BestShotSpec {
            transforms: vec!["north".into()],
            ..spec()
        };
        let transforms = vec![
            zone("north"),
            zone("south"),
            transform("best", TransformKind::BestShot(best)),
        ];
        let mut stream = Stream::new(transforms);
        let mut found = stream.frame(0.0, &[(1, square(100.0, 100.0, 50.0), 0.9)], &[]);
        found.extend(stream.transforms.close(&[]));
        let with: Vec<(&str, Phase, bool)> = found
            .iter()
            .map(|incident| (&*incident.transform, incident.phase, incident.best.is_some()))
            .collect();
        for (name, has) in [("north", true), ("south", false), ("best", true)] {
            for phase in [Phase::Began, Phase::Ended] {
                assert!(with.contains(&(name, phase, has)), "{name} {phase:?}: {with:?}");
            }
        }
        drop(found);
        assert_eq!(
            Arc::strong_count(&stream.taker.alive),
            1,
            "nothing is kept of a stream that ended"
        );
    }

    #[test]
    fn without_pixels_nothing_is_found() {
        let mut all = StreamTransforms::new(
            "north".into(),
            vec![transform("best", TransformKind::BestShot(spec()))],
            0,
        );
        let class: Arc<str> = "car".into();
        let object = SceneObject {
            module: 0,
            track: Some((0, 1)),
            first: None,
            class: &class,
            score: 0.9,
            rect: square(10.0, 10.0, 50.0),
            is_stationary: false,
            attributes: &[],
        };
        let found = all.on_frame(&SceneFrame {
            width: 640,
            height: 480,
            at: FrameTime {
                pts_ms: 0.0,
                time_ms: 0,
            },
            objects: &[object],
            ended: &[],
            pixels: None,
        });
        assert!(found.is_empty() && all.close(&[]).is_empty());
    }

    /// Frames: milliseconds since the one before, how sharp it is, its objects by track, and a track that ends.
    type AnyFrame = (f64, f32, BTreeMap<u64, (f32, f32, f32, f32)>, Option<u64>);

    fn any_frames() -> impl Strategy<Value = Vec<AnyFrame>> {
        let object = (-50.0_f32..640.0, -50.0_f32..480.0, 1.0_f32..300.0, 0.0_f32..1.0);
        let objects = prop::collection::btree_map(0_u64..9, object, 0..9);
        let frame = (1.0_f64..400.0, 0.0_f32..1.0, objects, prop::option::of(0_u64..9));
        prop::collection::vec(frame, 1..60)
    }

    proptest! {
        #[test]
        fn the_best_never_gets_worse_and_no_more_pictures_are_taken_or_kept_than_may(frames in any_frames()) {
            let mut stream = Stream::new(vec![transform("best", TransformKind::BestShot(spec()))]);
            let (mut pts_ms, mut best) = (0.0, BTreeMap::<Arc<str>, (f64, u64)>::new());
            for (wait, sharpness, objects, ended) in frames {
                pts_ms += wait;
                *stream.taker.sharpness.lock().expect("whole") = sharpness;
                let ended: Vec<u64> = ended.into_iter().collect();
                let objects: Vec<(u64, Rect, f32)> = objects
                    .into_iter()
                    .filter(|(track, _)| !ended.contains(track))
                    .map(|(track, (x, y, side, score))| (track, square(x, y, side), score))
                    .collect();
                for incident in stream.frame(pts_ms, &objects, &ended) {
                    let shot = incident.best.as_ref().expect("what is reported has a picture");
                    let now = (quality(&incident), shot.frame);
                    let before = best.insert(Arc::clone(&incident.id), now);
                    if let Some(before) = before {
                        prop_assert!(now.0 >= before.0 && now.1 >= before.1, "{before:?} {now:?}");
                    }
                    prop_assert!(incident.phase != Phase::Began || before.is_none());
                }
                // One reference is the test's own.
                prop_assert!(Arc::strong_count(&stream.taker.alive) <= spec().keep + 1);
            }
            let taken = stream.taker.taken.lock().expect("whole");
            for (first, from) in taken.iter().enumerate() {
                for (more, to) in (1..).zip(&taken[first..]) {
                    let allowed = spec().per_second * (1.0 + (to - from) / 1e3);
                    prop_assert!(f64::from(more) <= allowed + 1e-6, "{more} within {} ms", to - from);
                }
            }
        }
    }
}
