//! Trackers of one stream, run in frame order on the results of the modules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_flow::{
    Attribute, Frame, Incident, ObjectAttribute, ObjectRef, Overlay, Parts, Rect, RequestResults,
    StreamNames, TrackEnd, TrackState,
};

use crate::ids::TrackIds;
use crate::picture_size::PictureSize;
use crate::reading::{Candidate, PerTrack};
use crate::track::FrameTime;
use crate::tracker::{Detection, Tracker, TrackerSettings};
use crate::transforms::StreamTransform;

/// A tracker of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackerPlan {
    /// Modules whose objects it follows, by index.
    pub modules: BTreeSet<u32>,
    /// Classes that it follows; all where there are none.
    pub classes: Vec<Arc<str>>,
    /// The module whose embeddings tell objects apart, by index.
    pub appearance: Option<u32>,
    /// Thresholds and timeouts of the tracker.
    pub settings: TrackerSettings,
    /// Classes of objects that are not followed, but are parts of other objects.
    pub parts: Parts,
    /// Classes whose candidates are events if their tracks confirm them.
    pub confirmed: Vec<Arc<str>>,
    /// The streams whose objects it follows.
    pub streams: StreamNames,
}

impl TrackerPlan {
    /// Whether it follows objects of that module and class.
    fn follows(&self, module: u32, class: &Arc<str>) -> bool {
        let is_wanted = self.classes.is_empty() || self.classes.contains(class);
        is_wanted && self.modules.contains(&module) && !self.parts.contains(class)
    }

    /// The followed object that `object` is, is part of, or was found in the crop of.
    fn followed(&self, results: &RequestResults, object: ObjectRef) -> Option<ObjectRef> {
        lineage(results, object).find_map(|name| {
            let class = &results.object(name)?.class;
            if self.follows(name.module, class) {
                return Some(name);
            }
            let owner = self
                .parts
                .owner(results, name, &|module| self.modules.contains(&module))?;
            let class = &results.object(owner)?.class;
            self.follows(owner.module, class).then_some(owner)
        })
    }
}

/// A track that transforms see from this frame on, with its first observation.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTrack {
    /// Index of its tracker in the plan.
    pub tracker: usize,
    /// Id of the track, as in its state.
    pub id: u64,
    /// Time and box of its first observation, before this frame.
    pub first: (FrameTime, Rect),
}

/// Trackers and transforms of a graph, the same for all its streams.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AnalyticsPlan {
    /// Trackers; other fields refer to them by index.
    pub trackers: Vec<TrackerPlan>,
    /// Transforms, each with the modules and trackers that it takes from.
    pub transforms: Vec<StreamTransform>,
}

impl AnalyticsPlan {
    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.trackers.is_empty() && self.transforms.is_empty()
    }
}

/// Tracks and incidents by one frame, or by the end of a stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FrameAnalytics {
    /// Objects that have tracks, each with its tracker.
    pub tracks: BTreeMap<ObjectRef, Vec<(usize, TrackState)>>,
    /// Candidates that tracks confirm, each with the tracker.
    pub confirmed: BTreeSet<(usize, ObjectRef)>,
    /// Candidates of tracks that were too seldom events to confirm one, each with the tracker: transforms leave them out.
    pub doubtful: BTreeSet<(usize, ObjectRef)>,
    /// Tracks that transforms are shown from this frame on, and that were seen in earlier ones.
    pub new_tracks: Vec<NewTrack>,
    /// Tracks that ended, each with its tracker.
    pub ended_tracks: Vec<(usize, TrackEnd)>,
    /// Incidents that transforms reported.
    pub incidents: Vec<Incident>,
    /// Drawings of transforms for the picture.
    pub overlays: Vec<Overlay>,
}

impl FrameAnalytics {
    /// The state of an object in its track, by one of these trackers.
    #[must_use]
    pub fn track(&self, object: ObjectRef, trackers: &BTreeSet<u32>) -> Option<&TrackState> {
        let states = self.tracks.get(&object)?.iter();
        let mut shown = states.filter(|(tracker, _)| trackers.contains(&(*tracker as u32)));
        shown.next().map(|(_, state)| state)
    }

