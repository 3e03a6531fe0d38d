//! All transforms of one stream: they take in its frames in order, and give incidents.
//!
//! Zones come first, so that rules know the zones of a track, and every incident names them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use weir_flow::{Attribute, CameraEvent, Incident, Overlay, Rect, StreamNames, TrackEnd};

use super::camera_states::CameraStates;
use super::finding::Finding;
use super::spec::{TransformKind, TransformSpec};
use super::state::TransformState;
use super::subject::{FramePixels, Subject, View};
use crate::picture_size::PictureSize;
use crate::track::FrameTime;

/// A transform, and the modules whose objects it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamTransform {
    /// Its name in the graph.
    pub name: Arc<str>,
    /// Type and settings of the transform.
    pub spec: TransformSpec,
    /// Modules whose objects it takes whether or not they have tracks, by their numbers.
    pub modules: BTreeSet<u32>,
    /// Trackers whose tracks it takes, by their numbers.
    pub trackers: BTreeSet<u32>,
    /// The streams that it is for.
    pub streams: StreamNames,
}

/// An object of a frame.
#[derive(Debug, Clone)]
pub struct SceneObject<'a> {
    /// Number of the module that found it.
    pub module: u32,
    /// Its tracker and its track. An object is there without, too, and once for each tracker that follows it.
    pub track: Option<(u32, u64)>,
    /// Time and box of the first observation, if the track counts from this frame on.
    pub first: Option<(FrameTime, Rect)>,
    /// Class of the object, or the settled class of its track.
    pub class: &'a Arc<str>,
    /// Confidence, 0 to 1.
    pub score: f32,
    /// Box in source pixels.
    pub rect: Rect,
    /// True if it has not moved for a while.
    pub is_stationary: bool,
    /// Attributes by name.
    pub attributes: &'a [(Arc<str>, Attribute)],
}

/// A frame of the stream.
#[derive(Debug, Clone)]
pub struct SceneFrame<'a> {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Media time and arrival of the frame.
    pub at: FrameTime,
    /// Objects that were found in the frame.
    pub objects: &'a [SceneObject<'a>],
    /// Tracks that ended with it.
    pub ended: &'a [TrackEnd],
    /// Its pixels, where pictures are to be taken.
    pub pixels: Option<FramePixels<'a>>,
}

/// The transforms of a stream, with their state.
pub struct StreamTransforms {
    stream: Arc<str>,
    /// State of each transform; zones come first.
    slots: Vec<Slot>,
    zones: usize,
    subjects: BTreeMap<u64, Subject>,
    /// Tracks of the frame that was taken in last.
    present: Vec<u64>,
    /// Size of that frame, and when it was.
    last: Option<(f64, f64, FrameTime)>,
    size: PictureSize,
    /// States that the camera reports, whatever the transforms.
    camera: CameraStates,
}

impl fmt::Debug for StreamTransforms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.slots.iter().map(|slot| &*slot.transform.name).collect();
        write!(f, "StreamTransforms({}: {})", self.stream, names.join(", "))
    }
}

impl StreamTransforms {
    /// Creates the transforms of the stream of that name. `began_s` is the time of their begin, in seconds
    /// since 1970 (UTC); it makes the ids of incidents unique.
    #[must_use]
    pub fn new(stream: Arc<str>, transforms: Vec<StreamTransform>, began_s: u64) -> Self {
        let mut all = Self {
            stream,
            slots: Vec::new(),
            zones: 0,
            subjects: BTreeMap::new(),
            present: Vec::new(),
            last: None,
            size: PictureSize::default(),
            camera: CameraStates::default(),
        };
        all.replace(transforms, began_s);
        all
    }

    /// Puts other transforms in their place, those that are for this stream. One of the same name that does the same goes on, with
    /// what it has counted; what others have begun ends.
    pub fn replace(&mut self, transforms: Vec<StreamTransform>, began_s: u64) -> Vec<Incident> {
        let mut before = std::mem::take(&mut self.slots);
        let own = transforms.into_iter();
        for transform in own.filter(|transform| transform.streams.follow(&self.stream)) {
            let same =
                |slot: &Slot| slot.transform.name == transform.name && slot.transform.spec == transform.spec;
            let slot = match before.iter().position(same) {
                Some(index) => Slot {
                    transform,
                    ..before.swap_remove(index)
                },
                None => Slot::new(transform, began_s),
            };
            self.slots.push(slot);
        }
        let is_zone = |slot: &Slot| matches!(slot.transform.spec.kind, TransformKind::Zone { .. });
        self.slots.sort_by_key(|slot| !is_zone(slot));
        self.zones = self.slots.partition_point(is_zone);
        let mut incidents = Vec::new();
        for slot in &mut before {
            self.end_slot(slot, &mut incidents);
        }
        attach_pictures(&before, &mut incidents);
        attach_pictures(&self.slots, &mut incidents);
        incidents
    }

