//! The arbiter: orders bids, forecasts when slots will be free for modules, and measures each module's share
//! of its slots.

use std::cmp::Reverse;

use weir_types::{ModuleId, SlotId, Span, Timestamp};

use super::{Bid, SlotEffect, Slots, State, Tenant};
use crate::strategy::Arbitration;

/// Sort key of a bid; the smallest is granted first. Fields: optional module, slot ahead of its share, value
/// of the arbitration's or queues' rule, latest start, steps to the end of the graph (more first).
pub(super) type Rank = (bool, bool, u64, Timestamp, Reverse<usize>);

impl Slots {
    /// Module whose bid on `slot` goes first. Ties go to the lower id.
    pub(super) fn choose(&self, slot: SlotId) -> Option<ModuleId> {
        let bids = self.bids_on(slot);
        bids.map(|(rank, module, _)| (rank, module))
            .min()
            .map(|(_, module)| module)
    }

    /// The bids that may be granted `slot`, with their ranks there.
    pub(super) fn bids_on(&self, slot: SlotId) -> impl Iterator<Item = (Rank, ModuleId, &Tenant)> {
        self.tenants.iter().filter_map(move |(&module, tenant)| {
            let bid = tenant
                .bid_on(slot)
                .filter(|_| tenant.slots.contains(&slot) && tenant.may_run_on(slot, &self.down))?;
            // A bid for one slot has chosen it, so shares do not hold it back.
            let waits = self.has_shares && bid.slot.is_none() && self.has_better_slot(tenant, slot);
            (!waits).then(|| (self.rank((module, tenant), bid, slot), module, tenant))
        })
    }

    /// Whether another free slot is further behind its share of a tenant's work.
    fn has_better_slot(&self, tenant: &Tenant, slot: SlotId) -> bool {
        let lead = tenant.shares.lead(slot);
        tenant.slots.iter().any(|other| {
            *other != slot
                && self.states.get(other.index()) == Some(&State::Free)
                && !self.down.contains(other)
                && tenant.may_run_on(*other, &self.down)
                && tenant.shares.lead(*other) < lead
        })
    }

    /// Sort key of a bid on a slot.
    fn rank(&self, (module, tenant): (ModuleId, &Tenant), bid: Bid, slot: SlotId) -> Rank {
        let first = match self.spec.arbitration {
            _ if self.spec.queues.is_some() => self.queue_place((module, tenant), bid, slot),
            Arbitration::LeastSlack => bid.latest_start.micros(),
            Arbitration::DownstreamFirst => tenant.longest_path_len as u64,
            Arbitration::Fifo => bid.since.micros(),
            Arbitration::Weighted => (tenant.had.micros() as f64 / tenant.weight.max(1e-9)) as u64,
        };
        let steps = Reverse(tenant.longest_path_len);
        // A slot is ahead of its share if it leads by more than a batch. Bids for one slot were assigned by
        // shares already.
        let is_ahead = bid.slot.is_none() && tenant.shares.lead(slot) > bid.duration.as_secs_f64();
        (tenant.optional, is_ahead, first, bid.latest_start, steps)
    }

    /// Publishes when each slot will be free for each module that needs forecasts: after the work that runs
    /// on it, and after all bids that go first, divided among the slots that could run them.
    pub(super) fn forecast(&mut self, now: Timestamp, effects: &mut Vec<SlotEffect>) {
        let mut published = std::mem::take(&mut self.published);
        let wants = |tenant: &Tenant| self.spec.forecasts || tenant.routed;
        for (&module, tenant) in self.tenants.iter().filter(|(_, tenant)| wants(tenant)) {
            for &slot in &tenant.slots {
                let free_at = self.free_for(module, tenant, slot, now);
                // A past time is as good as now, so only changes are published.
                let known = published.insert((module, slot), free_at);
                if known.is_none_or(|known| known.max(now) != free_at) {
                    effects.push(SlotEffect::Forecast {
                        module,
                        slot,
                        free_at,
                    });
                }
            }
        }
        self.published = published;
    }

    fn free_for(&self, module: ModuleId, tenant: &Tenant, slot: SlotId, now: Timestamp) -> Timestamp {
        let free_at = match self.states.get(slot.index()) {
            _ if self.down.contains(&slot) || !tenant.may_run_on(slot, &self.down) => return Timestamp::MAX,
            Some(State::Free) => self.overlapped.run_end(slot, now),
            Some(State::Granted { module: holder, .. }) if *holder == module => {
                self.overlapped.run_end(slot, now)
            }
            Some(State::Granted { duration, .. }) => self.overlapped.run_end(slot, now) + *duration,
            Some(State::Busy { until, .. } | State::Opening { until, .. }) => (*until).max(now),
            Some(State::Closing { .. }) => now,
            None => Timestamp::MAX,
        };
        // A module without a bid ranks last.
        let bid = tenant.bid_on(slot).unwrap_or(Bid {
            latest_start: Timestamp::MAX,
            since: Timestamp::MAX,
            duration: Span::ZERO,
            slot: tenant.routed.then_some(slot),
            backlog: None,
        });
        let own = (self.rank((module, tenant), bid, slot), module);
        let before: Span = self
            .tenants
            .iter()
            .filter(|(other, rival)| {
                **other != module && rival.slots.contains(&slot) && rival.may_run_on(slot, &self.down)
            })
            .filter_map(|(&other, rival)| {
                let bid = rival.bid_on(slot)?;
                let first = (self.rank((other, rival), bid, slot), other) < own;
                let slots = if bid.slot.is_some() { 1 } else { rival.slots.len() };
                first.then(|| bid.duration / slots as u64)
            })
            .sum();
        free_at + before + self.opening_time(tenant, slot)
    }

    /// Publishes each module's available share of its slots: all but the time that modules ahead of it use,
    /// and the time that its own model takes to open and close.
    pub(super) fn tell_shares(&self, now: Timestamp, effects: &mut Vec<SlotEffect>) {
        let Some(began) = self.began else { return };
        for (&module, tenant) in &self.tenants {
            let taken: f64 = self
                .tenants
                .iter()
                .filter(|(other, rival)| **other != module && self.goes_before(rival, tenant))
                .filter(|(_, rival)| rival.slots.iter().any(|slot| tenant.slots.contains(slot)))
                .map(|(_, rival)| rival.recent.rate(now, began))
                .sum();
            let taken = taken + tenant.opening.rate(now, began);
            let share = (1.0 - taken / tenant.slots.len().max(1) as f64).clamp(0.0, 1.0);
            effects.push(SlotEffect::Share { module, share });
        }
    }

    /// Whether slot time that `rival` uses is lost to `tenant`. An optional module yields to all others.
    /// Under downstream-first, a module does not yield to one further upstream.
    fn goes_before(&self, rival: &Tenant, tenant: &Tenant) -> bool {
        if rival.optional != tenant.optional {
            return tenant.optional;
        }
        self.spec.arbitration != Arbitration::DownstreamFirst
            || rival.longest_path_len <= tenant.longest_path_len
    }
}
