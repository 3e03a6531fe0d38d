//! A pool of pipelines: the model is cut and spread over partition workers (PPipe). The module requests a path through
//! them; the answer is a booking with a size and a finish, and by that finish admission decides: what would miss its
//! deadline further on does not join.

use weir_types::{DropReason, Profile, RequestId, Shortfall, SlotId, Span, Timestamp};

use super::Module;
use super::api::{ModuleEffect, Pool};
use super::mailboxes::Entry;
use super::opening::Opening;
use super::supply::Booking;
use super::workers::Workers;
use crate::reservations::PathRequest;

/// How long what must not be dropped waits where no path is left at all.
const MAX_NO_PATH: Span = Span::from_secs(30);

/// By so much at least a deadline is extended that has been extended and was missed again.
const MIN_EXTENSION: Span = Span::from_millis(1);

impl Module {
    /// Runs a batch as it was booked, or gives the booking back.
    pub(super) fn run_as_booked(
        &mut self,
        booking: Booking,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        // A lane stands for one batch in flight at the planned rate: there may be more, and which is which does not matter.
        self.booked.extended_deadline = Timestamp::ZERO;
        self.booked.extension = Span::ZERO;
        self.booked.no_path_since = None;
        let place = (booking.id.0 % self.workers.len().max(1) as u64) as usize;
        let takes = booking.finish.since(now);
        let promised = self
            .workers
            .at(place)
            .map_or(takes, |lane| lane.correction.duration_with_margin(takes));
        let opening = Opening {
            place,
            start: now,
            pressure: 0.0,
            most: booking.size,
            takes: Some(promised),
        };
        let slices = self.fill_batch(Vec::new(), opening, now, effects);
        let Some(slot) = self
            .workers
            .at(place)
            .map(|lane| lane.slot)
            .filter(|_| !slices.is_empty())
        else {
            effects.push(ModuleEffect::CancelBooking { booking: booking.id });
            return;
        };
        let batch = self.start_batch(slot, &slices, Some((now, takes)), now);
        effects.push(ModuleEffect::Dispatch {
            booking: booking.id,
            batch,
            slices,
            expected: takes,
        });
    }

    /// Not even one item alone would be through before `finish`: drops the requests for which that is too late.
    pub(super) fn on_no_path(&mut self, finish: Timestamp, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        if self.most_urgent_is_firm() {
            // It runs late rather than never; where no path is left at all, it asks again at the next tick.
            if finish == Timestamp::MAX {
                self.on_no_path_left(now, effects);
            } else {
                self.booked.no_path_since = None;
                // In batches as they are planned: shrinking them would not make it earlier, only rarer.
                let planned = self.workers.expected(self.peers.batch_size());
                let least = planned.saturating_sub(self.workers.expected(1));
                // The request takes time to come, and meanwhile the earliest gets later.
                let again = (self.booked.extension * 2).max(MIN_EXTENSION);
                self.booked.extension = if self.booked.extended_deadline == Timestamp::ZERO {
                    least
                } else {
                    least.max(again)
                };
                self.booked.extended_deadline = finish + self.booked.extension;
                self.booked.requested = None;
            }
            return;
        }
        self.booked.requested = None;
        let mut leeway = self.leeway();
        loop {
            let most_urgent = self.mailboxes.most_urgent(0);
            let infeasible = most_urgent.and_then(|(request, deadline)| {
                let slo = self
                    .mailboxes
                    .get(request)
                    .map_or(self.spec.slo, |entry| entry.slo);
                let reserve = self.deadline_reserve(slo, leeway);
                let shortfall = Shortfall {
                    // The path that is through first, with all waits on it.
                    wait: Span::ZERO,
                    execution: finish.since(now),
                    downstream: reserve,
                    remaining: deadline.since(now),
                };
                (finish > deadline.saturating_sub(reserve)).then_some((request, shortfall))
            });
            let Some((request, shortfall)) = infeasible else {
                return;
            };
            self.drop_request(request, DropReason::Infeasible, Some(shortfall), now, effects);
            if self.running.is_empty() {
                // What was measured may have been reset by the drop.
                leeway = self.leeway();
            }
        }
    }

