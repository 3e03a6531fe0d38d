//! Sinks that send incidents, and tracks that ended where that is asked for, through an outbox: their bodies are event lines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use weir_analytics::{AlarmGate, AlarmVerdict, HeldBy};
use weir_flow::{
    BestShot, Delivery, Description, Incident, KeyKind, KeySpec, Notice, Settings, Sink, SinkError, TrackEnd,
};

use super::alarm_keys;
use super::event::{described_value, incident_value, track_value};
use super::outbox::{GroupKey, Message, Outbox};

pub(super) const TRACKS: KeySpec = KeySpec {
    name: "tracks",
    kind: KeyKind::Flag,
    about: "sends tracks that ended, too; default false",
};

pub(super) const DESCRIPTIONS: KeySpec = KeySpec {
    name: "descriptions",
    kind: KeyKind::Flag,
    about: "sends what a `describe` sink learns of incidents, too; default true, with `updates = false` and with `preset` false",
};

/// Subject of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    Incident,
    Track,
}

/// Counts of alarms that were held back, by reason.
#[derive(Debug, Default)]
pub(super) struct HeldAlarms {
    is_limited: bool,
    cooldown: u64,
    quiet: u64,
}

impl HeldAlarms {
    pub(super) fn new(settings: &Settings) -> Self {
        let keys = ["cooldown", "quiet_hours", "quiet_days"];
        Self {
            is_limited: keys.iter().any(|key| settings.0.contains_key(*key)),
            ..Self::default()
        }
    }

    /// Counts an alarm that is held back. For an event to be sent, returns how many alarms were held back before it.
    pub(super) fn count(&mut self, verdict: AlarmVerdict) -> Option<u64> {
        match verdict {
            AlarmVerdict::Alarm { held_back } => return Some(held_back),
            AlarmVerdict::FollowUp => return Some(0),
            AlarmVerdict::Held(HeldBy::Cooldown) => self.cooldown += 1,
            AlarmVerdict::Held(HeldBy::Quiet) => self.quiet += 1,
            AlarmVerdict::HeldFollowUp => {}
        }
        None
    }

    /// Adds the counts to those of a sink whose keys hold alarms back.
    pub(super) fn add_to(&self, counts: &mut BTreeMap<&'static str, u64>) {
        if self.is_limited {
            counts.insert("held_cooldown", self.cooldown);
            counts.insert("held_quiet", self.quiet);
        }
    }
}

/// The line of an incident, with the number of alarms held back before it as `held_back`, if there were any.
pub(super) fn with_held_back(stream: &str, incident: &Incident, held_back: u64) -> Value {
    let mut event = incident_value(stream, incident);
    if let (1.., Some(fields)) = (held_back, event.as_object_mut()) {
        fields.insert("held_back".to_owned(), held_back.into());
    }
    event
}

/// The message of a description; `None` if the alarm of its incident was held back.
pub(super) fn described_message(
    gate: &AlarmGate,
    sink: &str,
    description: &Description,
    topic: String,
) -> Option<Message> {
    let incident = &description.incident;
    if gate.was_held(&incident.id) {
        return None;
    }
    Some(Message {
        stream: Arc::clone(&description.stream),
        id: format!("{}/described/{sink}", incident.id),
        body: described_value(sink, description).to_string().into_bytes(),
        topic,
        picture: None,
    })
}

/// See the module. `topic` says where the events of a stream go.
pub(super) struct EventSink<T> {
    outbox: Outbox,
    tracks: bool,
    /// Whether incidents are sent again as they change and end.
    updates: bool,
    pictures: bool,
    /// Whether descriptions are sent; `None`: where updates are.
    descriptions: Option<bool>,
    gate: AlarmGate,
    held: HeldAlarms,
    /// Time for which alarms of a rule are collected for one message.
    group_wait: Option<Duration>,
    /// Alarms in the messages of earlier ones.
    grouped: u64,
    topic: T,
}

