//! The thread that delivers, and what it counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_flow::SinkError;

use super::backoff::Backoff;
use super::books::Books;
use super::dead_letters::DeadLetters;
use super::groups::GroupKey;
use super::held::{Held, HeldEvents};
use super::message::{Message, Outcome, Transport};
use super::queue::Queue;

/// Longest time between two calls of the transport while there are no events.
const IDLE: Duration = Duration::from_millis(100);

/// Time for the last attempts after the outbox was closed.
const FLUSH: Duration = Duration::from_secs(4);

/// Longest wait that another side may ask for.
const MAX_LIMITED: Duration = Duration::from_secs(10 * 60);

/// Duration from which an attempt that does not reach the target counts as slow.
const SLOW: Duration = Duration::from_secs(1);

/// Bounds of an outbox.
pub(in crate::sinks) struct OutboxOptions {
    /// Maximum number of queued events.
    pub(in crate::sinks) max_messages: usize,
    /// Maximum bytes of queued events.
    pub(in crate::sinks) max_bytes: usize,
    /// Time after which an event is given up, measured from its arrival.
    pub(in crate::sinks) give_up_after: Duration,
    /// File for events that were given up; without it they are only counted.
    pub(in crate::sinks) dead_letters: Option<DeadLetters>,
}

/// See the module.
pub(in crate::sinks) struct Outbox {
    queue: Arc<Queue>,
    books: Arc<Books>,
    thread: Option<JoinHandle<()>>,
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
        let books = Arc::new(Books::new(options.dead_letters));
        let mut delivery = Delivery {
            name: name.to_owned(),
            queue: Arc::clone(&queue),
            books: Arc::clone(&books),
            transport,
            backoff: Backoff::new(),
            give_up_after: options.give_up_after,
            held: HeldEvents::default(),
            is_down: false,
            unreached: None,
            flush_until: None,
        };
        let thread = std::thread::Builder::new().name(format!("weir-{name}"));
        let thread = thread.spawn(move || delivery.run()).map_err(|error| SinkError {
            target: format!("by {name}"),
            reason: format!("cannot start a thread: {error}"),
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
                .give_up(&message, "too many events wait for the receiver");
        }
    }

    /// Hands an alarm over that is one message with others of its rule. Returns whether an earlier one has it in its message.
    pub(in crate::sinks) fn push_grouped(&self, message: Message, key: GroupKey) -> bool {
        match self.queue.push_grouped(message, key, now()) {
            Ok(true) => return true,
            Ok(false) => {}
            Err(message) => self
                .books
                .give_up(&message, "too many events wait for the receiver"),
        }
        self.books.events.fetch_add(1, Ordering::Relaxed);
        false
    }

    /// Counts of the outbox by name, with the events that are still queued.
    pub(in crate::sinks) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.books.counts(self.queue.len())
    }

    /// Reason why events cannot be delivered at present; `None` while delivery works.
    pub(in crate::sinks) fn outage(&self) -> Option<String> {
        self.books.outage()
    }

    /// Delivers what waits within some seconds, and gives up the rest.
    ///
    /// # Errors
    /// Events were lost, or the thread panicked.
    pub(in crate::sinks) fn finish(&mut self) -> Result<(), SinkError> {
        self.queue.close(now());
        let ended = self.thread.take().map(JoinHandle::join);
        // Closed, so that another run may have it.
        self.books.close();
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
                "{lost} events were not accepted by the receiver, and are in no dead-letter file: set `path`, or raise \
                 `dead_letter_bytes`"
            ))),
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.queue.close(now());
    }
}

struct Delivery<T> {
    name: String,
    queue: Arc<Queue>,
    books: Arc<Books>,
    transport: T,
    /// Between tries of a side that is not reached.
    backoff: Backoff,
    give_up_after: Duration,
    held: HeldEvents,
    /// Whether no event is taken.
    is_down: bool,
    /// Since the other side is not reached: when it is tried next, how long the last try took, and why it failed.
    unreached: Option<(Instant, Duration, String)>,
    flush_until: Option<Instant>,
}

