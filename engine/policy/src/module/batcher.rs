//! Filling of batches: the broker (PARD 4.2).
//!
//! `late`: a batch is formed when a slot is granted, so it starts at once (`t_b = t_e`). `eager` (the paper):
//! the next batch of each slot is formed while the one before runs; requests join on arrival until it is
//! full.

use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{BatchId, DropReason, RequestId, Shortfall, SlotId, Span, Timestamp};

use super::Module;
use super::api::{BatchSlice, ModuleEffect, Pool, item_count};
use super::opening::Opening;
use super::running::Running;
use super::workers::WorkerView;
use crate::admission::{BatchView, Candidate};
use crate::baselines::shares::of_objective;
use crate::pard::estimator::WaitMeasure;
use crate::queue::depq::End;
use crate::slots::{Bid, WaitingWork};
use crate::weir::slack::{Backlog, SlackSpec, SlackThreshold};
use crate::weir::stagger::staggered_batch_limit;

impl Module {
    /// Runs a batch on a granted slot, or declines the slot.
    pub(super) fn run_on_slot(&mut self, slot: SlotId, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        let ran = self
            .workers
            .place(slot)
            .is_some_and(|place| self.run_batch(place, now, effects));
        if !ran {
            effects.push(ModuleEffect::Decline { slot });
        }
    }

    /// Runs a batch on a free slot; returns whether there was one.
    pub(super) fn run_batch(
        &mut self,
        place: usize,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) -> bool {
        let formed = self.take_formed(place);
        let formed = self.drop_infeasible(formed, now, effects);
        let start = self.run_start(place, item_count(&formed), now);
        let mut slices = self.fill_batch(formed, self.opening(place, start), now, effects);
        if slices.is_empty() {
            return false;
        }
        let beside = self.beside_run(place, item_count(&slices), now);
        for slice in &mut slices {
            // `waited` was not set before; the time of binding is the arrival plus the queueing delay.
            if let Some(entry) = self.mailboxes.get(slice.request) {
                slice.waited = now.since(entry.arrived_at + slice.queued) + beside;
            }
        }
        let start = self.run_start(place, item_count(&slices), now);
        let profiled = self.workers.profiled_at(place, item_count(&slices));
        let expected = self.workers.expected_at(place, profiled);
        let Some(worker) = self.workers.at_mut(place) else {
            return false;
        };
        let slot = worker.slot;
        worker.free_at = start + expected;
        let busy = std::mem::replace(&mut worker.busy, true);
        invariant!(
            !busy,
            Kind::Slots,
            "slot {} is given a batch while it runs one of module {}",
            slot.0,
            self.spec.id.0
        );
        let batch = self.start_batch(slot, &slices, None, now);
        effects.push(ModuleEffect::Run {
            slot,
            batch,
            slices,
            expected,
        });
        if self.is_eager() {
            self.form_ahead(self.mailbox_of(place), now, effects);
        }
        true
    }

    /// A batch starts: its requests leave the queue, and it will be measured.
    pub(super) fn start_batch(
        &mut self,
        slot: SlotId,
        slices: &[BatchSlice],
        booked: Option<(Timestamp, Span)>,
        now: Timestamp,
    ) -> BatchId {
        // Waits are stored as if durations were as profiled; publishing scales them by the present slowness.
        let to_profile = 1.0 / self.workers.slowness();
        for slice in slices {
            let slo = self.mailboxes.started(slice.request, slice.count);
            let slo = slo.unwrap_or(self.spec.slo);
            let wait = self.wait_of(slice).scale(to_profile);
            self.metrics.on_batch_wait(slo, wait);
        }
        self.starvation_reset.on_run(now);
        let slices = slices.to_vec();
        self.running.start(Running {
            slot,
            slices,
            booked,
            launched_at: None,
        })
    }

    /// Time at which a batch that is started now runs on the slot at `place`, which holds `formed` items
    /// already.
    fn run_start(&self, place: usize, formed: u32, now: Timestamp) -> Timestamp {
        let Some(overlap) = self.overlap_at(place) else {
            return now;
        };
        let waiting = u64::from(formed) + self.mailboxes.items_in(self.mailbox_of(place));
        let size = waiting.min(u64::from(self.peers.batch_size())) as u32;
        let free_at = self.workers.at(place).map_or(now, |worker| worker.free_at);
        overlap.run_start(size.max(formed), free_at, now)
    }

    /// Latency of a batch of `size` that is started now on the slot at `place`, beyond its run.
    fn beside_run(&self, place: usize, size: u32, now: Timestamp) -> Span {
        let Some(overlap) = self.overlap_at(place) else {
            return Span::ZERO;
        };
        let free_at = self.workers.at(place).map_or(now, |worker| worker.free_at);
        overlap.run_start(size, free_at, now).since(now) + overlap.read_out(size)
    }