impl<T: Fn(&str, EventKind) -> String> EventSink<T> {
    /// # Errors
    /// Faults in the keys that hold alarms back.
    pub(super) fn new(outbox: Outbox, settings: &Settings, topic: T) -> Result<Self, SinkError> {
        let gate = alarm_keys::gate(settings)?;
        Ok(Self {
            outbox,
            tracks: settings.flag("tracks", false),
            updates: true,
            pictures: false,
            descriptions: settings
                .0
                .contains_key(DESCRIPTIONS.name)
                .then(|| settings.flag(DESCRIPTIONS.name, true)),
            group_wait: gate.group_wait_ms().map(Duration::from_millis),
            gate,
            held: HeldAlarms::new(settings),
            grouped: 0,
            topic,
        })
    }

    /// Whether incidents are sent again as they change and end, which those in messages of several are not, and whether events have
    /// their pictures.
    pub(super) fn with(self, updates: bool, pictures: bool) -> Self {
        Self {
            updates: updates && self.group_wait.is_none(),
            pictures,
            ..self
        }
    }

    fn push(&mut self, stream: &Arc<str>, ended_tracks: &[TrackEnd], incidents: &[Incident]) {
        for track in ended_tracks.iter().filter(|_| self.tracks) {
            let id = format!("{stream}/track/{}", track.id);
            let event = track_value(stream, track);
            self.outbox
                .push(self.message(stream, EventKind::Track, id, &event, None));
        }
        for incident in incidents {
            let verdict = self.gate.on_event(stream, incident);
            if verdict == AlarmVerdict::FollowUp && !self.updates {
                continue;
            }
            let Some(held_back) = self.held.count(verdict) else {
                continue;
            };
            // Of one incident, several updates may come.
            let id = format!("{}/{}/{}", incident.id, incident.phase.name(), incident.time_ms);
            let event = with_held_back(stream, incident, held_back);
            let picture = self.picture(incident);
            let message = self.message(stream, EventKind::Incident, id, &event, picture);
            match self.group_wait {
                None => self.outbox.push(message),
                Some(wait) => {
                    let key = GroupKey {
                        transform: Arc::clone(&incident.transform),
                        incident: Arc::clone(&incident.id),
                        time_ms: incident.time_ms,
                        held_back,
                        wait,
                    };
                    self.grouped += u64::from(self.outbox.push_grouped(message, key));
                }
            }
        }
    }

    /// The picture that is sent with an event of an incident. It is encoded here, so that the queue holds no pixels.
    fn picture(&self, incident: &Incident) -> Option<Arc<BestShot>> {
        let picture = incident.best.as_ref().filter(|_| self.pictures);
        picture.filter(|picture| !picture.jpeg().is_empty()).cloned()
    }

    fn message(
        &self,
        stream: &Arc<str>,
        kind: EventKind,
        id: String,
        event: &Value,
        picture: Option<Arc<BestShot>>,
    ) -> Message {
        Message {
            stream: Arc::clone(stream),
            id,
            body: event.to_string().into_bytes(),
            topic: (self.topic)(stream, kind),
            picture,
        }
    }
}

impl<T: Fn(&str, EventKind) -> String + Send> Sink for EventSink<T> {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        self.push(&delivery.stream, &delivery.ended_tracks, &delivery.incidents);
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        match notice {
            Notice::Analytics {
                stream,
                ended_tracks,
                incidents,
            } => self.push(stream, ended_tracks, incidents),
            Notice::Described { sink, description } if self.descriptions.unwrap_or(self.updates) => {
                let topic = (self.topic)(&description.stream, EventKind::Incident);
                if let Some(message) = described_message(&self.gate, sink, description, topic) {
                    let picture = self.picture(&description.incident);
                    self.outbox.push(Message { picture, ..message });
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        self.gate.on_stream_removed(stream);
        Ok(())
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = self.outbox.counts();
        self.held.add_to(&mut counts);
        if self.group_wait.is_some() {
            counts.insert("grouped", self.grouped);
        }
        counts
    }

    fn outage(&self) -> Option<String> {
        self.outbox.outage()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.outbox.finish()
    }
}