    /// Ends all incidents that a transform has begun.
    fn end_slot(&self, slot: &mut Slot, incidents: &mut Vec<Incident>) {
        for subject in self.subjects.values() {
            let found = slot.state.on_track_end(subject);
            incidents.extend(found.map(|found| slot.incident(&self.stream, found, Some(subject))));
        }
        let mut found = Vec::new();
        slot.state.close(&mut found);
        incidents.extend(
            found
                .into_iter()
                .map(|found| slot.incident(&self.stream, found, None)),
        );
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Takes in the next frame of the stream.
    pub fn on_frame(&mut self, frame: &SceneFrame<'_>) -> Vec<Incident> {
        let (width, height) = (f64::from(frame.width), f64::from(frame.height));
        self.last = Some((width, height, frame.at));
        if let Some((x, y)) = self.size.on_frame((frame.width, frame.height)) {
            let subjects = self.subjects.values_mut();
            subjects.for_each(|subject| subject.on_resize(x as f32, y as f32));
            self.slots.iter_mut().for_each(|slot| slot.state.on_resize(x, y));
        }
        self.observe(frame);
        let mut found: Vec<(usize, Finding)> = Vec::new();
        let (zones, others) = self.slots.split_at_mut(self.zones);
        let view = View {
            width,
            height,
            now: frame.at,
            subjects: &self.subjects,
            present: &self.present,
            pixels: frame.pixels,
            camera: &self.camera,
        };
        for (index, slot) in zones.iter_mut().enumerate() {
            slot.step(&view, frame, |finding| found.push((index, finding)));
        }
        for track in &self.present {
            if let Some(subject) = self.subjects.get_mut(track) {
                let inside = zones.iter().filter(|zone| zone.state.is_zone_of(*track));
                subject.zones = inside.map(|zone| Arc::clone(&zone.transform.name)).collect();
            }
        }
        let view = View {
            width,
            height,
            now: frame.at,
            subjects: &self.subjects,
            present: &self.present,
            pixels: frame.pixels,
            camera: &self.camera,
        };
        for (index, slot) in (self.zones..).zip(others) {
            slot.step(&view, frame, |finding| found.push((index, finding)));
        }
        let mut incidents: Vec<Incident> = found
            .into_iter()
            .map(|(index, finding)| {
                let subject = finding.track.and_then(|track| self.subjects.get(&track));
                self.slots[index].incident(&self.stream, finding, subject)
            })
            .collect();
        for end in frame.ended {
            self.end_track(end, &mut incidents);
        }
        attach_pictures(&self.slots, &mut incidents);
        incidents
    }

    /// The camera reported an event that arrived at `time_ms` (UTC); `None`: it is not heard any more. Frames are not needed for it.
    pub fn on_camera(&mut self, event: Option<&CameraEvent>, time_ms: u64) -> Vec<Incident> {
        let at = self.camera_time(time_ms);
        self.camera.on_event(event, at);
        let mut incidents = Vec::new();
        for slot in &mut self.slots {
            let mut found = Vec::new();
            slot.state.on_camera(event, &self.camera, at, &mut found);
            let found = found.into_iter();
            incidents.extend(found.map(|found| slot.incident(&self.stream, found, None)));
        }
        incidents
    }

    /// As [`StreamTransforms::on_camera`], while the stream is not analysed: no incident begins.
    pub fn on_unanalysed_camera(&mut self, event: Option<&CameraEvent>, time_ms: u64) {
        let at = self.camera_time(time_ms);
        self.camera.on_event(event, at);
    }

    /// The stream is analysed again: states of the camera that hold begin now, and are incidents from the next frame on.
    pub fn on_analysed_again(&mut self, time_ms: u64) {
        let at = self.camera_time(time_ms);
        self.camera.begin_anew(at);
    }

    /// Time of an event of the camera that arrived at `time_ms`, on the media time of its frames.
    fn camera_time(&self, time_ms: u64) -> FrameTime {
        let last = self.last.map(|(_, _, at)| at);
        let since_ms = last.map_or(0, |last| time_ms.saturating_sub(last.time_ms));
        FrameTime {
            pts_ms: last.map_or(0.0, |last| last.pts_ms) + since_ms as f64,
            time_ms,
        }
    }

    /// The stream ends, with the tracks that end by that: all that goes on is over.
    pub fn close(&mut self, ended: &[TrackEnd]) -> Vec<Incident> {
        let mut incidents = Vec::new();
        for end in ended {
            self.end_track(end, &mut incidents);
        }
        let mut slots = std::mem::take(&mut self.slots);
        for slot in &mut slots {
            self.end_slot(slot, &mut incidents);
        }
        attach_pictures(&slots, &mut incidents);
        for slot in &mut slots {
            slot.state.forget_pictures();
        }
        self.slots = slots;
        self.subjects.clear();
        incidents
    }

    /// Returns the drawings of all transforms for the latest frame.
    #[must_use]
    pub fn overlays(&self) -> Vec<Overlay> {
        let Some((width, height, now)) = self.last else {
            return Vec::new();
        };
        let view = View {
            width,
            height,
            now,
            subjects: &self.subjects,
            present: &self.present,
            pixels: None,
            camera: &self.camera,
        };
        let overlay = |slot: &Slot| {
            let name = &slot.transform.name;
            let drawing = slot.state.drawing(name, &view)?;
            Some(Overlay {
                transform: Arc::clone(name),
                kind: slot.transform.spec.kind.name(),
                points: drawing.points,
                is_closed: drawing.is_closed,
                text: drawing.text.into(),
                tags: drawing.tags,
            })
        };
        self.slots.iter().filter_map(overlay).collect()
    }

    /// Tracks of this frame, with what is known of them.
    fn observe(&mut self, frame: &SceneFrame<'_>) {
        let (width, height) = (frame.width as f32, frame.height as f32);
        self.present.clear();
        for object in frame.objects {
            let Some((tracker, track)) = object.track else {
                continue;
            };
            let rect = object.rect;
            let is_cut = rect.x0 < 1.0 || rect.x1 > width - 1.0 || rect.y1 > height - 1.0;
            let before = self.subjects.remove(&track);
            let subject = Subject {
                track,
                tracker,
                class: Arc::clone(object.class),
                score: object.score,
                rect,
                at: frame.at,
                is_cut,
                is_cut_above: rect.y0 < 1.0,
                is_stationary: object.is_stationary,
                attributes: object.attributes.to_vec(),
                zones: before.as_ref().map(|it| it.zones.clone()).unwrap_or_default(),
                before: before.map_or(object.first, |it| Some((it.at, it.rect))),
            };
            self.subjects.insert(track, subject);
            self.present.push(track);
        }
        self.present.sort_unstable();
        self.present.dedup();
    }

    fn end_track(&mut self, end: &TrackEnd, incidents: &mut Vec<Incident>) {
        let Some(mut subject) = self.subjects.remove(&end.id) else {
            return;
        };
        subject.class = Arc::clone(&end.class);
        if !end.attributes.is_empty() {
            subject.attributes.clone_from(&end.attributes);
        }
        for slot in &mut self.slots {
            let found = slot.state.on_track_end(&subject);
            incidents.extend(found.map(|found| slot.incident(&self.stream, found, Some(&subject))));
        }
    }
}

/// Gives incidents the best pictures of their tracks; those of a transform that takes pictures its own.
fn attach_pictures(slots: &[Slot], incidents: &mut [Incident]) {
    for incident in incidents {
        let Some(track) = incident.track.filter(|_| incident.best.is_none()) else {
            continue;
        };
        let mut shots = slots.iter().filter_map(|slot| {
            let is_own = slot.transform.name == incident.transform;
            let is_meant = is_own || incident.kind != "best-shot";
            let best = slot.state.best_of(track, &incident.transform, is_own);
            best.filter(|_| is_meant)
        });
        incident.best = shots.next().cloned();
    }
}

struct Slot {
    transform: StreamTransform,
    state: TransformState,
    /// Begin of the numbers of its incidents, as of tracks.
    base: u64,
}

impl Slot {
    fn new(transform: StreamTransform, began_s: u64) -> Self {
        Self {
            state: TransformState::new(&transform.spec),
            base: began_s << 20,
            transform,
        }
    }