    /// Time that counts as the batch wait of a request. Under rule `weir` this includes queueing, since late
    /// binding leaves no batch wait.
    fn wait_of(&self, slice: &BatchSlice) -> Span {
        if self.strategies.estimator.measured == WaitMeasure::Whole {
            slice.queued + slice.waited
        } else {
            slice.waited
        }
    }

    /// Maximum number of items of a batch that starts at `start` on an idle worker; less if batches of the
    /// pool would otherwise end together.
    fn batch_limit(&self, start: Timestamp) -> u32 {
        let full = self.peers.batch_size();
        let own = self.spec.pool == Pool::Own && self.mailboxes.count() == 1;
        let stagger = self.strategies.stagger.filter(|_| own && !self.is_eager());
        let Some(stagger) = stagger.filter(|_| self.mailboxes.waiting_items() >= u64::from(full)) else {
            return full;
        };
        let running = self.workers.iter().filter(|worker| worker.busy);
        let ends = running.map(|worker| worker.free_at);
        let up = self.workers.up();
        staggered_batch_limit(stagger, full, start, up, &ends, |size| {
            self.workers.expected(size)
        })
    }

    fn opening(&self, place: usize, start: Timestamp) -> Opening {
        Opening {
            place,
            start,
            pressure: self.pressure(start),
            most: self.batch_limit(start),
            takes: None,
        }
    }

    /// Queued work over the time that requests have here. With an empty queue, even a small chance to be in
    /// time is worth running.
    fn pressure(&self, start: Timestamp) -> f64 {
        if !self.workers.has_spread() {
            return 0.0;
        }
        let tightest = self.metrics.objectives.tightest(start);
        let room = tightest.saturating_sub(self.remaining(tightest));
        self.drain_time_until(start, tightest).micros() as f64 / (room.micros() as f64).max(1.0)
    }

    /// Takes the batch formed for a slot; in a pool without one, the fullest one formed for another slot.
    fn take_formed(&mut self, place: usize) -> Vec<BatchSlice> {
        // Without early binding, batches are formed only if it was in force until now.
        if self.workers.iter().all(|worker| worker.forming.is_empty()) {
            return Vec::new();
        }
        let own = self
            .workers
            .at(place)
            .is_some_and(|worker| !worker.forming.is_empty());
        let from = if own || self.mailboxes.count() > 1 {
            self.workers.at_mut(place)
        } else {
            self.workers.iter_mut().max_by_key(|worker| worker.formed())
        };
        from.map(|worker| std::mem::take(&mut worker.forming))
            .unwrap_or_default()
    }

    /// Drops requests that were bound ahead and cannot be in time any more, because other modules used the
    /// slot meanwhile.
    fn drop_infeasible(
        &mut self,
        slices: Vec<BatchSlice>,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) -> Vec<BatchSlice> {
        if slices.is_empty() || !self.strategies.drops_early() {
            return slices;
        }
        let duration = self.workers.least(item_count(&slices)) + self.preparation(item_count(&slices));
        let (late, hopeful): (Vec<BatchSlice>, Vec<BatchSlice>) = slices.into_iter().partition(|slice| {
            let entry = self.mailboxes.get(slice.request);
            entry.is_some_and(|entry| entry.droppable && now + duration > entry.deadline())
        });
        for slice in late {
            let deadline = self.mailboxes.get(slice.request).map(|entry| entry.deadline());
            let shortfall = deadline.map(|deadline| Shortfall {
                execution: duration,
                remaining: deadline.since(now),
                ..Shortfall::default()
            });
            self.drop_request(slice.request, DropReason::Infeasible, shortfall, now, effects);
        }
        hopeful
    }

    /// Fills the forming batches of a mailbox, starting with the one that will run first.
    pub(super) fn form_ahead(&mut self, mailbox: usize, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        while self.mailboxes.items_in(mailbox) > 0 {
            let Some(place) = self.soonest_open(mailbox, now) else {
                return;
            };
            let Some(worker) = self.workers.at_mut(place) else {
                return;
            };
            let start = worker.free_at.max(now);
            let formed = std::mem::take(&mut worker.forming);
            let before = formed.len();
            let slices = self.fill_batch(formed, self.opening(place, start), now, effects);
            let grew = slices.len() > before;
            if let Some(worker) = self.workers.at_mut(place) {
                worker.forming = slices;
            }
            if !grew && self.mailboxes.items_in(mailbox) > 0 {
                return;
            }
        }
    }

