//! Tracks, reviews, incidents and states of streams to an MQTT broker, in the form that people's automations know from Frigate.

mod cameras;
mod connection;
mod counts;
mod discovery;
mod events;
mod reviews;
#[cfg(test)]
mod samples;
mod stream_states;
mod topics;
mod transport;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use weir_analytics::AlarmGate;
use weir_flow::{
    Delivery, Incident, KeyKind, KeySpec, Notice, Settings, Sink, SinkError, SinkFactory, StreamState,
};

use self::cameras::Status;
use self::events::Events;
use self::reviews::{ReviewEvent, Reviews};
use self::stream_states::StreamStates;
use self::topics::Topics;
use self::transport::{Broker, MqttTransport, States};
use super::event_sink::{HeldAlarms, described_message, with_held_back};
use super::outbox::{Message, Outbox};
use super::outbox_keys::{self, outbox_options};
use super::{SinkKind, alarm_keys, broker_keys};

pub(super) const KIND: SinkKind = SinkKind {
    name: "mqtt",
    about: "tracks, reviews, incidents, counts and pictures to an MQTT broker, in Frigate's form, with Home Assistant's discovery (docs/reference/mqtt.md)",
    keys: KEYS,
    file_per_stream: false,
    create,
};

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "host",
        kind: KeyKind::Text,
        about: "name or address of the broker, without scheme and port (required)",
    },
    KeySpec {
        name: "port",
        kind: KeyKind::Integer { min: 1, max: 65_535 },
        about: "its port (default 1883, with TLS 8883)",
    },
    KeySpec {
        name: "username",
        kind: KeyKind::Text,
        about: "user that the broker knows; without it no user is named",
    },
    KeySpec {
        name: "password",
        kind: KeyKind::Text,
        about: "password, as `\"${MQTT_PASSWORD}\"`; anyone on the way can read it without `tls`",
    },
    KeySpec {
        name: "password_file",
        kind: KeyKind::File,
        about: "file that holds the password, instead of `password`",
    },
    super::tls::TLS,
    super::tls::CA_FILE,
    super::tls::CERTIFICATE_FILE,
    super::tls::KEY_FILE,
    KeySpec {
        name: "prefix",
        kind: KeyKind::Text,
        about: "prefix of all topics, without wildcards (default `\"weir\"`)",
    },
    KeySpec {
        name: "client_id",
        kind: KeyKind::Text,
        about: "name of the connection, which no other one of the broker may have (default one of its own in each run)",
    },
    KeySpec {
        name: "discovery",
        kind: KeyKind::Text,
        about: "prefix of the topics by which Home Assistant finds devices; empty: it finds none (default `\"homeassistant\"`)",
    },
    KeySpec {
        name: "update_interval",
        kind: KeyKind::Duration,
        about: "time between two updates of a track about which nothing changed but its place (default `\"5s\"`)",
    },
    alarm_keys::COOLDOWN,
    alarm_keys::QUIET_HOURS,
    alarm_keys::QUIET_DAYS,
    alarm_keys::QUIET_EXCEPT,
    alarm_keys::TIMEZONE,
    outbox_keys::PATH,
    outbox_keys::DEAD_LETTER_BYTES,
    outbox_keys::QUEUE,
    outbox_keys::GIVE_UP_AFTER,
];

fn create(settings: &Settings, streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    Topics::new(settings)?;
    Broker::check(settings)?;
    let faults = broker_keys::mqtt_faults(settings);
    if !faults.is_empty() {
        return Err(alarm_keys::as_error("to an MQTT broker", &faults));
    }
    Ok(Box::new(MqttFactory(settings.clone(), streams.to_vec())))
}

/// Keys, and the streams that are known before it begins.
struct MqttFactory(Settings, Vec<String>);

impl SinkFactory for MqttFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let settings = &self.0;
        let topics = Topics::new(settings)?;
        let broker = Broker::new(settings)?;
        let states = Arc::<States>::default();
        let transport = MqttTransport::new(broker, &topics, Arc::clone(&states));
        let mut streams = StreamStates::new(states, topics.clone());
        for stream in &self.1 {
            streams.expect(&stream.as_str().into());
        }
        Ok(Box::new(Mqtt {
            outbox: Outbox::start("mqtt", transport, outbox_options(settings)?)?,
            gate: alarm_keys::gate(settings)?,
            held: HeldAlarms::new(settings),
            events: Events::new((settings.number("update_interval", 5.0) * 1e3) as u64),
            reviews: Reviews::default(),
            streams,
            topics,
        }))
    }

    fn targets(&self) -> Vec<PathBuf> {
        outbox_keys::path(&self.0).into_iter().collect()
    }
}

