//! Incidents and tracks to a topic of Kafka, keyed by stream.

#[cfg(feature = "kafka")]
mod connection;
#[cfg(feature = "kafka")]
mod murmur2;

use weir_flow::{KeyKind, KeySpec, Settings, SinkError, SinkFactory};

use super::addresses::addresses;
use super::{SinkKind, alarm_keys, event_sink, outbox_keys, tls};

pub(super) const KIND: SinkKind = SinkKind {
    name: "kafka",
    about: "incidents to a topic of Kafka, each stream in one partition (docs/reference/sinks.md; feature `kafka`)",
    keys: KEYS,
    file_per_stream: false,
    create,
};

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "brokers",
        kind: KeyKind::Texts,
        about: "names or addresses of brokers of one cluster, each with its port or 9092, as `[\"kafka.lan:9092\"]` (required)",
    },
    KeySpec {
        name: "topic",
        kind: KeyKind::Text,
        about: "topic for the events, which must exist (default `\"weir\"`)",
    },
    event_sink::TRACKS,
    event_sink::DESCRIPTIONS,
    KeySpec {
        name: "username",
        kind: KeyKind::Text,
        about: "user that the cluster knows (SASL); without it no user is named",
    },
    KeySpec {
        name: "password",
        kind: KeyKind::Text,
        about: "password, as `\"${KAFKA_PASSWORD}\"`",
    },
    KeySpec {
        name: "password_file",
        kind: KeyKind::File,
        about: "file that holds the password, instead of `password`",
    },
    KeySpec {
        name: "sasl",
        kind: KeyKind::OneOf(&["scram-sha-512", "scram-sha-256", "plain"]),
        about: "SASL mechanism for user and password (default `\"scram-sha-512\"`)",
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
    addresses(settings, "brokers", 9092, "to Kafka")?;
    checked_topic(settings)?;
    tls::tls_config(settings)?;
    alarm_keys::gate(settings)?;
    build(settings)
}

/// The topic that `settings` name.
///
/// # Errors
/// It is none that Kafka could have.
fn checked_topic(settings: &Settings) -> Result<String, SinkError> {
    let topic = settings.text("topic").unwrap_or("weir");
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if (1..=249).contains(&topic.len()) && topic.chars().all(fits) && !matches!(topic, "." | "..") {
        return Ok(topic.to_owned());
    }
    Err(SinkError {
        target: format!("to the topic \"{topic}\""),
        reason: "`topic` is no name of a topic: take letters, digits, full stops, - and _, 249 at most"
            .to_owned(),
    })
}

#[cfg(feature = "kafka")]
fn build(settings: &Settings) -> Result<Box<dyn SinkFactory>, SinkError> {
    Ok(Box::new(connection::KafkaFactory(settings.clone())))
}

#[cfg(not(feature = "kafka"))]
fn build(_settings: &Settings) -> Result<Box<dyn SinkFactory>, SinkError> {
    Err(super::feature::missing(KIND.name))
}

#[cfg(test)]
mod tests {
    use weir_flow::Value;

    use super::*;

    #[test]
    fn what_is_no_topic_is_refused() {
        let topic = |topic: &str| {
            let topic = Value::Text(topic.to_owned());
            checked_topic(&Settings([("topic".to_owned(), topic)].into()))
        };
        assert_eq!(topic("site.weir_1-a").expect("a topic"), "site.weir_1-a");
        for name in ["", "..", "a/b", "a*", "t\u{fc}r", &"a".repeat(250)] {
            let error = topic(name).expect_err(name).to_string();
            assert!(error.contains("`topic`"), "{error}");
        }
    }
}