    /// Place of the slot, among those of a mailbox, whose next batch has room and starts first.
    fn soonest_open(&self, mailbox: usize, now: Timestamp) -> Option<usize> {
        // A slot that is down gets no requests, since they may still run on another one.
        let open = |worker: &WorkerView| {
            worker.formed() < self.peers.batch_size() && worker.up && worker.free_at < Timestamp::MAX
        };
        if self.mailboxes.count() > 1 {
            return self
                .workers
                .at(mailbox)
                .filter(|worker| open(worker))
                .map(|_| mailbox);
        }
        let all = (0..).zip(self.workers.iter()).filter(|(_, worker)| open(worker));
        all.min_by_key(|(place, worker)| (worker.free_at.max(now), *place))
            .map(|(place, _)| place)
    }

    /// Adds waiting requests to `slices` until the batch is full or none wait. Requests that admission
    /// rejects are dropped. The opening has the expected start.
    pub(super) fn fill_batch(
        &mut self,
        mut slices: Vec<BatchSlice>,
        opening: Opening,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) -> Vec<BatchSlice> {
        let mut items = item_count(&slices);
        let Opening {
            place, start, most, ..
        } = opening;
        let mailbox = self.mailbox_of(place);
        self.drop_at_head(mailbox, start, now, effects);
        let slack = self.slack(start);
        let by_share = self.shares_decide(mailbox, start);
        let room = u64::from(most.saturating_sub(items));
        slices.reserve(room.min(self.mailboxes.items_in(mailbox)) as usize);
        while items < most {
            let Some(request) = self.next_request(mailbox, slack, by_share, now) else {
                break;
            };
            let entry = self.mailboxes.get(request).copied();
            invariant!(
                entry.is_some(),
                Kind::Items,
                "request {} waits at module {} and is not there",
                request.0,
                self.spec.id.0
            );
            let Some(entry) = entry else {
                continue;
            };
            let candidate = Candidate {
                sent_at: entry.sent_at,
                arrived_at: entry.arrived_at,
                stream: entry.stream,
            };
            let duration = self.duration_of(opening, entry.waiting(), items);
            let verdict = if entry.droppable {
                let estimate = if self.starvation_reset.is_on_trial() {
                    self.peers.unmeasured()
                } else {
                    self.peers.estimate()
                };
                let batch = BatchView {
                    slo: entry.slo,
                    start,
                    duration,
                    downstream: estimate.downstream_of(entry.stream, entry.slo),
                    own_share: of_objective(estimate.own_budget, self.spec.slo, entry.slo),
                    share_up_to_here: of_objective(estimate.budget_up_to_here, self.spec.slo, entry.slo),
                    waiting_items: self.mailboxes.items_in(mailbox),
                };
                let reason = self.strategies.admission.rule().verdict(&candidate, &batch);
                reason.map(|reason| (reason, batch.downstream))
            } else {
                None
            };
            if verdict.is_some() && self.reroute(request, place, now) {
                continue;
            }
            if let Some((reason, downstream)) = verdict {
                let shortfall = Shortfall {
                    wait: start.since(now),
                    execution: duration,
                    downstream,
                    remaining: entry.deadline().since(now),
                };
                self.drop_request(request, reason, Some(shortfall), now, effects);
                // A part of the request may have joined this batch already.
                slices.retain(|slice| slice.request != request);
                items = item_count(&slices);
                continue;
            }
            let queued = now.since(entry.arrived_at);
            if entry.bound == 0 && entry.droppable {
                self.metrics.on_queued(entry.slo, queued, now);
            }
            if let Some(shares) = self.shares.as_mut().filter(|_| entry.bound == 0) {
                shares.on_chosen(entry.stream, now);
            }
            if let Some(fair) = self.fair.as_mut().filter(|_| entry.bound == 0) {
                fair.on_chosen(entry.stream);
            }
            let (first, bound) = self.mailboxes.bind(request, most - items);
            items += bound;
            slices.push(BatchSlice {
                request,
                first,
                count: bound,
                queued,
                waited: Span::ZERO,
            });
        }
        slices
    }

    fn next_request(
        &mut self,
        mailbox: usize,
        slack: Option<SlackThreshold>,
        by_share: bool,
        now: Timestamp,
    ) -> Option<RequestId> {
        let end = self.priority.end();
        if let (Some(fair), None, true) = (&self.fair, &self.shares, by_share)
            && let Some(behind) = self.mailboxes.next_behind(mailbox, slack, end, fair)
        {
            return Some(behind);
        }
        match (slack, self.shares.as_ref().filter(|_| by_share)) {
            (_, Some(shares)) => self.mailboxes.next_by_share(mailbox, slack, end, shares, now),
            (Some(slack), None) => self.mailboxes.next_with_slack(mailbox, slack),
            (None, None) => self.mailboxes.next(mailbox, end),
        }
    }

