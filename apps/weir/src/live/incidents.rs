//! The newest incidents with the best picture of each, in bounded memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};
use weir_flow::{BestShot, Incident, IncidentValue, Phase};

use super::notes::word;

/// Incidents that are kept.
pub(crate) const MAX_INCIDENTS: usize = 500;

/// Bytes of their pictures; those of the oldest go first.
const MAX_PICTURE_BYTES: usize = 64 << 20;

/// The transform that only takes pictures, which incidents of others have.
const BEST_SHOT: &str = "best-shot";

/// See the module.
#[derive(Default)]
pub(crate) struct Incidents {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The oldest first.
    kept: VecDeque<Kept>,
    picture_bytes: usize,
    /// All that began since the start.
    count: u64,
    /// Number of changes to incidents since the start; the state has it, so that clients know when the list
    /// changed.
    changes: u64,
}

struct Kept {
    stream: Arc<str>,
    incident: Incident,
    best: Option<Arc<BestShot>>,
}

impl Incidents {
    /// One began, goes on or ended. That there is a picture of an object is none by itself.
    pub(super) fn add(&self, stream: &Arc<str>, incident: &Incident) {
        if incident.kind == BEST_SHOT {
            return;
        }
        // Encoded here and now, before anybody waits for the lock.
        let bytes = incident.best.as_ref().map_or(0, |best| best.jpeg().len());
        let mut state = self.lock();
        state.changes += 1;
        let known = state
            .kept
            .iter()
            .rposition(|kept| kept.incident.id == incident.id);
        let mut kept = match known.and_then(|at| state.kept.remove(at)) {
            Some(kept) => kept,
            None => {
                state.count += 1;
                Kept {
                    stream: Arc::clone(stream),
                    incident: incident.clone(),
                    best: None,
                }
            }
        };
        kept.incident = incident.clone();
        if let Some(best) = kept.incident.best.take().filter(|_| bytes > 0) {
            let before = kept.best.replace(best);
            state.picture_bytes -= before.map_or(0, |best| best.jpeg().len());
            state.picture_bytes += bytes;
        }
        // In the order in which they began, whatever is said of them later.
        let at = match known {
            Some(at) => at,
            None => state.kept.len(),
        };
        state.kept.insert(at, kept);
        state.shrink();
    }

    /// All that are kept, the newest first, and how many there were. `has_clip`: whether there is a clip of one that is over.
    pub(crate) fn list(&self, has_clip: &dyn Fn(&str, &Incident) -> bool) -> Value {
        let state = self.lock();
        let mut incidents: Vec<Value> = state.kept.iter().rev().map(Kept::shown).collect();
        let over: Vec<(usize, Arc<str>, Incident)> = state
            .kept
            .iter()
            .rev()
            .enumerate()
            .filter(|(_, kept)| kept.incident.phase == Phase::Ended)
            .map(|(at, kept)| (at, Arc::clone(&kept.stream), kept.incident.clone()))
            .collect();
        let count = state.count;
        // Files are looked for while incidents may be added.
        drop(state);
        for (at, stream, incident) in over {
            incidents[at]["has_clip"] = has_clip(&stream, &incident).into();
        }
        json!({ "count": count, "incidents": incidents })
    }

    /// Grows with whatever is new in the list.
    pub(crate) fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// The best picture of the one of that id, a JPEG.
    pub(crate) fn picture(&self, id: &str) -> Option<Arc<BestShot>> {
        let state = self.lock();
        let kept = state.kept.iter().rev().find(|kept| &*kept.incident.id == id)?;
        kept.best.clone()
    }

