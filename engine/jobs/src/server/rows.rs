//! Rows of a queue in a JetStream bucket, one message each: jobs, videos, their segments, and commits. A row
//! is written only over the revision that was read, so that one of several concurrent writers succeeds.
//! Readers keep all small rows in memory, and request only newer ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::stream::{Config, LastRawMessageErrorKind, StorageType, Stream};
use async_nats::jetstream::{self, ErrorCode};
use tokio::sync::{Mutex, MutexGuard};

use super::cache::Cache;
use super::connection::{Link, Trouble};
use crate::error::QueueError;
use crate::place::ServerPlace;

/// Format of the rows.
pub(super) const FORMAT: u32 = 1;

/// Header by which a server recognises a duplicate message.
const MESSAGE_ID: &str = "Nats-Msg-Id";

/// See the module.
pub(super) struct Rows {
    link: Arc<Link>,
    stream: Stream<()>,
    /// Common prefix of all subjects.
    prefix: String,
    /// Random text that identifies this process.
    nonce: String,
    written: AtomicU64,
    cache: Mutex<Cache>,
}

impl Rows {
    fn new(link: &Arc<Link>, stream: Stream<()>, bucket: &str) -> Self {
        let inbox = link.context.client().new_inbox();
        let nonce = inbox.rsplit('.').next().unwrap_or_default().to_owned();
        Self {
            link: Arc::clone(link),
            stream,
            prefix: format!("$KV.{bucket}."),
            nonce,
            written: AtomicU64::new(0),
            cache: Mutex::default(),
        }
    }

    /// Opens the rows of the queue; creates them if they are missing and `creates` is set.
    pub(super) async fn open(
        link: &Arc<Link>,
        place: &ServerPlace,
        creates: bool,
    ) -> Result<Self, QueueError> {
        let bucket = format!("weir-jobs-{}", place.name());
        let config = Config {
            name: format!("KV_{bucket}"),
            description: Some("Archive jobs of Weir".to_owned()),
            subjects: vec![format!("$KV.{bucket}.>")],
            max_messages_per_subject: 1,
            storage: StorageType::File,
            allow_rollup: true,
            duplicate_window: Duration::from_secs(60),
            ..Config::default()
        };
        if creates {
            make_stream(link, &config).await?;
        } else if !has_stream(link, &config.name).await? {
            return Err(QueueError::Missing(link.place.clone().into()));
        }
        let stream = link.context.get_stream_no_info(&config.name).await;
        let rows = Self::new(
            link,
            stream.map_err(|error| link.failed(error.to_string()))?,
            &bucket,
        );
        let format = FORMAT.to_string();
        rows.write("meta.format", format.clone().into_bytes(), 0).await?;
        match rows.read("meta.format").await? {
            Some(found) if found.payload == format.as_bytes() => Ok(rows),
            found => Err(QueueError::Version {
                path: link.place.clone().into(),
                found: found
                    .map(|found| String::from_utf8_lossy(&found.payload).into_owned())
                    .unwrap_or_default(),
                expected: FORMAT,
            }),
        }
    }

    /// A text that no other call of any process gives.
    pub(super) fn unique(&self) -> String {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", self.nonce)
    }