    /// Whether shares of streams decide in a batch that starts at `start`: when some request has used half of
    /// the time that the tightest objective leaves it here. Before that, all requests can be in time, and the
    /// most urgent go first. Under overload the condition holds while requests of a disadvantaged stream
    /// wait.
    fn shares_decide(&self, mailbox: usize, start: Timestamp) -> bool {
        if self.shares.is_none() && self.fair.is_none() {
            return false;
        }
        let tightest = self.metrics.objectives.tightest(start);
        let remaining = self.remaining(tightest);
        let room = tightest.saturating_sub(remaining);
        let first = self.mailboxes.first_key(mailbox);
        // Under first come, first served, the keys are arrival times.
        let deadline = first.map(|key| {
            if self.priority.is_fcfs() {
                key + tightest
            } else {
                key
            }
        });
        deadline.is_some_and(|deadline| deadline < start + remaining + room / 2)
    }

    /// Expected time from the start of a batch here to the completion of a request with objective `slo`.
    fn remaining(&self, slo: Span) -> Span {
        let size = self.peers.batch_size();
        self.workers.expected(size) + self.read_out(size) + self.peers.estimate().downstream_at(slo)
    }

    /// Slack threshold for a batch that starts at `start`, under overload; `None` if slack does not matter.
    fn slack(&mut self, start: Timestamp) -> Option<SlackThreshold> {
        let differ = self.metrics.objectives.differ();
        // If objectives differ, high budget first would always prefer requests with the longest one.
        let high = differ && !self.strategies.has_fixed_order() && self.priority.end() == End::High;
        let spec = self
            .strategies
            .slack()
            .or_else(|| high.then(SlackSpec::default))?;
        // One margin for all objectives: by its own margin, a request with a long objective would need more
        // slack than others ever have, and would never run beside them.
        let tightest = self.metrics.objectives.tightest(start);
        let remaining = self.remaining(tightest);
        // The queue shows the start of a burst at once; the load over a batch or two shows its end.
        let queue = Backlog {
            drain_time: self.drain_time_until(start, tightest),
            load: self.arrival_ratio(start),
        };
        let mut slack = self.overload.threshold(start, remaining, queue, tightest, spec);
        if differ {
            let room = tightest.saturating_sub(remaining);
            slack = slack.with_max_margin(start + remaining, room / 2);
        }
        if !self.strategies.tie_break {
            slack.spread = Span::ZERO;
        }
        Some(slack)
    }

    /// Duration of `waiting` items of a request from the start of a batch that holds `already` others: the
    /// batch as it will be filled, then as many rounds on all slots as the rest needs. A batch that is formed
    /// ahead may still fill up.
    fn duration_of(&self, opening: Opening, waiting: u32, already: u32) -> Span {
        let place = opening.place;
        let mailbox = self.mailbox_of(place);
        let filled = if self.strategies.assumes_planned_batch() {
            self.peers.batch_size()
        } else {
            (u64::from(already) + self.mailboxes.items_in(mailbox)).min(u64::from(opening.most)) as u32
        };
        let workers = if self.mailboxes.count() > 1 {
            1
        } else {
            self.workers.up().max(1)
        };
        let a_round = (u64::from(self.peers.batch_size()) * workers as u64).max(1);
        let rounds = if u64::from(waiting) <= a_round {
            1
        } else {
            u64::from(waiting).div_ceil(a_round)
        };
        if let Some(takes) = opening.takes {
            return takes * rounds;
        }
        let size = filled.max(1);
        let profiled = self.workers.profiled_at(place, size);
        self.workers.promised_at(place, size, profiled, opening.pressure) * rounds + self.read_out(size)
    }

    /// Drops requests that a window rule of admission has passed.
    fn drop_at_head(
        &mut self,
        mailbox: usize,
        start: Timestamp,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let mut deadlines =
            self.mailboxes
                .waiting(mailbox)
                .map(|request| match self.mailboxes.get(request) {
                    Some(entry) if entry.droppable => entry.deadline(),
                    _ => Timestamp::MAX,
                });
        let duration = self.workers.expected(self.peers.batch_size());
        let size = self.peers.batch_size() as usize;
        let admission = self.strategies.admission;
        let Some(passed) = admission
            .rule()
            .drops_at_head(&mut deadlines, size, start, duration)
        else {
            return;
        };
        drop(deadlines);
        let passed: Vec<RequestId> = self.mailboxes.waiting(mailbox).take(passed).collect();
        for request in passed {
            let entry = self.mailboxes.get(request).filter(|entry| entry.droppable);
            let shortfall = entry.map(|entry| Shortfall {
                wait: start.since(now),
                execution: duration,
                downstream: Span::ZERO,
                remaining: entry.deadline().since(now),
            });
            if shortfall.is_some() {
                self.drop_request(request, DropReason::Infeasible, shortfall, now, effects);
            }
        }
    }