    /// Whether a candidate is an event by one of these trackers.
    #[must_use]
    pub fn is_confirmed(&self, object: ObjectRef, trackers: &BTreeSet<u32>) -> bool {
        let mut trackers = trackers.iter();
        trackers.any(|tracker| self.confirmed.contains(&(*tracker as usize, object)))
    }

    /// Tracks that ended by one of these trackers.
    pub fn ended_by(&self, trackers: &BTreeSet<u32>) -> impl Iterator<Item = &TrackEnd> {
        let shown = |(tracker, _): &&(usize, TrackEnd)| trackers.contains(&(*tracker as u32));
        self.ended_tracks.iter().filter(shown).map(|(_, end)| end)
    }

    /// Incidents of these transforms.
    pub fn incidents_of(&self, transforms: &BTreeSet<Arc<str>>) -> impl Iterator<Item = &Incident> {
        let of = |incident: &&Incident| transforms.contains(&incident.transform);
        self.incidents.iter().filter(of)
    }

    /// Returns the drawings of these transforms.
    pub fn overlays_of(&self, transforms: &BTreeSet<Arc<str>>) -> impl Iterator<Item = &Overlay> {
        let of = |overlay: &&Overlay| transforms.contains(&overlay.transform);
        self.overlays.iter().filter(of)
    }

    /// Whether there is nothing to say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tracks.is_empty() && self.ended_tracks.is_empty() && self.incidents.is_empty()
    }
}

/// Trackers of one stream, with their tracks.
#[derive(Debug)]
pub struct StreamAnalytics {
    plan: Arc<AnalyticsPlan>,
    trackers: Vec<Tracker>,
    /// Whether each tracker is for this stream, by tracker.
    is_for: Vec<bool>,
    size: PictureSize,
}

impl StreamAnalytics {
    /// Creates the trackers of the stream of that name, without tracks.
    #[must_use]
    pub fn new(plan: &Arc<AnalyticsPlan>, stream: &str) -> Self {
        let trackers = plan.trackers.iter();
        Self {
            is_for: trackers
                .clone()
                .map(|tracker| tracker.streams.follow(stream))
                .collect(),
            trackers: trackers.map(|tracker| Tracker::new(tracker.settings)).collect(),
            plan: Arc::clone(plan),
            size: PictureSize::default(),
        }
    }