    /// Current state of all cached rows.
    pub(super) async fn now(&self) -> Result<MutexGuard<'_, Cache>, QueueError> {
        let mut cache = self.cache.lock().await;
        if self.link.take_lost() {
            *cache = Cache::default();
        }
        let rows = format!("{}row.>", self.prefix);
        loop {
            let next = cache.last + 1;
            let ask = || async {
                let found = self.stream.get_first_raw_message_by_subject(&rows, next).await;
                match found {
                    Ok(message) => Ok(Some(message)),
                    Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
                    Err(error) => Err(Trouble::Again(error.to_string())),
                }
            };
            let Some(message) = self.link.persist(ask).await? else {
                return Ok(cache);
            };
            let key = message
                .subject
                .strip_prefix(self.prefix.as_str())
                .unwrap_or_default();
            cache.apply(key, &message.payload, message.sequence)?;
            cache.last = message.sequence;
        }
    }

    /// Discards all cached rows.
    pub(super) async fn forget_read(&self) {
        *self.cache.lock().await = Cache::default();
    }

    /// Reads the latest row under a key; `None` if there is none.
    pub(super) async fn read(&self, key: &str) -> Result<Option<StreamMessage>, QueueError> {
        let subject = format!("{}{key}", self.prefix);
        let ask = || async {
            match self.stream.get_last_raw_message_by_subject(&subject).await {
                Ok(message) => Ok(Some(message)),
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
                Err(error) => Err(Trouble::Again(error.to_string())),
            }
        };
        self.link.persist(ask).await
    }

    /// Writes a row over its `revision`, 0 for a new row. Returns false if another writer was first.
    pub(super) async fn write(&self, key: &str, value: Vec<u8>, revision: u64) -> Result<bool, QueueError> {
        let subject = format!("{}{key}", self.prefix);
        let id = self.unique();
        let send = || async {
            let publish = PublishMessage::build()
                .payload(value.clone().into())
                .message_id(&id)
                .expected_last_subject_sequence(revision);
            match self.publish(&subject, publish).await {
                Ok(()) => Ok(true),
                Err(error) => match error.kind() {
                    PublishErrorKind::WrongLastSequence => Ok(false),
                    PublishErrorKind::MaxPayloadExceeded => Err(Trouble::Final(QueueError::Refused(
                        "a row of the queue is larger than a message of its server: submit fewer videos as one job, or raise \
                         `max_payload` of the server"
                            .to_owned(),
                    ))),
                    _ => Err(Trouble::Again(error.to_string())),
                },
            }
        };
        if self.link.persist(send).await? {
            return Ok(true);
        }
        // Where an answer was lost, what is there is what was sent.
        let there = self.read(key).await?;
        let is_own = |message: &StreamMessage| {
            let found = message.headers.get(MESSAGE_ID);
            found.is_some_and(|found| found.as_str() == id)
        };
        let is_own = there.as_ref().is_some_and(is_own);
        if !is_own {
            self.forget_read().await;
        }
        Ok(is_own)
    }

    async fn publish(
        &self,
        subject: &str,
        message: PublishMessage,
    ) -> Result<(), jetstream::context::PublishError> {
        let sent = self
            .link
            .context
            .send_publish(subject.to_owned(), message)
            .await?;
        sent.await.map(drop)
    }

    /// Removes the rows whose keys begin with `key` and are longer.
    pub(super) async fn purge(&self, key: &str) -> Result<(), QueueError> {
        purge(&self.link, &self.stream, &format!("{}{key}.>", self.prefix)).await
    }

    /// Removes one row.
    pub(super) async fn purge_one(&self, key: &str) -> Result<(), QueueError> {
        purge(&self.link, &self.stream, &format!("{}{key}", self.prefix)).await
    }
}

/// Removes all messages of a subject.
pub(super) async fn purge(link: &Link, stream: &Stream<()>, subject: &str) -> Result<(), QueueError> {
    let ask = || async {
        let purged = stream.purge().filter(subject).await;
        purged
            .map(drop)
            .map_err(|error| Trouble::Again(error.to_string()))
    };
    link.persist(ask).await
}

/// Creates a stream if it is missing; an existing one is not changed.
pub(super) async fn make_stream(link: &Link, config: &Config) -> Result<(), QueueError> {
    let make = || async {
        let made = link.context.get_or_create_stream(config.clone()).await;
        made.map(drop).map_err(|error| Trouble::Again(error.to_string()))
    };
    link.persist(make).await
}

async fn has_stream(link: &Link, name: &str) -> Result<bool, QueueError> {
    use async_nats::jetstream::context::GetStreamErrorKind;
    let ask = || async {
        match link.context.get_stream(name).await {
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(reason)
                    if reason.error_code() == ErrorCode::STREAM_NOT_FOUND =>
                {
                    Ok(false)
                }
                _ => Err(Trouble::Again(error.to_string())),
            },
        }
    };
    link.persist(ask).await
}
