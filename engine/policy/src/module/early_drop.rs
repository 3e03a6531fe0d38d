//! Early drop: what waits and certainly misses its deadline is dropped before its turn, and a timer is set for the next
//! request that will.

use weir_types::{DropReason, Shortfall, Span, Timestamp};

use super::{Module, ModuleEffect};

/// Part of the objective that is left to a request which goes on with the answers that it has: a timer that fires at the last moment
/// on a machine that is busy makes it late.
const GOING_ON: f64 = 0.03;

impl Module {
    /// Drops what certainly misses its deadline: even if it ran alone at once and nothing were queued ahead. Looks from the
    /// low-budget end, so that high-budget-first leaves nothing infeasible in the mailbox.
    pub(super) fn drop_early(&mut self, mailbox: usize, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        if !self.strategies.drops_early() {
            return;
        }
        let least = self.least_time();
        let infeasible = |deadline: Timestamp| now + least > deadline;
        while self.mailboxes.urgent_from(mailbox).is_some_and(infeasible) {
            let first = self.mailboxes.most_urgent(mailbox);
            let Some((request, deadline)) = first.filter(|&(_, deadline)| infeasible(deadline)) else {
                return;
            };
            let shortfall = self.least_shortfall(deadline, now);
            self.drop_request(request, DropReason::Infeasible, Some(shortfall), now, effects);
        }
    }

    /// What a request needs at least from here. One that falls back where it would be late goes on, and needs time for that: what is
    /// ahead of it, and a margin, since it is still to be in time.
    fn least_time(&self) -> Span {
        let least = self.preparation(1) + self.workers.least(1) + self.read_out(1);
        if self.fallback().is_optional() {
            least + self.peers.estimate().downstream + self.spec.slo.scale(GOING_ON)
        } else {
            least
        }
    }

    /// The same as what it is short of.
    fn least_shortfall(&self, deadline: Timestamp, now: Timestamp) -> Shortfall {
        let execution = self.workers.least(1);
        Shortfall {
            wait: Span::ZERO,
            execution,
            downstream: self.least_time().saturating_sub(execution),
            remaining: deadline.since(now),
        }
    }

    pub(super) fn set_timer(&mut self, touched: &[usize], now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        if !self.strategies.drops_early() {
            return;
        }
        let urgent = touched
            .iter()
            .filter_map(|&mailbox| self.mailboxes.urgent_from(mailbox));
        let next = urgent
            .min()
            .map(|deadline| deadline.saturating_sub(self.least_time()) + Span::from_micros(1));
        if let Some(at) = next.filter(|&at| self.wakeups.set_timer(at, now)) {
            effects.push(ModuleEffect::SetTimer { at });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::{ModuleEvent, ModuleSpec, Pool};
    use crate::{ModuleInfo, Policy};
    use weir_types::{ModuleId, RequestId, SlotId, StreamId};
    use weir_types::{Profile, Topology};

    /// A slot of its own, 60 ms for an item, requests with 100 ms.
    fn module() -> Module {
        let profile = Profile::new(vec![(1, Span::from_millis(60))]).unwrap();
        Module::new(ModuleSpec {
            ends: Vec::new(),
            generate: None,
            id: ModuleId(0),
            slo: Span::from_millis(100),
            policy: Policy::default(),
            slots: vec![SlotId(0)],
            pool: Pool::Own,
            batch: vec![1],
            profile: profile.clone(),
            topology: Topology::new(vec![vec![]]),
            peers: vec![ModuleInfo {
                profile,
                batch: vec![1],
                workers: 1,
                fallback: crate::gears::Fallback::Never,
            }],
            share: 1.0,
            shares: Vec::new(),
            seed: 1,
            overlap: None,
        })
    }

    /// A request every 500 ms; in the first ten seconds a batch takes eight times as long as it should.
    #[test]
    fn a_slot_that_was_slow_is_tried_again() {
        let (mut module, mut ran) = (module(), Vec::new());
        for number in 0..60_u64 {
            let (now, mut effects) = (Timestamp::from_micros(number * 500_000), Vec::new());
            let arrived = ModuleEvent::Arrived {
                request: RequestId(number),
                stream: StreamId(0),
                sent_at: now,
                items: 1,
                droppable: true,
                slo: None,
            };
            module.step([arrived], now, &mut effects);
            for effect in effects {
                let ModuleEffect::Run { batch, .. } = effect else {
                    continue;
                };
                ran.push(number);
                let took = Span::from_millis(if number < 20 { 480 } else { 60 });
                module.step(
                    [ModuleEvent::Finished { batch, took }],
                    now + took,
                    &mut Vec::new(),
                );
            }
        }
        let slow = ran.iter().filter(|number| **number < 20).count();
        assert!(slow <= 5, "while it is slow it is tried now and then: {ran:?}");
        assert!(
            ran.ends_with(&(30..60).collect::<Vec<_>>()),
            "it is fast again: {ran:?}"
        );
    }
}
