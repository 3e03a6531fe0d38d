//! Tracks as Frigate's events: `new`, `update` and `end`, each with what was said before and what is so now.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use weir_flow::{Attribute, DeliveredObject, Delivery, Incident, Phase, Rect, TrackEnd, TrackState};

use super::super::event::attributes_value;
use super::super::event_shapes::digits;
use super::cameras::elapsed_ms;

/// Tracks of a stream that are known at a time.
const MAX_TRACKS: usize = 4_096;

/// An event of a track.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TrackEvent {
    /// Unique identifier of the event: stream, track, kind and time.
    pub(super) id: String,
    pub(super) body: Value,
}

#[derive(Debug)]
pub(super) struct Events {
    update_ms: u64,
    streams: BTreeMap<Arc<str>, BTreeMap<u64, Track>>,
}

/// State of a track, from which events are made.
#[derive(Debug, Clone)]
struct Track {
    label: Arc<str>,
    began_ms: u64,
    time_ms: u64,
    score: f32,
    top_score: f32,
    rect: Rect,
    attributes: Value,
    zones: Vec<Arc<str>>,
    entered: Vec<Arc<str>>,
    snapshot: Option<Snapshot>,
    /// Frames for which it has been stationary; `None` unless it is.
    motionless: Option<u64>,
    /// Number of times that it left a place where it was stationary.
    position_changes: u64,
    /// Body of the last published event, and its time in milliseconds since 1970.
    said: Option<(Value, u64)>,
}

/// Best picture of a track so far.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Snapshot {
    time_ms: u64,
    rect: Rect,
    score: f32,
}

impl Events {
    /// Updates come at least so many milliseconds apart where nothing but the place changed.
    pub(super) fn new(update_ms: u64) -> Self {
        Self {
            update_ms,
            streams: BTreeMap::new(),
        }
    }

    pub(super) fn on_delivery(&mut self, delivery: &Delivery) -> Vec<TrackEvent> {
        let mut events = self.on_ended(&delivery.stream, &delivery.ended_tracks);
        let update_ms = self.update_ms;
        let tracks = self.streams.entry(Arc::clone(&delivery.stream)).or_default();
        for object in &delivery.objects {
            let Some(state) = &object.track else { continue };
            if tracks.len() >= MAX_TRACKS && !tracks.contains_key(&state.id) {
                continue;
            }
            let track = tracks
                .entry(state.id)
                .or_insert_with(|| Track::new(object, state, delivery));
            let changed =
                track.see(object, state, delivery) | track.on_incidents(state.id, &delivery.incidents);
            let since_ms = track
                .said
                .as_ref()
                .map(|(_, at)| elapsed_ms(*at, delivery.time_ms));
            if since_ms.is_none_or(|since_ms| changed || since_ms >= update_ms) {
                let kind = if track.said.is_none() { "new" } else { "update" };
                events.push(track.event(kind, &delivery.stream, state.id, None));
            }
        }
        events
    }

    pub(super) fn on_ended(&mut self, stream: &Arc<str>, ended: &[TrackEnd]) -> Vec<TrackEvent> {
        let tracks = self.streams.get_mut(stream);
        let Some(tracks) = tracks else { return Vec::new() };
        let ended = ended.iter().filter_map(|end| {
            // Of a track that was never shown there is nothing to end.
            let mut track = tracks.remove(&end.id)?;
            track.time_ms = track.time_ms.max(end.last_seen_ms);
            track.attributes = attributes_value(&end.attributes);
            track.zones.clear();
            Some(track.event("end", stream, end.id, Some(end.last_seen_ms)))
        });
        ended.collect()
    }

    pub(super) fn remove(&mut self, stream: &str) {
        self.streams.remove(stream);
    }
}

impl Track {
    fn new(object: &DeliveredObject, state: &TrackState, delivery: &Delivery) -> Self {
        Self {
            label: label(object, state),
            began_ms: delivery.time_ms.saturating_sub(state.age_ms as u64),
            time_ms: delivery.time_ms,
            score: object.object.score,
            top_score: object.object.score,
            rect: object.object.rect,
            attributes: Value::Null,
            zones: Vec::new(),
            entered: Vec::new(),
            snapshot: None,
            motionless: None,
            position_changes: 0,
            said: None,
        }
    }

    /// Takes in what is seen of it now; says whether more than its place changed.
    fn see(&mut self, object: &DeliveredObject, state: &TrackState, delivery: &Delivery) -> bool {
        self.time_ms = delivery.time_ms;
        self.score = object.object.score;
        self.top_score = self.top_score.max(self.score);
        self.rect = object.object.rect;
        let (label, attributes) = (label(object, state), settled(object, state));
        let was_stationary = self.motionless.is_some();
        self.motionless = match state.stationary_ms {
            Some(_) => Some(self.motionless.map_or(0, |frames| frames + 1)),
            None => None,
        };
        self.position_changes += u64::from(was_stationary && self.motionless.is_none());
        let changed = self.label != label
            || self.attributes != attributes
            || was_stationary != self.motionless.is_some();
        (self.label, self.attributes) = (label, attributes);
        changed
    }

