//! What changed in a step, and when the module wants to be called again.

use weir_types::Timestamp;

/// Mailboxes about which something changed, and the timer that is set.
#[derive(Debug, Clone, Default)]
pub(super) struct Wakeups {
    changed: Vec<usize>,
    timer_at: Option<Timestamp>,
}

impl Wakeups {
    /// Something changed about a mailbox.
    pub(super) fn mark(&mut self, mailbox: usize) {
        if !self.changed.contains(&mailbox) {
            self.changed.push(mailbox);
        }
    }

    /// Something may have changed about all of them.
    pub(super) fn mark_all(&mut self, mailboxes: usize) {
        self.changed.clear();
        self.changed.extend(0..mailboxes);
    }

    /// The mailboxes that changed, in the order in which they did; given back by [`Self::give_back`].
    pub(super) fn take(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.changed)
    }

    /// Keeps the buffer for the next step. What changed since it was taken has been looked at in the same step.
    pub(super) fn give_back(&mut self, mut changed: Vec<usize>) {
        changed.clear();
        self.changed = changed;
    }

    /// Sets the timer to `at` unless one is set for an earlier time that has not passed; says whether it was set.
    pub(super) fn set_timer(&mut self, at: Timestamp, now: Timestamp) -> bool {
        let sets = self.timer_at.is_none_or(|set| set <= now || at < set);
        if sets {
            self.timer_at = Some(at);
        }
        sets
    }
}
