//! Incidents that a program of the user reports for one stream: those that last have a name, and an end without a begin is an
//! incident without duration. When the program has lost its state, what lasts ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::{Delivery, Incident, Phase, ProgramIncident};

use crate::track::FrameTime;

/// Incidents of a stream that may last at a time. Further ones are reported without duration.
const MAX_OPEN: usize = 1_000;

/// Kind of incidents of programs.
const KIND: &str = "python";

/// Incidents of one transform of one stream.
#[derive(Debug)]
pub struct ProgramIncidents {
    stream: Arc<str>,
    transform: Arc<str>,
    /// Number of the next incident.
    next: u64,
    /// Incidents that last, by their names.
    open: BTreeMap<Arc<str>, Incident>,
    /// Process whose state they are of.
    generation: u64,
}

impl ProgramIncidents {
    /// Creates the incidents of a transform. `began_s` is the time of its begin, in seconds since 1970 (UTC), which makes ids
    /// unique.
    #[must_use]
    pub fn new(stream: Arc<str>, transform: Arc<str>, began_s: u64) -> Self {
        Self {
            stream,
            transform,
            next: began_s << 20,
            open: BTreeMap::new(),
            generation: 0,
        }
    }

    /// Ends what lasts if another process answers for frames of the stream now.
    pub fn on_generation(&mut self, generation: u64, at: FrameTime) -> Vec<Incident> {
        if std::mem::replace(&mut self.generation, generation) == generation {
            return Vec::new();
        }
        self.end_all(Some(at))
    }

    /// Takes in what the program reports for a frame that it saw as `delivery`.
    pub fn on_answer(
        &mut self,
        reported: Vec<ProgramIncident>,
        delivery: &Delivery,
        at: FrameTime,
    ) -> Vec<Incident> {
        let incidents = reported.into_iter();
        incidents
            .map(|reported| self.on_reported(reported, delivery, at))
            .collect()
    }

    fn on_reported(&mut self, reported: ProgramIncident, delivery: &Delivery, at: FrameTime) -> Incident {
        let known = self.open.remove(&reported.key);
        let is_new = known.is_none();
        let mut incident = known.unwrap_or_else(|| self.begin(at));
        let object = reported
            .object
            .and_then(|number| delivery.objects.get(number as usize));
        if let Some(object) = object {
            incident.track = object.track.as_ref().map(|track| track.id);
            incident.class = Some(Arc::clone(&object.object.class));
            incident.score = object.object.score;
            incident.rect = Some(object.object.rect);
        }
        for (name, attribute) in reported.attributes {
            incident.attributes.retain(|(known, _)| *known != name);
            incident.attributes.push((name, attribute));
        }
        (incident.time_ms, incident.pts_ms) = (at.time_ms, at.pts_ms);
        let lasts = reported.phase != Phase::Ended && self.open.len() < MAX_OPEN;
        incident.phase = match (lasts, is_new) {
            (true, true) => Phase::Began,
            (true, false) => Phase::Updated,
            (false, _) => Phase::Ended,
        };
        if lasts {
            self.open.insert(reported.key, incident.clone());
        }
        incident
    }

    fn begin(&mut self, at: FrameTime) -> Incident {
        let number = self.next;
        self.next += 1;
        Incident {
            id: format!("{}/{}/{number}", self.stream, self.transform).into(),
            transform: Arc::clone(&self.transform),
            kind: KIND,
            phase: Phase::Began,
            track: None,
            class: None,
            score: 1.0,
            rect: None,
            began_ms: at.time_ms,
            time_ms: at.time_ms,
            began_pts_ms: at.pts_ms,
            pts_ms: at.pts_ms,
            zones: Vec::new(),
            values: Vec::new(),
            attributes: Vec::new(),
            best: None,
        }
    }

    /// Ends what lasts, with the end of its stream.
    pub fn close(&mut self) -> Vec<Incident> {
        self.end_all(None)
    }

    fn end_all(&mut self, at: Option<FrameTime>) -> Vec<Incident> {
        let open = std::mem::take(&mut self.open).into_values();
        let end = |mut incident: Incident| {
            incident.phase = Phase::Ended;
            if let Some(at) = at {
                (incident.time_ms, incident.pts_ms) = (at.time_ms, at.pts_ms);
            }
            incident
        };
        open.map(end).collect()
    }
}