    /// Takes in its zones and pictures of incidents; says whether they changed.
    fn on_incidents(&mut self, id: u64, incidents: &[Incident]) -> bool {
        let before = (self.zones.clone(), self.snapshot);
        for incident in incidents.iter().filter(|incident| incident.track == Some(id)) {
            self.zones.clone_from(&incident.zones);
            if let Some(best) = &incident.best {
                let age_ms = (incident.pts_ms - best.pts_ms).max(0.0) as u64;
                self.snapshot = Some(Snapshot {
                    time_ms: incident.time_ms.saturating_sub(age_ms),
                    rect: best.rect,
                    score: best.score,
                });
            }
            if incident.kind == "zone" && incident.phase == Phase::Ended {
                self.zones.retain(|zone| *zone != incident.transform);
            }
            for zone in &incident.zones {
                if !self.entered.contains(zone) {
                    self.entered.push(Arc::clone(zone));
                }
            }
        }
        (&self.zones, self.snapshot) != (&before.0, before.1)
    }

    fn event(&mut self, kind: &str, stream: &str, id: u64, end_ms: Option<u64>) -> TrackEvent {
        let after = self.body(stream, id, end_ms);
        let said = self.said.replace((after.clone(), self.time_ms));
        let before = said.map_or_else(|| after.clone(), |(before, _)| before);
        TrackEvent {
            id: format!("{stream}/{id}/{kind}/{}", self.time_ms),
            body: json!({ "type": kind, "before": before, "after": after }),
        }
    }

    fn body(&self, stream: &str, id: u64, end_ms: Option<u64>) -> Value {
        let [left, top, right, bottom] = corners(&self.rect);
        let (width, height) = (right - left, bottom - top);
        let plate = plate(&self.attributes);
        let is_stationary = self.motionless.is_some();
        json!({
            "id": event_id(stream, id),
            "camera": stream,
            "frame_time": seconds(self.time_ms),
            "snapshot": self.snapshot.map(|snapshot| snapshot.value()),
            "label": &*self.label,
            "sub_label": sub_label(&self.attributes),
            "score": digits(self.score),
            "top_score": digits(self.top_score),
            "false_positive": false,
            "start_time": seconds(self.began_ms),
            "end_time": end_ms.map(seconds),
            "box": corners(&self.rect),
            "area": width * height,
            "ratio": if height > 0 { (width as f64 / height as f64 * 100.0).round() / 100.0 } else { 0.0 },
            "current_zones": self.zones,
            "entered_zones": self.entered,
            "attributes": self.attributes,
            "recognized_license_plate": plate.map(|plate| &plate["text"]),
            "recognized_license_plate_score": plate.map(|plate| &plate["score"]),
            "thumbnail": null,
            "has_snapshot": self.snapshot.is_some(),
            "has_clip": false,
            "active": !is_stationary,
            "stationary": is_stationary,
            "motionless_count": self.motionless.unwrap_or(0),
            "position_changes": self.position_changes,
        })
    }
}

impl Snapshot {
    fn value(&self) -> Value {
        let [left, top, right, bottom] = corners(&self.rect);
        json!({
            "frame_time": seconds(self.time_ms),
            "box": [left, top, right, bottom],
            "area": (right - left) * (bottom - top),
            "score": digits(self.score),
        })
    }
}

/// Identifier of a track in events and reviews.
pub(super) fn event_id(stream: &str, track: u64) -> String {
    format!("{stream}-{track}")
}

/// Milliseconds as seconds.
pub(super) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

fn corners(rect: &Rect) -> [i64; 4] {
    [rect.x0, rect.y0, rect.x1, rect.y1].map(|side| side.round() as i64)
}

/// Name and likeness of the entry of a gallery that the object matches; null if it matches none.
pub(super) fn sub_label(attributes: &Value) -> Value {
    let mut all = attributes.as_object().into_iter().flatten();
    let matched = all.find_map(|(_, value)| Some(json!([value["match"].as_str()?, value["cosine"]])));
    matched.unwrap_or_default()
}

/// Text and score of a number plate: a text attribute by one of these names.
fn plate(attributes: &Value) -> Option<&Value> {
    let names = ["plate", "license_plate", "number_plate"];
    let mut found = names.iter().filter_map(|name| attributes.get(name));
    found.find(|value| value["text"].is_string())
}

/// The class that the track has settled on.
pub(super) fn label(object: &DeliveredObject, state: &TrackState) -> Arc<str> {
    if state.class.is_empty() {
        Arc::clone(&object.object.class)
    } else {
        Arc::clone(&state.class)
    }
}

/// Attributes as they settled, or those of the object where none have.
pub(super) fn settled(object: &DeliveredObject, state: &TrackState) -> Value {
    let attributes: &[(Arc<str>, Attribute)] = if state.attributes.is_empty() {
        &object.attributes
    } else {
        &state.attributes
    };
    attributes_value(attributes)
}
