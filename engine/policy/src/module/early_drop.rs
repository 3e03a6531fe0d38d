//! Early drop: waiting requests that certainly miss their deadlines are dropped before their turn. A timer is
//! set for the next request that will.

use weir_types::{DropReason, Shortfall, Span, Timestamp};

use super::{Module, ModuleEffect};

/// Fraction of the objective that is left to a request that falls back: on a busy machine, a timer at the
/// last moment would make it late.
const GOING_ON: f64 = 0.03;

impl Module {
    /// Drops requests that miss their deadline even if they run alone, at once and with nothing queued ahead.
    /// Searches from the low-budget end, so that high-budget-first leaves no infeasible request in the
    /// mailbox.
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

    /// Least time that a request needs from here. One that falls back if it would be late continues
    /// downstream, and needs time for that and a margin, since it can still be in time.
    fn least_time(&self) -> Span {
        let least = self.preparation(1) + self.workers.least(1) + self.read_out(1);
        if self.fallback().is_optional() {
            least + self.peers.estimate().downstream + self.spec.slo.scale(GOING_ON)
        } else {
            least
        }
    }

    /// The least time as a shortfall against `deadline`.
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
            .map(|deadline| deadline.saturating_sub(self.least_time()) + Span::from_micros(1))
            // A request that returned from a batch in this step may be infeasible already.
            .map(|at| at.max(now));
        if let Some(at) = next.filter(|&at| self.wakeups.set_timer(at, now)) {
            effects.push(ModuleEffect::SetTimer { at });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::OverlapSpec;
    use crate::module::{ModuleEvent, ModuleSpec, Pool};
    use crate::pard::state::ModuleState;
    use crate::{ModuleInfo, Policy};
    use weir_types::{ModuleId, RequestId, SlotId, StreamId};
    use weir_types::{Profile, Topology};

    /// A module with one slot of its own: 60 ms an item, an objective of 100 ms, and `then` ms in a module
    /// downstream.
    fn module(overlap: Option<OverlapSpec>, then: Option<u64>) -> Module {
        let profile = |ms: u64| Profile::new(vec![(1, Span::from_millis(ms))]).unwrap();
        let peer = |ms: u64| ModuleInfo {
            profile: profile(ms),
            batch: vec![1],
            workers: 1,
            fallback: crate::gears::Fallback::Never,
        };
        let next = |_| vec![ModuleId(1)];
        let mut topology: Vec<Vec<ModuleId>> = then.into_iter().map(next).collect();
        topology.push(Vec::new());
        Module::new(ModuleSpec {
            ends: Vec::new(),
            generate: None,
            id: ModuleId(0),
            slo: Span::from_millis(100),
            policy: Policy::default(),
            slots: vec![SlotId(0)],
            pool: Pool::Own,
            batch: vec![1],
            profile: profile(60),
            topology: Topology::new(topology),
            peers: std::iter::once(60).chain(then).map(peer).collect(),
            share: 1.0,
            shares: Vec::new(),
            seed: 1,
            overlap,
        })
    }

    /// Sends a request every 500 ms. The first `slow` take 480 ms to prepare or to run, the others 60 ms.
    /// Returns the ids of requests that ran.
    fn ran(module: &mut Module, slow: u64) -> Vec<u64> {
        let mut ran = Vec::new();
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
            module.step([arrived, ModuleEvent::Tick], now, &mut effects);
            for effect in effects {
                let ModuleEffect::Run { batch, .. } = effect else {
                    continue;
                };
                ran.push(number);
                let long = Span::from_millis(if number < slow { 420 } else { 0 });
                let took = Span::from_millis(60);
                let events = if module.overlap.is_some() {
                    let launched = ModuleEvent::Launched {
                        batch,
                        prepared: long,
                    };
                    module.step([launched], now + long, &mut Vec::new());
                    ModuleEvent::Finished { batch, took }
                } else {
                    ModuleEvent::Finished {
                        batch,
                        took: took + long,
                    }
                };
                module.step([events], now + took + long, &mut Vec::new());
            }
        }
        ran
    }

    #[test]
    fn a_slot_that_was_slow_is_tried_again() {
        let ran = ran(&mut module(None, None), 20);
        let slow = ran.iter().filter(|number| **number < 20).count();
        assert!(slow <= 6, "while it is slow it is tried now and then: {ran:?}");
        assert!(
            ran.ends_with(&(30..60).collect::<Vec<_>>()),
            "it is fast again: {ran:?}"
        );
    }

    #[test]
    fn a_slot_that_prepared_slowly_is_tried_again() {
        let ran = ran(&mut module(Some(OverlapSpec::default()), None), 1);
        assert!(ran.ends_with(&(6..60).collect::<Vec<_>>()), "{ran:?}");
    }

    /// A module downstream published that it was slow, and gets no request that would show that it is not any
    /// more.
    #[test]
    fn what_seems_too_slow_downstream_is_tried_again() {
        let mut module = module(None, Some(20));
        let slow = ModuleState {
            duration: Span::from_millis(160),
            duration_ratio: 8.0,
            ..ModuleState::initial(ModuleId(1), Span::from_millis(20))
        };
        module.step(
            [ModuleEvent::PeerState(slow.into())],
            Timestamp::ZERO,
            &mut Vec::new(),
        );
        let ran = ran(&mut module, 0);
        assert!(
            (10..=20).contains(&ran.len()),
            "every two seconds while nothing else is heard of it: {ran:?}"
        );
    }
}
