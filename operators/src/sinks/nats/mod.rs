//! Incidents and tracks to NATS: to JetStream, which stores them, or to who listens now.

#[cfg(feature = "nats")]
mod connection;
mod subjects;

use weir_flow::{KeyKind, KeySpec, Settings, SinkError, SinkFactory};

use self::subjects::Subjects;
use super::addresses::addresses;
use super::{SinkKind, alarm_keys, event_sink, outbox_keys, tls};

pub(super) const KIND: SinkKind = SinkKind {
    name: "nats",
    about: "incidents to NATS, stored by a stream of JetStream (docs/reference/sinks.md; feature `nats`)",
    keys: KEYS,
    file_per_stream: false,
    create,
};

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "servers",
        kind: KeyKind::Texts,
        about: "names or addresses of the servers of one cluster, each with its port or 4222, as `[\"nats.lan:4222\"]` (required)",
    },
    KeySpec {
        name: "prefix",
        kind: KeyKind::Text,
        about: "prefix of all subjects, without wildcards (default `\"weir\"`)",
    },
    KeySpec {
        name: "jetstream",
        kind: KeyKind::Flag,
        about: "true: an event is delivered when a stream of JetStream has stored it; false: when the server has passed it on, with or without a subscriber (default true)",
    },
    event_sink::TRACKS,
    event_sink::DESCRIPTIONS,
    KeySpec {
        name: "username",
        kind: KeyKind::Text,
        about: "user that the server knows; without it no user is named",
    },
    KeySpec {
        name: "password",
        kind: KeyKind::Text,
        about: "password, as `\"${NATS_PASSWORD}\"`",
    },
    KeySpec {
        name: "password_file",
        kind: KeyKind::File,
        about: "file that holds the password, instead of `password`",
    },
    KeySpec {
        name: "credentials_file",
        kind: KeyKind::File,
        about: "file of credentials that NATS has made for a user (`.creds`), instead of user and password",
    },
    tls::TLS,
    tls::CA_FILE,
    tls::CERTIFICATE_FILE,
    tls::KEY_FILE,
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

fn create(settings: &Settings, _streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    addresses(settings, "servers", 4222, "to NATS")?;
    Subjects::new(settings)?;
    tls::tls_config(settings)?;
    alarm_keys::gate(settings)?;
    build(settings)
}

#[cfg(feature = "nats")]
fn build(settings: &Settings) -> Result<Box<dyn SinkFactory>, SinkError> {
    Ok(Box::new(connection::NatsFactory(settings.clone())))
}

#[cfg(not(feature = "nats"))]
fn build(_settings: &Settings) -> Result<Box<dyn SinkFactory>, SinkError> {
    Err(super::feature::missing(KIND.name))
}
