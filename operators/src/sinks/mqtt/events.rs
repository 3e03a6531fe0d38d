//! Tracks as Frigate's events: `new`, `update` and `end`, each with what was said before and what is so now.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use weir_flow::{Attribute, DeliveredObject, Delivery, Incident, Phase, Rect, TrackEnd, TrackState};

use super::super::event::attributes_value;

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
    has_snapshot: bool,
    /// Body of the last published event, and its time in milliseconds since 1970.
    said: Option<(Value, u64)>,
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
            let changed = track.see(object, state, delivery) | track.enter(state.id, &delivery.incidents);
            let since_ms = track
                .said
                .as_ref()
                .map(|(_, at)| delivery.time_ms.saturating_sub(*at));
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
            has_snapshot: false,
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
        let changed = self.label != label || self.attributes != attributes;
        (self.label, self.attributes) = (label, attributes);
        changed
    }

    /// Takes in the zones that it is in; says whether they changed.
    fn enter(&mut self, id: u64, incidents: &[Incident]) -> bool {
        let before = self.zones.clone();
        for incident in incidents.iter().filter(|incident| incident.track == Some(id)) {
            self.zones.clone_from(&incident.zones);
            self.has_snapshot |= incident.best.is_some();
            if incident.kind == "zone" && incident.phase == Phase::Ended {
                self.zones.retain(|zone| *zone != incident.transform);
            }
            for zone in &incident.zones {
                if !self.entered.contains(zone) {
                    self.entered.push(Arc::clone(zone));
                }
            }
        }
        self.zones != before
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
        let rect = self.rect;
        let corners = [rect.x0, rect.y0, rect.x1, rect.y1].map(|side| side.round() as i64);
        let (width, height) = (corners[2] - corners[0], corners[3] - corners[1]);
        let seconds = |ms: u64| ms as f64 / 1e3;
        let digits = |score: f32| (f64::from(score) * 1e4).round() / 1e4;
        json!({
            "id": format!("{stream}-{id}"),
            "camera": stream,
            "frame_time": seconds(self.time_ms),
            "label": &*self.label,
            "sub_label": null,
            "score": digits(self.score),
            "top_score": digits(self.top_score),
            "false_positive": false,
            "start_time": seconds(self.began_ms),
            "end_time": end_ms.map(seconds),
            "box": corners,
            "area": width * height,
            "ratio": if height > 0 { (width as f64 / height as f64 * 100.0).round() / 100.0 } else { 0.0 },
            "current_zones": self.zones,
            "entered_zones": self.entered,
            "attributes": self.attributes,
            "has_snapshot": self.has_snapshot,
            "has_clip": false,
        })
    }
}

/// The class that the track has settled on.
fn label(object: &DeliveredObject, state: &TrackState) -> Arc<str> {
    if state.class.is_empty() {
        Arc::clone(&object.object.class)
    } else {
        Arc::clone(&state.class)
    }
}

/// Attributes as they settled, or those of the object where none have.
fn settled(object: &DeliveredObject, state: &TrackState) -> Value {
    let attributes: &[(Arc<str>, Attribute)] = if state.attributes.is_empty() {
        &object.attributes
    } else {
        &state.attributes
    };
    attributes_value(attributes)
}