    /// The one of that id, and the name of its stream.
    pub(crate) fn get(&self, id: &str) -> Option<(Arc<str>, Incident)> {
        let state = self.lock();
        let kept = state.kept.iter().rev().find(|kept| &*kept.incident.id == id)?;
        Some((Arc::clone(&kept.stream), kept.incident.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn shrink(&mut self) {
        while self.kept.len() > MAX_INCIDENTS {
            let oldest = self.kept.pop_front().and_then(|kept| kept.best);
            self.picture_bytes -= oldest.map_or(0, |best| best.jpeg().len());
        }
        for kept in &mut self.kept {
            if self.picture_bytes <= MAX_PICTURE_BYTES {
                break;
            }
            self.picture_bytes -= kept.best.take().map_or(0, |best| best.jpeg().len());
        }
    }
}

impl Kept {
    fn shown(&self) -> Value {
        let Incident {
            id,
            transform,
            kind,
            phase,
            track,
            class,
            score,
            began_ms,
            time_ms,
            zones,
            values,
            attributes,
            ..
        } = &self.incident;
        let values: Map<String, Value> = values
            .iter()
            .map(|(name, value)| {
                let value = match value {
                    IncidentValue::Number(number) => json!(number),
                    IncidentValue::Text(text) => json!(text),
                };
                ((*name).to_owned(), value)
            })
            .collect();
        let words: Map<String, Value> = attributes
            .iter()
            .filter_map(|(name, attribute)| Some((name.to_string(), word(attribute)?.into())))
            .collect();
        let mut shown = json!({
            "id": id,
            "stream": self.stream,
            "transform": transform,
            "type": kind,
            "phase": phase.name(),
            "is_over": *phase == Phase::Ended,
            "score": score,
            "began_ms": began_ms,
            "time_ms": time_ms,
            "zones": zones,
            "values": values,
            "attributes": words,
            "has_picture": self.best.is_some(),
            "has_clip": false,
        });
        if let Some(track) = track {
            shown["track"] = json!(track);
        }
        if let Some(class) = class {
            shown["class"] = json!(class);
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::Rect;

    use super::*;

    fn incident(id: &str, phase: Phase, picture_bytes: Option<usize>) -> Incident {
        Incident {
            id: id.into(),
            transform: "gate".into(),
            kind: "line",
            phase,
            track: Some(7),
            class: Some("car".into()),
            score: 0.9,
            rect: None,
            began_ms: 1_000,
            time_ms: 2_000,
            began_pts_ms: 0.0,
            pts_ms: 1_000.0,
            zones: vec!["yard".into()],
            values: vec![
                ("direction", IncidentValue::Text("in".into())),
                ("speed_kmh", IncidentValue::Number(48.0)),
            ],
            attributes: Vec::new(),
            best: picture_bytes.map(|bytes| {
                Arc::new(BestShot {
                    picture: Arc::new(vec![0; bytes]),
                    rect: Rect::default(),
                    score: 0.9,
                    frame: 1,
                    pts_ms: 0.0,
                })
            }),
        }
    }

    fn ids(incidents: &Incidents) -> Vec<String> {
        let list = incidents.list(&|_, _| false);
        let list = list["incidents"].as_array().unwrap();
        list.iter()
            .map(|incident| incident["id"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn what_is_said_of_an_incident_later_is_of_the_same_one() {
        let (incidents, stream) = (Incidents::default(), "north".into());
        incidents.add(&stream, &incident("a", Phase::Began, Some(10)));
        incidents.add(&stream, &incident("b", Phase::Ended, None));
        incidents.add(&stream, &incident("a", Phase::Ended, None));
        assert_eq!(ids(&incidents), ["b", "a"]);
        let list = incidents.list(&|stream, incident| stream == "north" && &*incident.id == "b");
        let has_clip = |at: usize| list["incidents"][at]["has_clip"].clone();
        assert_eq!((has_clip(0), has_clip(1)), (json!(true), json!(false)));
        let first = &list["incidents"][1];
        assert_eq!(
            (
                &first["phase"],
                &first["has_picture"],
                &first["values"]["speed_kmh"]
            ),
            (&json!("ended"), &json!(true), &json!(48.0))
        );
        assert_eq!(list["count"], 2);
        assert_eq!(incidents.picture("a").unwrap().jpeg().len(), 10);
        assert!(incidents.picture("b").is_none() && incidents.picture("c").is_none());
    }

    #[test]
    fn the_newest_are_kept_and_fewer_of_their_pictures() {
        let (incidents, stream) = (Incidents::default(), "north".into());
        let size = MAX_PICTURE_BYTES / 4;
        for number in 0..MAX_INCIDENTS + 10 {
            let picture = (number % 100 == 0).then_some(size);
            incidents.add(&stream, &incident(&number.to_string(), Phase::Ended, picture));
        }
        let ids = ids(&incidents);
        assert_eq!((ids.len(), &*ids[0], &*ids[499]), (MAX_INCIDENTS, "509", "10"));
        let state = incidents.lock();
        assert!(state.picture_bytes <= MAX_PICTURE_BYTES);
        assert!(state.kept.iter().filter(|kept| kept.best.is_some()).count() == 4);
        drop(state);
        assert!(incidents.picture("500").is_some() && incidents.picture("100").is_none());
    }
}
