//! Events that wait to be delivered, in order, bounded in number and bytes.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
    /// Those that were taken, and neither delivered nor given up.
    taken: usize,
    /// Bytes of the messages that wait and of those that were taken.
    bytes: usize,
    is_closed: bool,
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
        if state.is_closed
            || state.messages.len() >= self.max_messages
            || state.bytes + bytes > self.max_bytes
        {
            return Err(message);
        }
        state.bytes += bytes;
        state.messages.push_back(Waiting { message, since });
        drop(state);
        self.changed.notify_all();
        Ok(())
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

    /// Closes the queue: later events are rejected, and waiting calls return.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
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
        state.messages.len() + state.taken
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
