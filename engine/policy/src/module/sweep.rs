//! What waits and certainly cannot be on time is let go, and the module asks to be called when somebody will be too late.

use super::{Module, ModuleEffect};
use crate::broker::{DropReason, foresees};
use crate::time::{Span, Timestamp};
use crate::values::Policy;

impl Module {
    /// Lets go of what certainly cannot be on time: even if it ran alone at once and nothing were queued ahead. Looks
    /// from the low-budget end, so that high-budget-first does not leave corpses in the mailbox.
    pub(super) fn sweep(&mut self, mailbox: usize, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        if !self.sweeps() {
            return;
        }
        let (least, slo) = (self.expected(1), self.spec.slo);
        let hopeless = |sent_at: Timestamp| now.since(sent_at) + least > slo;
        while self.queues.urgent_from(mailbox).is_some_and(hopeless) {
            let first = self.queues.most_urgent(mailbox);
            let Some((request, _)) = first.filter(|&(_, sent_at)| hopeless(sent_at)) else {
                return;
            };
            self.let_go(request, DropReason::Hopeless, now, effects);
        }
    }

    pub(super) fn sweeps(&self) -> bool {
        sweeps(&self.spec.policy)
    }

    pub(super) fn set_alarm(&mut self, touched: &[usize], now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        if !self.sweeps() {
            return;
        }
        let urgent = touched
            .iter()
            .filter_map(|&mailbox| self.queues.urgent_from(mailbox));
        let next = urgent
            .min()
            .map(|sent_at| (sent_at + self.spec.slo).saturating_sub(self.expected(1)) + Span::from_micros(1));
        if let Some(at) = next.filter(|&at| self.wake_at.is_none_or(|set| set <= now || at < set)) {
            self.wake_at = Some(at);
            effects.push(ModuleEffect::WakeAt { at });
        }
    }
}

/// Whether what certainly cannot be on time is looked for.
pub(super) fn sweeps(policy: &Policy) -> bool {
    policy.sweep && foresees(&policy.drop)
}