impl<T: Transport> Delivery<T> {
    fn run(&mut self) {
        loop {
            // Attempts alone contact a side that is not reached, by their back-off.
            if self.unreached.is_none() || self.held.is_empty() {
                self.transport.on_idle();
            }
            let (now, is_closed) = (now(), self.queue.is_closed());
            self.queue.complete_groups(now);
            if is_closed {
                self.flush(now);
            } else {
                self.give_up_old(now);
            }
            if let Some(index) = self.held.due(now) {
                self.attempt(index, is_closed);
            } else if self.held.is_empty() && is_closed && self.queue.is_empty() {
                break;
            } else {
                self.wait(now, is_closed);
            }
        }
        self.transport.close();
    }

    /// Takes an event from the queue, if one may go past those that are held, or waits until one of these is due.
    fn wait(&mut self, now: Instant, is_closed: bool) {
        let wait = self.held.next_due(now).map_or(IDLE, |due| due.min(IDLE));
        let takes_more = self.held.is_empty() || (self.unreached.is_none() && self.held.let_pass());
        if takes_more && !(is_closed && self.queue.is_empty()) {
            if let Some(waiting) = self.queue.pop(wait) {
                // One whose time is over is tried at once: nothing is given up untried.
                let is_old = is_closed || now.duration_since(waiting.since.min(now)) >= self.give_up_after;
                let due = self.unreached.as_ref().filter(|_| !is_old);
                let due = due.map_or(now, |(due, ..)| *due);
                self.held.push(Held::new(waiting, due));
            }
        } else if is_closed {
            std::thread::sleep(wait);
        } else {
            self.queue.pause(wait);
        }
    }

    /// Tries an event that is held.
    fn attempt(&mut self, index: usize, is_closed: bool) {
        let Some(held) = self.held.get_mut(index) else {
            return;
        };
        let began = now();
        let outcome = self.transport.attempt(&held.waiting.message);
        let ended = now();
        let cost = ended.duration_since(began);
        match outcome {
            Outcome::Delivered => self.on_delivered(index, ended),
            Outcome::Refused(refused) => {
                tracing::warn!("{}: {} is refused: {refused}", self.name, held.waiting.message.id);
                self.unreached = None;
                self.give_up(index, &refused);
            }
            Outcome::Failed(failed) => {
                self.unreached = None;
                let (is_set_aside, is_passed) = (held.on_failed(ended, cost), held.is_passed);
                held.reason = Some(failed.clone());
                if is_closed {
                    held.due = held.due.min(ended + FLUSH / 20);
                }
                if is_set_aside && !self.queue.is_empty() {
                    let id = &held.waiting.message.id;
                    tracing::warn!(
                        "{}: {id} fails repeatedly; other events are delivered before it",
                        self.name
                    );
                }
                self.on_failed(failed, is_passed);
            }
            Outcome::Unreached(failed) => {
                let wait = self.backoff.next_wait();
                let due = ended + if is_closed { wait.min(FLUSH / 20) } else { wait };
                held.reason = Some(failed.clone());
                self.on_unreached(due, cost, failed);
            }
            Outcome::Limited(failed, wait) => {
                held.reason = Some(failed.clone());
                self.on_unreached(ended + wait.min(MAX_LIMITED), cost, failed);
            }
        }
    }

    /// No event is taken before `due`.
    fn on_unreached(&mut self, due: Instant, cost: Duration, reason: String) {
        self.held.iter_mut().for_each(|held| held.due = held.due.max(due));
        self.unreached = Some((due, cost, reason.clone()));
        self.on_failed(reason, false);
    }

    /// `is_passed`: others are delivered meanwhile, so it fails on that event alone.
    fn on_failed(&mut self, reason: String, is_passed: bool) {
        self.books.retries.fetch_add(1, Ordering::Relaxed);
        if is_passed {
            return;
        }
        if !std::mem::replace(&mut self.is_down, true) {
            tracing::error!("{}: {reason}; events wait and will be retried", self.name);
        }
        self.books.set_down(Some(reason));
    }

    fn on_delivered(&mut self, index: usize, now: Instant) {
        let was_down = std::mem::take(&mut self.is_down);
        self.unreached = None;
        self.backoff.reset();
        if was_down {
            tracing::warn!("{}: the receiver accepts events again", self.name);
            self.books.set_down(None);
        }
        if let Some(held) = self.held.remove(index) {
            self.queue.settle(&held.waiting.message);
        }
        self.books.delivered.fetch_add(1, Ordering::Relaxed);
        for held in self.held.iter_mut() {
            held.is_passed |= held.reason.is_some();
            if was_down {
                // In the order in which they came.
                held.due = now;
            }
        }
    }

