//! Pools of pipelines: the model is cut and spread over partition workers (PPipe). The module requests a path
//! through them, and the answer is a booking with a size and a finish. Admission uses that finish: a request
//! that would miss its deadline does not join.

use weir_types::{DropReason, Profile, RequestId, Shortfall, SlotId, Span, Timestamp};

use super::Module;
use super::api::{ModuleEffect, Pool};
use super::mailboxes::Entry;
use super::opening::Opening;
use super::supply::Booking;
use super::workers::Workers;
use crate::reservations::PathRequest;

/// Longest time that requests which must not be dropped wait while no path exists at all.
const MAX_NO_PATH: Span = Span::from_secs(30);

/// Minimum extension of a deadline that was extended before and missed again.
const MIN_EXTENSION: Span = Span::from_millis(1);

impl Module {
    /// Runs a batch along its booking, or cancels the booking if no request fits.
    pub(super) fn run_as_booked(
        &mut self,
        booking: Booking,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        // A lane stands for one batch in flight at the planned rate. More may be in flight, so the choice of
        // lane does not matter.
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

    /// Not even one item alone would leave the last stage before `finish`: drops the requests for which that
    /// is too late.
    pub(super) fn on_no_path(&mut self, finish: Timestamp, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        if self.most_urgent_is_firm() {
            // A request that must not be dropped runs late. If no path exists at all, it is requested again
            // at the next tick.
            if finish == Timestamp::MAX {
                self.on_no_path_left(now, effects);
            } else {
                self.booked.no_path_since = None;
                // The extension allows batches of the planned size: smaller ones would not finish earlier,
                // only lower the rate.
                let planned = self.workers.expected(self.peers.batch_size());
                let least = planned.saturating_sub(self.workers.expected(1));
                // The request for a path takes time to be answered, and meanwhile the earliest finish gets
                // later.
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
                    // `finish` is that of the path which finishes first, and includes all waits.
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
                // The drop may have reset the measured durations.
                leeway = self.leeway();
            }
        }
    }

    /// No stage has a usable worker: requests that must not be dropped wait up to [`MAX_NO_PATH`], then fail.
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

    /// Clears the requested path so that it is requested again; a path may exist by now if there was none
    /// before.
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

    /// The waiting request with the earliest deadline.
    fn most_urgent(&self) -> Option<&Entry> {
        let foremost = self
            .mailboxes
            .foremost(0)
            .filter_map(|request| self.mailboxes.get(request));
        foremost.min_by_key(|entry| (entry.deadline(), entry.arrived_at))
    }

    /// Switches to another plan. Batches in flight are not affected.
    pub(super) fn on_plan_changed(&mut self, profile: Profile, batch: u32, lanes: u32, share: f64) {
        self.spec.profile = profile;
        self.spec.batch = vec![batch.max(1)];
        let first = self.spec.slots.first().map_or(0, |slot| slot.0);
        self.spec.slots = (first..first + lanes.max(1)).map(SlotId).collect();
        self.workers = Workers::new(&self.spec.slots, (&self.spec.profile, &[]), batch.max(1), None);
        self.peers.set_batch_size(batch.max(1));
        self.metrics.set_share(share);
        // The last request for a path was made under the plan before.
        self.booked.requested = None;
    }

    /// Requests a path through the pipelines if requests wait, or cancels the request if none do.
    pub(super) fn request_path(&mut self, effects: &mut Vec<ModuleEffect>) {
        let ask = self.wanted_path();
        if ask == self.booked.requested {
            return;
        }
        effects.push(ask.map_or(ModuleEffect::CancelBid { slot: None }, ModuleEffect::RequestPath));
        self.booked.requested = ask;
    }

    /// Time before the deadline by which a batch must finish, for requests with objective `slo`: reservations
    /// may wait for a larger batch until the last safe moment by their tables. Covers the modules downstream,
    /// the `leeway` that the broker allows for deviations, and the policy's booking margin.
    fn deadline_reserve(&self, slo: Span, leeway: Span) -> Span {
        self.peers.estimate().downstream_at(slo) + leeway + slo.scale(self.strategies.booking_margin)
    }

    /// Largest difference between promised and profiled duration of a planned batch, over the lanes.
    fn leeway(&self) -> Span {
        let planned = self.workers.profiled(self.peers.batch_size());
        let promised = self
            .workers
            .iter()
            .map(|lane| lane.correction.duration_with_margin(planned))
            .max();
        promised.map_or(Span::ZERO, |promised| promised.saturating_sub(planned))
    }

    /// The path that waiting requests need; the most urgent request sets the deadline.
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
