//! Connections to a cluster of Kafka. An event is delivered when all replicas in sync have it (`acks=all`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rskafka::BackoffConfig;
use rskafka::chrono::{DateTime, Utc};
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use rustls::ClientConfig;
use weir_flow::{Settings, Sink, SinkError, SinkFactory};

use super::super::addresses::addresses;
use super::super::event_sink::EventSink;
use super::super::local_runtime::{LocalRuntime, Signal, Waited};
use super::super::outbox::{Connections, Connector, Line, Message, Outbox, Outcome};
use super::super::outbox_keys::{self, outbox_options};
use super::super::renewed::Renewed;
use super::super::secret::secret;
use super::super::tls;
use super::checked_topic;
use super::murmur2::partition_of;

/// Timeout of one attempt to deliver an event.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Time that an idle connection may work, every 100 ms, so that it notices when the other side closes it.
const IDLE_TURN: Duration = Duration::from_millis(1);

/// Bytes of an answer: no metadata of a cluster is larger.
const MAX_ANSWER: usize = 16 << 20;

const NO_ANSWER: &str = "the cluster does not answer";

pub(super) struct KafkaFactory(pub(super) Settings);

impl SinkFactory for KafkaFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let settings = &self.0;
        let connector = KafkaConnector::new(settings)?;
        let topic = connector.topic.clone();
        let outbox = Outbox::start("kafka", Connections::new(connector), outbox_options(settings)?)?;
        let topic = move |_: &str, _| topic.clone();
        Ok(Box::new(EventSink::new(outbox, settings, topic)?))
    }

    fn targets(&self) -> Vec<PathBuf> {
        outbox_keys::path(&self.0).into_iter().collect()
    }
}

struct KafkaConnector {
    brokers: Vec<String>,
    /// Addresses of the brokers, separated by commas, for messages.
    target: String,
    topic: String,
    access: Renewed<Access>,
}

/// Login and encryption.
#[derive(Clone)]
struct Access {
    sasl: Option<SaslConfig>,
    tls: Option<Arc<ClientConfig>>,
}

impl Access {
    fn read(settings: &Settings) -> Result<Self, SinkError> {
        let username = settings.text("username").filter(|user| !user.is_empty());
        let sasl = match username {
            None => None,
            Some(username) => {
                let password = secret(settings, "password", "password_file")?;
                let credentials = Credentials::new(username.to_owned(), password.unwrap_or_default());
                Some(match settings.text("sasl") {
                    Some("plain") => SaslConfig::Plain(credentials),
                    Some("scram-sha-256") => SaslConfig::ScramSha256(credentials),
                    _ => SaslConfig::ScramSha512(credentials),
                })
            }
        };
        Ok(Self {
            sasl,
            tls: tls::tls_config(settings)?,
        })
    }
}

impl KafkaConnector {
    fn new(settings: &Settings) -> Result<Self, SinkError> {
        let brokers = addresses(settings, "brokers", 9092, "to Kafka")?;
        Ok(Self {
            target: brokers.join(", "),
            brokers,
            topic: checked_topic(settings)?,
            access: Renewed::new(settings, Access::read)?,
        })
    }

    /// A client, and the partitions of the topic.
    async fn client(&self, Access { sasl, tls }: Access) -> Result<(Client, Vec<i32>), String> {
        // Short: it is the outbox that waits between attempts.
        let retries = BackoffConfig {
            init_backoff: Duration::from_millis(20),
            max_backoff: Duration::from_millis(500),
            base: 3.0,
            deadline: Some(Duration::from_secs(2)),
        };
        let mut builder = ClientBuilder::new(self.brokers.clone())
            .client_id("weir")
            .max_message_size(MAX_ANSWER)
            .backoff_config(retries);
        if let Some(sasl) = sasl {
            builder = builder.sasl_config(sasl);
        }
        if let Some(tls) = tls {
            builder = builder.tls_config(tls);
        }
        let client = builder.build().await.map_err(|error| reason(&error))?;
        let topics = client.list_topics().await.map_err(|error| reason(&error))?;
        let topic = topics.into_iter().find(|topic| topic.name == self.topic);
        let partitions = topic.map(|topic| topic.partitions.into_iter().collect());
        let partitions: Vec<i32> = partitions.unwrap_or_default();
        if partitions.is_empty() {
            return Err(missing_topic(&self.topic));
        }
        Ok((client, partitions))
    }
}

impl Connector for KafkaConnector {
    type Line = KafkaLine;

    fn target(&self) -> &str {
        &self.target
    }