    /// Takes in the results of the modules for the next frame, which arrived at `time_ms` (UTC).
    pub fn on_frame(
        &mut self,
        frame: &Frame,
        time_ms: u64,
        results: &RequestResults,
        ids: &mut TrackIds,
    ) -> FrameAnalytics {
        let time = FrameTime {
            pts_ms: frame.pts_ms,
            time_ms,
        };
        if let Some((x, y)) = self.size.on_frame(frame.size()) {
            let trackers = self.trackers.iter_mut();
            trackers.for_each(|tracker| tracker.on_resize(x as f32, y as f32));
        }
        let mut found = FrameAnalytics::default();
        let trackers = self.trackers.iter_mut().zip(&self.plan.trackers).enumerate();
        for (number, (tracker, plan)) in trackers.filter(|(number, _)| self.is_for[*number]) {
            let seen = embeddings(plan, results);
            let (objects, detections): (Vec<ObjectRef>, Vec<Detection<'_>>) = results
                .objects()
                .filter(|(name, object)| plan.follows(name.module, &object.class))
                .map(|(name, object)| {
                    let detection = Detection {
                        rect: object.rect,
                        score: object.score,
                        class: &object.class,
                        appearance: seen.get(&name).copied(),
                        candidate: object.candidate,
                    };
                    (name, detection)
                })
                .unzip();
            let (tracks, ended) = tracker.on_frame(time, &detections, ids);
            found
                .ended_tracks
                .extend(ended.into_iter().map(|end| (number, end)));
            let tracked = objects.into_iter().zip(tracks);
            let tracked: BTreeMap<ObjectRef, usize> = tracked
                .filter_map(|(object, track)| Some((object, track?)))
                .collect();
            for (track, module, of) in attributes_of_tracks(&tracked, plan, results) {
                if let Some(track) = tracker.track_mut(track) {
                    let area = results.object(of.object).map_or(0.0, |object| object.rect.area());
                    track.settled.on_attribute(module, &of.name, &of.attribute);
                    track.readings.on_read(module, time.pts_ms, area);
                }
            }
            tracker.on_delivered(time.pts_ms);
            for (object, track) in tracked {
                let (Some(track), Some(seen)) = (tracker.track_mut(track), results.object(object)) else {
                    continue;
                };
                let is_event = track.standing.on_observed(seen.candidate);
                let Some(state) = track.state() else { continue };
                if is_event {
                    let new = track.on_shown().map(|first| NewTrack {
                        tracker: number,
                        id: state.id,
                        first,
                    });
                    found.new_tracks.extend(new);
                    if seen.candidate && plan.confirmed.contains(&seen.class) {
                        found.confirmed.insert((number, object));
                    }
                } else {
                    found.doubtful.insert((number, object));
                }
                found.tracks.entry(object).or_default().push((number, state));
            }
        }
        found
    }

    /// Whether a module is to run for an object of a frame, of that media time and request, that is on its way through the graph:
    /// by the newest track that it is likely of. What has no track yet is wanted, but by a rule that has it once; nothing is where
    /// the tracker is not for the stream.
    pub fn wants(
        &mut self,
        rule: &PerTrack,
        module: u32,
        (results, object): (&RequestResults, ObjectRef),
        (pts_ms, request): (f64, u64),
    ) -> bool {
        if self.is_for.get(rule.tracker) == Some(&false) {
            return false;
        }
        let Some((tracker, plan)) = self
            .trackers
            .get_mut(rule.tracker)
            .zip(self.plan.trackers.get(rule.tracker))
        else {
            return !rule.once;
        };
        let area = results.object(object).map_or(0.0, |object| object.rect.area());
        let followed = plan.followed(results, object);
        let Some(followed) = followed.and_then(|name| results.object(name)) else {
            return !rule.once;
        };
        let track = tracker.nearest(pts_ms, &followed.rect);
        let item = Candidate {
            module,
            request,
            pts_ms,
            area,
        };
        match track {
            Some(track) => track.ask(rule, item),
            None => !rule.once,
        }
    }

    /// The frame of that request was dropped: questions about its objects remain without an answer.
    pub fn on_dropped(&mut self, request: u64) {
        for tracker in &mut self.trackers {
            tracker.on_dropped(request);
        }
    }

    /// The stream ended, was removed or interrupted: everything ends.
    pub fn close(&mut self) -> FrameAnalytics {
        let ended = self.trackers.iter_mut().enumerate();
        let ended =
            ended.flat_map(|(number, tracker)| tracker.close().into_iter().map(move |end| (number, end)));
        FrameAnalytics {
            ended_tracks: ended.collect(),
            ..FrameAnalytics::default()
        }
    }
}

/// Returns embeddings by followed object: of the object itself, of its parts, or of objects within its crop.
fn embeddings<'a>(plan: &TrackerPlan, results: &'a RequestResults) -> BTreeMap<ObjectRef, &'a [f32]> {
    let Some(module) = plan.appearance else {
        return BTreeMap::new();
    };
    let outputs = results.outputs().filter(|(of, _)| *of == module);
    let embeddings = outputs
        .flat_map(|(_, output)| &output.attributes)
        .filter_map(|it| {
            let Attribute::Match {
                vector: Some(vector), ..
            } = &it.attribute
            else {
                return None;
            };
            Some((plan.followed(results, it.object)?, vector.as_slice()))
        });
    embeddings.collect()
}

