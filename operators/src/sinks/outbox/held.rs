//! Events that were taken from the queue, oldest first: one that is tried, and those that the other side failed on, which are
//! tried again beside the others.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::backoff::Backoff;
use super::queue::Waiting;

/// Tries of an event by the other side that fail before others go past it, and how long they may take in all.
const TRIES: u32 = 3;
const TRYING: Duration = Duration::from_secs(3);

/// Events that are held at a time.
const MAX_HELD: usize = 64;

/// An event, and how it fared.
pub(super) struct Held {
    pub(super) waiting: Waiting,
    /// When it is tried next.
    pub(super) due: Instant,
    /// Why it failed last.
    pub(super) reason: Option<String>,
    /// Whether another event was delivered since this one failed: then it is not the other side alone that fails.
    pub(super) is_passed: bool,
    /// Tries that reached the other side.
    reached: u32,
    /// Time that its attempts took.
    spent: Duration,
    backoff: Backoff,
}

impl Held {
    pub(super) fn new(waiting: Waiting, due: Instant) -> Self {
        Self {
            waiting,
            due,
            reason: None,
            is_passed: false,
            reached: 0,
            spent: Duration::ZERO,
            backoff: Backoff::new(),
        }
    }

    /// The other side failed on it, after that time; says whether others go past it from now on.
    pub(super) fn on_failed(&mut self, now: Instant, cost: Duration) -> bool {
        let was_aside = self.is_aside();
        self.reached = self.reached.saturating_add(1);
        self.spent = self.spent.saturating_add(cost);
        // One that takes long leaves most of the time to the others.
        let wait = self.backoff.next_wait();
        self.due = now + if self.is_passed { wait.max(cost * 4) } else { wait };
        !was_aside && self.is_aside()
    }

    /// Whether others may go past it.
    fn is_aside(&self) -> bool {
        self.reached >= TRIES || (self.reached > 0 && self.spent >= TRYING)
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct HeldEvents(VecDeque<Held>);

impl HeldEvents {
    pub(super) fn push(&mut self, held: Held) {
        self.0.push_back(held);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The oldest whose time has come.
    pub(super) fn due(&self, now: Instant) -> Option<usize> {
        self.0.iter().position(|held| held.due <= now)
    }

    /// Time until the next is due.
    pub(super) fn next_due(&self, now: Instant) -> Option<Duration> {
        let due = self.0.iter().map(|held| held.due).min()?;
        Some(due.saturating_duration_since(now))
    }

    /// Whether another event may go past all of them.
    pub(super) fn let_pass(&self) -> bool {
        self.0.len() < MAX_HELD && self.0.iter().all(Held::is_aside)
    }

    /// The oldest that fails though others are delivered, where there is no room for more.
    pub(super) fn surplus(&self) -> Option<usize> {
        let is_surplus = |held: &Held| held.is_passed && held.is_aside();
        (self.0.len() >= MAX_HELD).then(|| self.0.iter().position(is_surplus))?
    }

    pub(super) fn position(&self, is_so: impl Fn(&Held) -> bool) -> Option<usize> {
        self.0.iter().position(is_so)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Held> {
        self.0.get_mut(index)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Held> {
        self.0.iter_mut()
    }

    pub(super) fn remove(&mut self, index: usize) -> Option<Held> {
        self.0.remove(index)
    }
}