    /// No stage has a worker left: what must not be dropped waits for one to return, but not for ever.
    fn on_no_path_left(&mut self, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        let since = *self.booked.no_path_since.get_or_insert(now);
        if now.since(since) < MAX_NO_PATH {
            return;
        }
        let standing: Vec<RequestId> = self.mailboxes.standing(0).collect();
        for request in standing {
            self.drop_request(request, DropReason::Failed, None, now, effects);
        }
    }

    /// Forgets what was asked, so that it is asked again: where no path was left there may be one by now.
    pub(super) fn reset_request(&mut self) {
        let none_left = self.booked.no_path_since.is_some();
        if self.spec.pool == Pool::Pipelines
            && (none_left || self.booked.extended_deadline == Timestamp::ZERO)
            && self.most_urgent_is_firm()
        {
            self.booked.requested = None;
        }
    }

    fn most_urgent_is_firm(&self) -> bool {
        !self.strategies.admission.rule().is_predictive()
            || self.most_urgent().is_some_and(|entry| !entry.droppable)
    }

    /// The request that must be through first.
    fn most_urgent(&self) -> Option<&Entry> {
        let foremost = self
            .mailboxes
            .foremost(0)
            .filter_map(|request| self.mailboxes.get(request));
        foremost.min_by_key(|entry| (entry.deadline(), entry.arrived_at))
    }

    /// Another plan is in force. Batches in flight are not touched.
    pub(super) fn on_plan_changed(&mut self, profile: Profile, batch: u32, lanes: u32, share: f64) {
        self.spec.profile = profile;
        self.spec.batch = vec![batch.max(1)];
        let first = self.spec.slots.first().map_or(0, |slot| slot.0);
        self.spec.slots = (first..first + lanes.max(1)).map(SlotId).collect();
        self.workers = Workers::new(&self.spec.slots, (&self.spec.profile, &[]), batch.max(1), None);
        self.peers.set_batch_size(batch.max(1));
        self.metrics.set_share(share);
        // Whatever was asked, was asked of the plan before.
        self.booked.requested = None;
    }

    /// Requests a path through the pipelines where there is work, or cancels the request where there is none.
    pub(super) fn request_path(&mut self, effects: &mut Vec<ModuleEffect>) {
        let ask = self.wanted_path();
        if ask == self.booked.requested {
            return;
        }
        effects.push(ask.map_or(ModuleEffect::CancelBid { slot: None }, ModuleEffect::RequestPath));
        self.booked.requested = ask;
    }

    /// What is kept back of the deadline of a request with objective `slo` when a path is requested: reservations may wait
    /// for a larger batch to the last moment that is safe by their tables, and the broker judges by a promise that allows
    /// for the usual deviation, the `leeway`.
    fn deadline_reserve(&self, slo: Span, leeway: Span) -> Span {
        self.peers.estimate().downstream_at(slo) + leeway + slo.scale(self.strategies.booking_margin)
    }

    /// What a promise adds to the duration of a planned batch, on the lane where that is the most.
    fn leeway(&self) -> Span {
        let planned = self.workers.profiled(self.peers.batch_size());
        let promised = self
            .workers
            .iter()
            .map(|lane| lane.correction.duration_with_margin(planned))
            .max();
        promised.map_or(Span::ZERO, |promised| promised.saturating_sub(planned))
    }

    /// What waits for a path: the most urgent request says by when the batch must be through.
    fn wanted_path(&self) -> Option<PathRequest> {
        let most_urgent = self.most_urgent()?;
        let kept = self.deadline_reserve(most_urgent.slo, self.leeway());
        Some(PathRequest {
            deadline: most_urgent
                .deadline()
                .saturating_sub(kept)
                .max(self.booked.extended_deadline),
            since: most_urgent.arrived_at,
            waiting: u32::try_from(self.mailboxes.items_in(0)).unwrap_or(u32::MAX),
        })
    }
}