/// Returns the attributes of tracked objects, of their parts and of objects within their crops, each with the
/// number of its track and of the module that read it.
fn attributes_of_tracks<'a>(
    tracked: &'a BTreeMap<ObjectRef, usize>,
    plan: &'a TrackerPlan,
    results: &'a RequestResults,
) -> impl Iterator<Item = (usize, u32, &'a ObjectAttribute)> {
    let track_of = |object| tracked.get(&plan.followed(results, object)?).copied();
    let attributes = results.outputs();
    let attributes = attributes
        .flat_map(|(module, output)| output.attributes.iter().map(move |attribute| (module, attribute)));
    attributes.filter_map(move |(module, attribute)| {
        let track = track_of(attribute.object)?;
        Some((track, module, attribute))
    })
}

/// An object, the one in whose crop it was found, and so on.
fn lineage(results: &RequestResults, object: ObjectRef) -> impl Iterator<Item = ObjectRef> {
    /// No more objects are within each other than modules are in a row.
    const MAX_DEPTH: usize = 16;
    let parent = |name: &ObjectRef| results.object(*name).and_then(|object| object.parent);
    std::iter::successors(Some(object), parent).take(MAX_DEPTH)
}

#[cfg(test)]
mod tests {
    use weir_flow::{Image, ModuleOutput, Object, Points, Rect};

    use super::*;

    fn object(class: &str, x: f32, parent: Option<ObjectRef>) -> Object {
        Object {
            candidate: false,
            class: class.into(),
            score: 0.9,
            rect: Rect::new(x, 10.0, x + 40.0, 50.0),
            parent,
            points: Points::None,
        }
    }

    /// A car that drives on, with a plate within it that reads as said.
    fn results(frame: u64, plate: &str) -> RequestResults {
        let car = ObjectRef { module: 0, index: 0 };
        let plate_object = ObjectRef { module: 1, index: 0 };
        let mut results = RequestResults::default();
        let x = frame as f32 * 4.0;
        results.add(
            0,
            ModuleOutput {
                objects: vec![object("car", x, None)],
                attributes: vec![],
            },
        );
        let text = Attribute::Text {
            text: plate.to_owned(),
            score: 0.8,
        };
        let attribute = ObjectAttribute {
            object: plate_object,
            name: "plate".into(),
            attribute: text,
        };
        results.add(
            1,
            ModuleOutput {
                objects: vec![object("plate", x + 10.0, Some(car))],
                attributes: vec![attribute],
            },
        );
        results
    }

    fn frame(index: u64) -> Frame {
        Frame::new(index, index as f64 * 40.0, Image::from_rgb(4, 2, vec![0; 24]))
    }

    /// A plan with a tracker of all objects of the first module.
    fn one_tracker(parts: Parts) -> Arc<AnalyticsPlan> {
        Arc::new(AnalyticsPlan {
            trackers: vec![TrackerPlan {
                streams: StreamNames::default(),
                modules: [0].into(),
                appearance: None,
                classes: Vec::new(),
                settings: TrackerSettings::default(),
                parts,
                confirmed: Vec::new(),
            }],
            ..AnalyticsPlan::default()
        })
    }

    #[test]
    fn a_tracker_follows_objects_of_its_streams_alone() {
        let plan = one_tracker(Parts::default());
        let mut plan = (*plan).clone();
        plan.trackers[0].streams = StreamNames::new(vec!["door*".to_owned()]);
        let plan = Arc::new(plan);
        let rule = PerTrack {
            tracker: 0,
            every_ms: 1_000.0,
            until: f32::INFINITY,
            once: false,
        };
        for (stream, is_followed) in [("door-2", true), ("yard", false)] {
            let (mut analytics, mut ids) = (StreamAnalytics::new(&plan, stream), TrackIds::default());
            let mut tracks = 0;
            for index in 0..10 {
                let mut results = RequestResults::default();
                let objects = vec![object("person", 1.0, None)];
                results.add(
                    0,
                    ModuleOutput {
                        objects,
                        attributes: vec![],
                    },
                );
                tracks += analytics
                    .on_frame(&frame(index), 0, &results, &mut ids)
                    .tracks
                    .len();
                let (name, _) = results.objects().next().unwrap();
                let wanted = analytics.wants(&rule, 1, (&results, name), (index as f64 * 40.0, index));
                assert!(is_followed || !wanted, "no track is read on {stream}");
            }
            assert_eq!(tracks > 0, is_followed, "{stream}");
            assert_eq!(analytics.close().ended_tracks.len(), usize::from(is_followed));
        }
    }

