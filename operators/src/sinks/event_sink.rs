//! Sinks that send incidents, and tracks that ended where that is asked for, through an outbox: their bodies are event lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::{Delivery, Incident, KeyKind, KeySpec, Notice, Settings, Sink, SinkError, TrackEnd};

use super::event::{incident_value, track_value};
use super::outbox::{Message, Outbox};

pub(super) const TRACKS: KeySpec = KeySpec {
    name: "tracks",
    kind: KeyKind::Flag,
    about: "sends tracks that ended, too; default false",
};

/// Subject of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    Incident,
    Track,
}

/// See the module. `topic` says where the events of a stream go.
pub(super) struct EventSink<T> {
    outbox: Outbox,
    tracks: bool,
    topic: T,
}

impl<T: Fn(&str, EventKind) -> String> EventSink<T> {
    pub(super) fn new(outbox: Outbox, settings: &Settings, topic: T) -> Self {
        Self {
            outbox,
            tracks: settings.flag("tracks", false),
            topic,
        }
    }

    fn push(&self, stream: &Arc<str>, ended_tracks: &[TrackEnd], incidents: &[Incident]) {
        let message = |kind: EventKind, id: String, event: &serde_json::Value| Message {
            stream: Arc::clone(stream),
            id,
            body: event.to_string().into_bytes(),
            topic: (self.topic)(stream, kind),
        };
        for track in ended_tracks.iter().filter(|_| self.tracks) {
            let id = format!("{stream}/track/{}", track.id);
            let event = track_value(stream, track);
            self.outbox.push(message(EventKind::Track, id, &event));
        }
        for incident in incidents {
            // Of one incident, several updates may come.
            let id = format!("{}/{}/{}", incident.id, incident.phase.name(), incident.time_ms);
            let event = incident_value(stream, incident);
            self.outbox.push(message(EventKind::Incident, id, &event));
        }
    }
}

impl<T: Fn(&str, EventKind) -> String + Send> Sink for EventSink<T> {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        self.push(&delivery.stream, &delivery.ended_tracks, &delivery.incidents);
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        if let Notice::Analytics {
            stream,
            ended_tracks,
            incidents,
        } = notice
        {
            self.push(stream, ended_tracks, incidents);
        }
        Ok(())
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.outbox.counts()
    }

    fn outage(&self) -> Option<String> {
        self.outbox.outage()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.outbox.finish()
    }
}
