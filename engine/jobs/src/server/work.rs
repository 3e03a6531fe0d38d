//! Work queue of the parts of videos, as messages of a JetStream work queue. Each message is delivered to one
//! engine, and again to another if that engine is silent for some seconds or returns it. The messages only
//! distribute work; rows record the commits. If a message is lost, an engine that finds none sends it again,
//! and a message that is delivered twice is processed twice at most.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, RetentionPolicy, StorageType, Stream};
use async_nats::jetstream::{AckKind, Message};
use futures_util::StreamExt;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::cache::VideoKey;
use super::connection::{Link, Trouble};
use super::part::Part;
use super::rows::{make_stream, purge};
use crate::claim::Hold;
use crate::error::QueueError;
use crate::place::ServerPlace;

/// Time for which an engine may be silent about a part before the part is delivered to another.
const ACK_WAIT: Duration = Duration::from_secs(5);

/// Interval of progress messages for a part.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(1_250);

/// Maximum number of deliveries of a part. Engines give up a video long before.
const MAX_DELIVER: i64 = 100;

/// Time after which a consumer without requests is deleted.
const CONSUMER_LIFE: Duration = Duration::from_secs(600);

/// Window in which the server treats equal parts as duplicates.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(10);

/// Time until a video without tasks is polled again.
const REST: Duration = Duration::from_millis(500);

/// Number of attempts to acknowledge a part without a confirmation of the server.
const ACK_TRIES: u32 = 3;

/// See the module.
pub(super) struct Work {
    link: Arc<Link>,
    stream: Stream<()>,
    /// Common prefix of all subjects.
    prefix: String,
    consumers: std::sync::Mutex<BTreeMap<VideoKey, PullConsumer>>,
    /// Videos that had no task recently, and the time of that poll.
    resting: std::sync::Mutex<BTreeMap<VideoKey, Instant>>,
}

/// A part that this engine has.
pub(super) struct Given {
    pub(super) message: Message,
    /// Task of the message; `None` if another version of Weir sent it.
    pub(super) part: Option<Part>,
    /// Number of deliveries, including this one.
    pub(super) times: u32,
}

fn consumer_name((job, video): VideoKey) -> String {
    format!("video-{job:012}-{video:06}")
}

impl Work {
    pub(super) async fn open(link: &Arc<Link>, place: &ServerPlace) -> Result<Self, QueueError> {
        let name = format!("weir-jobs-{}", place.name());
        let prefix = format!("weir-jobs.{}.", place.name());
        let config = Config {
            name: name.clone(),
            description: Some("Parts of videos that engines of Weir are to process".to_owned()),
            subjects: vec![format!("{prefix}>")],
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::File,
            duplicate_window: DUPLICATE_WINDOW,
            ..Config::default()
        };
        make_stream(link, &config).await?;
        let stream = link.context.get_stream_no_info(&name).await;
        Ok(Self {
            link: Arc::clone(link),
            stream: stream.map_err(|error| link.failed(error.to_string()))?,
            prefix,
            consumers: std::sync::Mutex::default(),
            resting: std::sync::Mutex::default(),
        })
    }

    fn subject(&self, (job, video): VideoKey) -> String {
        format!("{}{job:012}.{video:06}", self.prefix)
    }

    async fn consumer(&self, key: VideoKey) -> Result<PullConsumer, QueueError> {
        let known = |consumers: &BTreeMap<VideoKey, PullConsumer>| consumers.get(&key).cloned();
        if let Some(consumer) = known(&self.consumers.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(consumer);
        }
        let config = pull::Config {
            durable_name: Some(consumer_name(key)),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_deliver: MAX_DELIVER,
            filter_subject: self.subject(key),
            inactive_threshold: CONSUMER_LIFE,
            ..pull::Config::default()
        };
        let make = || async {
            let made = self.stream.create_consumer(config.clone()).await;
            made.map_err(|error| Trouble::Again(error.to_string()))
        };
        let consumer: PullConsumer = self.link.persist(make).await?;
        let mut consumers = self.consumers.lock().unwrap_or_else(PoisonError::into_inner);
        consumers.insert(key, consumer.clone());
        Ok(consumer)
    }

