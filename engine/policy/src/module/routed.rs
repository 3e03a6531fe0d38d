//! Slots that differ in speed, or are replicas with queues and triggers of their own (KEN 4.3.3): each has a mailbox, and a
//! rule assigns a request to one on arrival. A request that would be late at its slot, and in time at another, moves there.
//! If slots have shares, a request goes to the slot furthest behind its share among those on which it is in time.

use weir_types::{RequestId, SlotId, Span, Timestamp};

use super::mailboxes::Entry;
use super::{Module, ModuleEffect, Pool};
use crate::route::ends::{End, looks_again, pick};
use crate::route::{RouteRule, Weir};

/// Maximum number of waiting requests of a slot that are examined; later ones are not urgent yet.
const MAX_LOOKED_AT: usize = 128;
/// Maximum number of waiting requests that are examined again in one step over all slots; the next step
/// continues there.
const MAX_AGAIN: usize = 256;

impl Module {
    /// Rule that assigns requests to slots that differ in speed.
    fn route_rule(&self) -> RouteRule {
        let route = self.spec.policy.route;
        route.unwrap_or_else(|| RouteRule::Weir(Weir::default()))
    }

    /// Mailbox of an arriving request.
    pub(super) fn mailbox_of_arrival(&mut self, entry: &Entry, now: Timestamp) -> usize {
        if self.routes.is_none() {
            return if self.mailboxes.count() > 1 {
                self.workers.in_turn()
            } else {
                0
            };
        }
        let place = self.routed_to(entry, None, now);
        self.put_on(place, entry.items, now);
        place
    }

    /// Records that a request was assigned to a slot.
    fn put_on(&mut self, place: usize, items: u32, now: Timestamp) {
        let work = self
            .workers
            .expected_at(place, self.workers.profiled_at(place, items));
        let slot = self.workers.at(place).map(|worker| worker.slot);
        // Shares compare the same work on every slot, so they use the profile of all slots together.
        let part = self.workers.profiled(items);
        if let Some(routes) = &mut self.routes {
            routes.picked += 1;
            if let Some(slot) = slot {
                routes.shares.on_granted(slot, part);
            }
            if let Some([own_items, own_work]) = routes.recent.get_mut(place) {
                own_items.add(f64::from(items), now);
                own_work.add(work.as_secs_f64(), now);
            }
        }
    }

    /// Place of the slot that the rule chooses for a request; if no slot can be used, the next one in turn.
    fn routed_to(&mut self, entry: &Entry, excluded: Option<usize>, now: Timestamp) -> usize {
        let ends = self.ends(entry, excluded, now);
        let left = self.left_of(entry, now);
        let picked = self.picked_by_share(&ends, left).or_else(|| {
            let number = self.routes.as_ref().map_or(0, |routes| routes.picked);
            pick(self.route_rule(), &ends, left, (number, self.spec.seed))
        });
        picked.unwrap_or_else(|| self.workers.in_turn())
    }

    /// Among slots on which a request is in time, the one furthest behind its share; `None` if shares are not
    /// set.
    fn picked_by_share(&self, ends: &[End], left: Span) -> Option<usize> {
        let shares = &self
            .routes
            .as_ref()
            .filter(|routes| routes.shares.is_set())?
            .shares;
        let in_time = ends.iter().filter(|end| end.finish <= left);
        let led = in_time.filter_map(|end| Some((shares.lead(self.workers.at(end.place)?.slot), end.place)));
        let least = led.min_by(|one, other| one.0.total_cmp(&other.0));
        least.map(|(_, place)| place)
    }

    /// Changes the share of the work that a slot gets.
    pub(super) fn on_slot_share(&mut self, slot: SlotId, share: Option<f64>) {
        if let Some(routes) = &mut self.routes {
            routes.shares.set(slot, share);
        }
    }

    /// The time that a request has here.
    fn left_of(&self, entry: &Entry, now: Timestamp) -> Span {
        let downstream = self.peers.estimate().downstream_of(entry.stream, entry.slo);
        entry.deadline().saturating_sub(downstream).since(now)
    }

    /// The slots that a request could go to.
    fn ends(&self, entry: &Entry, excluded: Option<usize>, now: Timestamp) -> Vec<End> {
        let rule = self.route_rule();
        let places = 0..self.workers.len();
        let there = places.filter(|place| {
            Some(*place) != excluded && self.workers.at(*place).is_some_and(|worker| worker.up)
        });
        let end = |place: usize| {
            let (ahead, is_harmless) = match rule {
                RouteRule::Weir(_) => self.place_in_line(place, entry, now),
                _ => (self.mailboxes.items_in(place), true),
            };
            let (finish, duration) = self.finish_at(place, ahead, entry.items, now);
            let waiting = self.mailboxes.items_in(place);
            let behind_all = if ahead == waiting {
                finish
            } else {
                self.finish_at(place, waiting, entry.items, now).0
            };
            let recent = self.routes.as_ref().and_then(|routes| routes.recent.get(place));
            let [items, work_s] = recent.map_or([0.0; 2], |recent| recent.each_ref().map(|sum| sum.sum(now)));
            End {
                place,
                finish,
                behind_all,
                duration,
                is_harmless,
                requests: self.mailboxes.requests_in(place)
                    + u64::from(self.workers.at(place).is_some_and(|worker| worker.busy)),
                items,
                work_s,
            }
        };
        there.map(end).collect()
    }

