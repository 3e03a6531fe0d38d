//! Change of the policy or of a stream's share while requests wait and run. Running batches and batches
//! formed ahead continue unchanged; waiting requests are ordered by the new policy. No request is lost, and
//! deadlines stay.

use weir_types::{StreamId, Timestamp};

use super::{Module, asks_urgency, duration_spread};
use crate::flow::stream_shares::{StreamShare, StreamShares};
use crate::strategy::{Policy, Strategies};
use crate::weir::fair_streams::FairStreams;

impl Module {
    pub(super) fn on_policy_applied(&mut self, policy: Policy, now: Timestamp) {
        let before = self.strategies;
        // The number of mailboxes decides who grants slots, which is fixed for the module's lifetime.
        self.strategies = Strategies {
            mailbox: before.mailbox,
            ..policy.resolve()
        };
        self.spec.policy = policy;
        self.metrics.on_strategies(&before, &self.strategies);
        self.priority.set_order(self.strategies.order);
        let spread = duration_spread(&self.spec, &self.strategies);
        if spread != duration_spread(&self.spec, &before) {
            self.workers.measure_by(spread);
        }
        let fair = self.fair.take();
        self.fair = self.strategies.fair_streams.map(|spec| {
            fair.filter(|fair| fair.spec() == spec)
                .unwrap_or_else(|| FairStreams::new(spec))
        });
        let tightest = self.metrics.objectives.tightest(now);
        let ratio = self.workers.ratio();
        self.peers
            .on_strategies(&self.spec, &self.strategies, ratio, tightest);
        self.order_waiting(now);
    }

    pub(super) fn on_share_changed(&mut self, stream: StreamId, share: StreamShare, now: Timestamp) {
        self.shares = StreamShares::with(self.shares.take(), stream, share);
        self.order_waiting(now);
    }

    /// Orders all waiting requests by the policy in force.
    fn order_waiting(&mut self, now: Timestamp) {
        let deprioritizes = self.strategies.cost_limit.is_some() || self.strategies.branch_shedding.is_some();
        let has_reserve = |stream| {
            let shares = self.shares.as_ref();
            shares.is_some_and(|shares| shares.has_reserve(stream))
        };
        let waiting = self.mailboxes.in_line().map(|(request, entry)| {
            let deprioritized = entry.deprioritized && deprioritizes && !has_reserve(entry.stream);
            (request, self.key(request, entry, now), deprioritized)
        });
        let waiting: Vec<_> = waiting.collect();
        let urgency = asks_urgency(&self.spec, &self.strategies);
        let by_stream = self.shares.is_some() || self.fair.is_some();
        self.mailboxes.reorder(waiting, urgency, by_stream);
        self.wakeups.mark_all(self.mailboxes.count());
    }
}