    fn connect(&self) -> Result<KafkaLine, String> {
        let runtime = LocalRuntime::new()?;
        let Waited::Done(connected) =
            runtime.run(TIMEOUT, &Signal::default(), self.client(self.access.get()))
        else {
            return Err(NO_ANSWER.to_owned());
        };
        let (client, partitions) = connected?;
        Ok(KafkaLine {
            runtime,
            client,
            partitions,
            writers: BTreeMap::new(),
        })
    }
}

/// Connections to the brokers that lead the partitions. They stand still but while they are used.
struct KafkaLine {
    runtime: LocalRuntime,
    client: Client,
    partitions: Vec<i32>,
    /// Clients of the partitions used so far, by partition number.
    writers: BTreeMap<i32, PartitionClient>,
}

async fn produce(
    client: &Client,
    writers: &mut BTreeMap<i32, PartitionClient>,
    partition: i32,
    message: &Message,
) -> Result<(), Error> {
    let writer = match writers.entry(partition) {
        Entry::Occupied(writer) => writer.into_mut(),
        Entry::Vacant(place) => {
            let handling = UnknownTopicHandling::Error;
            let writer = client.partition_client(&message.topic, partition, handling);
            place.insert(writer.await?)
        }
    };
    let record = Record {
        key: Some(message.stream.as_bytes().to_vec()),
        value: Some(message.body.clone()),
        headers: BTreeMap::from([("weir-event".to_owned(), message.id.clone().into_bytes())]),
        timestamp: now(),
    };
    let produced = writer.produce(vec![record], Compression::NoCompression);
    produced.await.map(drop)
}

impl Line for KafkaLine {
    fn send(&mut self, message: &Message) -> Outcome {
        let place = partition_of(message.stream.as_bytes(), self.partitions.len());
        let sending = produce(&self.client, &mut self.writers, self.partitions[place], message);
        match self.runtime.run(TIMEOUT, &Signal::default(), sending) {
            Waited::Done(Ok(())) => Outcome::Delivered,
            Waited::Done(Err(error)) => outcome(&error, &message.topic),
            Waited::TimedOut | Waited::Stopped => Outcome::Failed(NO_ANSWER.to_owned()),
        }
    }

    fn is_up(&mut self) -> bool {
        self.runtime.turn(IDLE_TURN, &Signal::default())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "readers of the topic see when it was sent; nothing is decided by it"
)]
fn now() -> DateTime<Utc> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    DateTime::from_timestamp_millis(millis).unwrap_or_default()
}

fn missing_topic(topic: &str) -> String {
    format!(
        "there is no topic {topic}, or this user may not write to it: create it, or name another one by `topic`"
    )
}

fn reason(error: &Error) -> String {
    match error {
        Error::ServerError { protocol_error, .. } => protocol_error.to_string(),
        other => tls::explained(&other.to_string()),
    }
}

fn outcome(error: &Error, topic: &str) -> Outcome {
    let Error::ServerError { protocol_error, .. } = error else {
        return Outcome::Failed(reason(error));
    };
    match protocol_error {
        ProtocolError::MessageTooLarge | ProtocolError::RecordListTooLarge | ProtocolError::InvalidRecord => {
            Outcome::Refused(format!("the cluster rejected it: {protocol_error}"))
        }
        ProtocolError::UnknownTopicOrPartition => Outcome::Failed(missing_topic(topic)),
        other => Outcome::Failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use weir_flow::Value;

    use super::*;

    /// Answers the first request with a length, the request's own number, and bytes without an end.
    fn lie(mut stream: TcpStream, length: u32, flood: u8) -> std::io::Result<()> {
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        stream.write_all(&length.to_be_bytes())?;
        stream.write_all(&head[8..])?;
        loop {
            stream.write_all(&[flood; 64 << 10])?;
        }
    }

    #[test]
    fn a_broker_that_answers_without_an_end_takes_bounded_memory() {
        // A length beyond all bounds; and within them, lists of billions.
        for (length, flood) in [(0x7fff_ffff, 0), (MAX_ANSWER as u32, 0x7f)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let broker = listener.local_addr().unwrap().to_string();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let _ = lie(stream, length, flood);
                }
            });
            let keys = [
                ("brokers", Value::Texts(vec![broker])),
                ("topic", Value::Text("weir".to_owned())),
            ];
            let settings = Settings(keys.map(|(key, value)| (key.to_owned(), value)).into());
            let connector = KafkaConnector::new(&settings).unwrap();
            let allocated = allocation_counter::measure(|| {
                assert!(connector.connect().is_err());
            });
            assert!(
                allocated.bytes_max < 4 * MAX_ANSWER as u64,
                "{} bytes for an answer of {length}",
                allocated.bytes_max
            );
        }
    }
}