    /// Time until `items` items behind `ahead` others are done at a slot, and the duration of their batch.
    pub(super) fn finish_at(&self, place: usize, ahead: u64, items: u32, now: Timestamp) -> (Span, Span) {
        let full = self.peers.batch_size().max(1);
        let whole = self.batch_at(place, full);
        let free_at = self.workers.at(place).map_or(now, |worker| worker.free_at);
        let free_in = match self.workers.at(place) {
            Some(worker) if worker.busy || self.spec.pool == Pool::Shared => free_at.since(now),
            _ => Span::ZERO,
        };
        let last = ahead + u64::from(items.max(1));
        let batches_before = (last - 1) / u64::from(full);
        let size = (last - batches_before * u64::from(full)) as u32;
        // The batch may still fill up: it has at least the items in front.
        let duration = self.batch_at(place, size.max(1));
        (free_in + whole * batches_before + duration, duration)
    }

    pub(super) fn batch_at(&self, place: usize, size: u32) -> Span {
        self.workers
            .expected_at(place, self.workers.profiled_at(place, size))
    }

    /// Items that go before a request at a slot, by their deadlines, and whether none of those behind it is late for it.
    fn place_in_line(&self, place: usize, entry: &Entry, now: Timestamp) -> (u64, bool) {
        let deadline = entry.deadline();
        let (mut ahead, mut before) = (0_u64, 0_u64);
        let mut is_harmless = true;
        for request in self.mailboxes.waiting(place).take(MAX_LOOKED_AT) {
            let Some(other) = self.mailboxes.get(request) else {
                continue;
            };
            let items = u64::from(other.waiting());
            if other.deadline() <= deadline {
                ahead += items;
            } else if is_harmless {
                let left = self.left_of(other, now);
                let (was, _) = self.finish_at(place, before, other.waiting(), now);
                let (is, _) = self.finish_at(place, before + u64::from(entry.items), other.waiting(), now);
                is_harmless = was > left || is <= left;
            }
            before += items;
        }
        (ahead, is_harmless)
    }

    /// Moves requests that would be late at their slot to slots on which they would be in time.
    pub(super) fn reroute_late(&mut self, now: Timestamp) {
        if self.routes.is_none() || !looks_again(self.route_rule()) {
            return;
        }
        let count = self.workers.len();
        let first = self.routes.as_ref().map_or(0, |routes| routes.next);
        let mut looked_at = 0;
        for place in (first..count).chain(0..first.min(count)) {
            if looked_at >= MAX_AGAIN {
                if let Some(routes) = &mut self.routes {
                    routes.next = place;
                }
                return;
            }
            let mut ahead = 0;
            let mut late: Vec<RequestId> = Vec::new();
            for request in self.mailboxes.waiting(place).take(MAX_LOOKED_AT) {
                let Some(entry) = self.mailboxes.get(request) else {
                    continue;
                };
                looked_at += 1;
                let (finish, _) = self.finish_at(place, ahead, entry.waiting(), now);
                if finish > self.left_of(entry, now) && entry.bound == 0 {
                    late.push(request);
                } else {
                    ahead += u64::from(entry.waiting());
                }
            }
            for request in late {
                self.reroute(request, place, now);
            }
        }
    }

    /// Moves a request that would be late at its slot to one on which it is in time; returns whether there
    /// was one. At most once for each time, since the estimates of two slots may each prefer the other.
    pub(super) fn reroute(&mut self, request: RequestId, from: usize, now: Timestamp) -> bool {
        if self.routes.is_none() || !looks_again(self.route_rule()) {
            return false;
        }
        let entry = self.mailboxes.get(request).copied();
        let Some(mut entry) = entry.filter(|entry| entry.bound == 0 && entry.moved_at != Some(now)) else {
            return false;
        };
        entry.moved_at = Some(now);
        let left = self.left_of(&entry, now);
        let ends = self.ends(&entry, Some(from), now);
        let in_time: Vec<End> = ends.into_iter().filter(|end| end.finish <= left).collect();
        let number = self.routes.as_ref().map_or(0, |routes| routes.picked);
        let Some(to) = pick(self.route_rule(), &in_time, left, (number, self.spec.seed)) else {
            return false;
        };
        self.put_on(to, entry.items, now);
        self.mailboxes.put_back(request, entry.unbound(), to);
        self.wakeups.mark(to);
        true
    }

    /// Runs on slots that requests were taken to in this step.
    pub(super) fn run_rerouted(&mut self, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        if self.routes.is_none() {
            return;
        }
        // A request moves only to a slot on which it is in time, so moves end soon; the loop is bounded in
        // any case.
        for _ in 0..self.workers.len() {
            let changed = self.wakeups.take();
            if changed.is_empty() {
                return;
            }
            for mailbox in changed {
                self.run_on_own(mailbox, now, effects);
            }
        }
    }
}