    fn give_up(&mut self, index: usize, reason: &str) {
        if let Some(held) = self.held.remove(index) {
            self.books.give_up(&held.waiting.message, reason);
            self.queue.settle(&held.waiting.message);
        }
    }

    /// Gives up those whose time is over, and that were tried; and one that fails alone, where too many do.
    fn give_up_old(&mut self, now: Instant) {
        let give_up_after = self.give_up_after;
        let is_old = |held: &Held| now.duration_since(held.waiting.since.min(now)) >= give_up_after;
        while let Some(index) = self.held.position(|held| is_old(held) && held.reason.is_some()) {
            let reason = self.held.get_mut(index).and_then(|held| held.reason.take());
            self.give_up(index, &reason.unwrap_or_default());
        }
        // One after the other would take longer than they took to come.
        let slow = self.unreached.clone().filter(|(_, cost, _)| *cost >= SLOW);
        if let Some((_, _, reason)) = slow {
            while let Some(index) = self.held.position(is_old) {
                self.give_up(index, &reason);
            }
        }
        for held in self.held.iter_mut().filter(|held| is_old(held)) {
            held.due = now;
        }
        while let Some(index) = self.held.surplus() {
            let reason = self.held.get_mut(index).and_then(|held| held.reason.take());
            self.give_up(index, &reason.unwrap_or_default());
        }
    }

    /// Nothing follows: what waits is tried for some seconds more.
    fn flush(&mut self, now: Instant) {
        let Some(until) = self.flush_until else {
            self.flush_until = Some(now + FLUSH);
            self.held
                .iter_mut()
                .for_each(|held| held.due = held.due.min(now + FLUSH / 20));
            return;
        };
        if now < until {
            return;
        }
        let gone = self.unreached.take().map(|(_, _, reason)| reason);
        let gone = gone.unwrap_or_else(|| "the run ended before the receiver accepted it".to_owned());
        loop {
            while let Some(held) = self.held.get_mut(0) {
                let reason = held.reason.take();
                self.give_up(0, reason.as_ref().unwrap_or(&gone));
            }
            match self.queue.pop(Duration::ZERO) {
                Some(waiting) => self.held.push(Held::new(waiting, now)),
                None => break,
            }
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "what is beyond the engine has no time but the clock's"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Calls of a transport that does not reach the other side at first.
    #[derive(Debug, PartialEq)]
    enum Call {
        Attempt,
        Idle,
    }

    struct Unreached {
        calls: Sender<Call>,
        left: u32,
    }

    impl Transport for Unreached {
        fn attempt(&mut self, _message: &Message) -> Outcome {
            let _ = self.calls.send(Call::Attempt);
            if self.left == 0 {
                return Outcome::Delivered;
            }
            self.left -= 1;
            Outcome::Unreached("nothing listens".to_owned())
        }

        fn on_idle(&mut self) {
            let _ = self.calls.send(Call::Idle);
        }
    }

    #[test]
    fn a_side_that_is_not_reached_is_contacted_by_attempts_alone() {
        let (calls, called) = channel();
        let transport = Unreached { calls, left: 4 };
        let options = OutboxOptions {
            max_messages: 8,
            max_bytes: 1 << 10,
            give_up_after: Duration::from_secs(600),
            dead_letters: None,
        };
        let mut outbox = Outbox::start("test", transport, options).expect("a thread");
        outbox.push(Message {
            stream: "north".into(),
            id: "1".to_owned(),
            body: b"{}".to_vec(),
            topic: String::new(),
            picture: None,
        });
        let from_first = called.iter().skip_while(|call| *call == Call::Idle);
        let until_delivered: Vec<Call> = from_first.take(5).collect();
        assert_eq!(until_delivered, [const { Call::Attempt }; 5]);
        assert_eq!(called.recv(), Ok(Call::Idle), "it is reached");
        outbox.finish().expect("it is delivered");
    }
}