    fn step(&mut self, view: &View<'_>, frame: &SceneFrame<'_>, found: impl FnMut(Finding)) {
        let Self { transform, state, .. } = self;
        let is_taken = |object: &&SceneObject<'_>| {
            let is_input = match object.track {
                Some((tracker, _)) => transform.trackers.contains(&tracker),
                None => transform.modules.contains(&object.module),
            };
            is_input && transform.spec.takes(object.class)
        };
        let taken = frame.objects.iter().filter(is_taken);
        let boxes: Vec<Rect> = taken.map(|object| object.rect).collect();
        let mut out = Vec::new();
        let takes = |subject: &Subject| {
            transform.trackers.contains(&subject.tracker) && transform.spec.takes(&subject.class)
        };
        state.on_frame(&transform.spec, view, &takes, &boxes, &mut out);
        out.into_iter().for_each(found);
    }

    /// An incident of its kind, with what is known of its track.
    fn incident(&self, stream: &str, finding: Finding, subject: Option<&Subject>) -> Incident {
        let name = &self.transform.name;
        let subject = finding.ghost.as_deref().or(subject);
        Incident {
            id: format!("{stream}/{name}/{}", self.base + finding.number).into(),
            transform: Arc::clone(name),
            kind: self.transform.spec.kind.name(),
            phase: finding.phase,
            track: finding.track,
            class: subject.map(|subject| Arc::clone(&subject.class)),
            score: subject.map_or(1.0, |subject| subject.score),
            rect: subject.map(|subject| subject.rect),
            began_ms: finding.began.time_ms,
            time_ms: finding.at.time_ms,
            began_pts_ms: finding.began.pts_ms,
            pts_ms: finding.at.pts_ms,
            zones: subject.map(|subject| subject.zones.clone()).unwrap_or_default(),
            values: finding.values,
            attributes: subject
                .map(|subject| subject.attributes.clone())
                .unwrap_or_default(),
            best: None,
        }
    }
}
