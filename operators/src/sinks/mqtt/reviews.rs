//! Reviews in the form of Frigate: times in which a stream shows objects that move. A review begins as a detection, and an incident
//! that is sent makes it an alert. Objects that stand still, such as parked cars, keep no review open.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use weir_flow::{DeliveredObject, Incident, Phase};

use super::cameras::elapsed_ms;
use super::events::{event_id, label, seconds, settled, sub_label};

/// Time without activity after which a review ends, in milliseconds.
const HOLD_MS: u64 = 10_000;

/// Tracks, classes, names and zones of one review.
const MAX_NAMES: usize = 256;

/// Status of a stream without a review.
pub(super) const NO_REVIEW: &str = "NONE";

/// An event of a review.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReviewEvent {
    /// Unique identifier of the event.
    pub(super) id: String,
    pub(super) body: Value,
    /// Status of the stream from now on: `ALERT`, `DETECTION` or `NONE`.
    pub(super) status: &'static str,
}

/// See the module; one open review per stream.
#[derive(Debug, Default)]
pub(super) struct Reviews(BTreeMap<Arc<str>, Review>);

#[derive(Debug, Default)]
struct Review {
    began_ms: u64,
    /// Time of the last activity.
    last_ms: u64,
    is_alert: bool,
    tracks: BTreeSet<u64>,
    objects: BTreeSet<Arc<str>>,
    sub_labels: BTreeSet<String>,
    zones: BTreeSet<Arc<str>>,
    /// Open incidents that concern no single track.
    open: BTreeSet<Arc<str>>,
    /// Number of events so far, and the body of the last one.
    said: (u64, Value),
}

impl Reviews {
    /// Takes in the objects that a stream shows at `time_ms`, and its incidents that are sent.
    pub(super) fn on_activity(
        &mut self,
        stream: &Arc<str>,
        time_ms: u64,
        objects: &[DeliveredObject],
        incidents: &[&Incident],
    ) -> Option<ReviewEvent> {
        let has_motion = objects.iter().any(is_moving);
        let begins = has_motion || incidents.iter().any(|incident| incident.phase == Phase::Began);
        if begins && !self.0.contains_key(stream) {
            let review = Review {
                began_ms: time_ms,
                last_ms: time_ms,
                ..Review::default()
            };
            self.0.insert(Arc::clone(stream), review);
        }
        let review = self.0.get_mut(stream)?;
        for object in objects.iter().filter(|object| is_moving(object)) {
            review.see(object);
        }
        for incident in incidents {
            review.on_incident(incident);
        }
        if has_motion || !review.open.is_empty() {
            review.last_ms = review.last_ms.max(time_ms);
        }
        if elapsed_ms(review.last_ms, time_ms) >= HOLD_MS {
            return self.end(stream);
        }
        review.event(stream, None)
    }

    /// Ends the review of a stream.
    pub(super) fn end(&mut self, stream: &str) -> Option<ReviewEvent> {
        let mut review = self.0.remove(stream)?;
        let end_ms = review.last_ms;
        review.event(stream, Some(end_ms))
    }
}

/// Whether an object is in motion.
fn is_moving(object: &DeliveredObject) -> bool {
    let track = object.track.as_ref();
    track.is_some_and(|track| track.stationary_ms.is_none())
}

impl Review {
    fn see(&mut self, object: &DeliveredObject) {
        let Some(track) = &object.track else { return };
        insert(&mut self.tracks, track.id);
        insert(&mut self.objects, label(object, track));
        if let Some(name) = sub_label(&settled(object, track))[0].as_str() {
            insert(&mut self.sub_labels, name.to_owned());
        }
    }

    fn on_incident(&mut self, incident: &Incident) {
        self.is_alert = true;
        for zone in &incident.zones {
            insert(&mut self.zones, Arc::clone(zone));
        }
        if let Some(class) = &incident.class {
            insert(&mut self.objects, Arc::clone(class));
        }
        match (incident.track, incident.phase) {
            (Some(track), _) => insert(&mut self.tracks, track),
            (None, Phase::Ended) => {
                self.open.remove(&incident.id);
            }
            (None, Phase::Began | Phase::Updated) => insert(&mut self.open, Arc::clone(&incident.id)),
        }
    }

    /// The next event; `None` if nothing changed since the last one.
    fn event(&mut self, stream: &str, end_ms: Option<u64>) -> Option<ReviewEvent> {
        let after = self.body(stream, end_ms);
        if self.said.1 == after {
            return None;
        }
        let number = self.said.0;
        let before = std::mem::replace(&mut self.said.1, after.clone());
        self.said.0 += 1;
        let kind = match (number, end_ms) {
            (0, None) => "new",
            (_, Some(_)) => "end",
            (_, None) => "update",
        };
        let before = if before.is_null() { after.clone() } else { before };
        let status = match (end_ms, self.is_alert) {
            (Some(_), _) => NO_REVIEW,
            (None, true) => "ALERT",
            (None, false) => "DETECTION",
        };
        Some(ReviewEvent {
            id: format!("{}/{kind}/{number}", self.id(stream)),
            body: json!({ "type": kind, "before": before, "after": after }),
            status,
        })
    }

