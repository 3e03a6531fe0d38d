//! Tracks, incidents and counts to an MQTT broker, in the form that people's automations know from Frigate.

mod connection;
mod counts;
mod discovery;
mod events;
mod topics;
mod transport;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use weir_analytics::AlarmGate;
use weir_flow::{
    Delivery, Incident, KeyKind, KeySpec, Notice, Settings, Sink, SinkError, SinkFactory, StreamState,
};

use self::counts::Counts;
use self::events::Events;
use self::topics::Topics;
use self::transport::{Broker, MqttTransport, States};
use super::event_sink::{HeldAlarms, with_held_back};
use super::outbox::{Message, Outbox};
use super::outbox_keys::{self, outbox_options};
use super::secret::secret;
use super::{SinkKind, alarm_keys};

pub(super) const KIND: SinkKind = SinkKind {
    name: "mqtt",
    about: "tracks, incidents and counts to an MQTT broker, in Frigate's form, with Home Assistant's discovery (docs/reference/sinks.md)",
    keys: KEYS,
    file_per_stream: false,
    create,
};

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "host",
        kind: KeyKind::Text,
        about: "name or address of the broker (required)",
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

/// Largest number of streams whose counts are tracked.
const MAX_STREAMS: usize = 4_096;

/// Topics of pictures.
const MAX_SNAPSHOTS: usize = 1_024;

fn create(settings: &Settings, streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    Topics::new(settings)?;
    Broker::new(settings)?;
    alarm_keys::gate(settings)?;
    Ok(Box::new(MqttFactory(settings.clone(), streams.to_vec())))
}

/// Keys, and the streams that are known before it begins.
struct MqttFactory(Settings, Vec<String>);

impl SinkFactory for MqttFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let settings = &self.0;
        let topics = Topics::new(settings)?;
        let mut broker = Broker::new(settings)?;
        broker.password = secret(settings, "password", "password_file")?;
        let states = Arc::<States>::default();
        let transport = MqttTransport::new(broker, &topics, Arc::clone(&states));
        for stream in &self.1 {
            states.own(topics.counts_of(stream));
        }
        Ok(Box::new(Mqtt {
            owned: self.1.iter().map(|stream| stream.as_str().into()).collect(),
            dark: BTreeMap::new(),
            outbox: Outbox::start("mqtt", transport, outbox_options(settings)?)?,
            gate: alarm_keys::gate(settings)?,
            held: HeldAlarms::new(settings),
            states,
            events: Events::new((settings.number("update_interval", 5.0) * 1e3) as u64),
            counts: Counts::default(),
            topics,
            snapshots: BTreeMap::new(),
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
    states: Arc<States>,
    events: Events,
    counts: Counts,
    topics: Topics,
    /// Streams whose counts are those of this sink.
    owned: BTreeSet<Arc<str>>,
    /// Streams that show nothing, and since when.
    dark: BTreeMap<Arc<str>, u64>,
    /// Track and frame of the newest picture by topic.
    snapshots: BTreeMap<String, (Option<u64>, u64)>,
}

impl Mqtt {
    /// Clears the retained values of a stream that an earlier run left.
    fn own(&mut self, stream: &Arc<str>) {
        if !self.owned.contains(stream) && self.owned.len() < MAX_STREAMS {
            self.owned.insert(Arc::clone(stream));
            self.states.own(self.topics.counts_of(stream));
        }
    }

    /// The stream shows nothing from then on.
    fn darken(&mut self, stream: &Arc<str>, time_ms: u64) {
        if self.dark.len() < MAX_STREAMS {
            self.dark.insert(Arc::clone(stream), time_ms);
        }
        let changed = self.counts.on_objects(stream, &[]);
        self.set_counts(stream, changed);
    }

    /// Whether a frame of that time came before the stream went dark, and comes out late.
    fn is_of_before(&mut self, stream: &Arc<str>, time_ms: u64) -> bool {
        match self.dark.get(stream) {
            Some(since_ms) if time_ms <= *since_ms => true,
            Some(_) => {
                self.dark.remove(stream);
                false
            }
            None => false,
        }
    }

    fn push_incidents(&mut self, stream: &Arc<str>, incidents: &[Incident]) {
        for incident in incidents {
            self.set_snapshot(stream, incident);
            let verdict = self.gate.on_event(stream, incident);
            let Some(held_back) = self.held.count(verdict) else {
                continue;
            };
            self.outbox.push(Message {
                stream: Arc::clone(stream),
                id: format!("{}/{}/{}", incident.id, incident.phase.name(), incident.time_ms),
                body: with_held_back(stream, incident, held_back)
                    .to_string()
                    .into_bytes(),
                topic: self.topics.incidents(),
                picture: None,
            });
        }
    }

    /// The picture of an incident, where it is another one than the class had before.
    fn set_snapshot(&mut self, stream: &Arc<str>, incident: &Incident) {
        let Some((best, class)) = incident.best.as_ref().zip(incident.class.as_ref()) else {
            return;
        };
        let topic = self.topics.snapshot(stream, class);
        let shown = (incident.track, best.frame);
        if self.snapshots.get(&topic) == Some(&shown) {
            return;
        }
        let jpeg = best.jpeg();
        if !jpeg.is_empty() && (self.snapshots.len() < MAX_SNAPSHOTS || self.snapshots.contains_key(&topic)) {
            self.states.set(topic.clone(), jpeg);
            self.snapshots.insert(topic, shown);
        }
    }

    fn push_events(&self, stream: &Arc<str>, events: Vec<events::TrackEvent>) {
        for event in events {
            self.outbox.push(Message {
                stream: Arc::clone(stream),
                id: event.id,
                body: event.body.to_string().into_bytes(),
                topic: self.topics.events(),
                picture: None,
            });
        }
    }

    /// Counts that changed, and what Home Assistant is to know of those that are new.
    fn set_counts(&self, stream: &str, changed: counts::Changed) {
        for (class, count) in changed.counts {
            self.states
                .set(self.topics.count(stream, &class), count.to_string());
        }
        if changed.has_new
            && let Some(topic) = self.topics.discovery()
        {
            let config = discovery::config(&self.topics, self.counts.known());
            self.states.set(topic, config.to_string());
        }
    }
}

impl Sink for Mqtt {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let events = self.events.on_delivery(delivery);
        self.push_events(&delivery.stream, events);
        self.push_incidents(&delivery.stream, &delivery.incidents);
        self.own(&delivery.stream);
        if !self.is_of_before(&delivery.stream, delivery.time_ms) {
            let changed = self.counts.on_objects(&delivery.stream, &delivery.objects);
            self.set_counts(&delivery.stream, changed);
        }
        Ok(())
    }

    fn wants_notices(&self) -> bool {
        // A stream that is away shows nothing.
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
                self.push_incidents(stream, incidents);
                let changed = self.counts.on_objects(stream, &[]);
                self.set_counts(stream, changed);
            }
            Notice::State {
                stream,
                state,
                time_ms,
            } if state.is_down() || matches!(state, StreamState::Paused | StreamState::Gone { .. }) => {
                self.darken(stream, *time_ms);
            }
            Notice::Dropped { .. } | Notice::Still { .. } | Notice::State { .. } | Notice::Sink { .. } => {}
        }
        Ok(())
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        let changed = self.counts.on_objects(stream, &[]);
        self.set_counts(stream, changed);
        self.events.remove(stream);
        self.dark.remove(stream);
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
