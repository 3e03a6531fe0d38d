//! Events that wait to be delivered, in order, bounded in number and bytes.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::groups::{Complete, GroupKey, Groups};
use super::message::Message;

/// See the module.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    max_messages: usize,
    max_bytes: usize,
}

struct State {
    messages: VecDeque<Waiting>,
    /// Alarms that wait for others of their rule.
    groups: Groups,
    /// Those that were taken, and neither delivered nor given up.
    taken: usize,
    /// Bytes of the messages and groups that wait and of the messages that were taken.
    bytes: usize,
    is_closed: bool,
}

impl State {
    fn has_room(&self, queue: &Queue, bytes: usize) -> bool {
        self.messages.len() + self.groups.len() < queue.max_messages && self.has_bytes(queue, bytes)
    }

    fn has_bytes(&self, queue: &Queue, bytes: usize) -> bool {
        !self.is_closed && self.bytes + bytes <= queue.max_bytes
    }

    /// The message of a group follows those that wait.
    fn on_complete(&mut self, complete: Complete, since: Instant) {
        let Complete { message, bytes } = complete;
        self.bytes = self.bytes.saturating_sub(bytes) + message.bytes();
        self.messages.push_back(Waiting { message, since });
    }
}

/// An event, and since when it waits.
pub(super) struct Waiting {
    pub(super) message: Message,
    pub(super) since: Instant,
}

impl Queue {
    pub(super) fn new(max_messages: usize, max_bytes: usize) -> Self {
        Self {
            state: Mutex::new(State {
                messages: VecDeque::new(),
                groups: Groups::default(),
                taken: 0,
                bytes: 0,
                is_closed: false,
            }),
            changed: Condvar::new(),
            max_messages,
            max_bytes,
        }
    }

    /// Adds an event, or gives it back where there is no room.
    pub(super) fn push(&self, message: Message, since: Instant) -> Result<(), Message> {
        let mut state = self.lock();
        let bytes = message.bytes();
        if !state.has_room(self, bytes) {
            return Err(message);
        }
        state.bytes += bytes;
        state.messages.push_back(Waiting { message, since });
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Adds an alarm to the group of its rule, and returns whether it is in the message of an earlier one; or gives it back where there
    /// is no room.
    pub(super) fn push_grouped(
        &self,
        message: Message,
        key: GroupKey,
        now: Instant,
    ) -> Result<bool, Message> {
        let mut state = self.lock();
        let has_room = match state.groups.joining_bytes(&message, &key, now) {
            // It takes the place of no other event.
            Some(bytes) => state.has_bytes(self, bytes),
            None => state.has_room(self, message.bytes() + key.incident.len()),
        };
        if !has_room {
            return Err(message);
        }
        let added = state.groups.add(message, key, now);
        state.bytes += added.bytes;
        if let Some(complete) = added.complete {
            state.on_complete(complete, now);
            drop(state);
            self.changed.notify_all();
        }
        Ok(added.has_joined)
    }

    /// Groups whose time is over are messages from now on.
    pub(super) fn complete_groups(&self, now: Instant) {
        let mut state = self.lock();
        for complete in state.groups.complete(now, false) {
            state.on_complete(complete, now);
        }
    }

    /// The next event, within `wait`. It keeps its bytes until it is [settled](Queue::settle).
    pub(super) fn pop(&self, wait: Duration) -> Option<Waiting> {
        let state = self.lock();
        let is_idle = |state: &mut State| state.messages.is_empty() && !state.is_closed;
        let waited = self.changed.wait_timeout_while(state, wait, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let waiting = state.messages.pop_front()?;
        state.taken += 1;
        Some(waiting)
    }

    /// An event that was taken is delivered or given up.
    pub(super) fn settle(&self, message: &Message) {
        let mut state = self.lock();
        state.taken = state.taken.saturating_sub(1);
        state.bytes = state.bytes.saturating_sub(message.bytes());
    }

    /// Waits as long, or until it is closed.
    pub(super) fn pause(&self, wait: Duration) {
        let state = self.lock();
        let paused = self
            .changed
            .wait_timeout_while(state, wait, |state| !state.is_closed);
        drop(paused.unwrap_or_else(PoisonError::into_inner));
    }

    /// Closes the queue: all groups are messages, later events are rejected, and waiting calls return.
    pub(super) fn close(&self, now: Instant) {
        let mut state = self.lock();
        for complete in state.groups.complete(now, true) {
            state.on_complete(complete, now);
        }
        state.is_closed = true;
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Whether none is to be taken.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().messages.is_empty()
    }

    /// Events that are neither delivered nor given up.
    pub(super) fn len(&self) -> usize {
        let state = self.lock();
        state.messages.len() + state.groups.len() + state.taken
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "groups end by the clock")]
    fn now() -> Instant {
        Instant::now()
    }

    fn message(stream: &str) -> Message {
        Message {
            stream: stream.into(),
            id: "1".to_owned(),
            body: b"{}".to_vec(),
            topic: String::new(),
            picture: None,
        }
    }

    /// Alarms of one rule and time, with an id of ten bytes.
    fn key() -> GroupKey {
        GroupKey {
            transform: "gate".into(),
            incident: "north/gate".into(),
            time_ms: 0,
            held_back: 0,
            wait: Duration::from_secs(600),
        }
    }

    #[test]
    fn alarm_joins_a_waiting_group_of_a_queue_without_a_place() {
        let began = now();
        let queue = Queue::new(1, 2 + 3 * 10);
        let push = |stream: &str| queue.push_grouped(message(stream), key(), began).ok();
        assert_eq!(push("north"), Some(false));
        assert_eq!(push("south"), None, "another group takes a place");
        assert!(queue.push(message("north"), began).is_err());
        assert_eq!(push("north"), Some(true));
        assert_eq!(push("north"), Some(true));
        assert_eq!(push("north"), None, "there are no bytes left");
        queue.close(began);
        let whole = queue.pop(Duration::ZERO).map(|waiting| waiting.message.body);
        let expected = r#"{"incidents":["north/gate","north/gate","north/gate"]}"#;
        assert_eq!(whole.as_deref(), Some(expected.as_bytes()));
        assert_eq!(push("north"), None, "the queue is closed");
    }
}
