//! The thread that delivers, and what it counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_flow::SinkError;

use super::backoff::Backoff;
use super::dead_letters::DeadLetters;
use super::message::{Message, Outcome, Transport};
use super::queue::{Queue, Waiting};

/// How long the transport is left alone without an event.
const IDLE: Duration = Duration::from_millis(100);

/// How long events are still tried when nothing follows.
const FLUSH: Duration = Duration::from_secs(4);

/// Bounds of an outbox.
pub(in crate::sinks) struct OutboxOptions {
    /// Events that may wait.
    pub(in crate::sinks) max_messages: usize,
    /// Their bytes.
    pub(in crate::sinks) max_bytes: usize,
    /// How long an event is tried, from when it came.
    pub(in crate::sinks) give_up_after: Duration,
    /// Where those go that are given up.
    pub(in crate::sinks) dead_letters: Option<DeadLetters>,
}

/// See the module.
pub(in crate::sinks) struct Outbox {
    queue: Arc<Queue>,
    books: Arc<Books>,
    thread: Option<JoinHandle<()>>,
}

/// `events = delivered + dead_letters + lost + waiting`, at every moment but for the event that is on its way.
struct Books {
    events: AtomicU64,
    delivered: AtomicU64,
    retries: AtomicU64,
    dead_letters: AtomicU64,
    lost: AtomicU64,
    file: Mutex<Option<DeadLetters>>,
}

impl Books {
    /// An event is given up.
    fn give_up(&self, message: &Message, reason: &str) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = file.as_mut().is_some_and(|file| file.append(message, reason));
        let count = if kept { &self.dead_letters } else { &self.lost };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Outbox {
    /// Starts the thread, called after `name`.
    ///
    /// # Errors
    /// The machine gives no thread.
    pub(in crate::sinks) fn start(
        name: &str,
        transport: impl Transport,
        options: OutboxOptions,
    ) -> Result<Self, SinkError> {
        let queue = Arc::new(Queue::new(options.max_messages, options.max_bytes));
        let books = Arc::new(Books {
            events: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            dead_letters: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            file: Mutex::new(options.dead_letters),
        });
        let mut delivery = Delivery {
            name: name.to_owned(),
            queue: Arc::clone(&queue),
            books: Arc::clone(&books),
            transport,
            backoff: Backoff::new(),
            give_up_after: options.give_up_after,
            is_down: false,
            flush_until: None,
        };
        let thread = std::thread::Builder::new().name(format!("weir-{name}"));
        let thread = thread.spawn(move || delivery.run()).map_err(|error| SinkError {
            target: format!("by {name}"),
            reason: format!("the machine has no thread left: {error}"),
        })?;
        Ok(Self {
            queue,
            books,
            thread: Some(thread),
        })
    }

    /// Hands an event over.
    pub(in crate::sinks) fn push(&self, message: Message) {
        self.books.events.fetch_add(1, Ordering::Relaxed);
        if let Err(message) = self.queue.push(message, now()) {
            self.books
                .give_up(&message, "too many events wait for the other side");
        }
    }

    /// What it came to.
    pub(in crate::sinks) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let books = &self.books;
        let counts = [
            ("events", &books.events),
            ("delivered", &books.delivered),
            ("retries", &books.retries),
            ("dead_letters", &books.dead_letters),
            ("lost", &books.lost),
        ];
        let counts = counts
            .into_iter()
            .map(|(name, count)| (name, count.load(Ordering::Relaxed)));
        counts.chain([("waiting", self.queue.len() as u64)]).collect()
    }

    /// Delivers what waits within some seconds, and gives up the rest.
    ///
    /// # Errors
    /// Events were lost, or the thread panicked.
    pub(in crate::sinks) fn finish(&mut self) -> Result<(), SinkError> {
        self.queue.close();
        let ended = self.thread.take().map(JoinHandle::join);
        // Closed, so that another run may have it.
        *self.books.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let failed = |reason: String| SinkError {
            target: "events for another program".to_owned(),
            reason,
        };
        if matches!(ended, Some(Err(_))) {
            return Err(failed("the thread that delivers them panicked".to_owned()));
        }
        match self.books.lost.load(Ordering::Relaxed) {
            0 => Ok(()),
            lost => Err(failed(format!(
                "{lost} were not taken by the other side, and are in no file of dead letters: name one by `path`, or raise \
                 `dead_letter_bytes`"
            ))),
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.queue.close();
    }
}

struct Delivery<T> {
    name: String,
    queue: Arc<Queue>,
    books: Arc<Books>,
    transport: T,
    backoff: Backoff,
    give_up_after: Duration,
    /// Whether the last attempt failed.
    is_down: bool,
    flush_until: Option<Instant>,
}

impl<T: Transport> Delivery<T> {
    fn run(&mut self) {
        loop {
            self.transport.on_idle();
            match self.queue.pop(IDLE) {
                Some(waiting) => self.deliver(&waiting),
                None if self.queue.is_closed() => break,
                None => {}
            }
        }
        self.transport.close();
    }

    /// Tries an event until it is delivered or given up.
    fn deliver(&mut self, Waiting { message, since }: &Waiting) {
        let mut reason = String::new();
        while !self.is_given_up(*since) || (reason.is_empty() && !self.is_down && !self.queue.is_closed()) {
            match self.transport.attempt(message) {
                Outcome::Delivered => {
                    if std::mem::take(&mut self.is_down) {
                        tracing::warn!("{}: events are taken again", self.name);
                    }
                    self.backoff.reset();
                    self.books.delivered.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Outcome::Refused(refused) => {
                    tracing::warn!("{}: {} is refused: {refused}", self.name, message.id);
                    self.books.give_up(message, &refused);
                    return;
                }
                Outcome::Failed(failed) => {
                    if !std::mem::replace(&mut self.is_down, true) {
                        tracing::error!("{}: {failed}; events wait and are tried again", self.name);
                    }
                    self.books.retries.fetch_add(1, Ordering::Relaxed);
                    reason = failed;
                    let wait = self.backoff.next_wait();
                    if self.queue.is_closed() {
                        // The wait for events to come does not hold up the end.
                        std::thread::sleep(wait.min(FLUSH / 20));
                    } else {
                        self.queue.pause(wait);
                    }
                }
            }
        }
        if reason.is_empty() {
            reason.push_str("the other side was gone for too long");
        }
        self.books.give_up(message, &reason);
    }

    /// Whether an event that came then is tried no more.
    fn is_given_up(&mut self, since: Instant) -> bool {
        let now = now();
        if self.queue.is_closed() {
            let until = *self.flush_until.get_or_insert(now + FLUSH);
            return now >= until;
        }
        now.duration_since(since) >= self.give_up_after
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "what is beyond the engine has no time but the clock's"
)]
fn now() -> Instant {
    Instant::now()
}