    /// Bids for slots if there is work, or withdraws bids if there is none; `changed` are the mailboxes that
    /// changed.
    pub(super) fn update_bids(&mut self, changed: &[usize], now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        for &mailbox in changed {
            self.update_bid(mailbox, now, effects);
        }
        // Mailboxes that got requests by rerouting in this step.
        let since = self.wakeups.take();
        for &mailbox in since.iter().filter(|mailbox| !changed.contains(mailbox)) {
            self.update_bid(mailbox, now, effects);
        }
    }

    fn update_bid(&mut self, mailbox: usize, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        let bid = self
            .work(mailbox)
            .filter(|_| self.waits_until(mailbox, now).is_none());
        let before = match bid {
            Some(bid) => self.shared.bids.insert(mailbox, bid),
            None => self.shared.bids.remove(&mailbox),
        };
        if bid != before {
            let slot = before.and_then(|before| before.slot);
            effects.push(bid.map_or(ModuleEffect::CancelBid { slot }, ModuleEffect::Bid));
        }
    }

    /// Time until which a mailbox waits for more items; `None` if it does not wait.
    pub(super) fn waits_until(&self, mailbox: usize, now: Timestamp) -> Option<Timestamp> {
        let (invocation, waiting) = match self.mailboxes.count() {
            1 => (self.invocation, self.mailboxes.waiting_items()),
            _ => {
                let trigger = self.triggers.get(&self.workers.at(mailbox)?.slot)?;
                (*trigger, self.mailboxes.items_in(mailbox))
            }
        };
        let waits = invocation.items > 1 && self.spec.pool != Pool::Pipelines;
        if !waits || self.is_eager() {
            return None;
        }
        let bid = self.work(mailbox)?;
        let at = invocation.ready_at(waiting, self.peers.batch_size(), bid.since, bid.latest_start);
        (at > now).then_some(at)
    }

    /// Earliest time until which a mailbox waits for more items; `None` if none waits.
    pub(super) fn next_trigger(&self, now: Timestamp) -> Option<Timestamp> {
        let mailboxes = 0..self.mailboxes.count();
        mailboxes
            .filter_map(|mailbox| self.waits_until(mailbox, now))
            .min()
    }

    /// All work that waits, if the order of work on slots is planned.
    fn backlog(&self, size: u32, duration: Span) -> Option<WaitingWork> {
        self.spec.policy.queues.filter(|queues| queues.plans())?;
        let items = u32::try_from(self.mailboxes.waiting_items())
            .unwrap_or(u32::MAX)
            .max(1);
        let batches = items.div_ceil(size.max(1));
        Some(WaitingWork {
            items,
            time: duration * u64::from(batches),
        })
    }

    /// The bid for requests waiting in a mailbox; the most urgent request sets its latest start.
    fn work(&self, mailbox: usize) -> Option<Bid> {
        // Set if each slot has a mailbox.
        let own = self.workers.at(mailbox).filter(|_| self.mailboxes.count() > 1);
        let formed = self
            .workers
            .iter()
            .filter(|worker| own.is_none_or(|own| own.slot == worker.slot))
            .flat_map(|worker| &worker.forming)
            .map(|slice| slice.request);
        let most_urgent = formed
            .chain(self.mailboxes.foremost(mailbox))
            .filter_map(|request| self.mailboxes.get(request))
            .min_by_key(|entry| (entry.deadline(), entry.arrived_at))?;
        let size = self.peers.batch_size();
        let (duration, beside) = match own {
            None => (
                self.workers.expected(size),
                self.preparation(size) + self.read_out(size),
            ),
            Some(own) => {
                let overlap = self.overlap_on(own.slot);
                let beside = overlap.map_or(Span::ZERO, |overlap| overlap.beside(size));
                (self.batch_at(mailbox, size), beside)
            }
        };
        let downstream = self.peers.estimate().downstream_at(most_urgent.slo);
        Some(Bid {
            latest_start: most_urgent
                .deadline()
                .saturating_sub(beside + duration + downstream),
            since: most_urgent.arrived_at,
            duration,
            slot: own.map(|own| own.slot),
            backlog: self.backlog(size, duration),
        })
    }
}
