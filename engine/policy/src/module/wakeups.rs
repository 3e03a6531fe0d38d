//! Mailboxes changed in a step, and the module's timer.

use weir_types::Timestamp;

/// Mailboxes in which something changed, and the timer that is set.
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

    /// Takes the changed mailboxes, in order of change; return the buffer by [`Self::give_back`].
    pub(super) fn take(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.changed)
    }

    /// Returns the buffer for the next step. Changes made since it was taken have been handled in this step.
    pub(super) fn give_back(&mut self, mut changed: Vec<usize>) {
        changed.clear();
        self.changed = changed;
    }

    /// Sets the timer to `at` unless an earlier one is pending; returns whether it was set.
    pub(super) fn set_timer(&mut self, at: Timestamp, now: Timestamp) -> bool {
        let sets = self.timer_at.is_none_or(|set| set <= now || at < set);
        if sets {
            self.timer_at = Some(at);
        }
        sets
    }
}