    #[test]
    fn a_change_of_size_ends_no_track() {
        let plan = one_tracker(Parts::default());
        let (mut analytics, mut ids) = (StreamAnalytics::new(&plan, "camera"), TrackIds::default());
        let mut seen = BTreeSet::new();
        for index in 0..40_u64 {
            let scale = [4, 1, 2, 4][index as usize / 10];
            let (width, height) = (100 * scale, 50 * scale);
            let picture = Image::from_rgb(width, height, vec![0; (width * height * 3) as usize]);
            let frame = Frame::new(index, index as f64 * 40.0, picture);
            let (x, part) = (10.0 + index as f32, scale as f32);
            let walker = Object {
                rect: Rect::new(x, 10.0, x + 6.0, 30.0).scaled(part, part),
                ..object("person", 0.0, None)
            };
            let mut results = RequestResults::default();
            results.add(
                0,
                ModuleOutput {
                    objects: vec![walker],
                    attributes: vec![],
                },
            );
            let found = analytics.on_frame(&frame, index * 40, &results, &mut ids);
            let tracks = found.tracks.values().flatten();
            seen.extend(tracks.map(|(_, state)| state.id));
            assert!(found.ended_tracks.is_empty());
        }
        assert_eq!(seen.len(), 1, "{seen:?}");
    }

    #[test]
    fn what_is_read_of_a_part_that_the_detector_finds_in_the_frame_is_of_the_track_that_has_it() {
        let plan = one_tracker(Parts::read(&["plate of car".to_owned()]).unwrap());
        let (car, plate) = (
            ObjectRef { module: 0, index: 0 },
            ObjectRef { module: 0, index: 1 },
        );
        // The plate is on a car that is too fast for the boxes of its plate to overlap.
        let results = |index: u64, text: &str| {
            let x = index as f32 * 30.0;
            let rect = |x: f32, y: f32, wide: f32, high: f32| Rect::new(x, y, x + wide, y + high);
            let found = |class: &str, rect| Object {
                rect,
                ..object(class, 0.0, None)
            };
            let objects = vec![
                found("car", rect(x, 10.0, 100.0, 60.0)),
                found("plate", rect(x + 40.0, 50.0, 20.0, 8.0)),
            ];
            let read = ObjectAttribute {
                object: plate,
                name: "plate".into(),
                attribute: Attribute::Text {
                    text: text.to_owned(),
                    score: 0.9,
                },
            };
            let mut results = RequestResults::default();
            results.add(
                0,
                ModuleOutput {
                    objects,
                    attributes: vec![],
                },
            );
            results.add(
                1,
                ModuleOutput {
                    objects: vec![],
                    attributes: vec![read],
                },
            );
            results
        };
        let (mut analytics, mut ids) = (StreamAnalytics::new(&plan, "camera"), TrackIds::default());
        let mut on_frame = |index, text: &str, analytics: &mut StreamAnalytics| {
            analytics.on_frame(&frame(index), index * 40, &results(index, text), &mut ids)
        };
        assert!(on_frame(0, "WR 123", &mut analytics).new_tracks.is_empty());
        let second = on_frame(1, "WR 123", &mut analytics);
        assert_eq!(second.new_tracks.len(), 1, "it counts since it was seen twice");
        assert_eq!(second.new_tracks[0].first.0.pts_ms, 0.0);
        let last = on_frame(2, "WR 128", &mut analytics);
        assert!(last.new_tracks.is_empty());
        let state = last.track(car, &[0].into()).unwrap();
        assert_eq!(state.attributes.len(), 1);
        assert!(matches!(&state.attributes[0].1, Attribute::Text { text, .. } if text == "WR 123"));
        assert_eq!(last.tracks.len(), 1, "the plate has no track of its own");
        let rule = |every_ms| PerTrack {
            tracker: 0,
            every_ms,
            until: 0.99,
            once: false,
        };
        let next = results(3, "");
        let mut wants = |rule, module, object| analytics.wants(&rule, module, (&next, object), (120.0, 3));
        assert!(!wants(rule(1000.0), 1, plate), "its car's was read 40 ms ago");
        assert!(wants(rule(20.0), 1, plate));
        let alone = ObjectRef { module: 0, index: 7 };
        assert!(wants(rule(1000.0), 1, alone), "of nothing that is followed");
    }