struct Mqtt {
    outbox: Outbox,
    gate: AlarmGate,
    held: HeldAlarms,
    events: Events,
    reviews: Reviews,
    streams: StreamStates,
    topics: Topics,
}

impl Mqtt {
    /// Sends events of incidents; returns those that are not held back.
    fn push_incidents<'a>(&mut self, stream: &Arc<str>, incidents: &'a [Incident]) -> Vec<&'a Incident> {
        let mut sent = Vec::new();
        for incident in incidents {
            self.streams.on_incident(stream, incident);
            let verdict = self.gate.on_event(stream, incident);
            let Some(held_back) = self.held.count(verdict) else {
                continue;
            };
            sent.push(incident);
            let id = format!("{}/{}/{}", incident.id, incident.phase.name(), incident.time_ms);
            let body = with_held_back(stream, incident, held_back);
            self.push(stream, self.topics.incidents(), id, &body);
        }
        sent
    }

    fn push_events(&self, stream: &Arc<str>, events: Vec<events::TrackEvent>) {
        for event in events {
            self.push(stream, self.topics.events(), event.id, &event.body);
        }
    }

    /// Sends an event of a review, and publishes the status of its stream.
    fn push_review(&self, stream: &Arc<str>, event: Option<ReviewEvent>) {
        if let Some(event) = event {
            self.push(stream, self.topics.reviews(), event.id, &event.body);
            self.streams.set_review_status(stream, event.status);
        }
    }

    fn push(&self, stream: &Arc<str>, topic: String, id: String, body: &Value) {
        self.outbox.push(Message {
            stream: Arc::clone(stream),
            id,
            body: body.to_string().into_bytes(),
            topic,
            picture: None,
        });
    }

    /// The stream shows nothing from then on.
    fn darken(&mut self, stream: &Arc<str>, time_ms: u64, status: Status) {
        self.streams.darken(stream, time_ms, status);
        let review = self.reviews.end(stream);
        self.push_review(stream, review);
    }
}

impl Sink for Mqtt {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let stream = &delivery.stream;
        let events = self.events.on_delivery(delivery);
        self.push_events(stream, events);
        self.streams.own(stream);
        self.streams.on_rules(stream, &delivery.overlays);
        let sent = self.push_incidents(stream, &delivery.incidents);
        if self.streams.on_frame(delivery) {
            let event = self
                .reviews
                .on_activity(stream, delivery.time_ms, &delivery.objects, &sent);
            self.push_review(stream, event);
        }
        Ok(())
    }

    fn wants_notices(&self) -> bool {
        // Of streams that are away, and of frames without motion.
        true
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        match notice {
            Notice::Analytics {
                stream,
                ended_tracks,
                incidents,
            } => {
                let events = self.events.on_ended(stream, ended_tracks);
                self.push_events(stream, events);
                let sent = self.push_incidents(stream, incidents);
                self.streams.set_objects(stream, &[]);
                if let Some(last) = sent.last() {
                    let event = self.reviews.on_activity(stream, last.time_ms, &[], &sent);
                    self.push_review(stream, event);
                }
            }
            Notice::State {
                stream,
                state,
                time_ms,
            } => match state {
                StreamState::Paused => self.darken(stream, *time_ms, Status::Disabled),
                StreamState::Gone { .. } => self.darken(stream, *time_ms, Status::Offline),
                state if state.is_down() => self.darken(stream, *time_ms, Status::Offline),
                _ => self.streams.on_live(stream),
            },
            Notice::Still { stream, time_ms, .. } => {
                self.streams.on_still(stream, *time_ms);
                let event = self.reviews.on_activity(stream, *time_ms, &[], &[]);
                self.push_review(stream, event);
            }
            Notice::Described { sink, description } => {
                let topic = self.topics.descriptions();
                if let Some(message) = described_message(&self.gate, sink, description, topic) {
                    self.outbox.push(message);
                }
            }
            Notice::Dropped { .. } | Notice::Sink { .. } => {}
        }
        Ok(())
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        let event = self.reviews.end(stream);
        self.push_review(&stream.into(), event);
        self.streams.remove(stream);
        self.events.remove(stream);
        self.gate.on_stream_removed(stream);
        Ok(())
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = self.outbox.counts();
        self.held.add_to(&mut counts);
        counts
    }

    fn outage(&self) -> Option<String> {
        self.outbox.outage()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.outbox.finish()
    }
}