    fn id(&self, stream: &str) -> String {
        format!("{:.3}-{stream}", seconds(self.began_ms))
    }

    fn body(&self, stream: &str, end_ms: Option<u64>) -> Value {
        let tracks = self.tracks.iter().map(|track| event_id(stream, *track));
        json!({
            "id": self.id(stream),
            "camera": stream,
            "start_time": seconds(self.began_ms),
            "end_time": end_ms.map(seconds),
            "severity": if self.is_alert { "alert" } else { "detection" },
            "thumb_path": "",
            "data": {
                "detections": tracks.collect::<Vec<String>>(),
                "objects": self.objects,
                "sub_labels": self.sub_labels,
                "zones": self.zones,
                "audio": [],
            },
        })
    }
}

fn insert<T: Ord>(set: &mut BTreeSet<T>, value: T) {
    if set.len() < MAX_NAMES {
        set.insert(value);
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::TrackState;

    use super::super::samples::object;
    use super::*;

    fn car(track: u64, stationary_ms: Option<f64>) -> DeliveredObject {
        let track = TrackState {
            id: track,
            stationary_ms,
            ..TrackState::default()
        };
        object("car", Some(track))
    }

    fn incident(id: &str, phase: Phase, track: Option<u64>) -> Incident {
        Incident {
            id: id.into(),
            transform: "gate".into(),
            kind: "crowd",
            phase,
            track,
            class: track.map(|_| "car".into()),
            score: 0.9,
            rect: None,
            began_ms: 0,
            time_ms: 0,
            began_pts_ms: 0.0,
            pts_ms: 0.0,
            zones: vec!["yard".into()],
            values: Vec::new(),
            attributes: Vec::new(),
            best: None,
        }
    }

    #[test]
    fn review_begins_with_motion_becomes_alert_and_ends_after_rest() {
        let (mut reviews, north) = (Reviews::default(), Arc::<str>::from("north"));
        let mut at = |time_ms, objects: &[DeliveredObject], incidents: &[&Incident]| {
            let event = reviews.on_activity(&north, time_ms, objects, incidents)?;
            let kind = event.body["type"].as_str().unwrap_or_default().to_owned();
            let after = &event.body["after"];
            Some((
                kind,
                event.status,
                after["severity"].clone(),
                after["end_time"].clone(),
            ))
        };
        let parked = [car(7, Some(20_000.0))];
        assert_eq!(at(1_000, &parked, &[]), None);
        let moving = [car(7, None)];
        let (detection, alert) = (json!("detection"), json!("alert"));
        let new = ("new".to_owned(), "DETECTION", detection, Value::Null);
        assert_eq!(at(2_000, &moving, &[]), Some(new));
        assert_eq!(at(3_000, &moving, &[]), None);
        let began = incident("1", Phase::Began, Some(7));
        let update = ("update".to_owned(), "ALERT", alert.clone(), Value::Null);
        assert_eq!(at(4_000, &moving, &[&began]), Some(update));
        assert_eq!(at(13_999, &parked, &[]), None);
        let end = ("end".to_owned(), "NONE", alert, json!(4.0));
        assert_eq!(at(14_000, &parked, &[]), Some(end));
        assert_eq!(at(15_000, &parked, &[]), None);
    }

    #[test]
    fn review_ends_when_the_clock_is_set_back_and_another_one_begins() {
        let (mut reviews, north) = (Reviews::default(), Arc::<str>::from("north"));
        let mut at = |time_ms| reviews.on_activity(&north, time_ms, &[car(7, None)], &[]);
        let kind = |event: Option<ReviewEvent>| event.map(|event| event.body["type"].clone());
        assert_eq!(kind(at(7_200_000)), Some(json!("new")));
        // A frame that is a little late.
        assert_eq!(kind(at(7_199_000)), None);
        assert_eq!(kind(at(3_600_000)), Some(json!("end")));
        assert_eq!(kind(at(3_600_040)), Some(json!("new")));
    }

    #[test]
    fn incident_without_track_keeps_its_review_open() {
        let (mut reviews, north) = (Reviews::default(), Arc::<str>::from("north"));
        let began = incident("1", Phase::Began, None);
        let event = reviews.on_activity(&north, 1_000, &[], &[&began]).expect("new");
        assert_eq!(event.body["after"]["data"]["zones"], json!(["yard"]));
        assert_eq!(reviews.on_activity(&north, 60_000, &[], &[]), None);
        let ended = incident("1", Phase::Ended, None);
        assert_eq!(reviews.on_activity(&north, 61_000, &[], &[&ended]), None);
        let end = reviews.on_activity(&north, 70_000, &[], &[]).expect("the end");
        assert_eq!(end.body["after"]["end_time"], json!(60.0));
        assert_eq!(reviews.end("north"), None);
    }
}