    #[test]
    fn an_object_has_its_track_with_what_was_read_within_it_and_its_end_says_so() {
        let plan = Arc::new(AnalyticsPlan {
            trackers: vec![TrackerPlan {
                streams: StreamNames::default(),
                modules: [0].into(),
                classes: Vec::new(),
                appearance: None,
                settings: TrackerSettings::default(),
                parts: Parts::default(),
                confirmed: Vec::new(),
            }],
            ..AnalyticsPlan::default()
        });
        let (mut analytics, mut ids) = (StreamAnalytics::new(&plan, "camera"), TrackIds::default());
        let car = ObjectRef { module: 0, index: 0 };
        let mut last = FrameAnalytics::default();
        for (index, plate) in (0..).zip(["WR 123", "WR 128", "WR 123"]) {
            last = analytics.on_frame(
                &frame(index),
                1_000_000 + index * 40,
                &results(index, plate),
                &mut ids,
            );
        }
        let state = last.track(car, &[0].into()).unwrap();
        assert_eq!((&*state.class, state.age_ms), ("car", 80.0));
        assert!((50.0..110.0).contains(&state.velocity.x), "{:?}", state.velocity);
        let text = |attributes: &[(Arc<str>, Attribute)]| match &attributes[0].1 {
            Attribute::Text { text, .. } => text.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text(&state.attributes), "WR 123");
        let plate = ObjectRef { module: 1, index: 0 };
        assert_eq!(last.track(plate, &[0].into()), None, "its module is not tracked");
        assert_eq!(
            last.track(car, &BTreeSet::new()),
            None,
            "shown where the tracker is"
        );

        // A module that runs per track: what is read alike is known, and another object is not.
        let rule = |every_ms, until| PerTrack {
            tracker: 0,
            every_ms,
            until,
            once: false,
        };
        let on_the_way = results(3, "");
        let mut wants = |rule: PerTrack, module, object| {
            analytics.wants(&rule, module, (&on_the_way, object), (120.0, 3))
        };
        let plate = ObjectRef { module: 1, index: 0 };
        assert!(
            !wants(rule(1000.0, 0.9), 1, plate),
            "it was read 40 ms ago, within the car"
        );
        assert!(wants(rule(20.0, 0.9), 1, plate), "long enough ago");
        assert!(
            !wants(rule(20.0, 0.5), 1, plate),
            "two of three readings of 0.8 are certain enough"
        );
        let always = f32::INFINITY;
        assert!(wants(rule(1000.0, always), 2, car), "another module never read");
        assert!(
            !wants(rule(1000.0, always), 2, car),
            "and is asked, and not answered yet"
        );
        let elsewhere = ObjectRef { module: 3, index: 0 };
        assert!(wants(rule(1000.0, 0.0), 1, elsewhere), "nobody follows it");
        let once = PerTrack {
            once: true,
            ..rule(1000.0, 0.0)
        };
        assert!(!wants(once, 1, plate), "its car's was read");
        assert!(wants(once, 3, car) && !wants(once, 3, car), "one time");
        assert!(!wants(once, 1, elsewhere), "it has no track");

        // Nothing for longer than it waits, then the end of the stream has nothing left to say.
        let later = analytics.on_frame(&frame(60), 1_002_400, &RequestResults::default(), &mut ids);
        let ends: Vec<&TrackEnd> = later.ended_by(&[0].into()).collect();
        assert_eq!(ends.len(), 1);
        assert_eq!((ends[0].id, ends[0].last_seen_ms), (state.id, 1_000_080));
        assert_eq!(text(&ends[0].attributes), "WR 123");
        assert!(analytics.close().is_empty());
    }
}