    fn forget_consumer(&self, key: VideoKey) {
        self.consumers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&key);
    }

    /// Fetches the next part of a video that no engine has.
    pub(super) async fn next(&self, key: VideoKey) -> Result<Option<Given>, QueueError> {
        let ask = || async {
            let failed = |reason: String| {
                // The consumer may have been deleted; it is created again.
                self.forget_consumer(key);
                Trouble::Again(reason)
            };
            let consumer = self.consumer(key).await.map_err(Trouble::Final)?;
            let fetched = consumer.fetch().max_messages(1).messages().await;
            let mut fetched = fetched.map_err(|error| failed(error.to_string()))?;
            match fetched.next().await {
                None => Ok(None),
                Some(Ok(message)) => Ok(Some(message)),
                Some(Err(error)) => Err(failed(error.to_string())),
            }
        };
        let Some(message) = self.link.persist(ask).await? else {
            return Ok(None);
        };
        let times = message.info().map_or(1, |info| info.delivered);
        Ok(Some(Given {
            part: serde_json::from_slice(&message.payload).ok(),
            times: u32::try_from(times).unwrap_or(u32::MAX),
            message,
        }))
    }

    /// True if a part of the video is queued, or an engine has one.
    pub(super) async fn is_busy(&self, key: VideoKey) -> Result<bool, QueueError> {
        let name = consumer_name(key);
        let ask = || async {
            let info = self.stream.consumer_info(&name).await;
            info.map_err(|error| {
                self.forget_consumer(key);
                Trouble::Again(error.to_string())
            })
        };
        let info = self.link.persist(ask).await?;
        Ok(info.num_pending > 0 || info.num_ack_pending > 0)
    }

    /// Sends a part.
    pub(super) async fn send(&self, key: VideoKey, part: &Part) -> Result<(), QueueError> {
        let subject = self.subject(key);
        let body = serde_json::to_vec(part)?;
        let id = format!("{}-{}-{}", key.0, key.1, part.label());
        let send = || async {
            let message = PublishMessage::build()
                .payload(body.clone().into())
                .message_id(&id);
            let sent = self.link.context.send_publish(subject.clone(), message).await;
            let stored = match sent {
                Ok(stored) => stored.await,
                Err(error) => Err(error),
            };
            stored
                .map(drop)
                .map_err(|error| Trouble::Again(error.to_string()))
        };
        self.link.persist(send).await
    }

    /// True if the video had no task when it was last polled, a moment ago.
    pub(super) fn rests(&self, key: VideoKey) -> bool {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        resting.retain(|_, since| since.elapsed() < REST);
        resting.contains_key(&key)
    }

    /// Records that a video has no task for now.
    pub(super) fn rest(&self, key: VideoKey) {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        resting.insert(key, Instant::now());
    }

    /// Removes the consumer and messages of a video. Whatever cannot be removed now is removed with its job.
    pub(super) async fn remove(&self, key: VideoKey) {
        self.forget_consumer(key);
        let _ = self.stream.delete_consumer(&consumer_name(key)).await;
        let _ = purge(&self.link, &self.stream, &self.subject(key)).await;
    }

    /// Removes the consumers and messages of a job.
    pub(super) async fn remove_job(&self, job: u64) -> Result<(), QueueError> {
        purge(&self.link, &self.stream, &format!("{}{job:012}.>", self.prefix)).await
    }
}

/// Keeps a part, by saying so again and again, until it is done or dropped.
pub(super) struct Held {
    message: Arc<Message>,
    progress: AbortHandle,
    handle: Handle,
    is_done: AtomicBool,
}

impl Held {
    pub(super) fn new(message: Message, handle: &Handle) -> Self {
        let message = Arc::new(message);
        let kept = Arc::clone(&message);
        let progress = handle.spawn(async move {
            loop {
                tokio::time::sleep(PROGRESS_INTERVAL).await;
                let _ = kept.ack_with(AckKind::Progress).await;
            }
        });
        Self {
            message,
            progress: progress.abort_handle(),
            handle: handle.clone(),
            is_done: AtomicBool::new(false),
        }
    }
}

impl Hold for Held {
    /// Acknowledges the part. If the server does not receive this, it delivers the part again, and the next
    /// engine finds that nothing is left to do.
    fn done(self: Box<Self>) {
        self.is_done.store(true, Ordering::Relaxed);
        let message = Arc::clone(&self.message);
        self.handle.spawn(async move { acknowledge(&message).await });
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.progress.abort();
        if !self.is_done.load(Ordering::Relaxed) {
            let message = Arc::clone(&self.message);
            self.handle.spawn(async move {
                let _ = message.ack_with(AckKind::Nak(None)).await;
            });
        }
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

/// Acknowledges a part, and repeats this until the server confirms.
pub(super) async fn acknowledge(message: &Message) {
    for _ in 0..ACK_TRIES {
        if message.double_ack().await.is_ok() {
            return;
        }
    }
}
