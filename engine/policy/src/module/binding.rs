//! Binding requests to batches: the broker at work.
//!
//! `late`: a batch is formed when a slot is granted, so it starts as it is formed (`t_b = t_e`). `eager` (the paper): the
//! next batch of each slot is formed while the one before it runs; requests join as they come until it is full.

use super::{Module, ModuleEffect, Part, Running};
use crate::broker::{Candidate, DropReason, judge, nexus_passes};
use crate::depq::End;
use crate::id::{BatchId, RequestId, SlotId};
use crate::slots::Bid;
use crate::time::{Span, Timestamp};
use crate::values::{DropRule, Forming};

impl Module {
    /// Runs a batch on a granted slot, or gives the slot back.
    pub(super) fn use_slot(&mut self, slot: SlotId, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        let formed = self.take_formed(slot);
        let formed = self.keep_hopeful(formed, now, effects);
        let mut parts = self.bind(formed, now, now, effects);
        if parts.is_empty() {
            effects.push(ModuleEffect::Decline { slot });
            return;
        }
        for part in &mut parts {
            // Until now `waited` held nothing; the time of binding is the arrival plus the queueing delay.
            if let Some(entry) = self.entries.of(part.request) {
                part.waited = now.since(entry.arrived_at + part.queued);
            }
            self.load.waited(part.waited);
            self.entries.started(part.request, part.count);
        }
        let items = count(&parts);
        let ratio = self
            .slots
            .get(&slot)
            .map(|view| view.correction)
            .unwrap_or_default();
        let expected = ratio.expected(self.spec.profile.duration(items));
        let batch = BatchId(self.next_batch);
        self.next_batch += 1;
        self.running.insert(
            batch,
            Running {
                slot,
                parts: parts.clone(),
            },
        );
        if let Some(view) = self.slots.get_mut(&slot) {
            view.free_at = now + expected;
        }
        effects.push(ModuleEffect::Run {
            slot,
            batch,
            parts,
            expected,
        });
        if self.spec.policy.forming == Forming::Eager {
            self.form_ahead(now, effects);
        }
    }

    /// The batch formed for `slot`; where there is none, the fullest one formed for another slot.
    fn take_formed(&mut self, slot: SlotId) -> Vec<Part> {
        let own = self.slots.get(&slot).is_some_and(|view| !view.forming.is_empty());
        let from = if own {
            Some(slot)
        } else {
            self.slots
                .iter()
                .max_by_key(|(_, view)| view.formed())
                .map(|(slot, _)| *slot)
        };
        from.and_then(|from| self.slots.get_mut(&from))
            .map(|view| std::mem::take(&mut view.forming))
            .unwrap_or_default()
    }

    /// What was bound ahead may have become too late while its batch waited, where other modules had the slot meanwhile:
    /// it is let go rather than run in vain.
    fn keep_hopeful(
        &mut self,
        parts: Vec<Part>,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) -> Vec<Part> {
        if parts.is_empty() || !self.sweeps() {
            return parts;
        }
        let duration = self.expected(count(&parts));
        let (late, hopeful): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|part| {
            let entry = self.entries.of(part.request);
            entry.is_some_and(|entry| entry.droppable && now.since(entry.sent_at) + duration > self.spec.slo)
        });
        for part in late {
            self.let_go(part.request, DropReason::Hopeless, now, effects);
        }
        hopeful
    }

    /// Fills the batches that are being formed, the one that starts soonest first.
    pub(super) fn form_ahead(&mut self, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        loop {
            if self.entries.waiting_items() == 0 {
                return;
            }
            // Nothing is bound to a slot that is down: whoever waits may yet run on another.
            let open = self
                .slots
                .iter_mut()
                .filter(|(_, view)| view.formed() < self.batch_size && view.free_at < Timestamp::MAX);
            let Some((&slot, view)) = open.min_by_key(|(slot, view)| (view.free_at.max(now), **slot)) else {
                return;
            };
            let start = view.free_at.max(now);
            let formed = std::mem::take(&mut view.forming);
            let before = formed.len();
            let parts = self.bind(formed, start, now, effects);
            let grew = parts.len() > before;
            if let Some(view) = self.slots.get_mut(&slot) {
                view.forming = parts;
            }
            if !grew && self.entries.waiting_items() > 0 {
                return;
            }
        }
    }

    /// Lets waiting requests join `parts` until the batch is full or nobody waits; `start` is when it is expected to
    /// run. Who would not make it is dropped.
    fn bind(
        &mut self,
        mut parts: Vec<Part>,
        start: Timestamp,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) -> Vec<Part> {
        let mut items = count(&parts);
        self.pass_by_window(start, now, effects);
        while items < self.batch_size {
            let Some(request) = self.next_request() else { break };
            let Some(entry) = self.entries.of(request) else {
                continue;
            };
            let candidate = Candidate {
                sent_at: entry.sent_at,
                arrived_at: entry.arrived_at,
            };
            let duration = self.duration_of(entry.waiting(), items);
            let verdict = if entry.droppable {
                judge(
                    &self.spec.policy.drop,
                    self.spec.slo,
                    &self.outlook,
                    candidate,
                    start,
                    duration,
                )
            } else {
                None
            };
            if let Some(reason) = verdict {
                self.let_go(request, reason, now, effects);
                // A part of it may have joined this batch already.
                parts.retain(|part| part.request != request);
                items = count(&parts);
                continue;
            }
            let queued = now.since(entry.arrived_at);
            if entry.bound == 0 && entry.droppable {
                self.load.queued(queued, now);
            }
            let (first, bound) = self.entries.bind(request, self.batch_size - items);
            items += bound;
            parts.push(Part {
                request,
                first,
                count: bound,
                queued,
                waited: Span::ZERO,
            });
        }
        parts
    }

    /// Whose turn it is: one of which a part is bound already, else the mailbox's present end. It leaves the mailbox.
    fn next_request(&mut self) -> Option<RequestId> {
        self.entries.begun().or_else(|| {
            self.mailbox
                .pop(self.priority.end())
                .map(|(_, request, ())| request)
        })
    }

    /// How long `waiting` items of a request take from the start of a batch that holds `already` others: the batch as it
    /// will be filled, then as many rounds on all slots as the rest needs.
    fn duration_of(&self, waiting: u32, already: u32) -> Span {
        let filled =
            (u64::from(already) + self.entries.waiting_items()).min(u64::from(self.batch_size)) as u32;
        let a_round = u64::from(self.batch_size) * self.slots.len().max(1) as u64;
        let rounds = u64::from(waiting).div_ceil(a_round.max(1)).max(1);
        let margin = self
            .slots
            .values()
            .map(|view| {
                view.correction
                    .promised(self.spec.profile.duration(filled.max(1)))
            })
            .max();
        margin.unwrap_or_else(|| self.spec.profile.duration(filled.max(1))) * rounds
    }

    /// Nexus only: drops what its window has passed.
    fn pass_by_window(&mut self, start: Timestamp, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        if self.spec.policy.drop != DropRule::Nexus {
            return;
        }
        let deadlines = self
            .mailbox
            .iter()
            .map(|(_, request, ())| match self.entries.of(request) {
                Some(entry) if entry.droppable => entry.sent_at + self.spec.slo,
                _ => Timestamp::MAX,
            });
        let duration = self.expected(self.batch_size);
        let passed = nexus_passes(deadlines, self.batch_size as usize, start, duration);
        let passed: Vec<RequestId> = self
            .mailbox
            .iter()
            .take(passed)
            .map(|(_, request, ())| request)
            .collect();
        for request in passed {
            if self.entries.of(request).is_some_and(|entry| entry.droppable) {
                self.let_go(request, DropReason::Hopeless, now, effects);
            }
        }
    }

    /// Asks for a slot where there is work, or asks no more where there is none.
    pub(super) fn ask_for_slot(&mut self, effects: &mut Vec<ModuleEffect>) {
        let bid = self.work();
        if bid == self.bid {
            return;
        }
        effects.push(bid.map_or(ModuleEffect::Withdraw, ModuleEffect::Bid));
        self.bid = bid;
    }

    /// What waits for a slot: the most urgent request decides how urgent the batch is.
    fn work(&self) -> Option<Bid> {
        let formed = self
            .slots
            .values()
            .flat_map(|view| &view.forming)
            .map(|part| part.request);
        let waiting = self
            .entries
            .begun()
            .into_iter()
            .chain(self.mailbox.peek(End::Low).map(|(_, request, _)| request));
        let most_urgent = formed
            .chain(waiting)
            .filter_map(|request| self.entries.of(request))
            .min_by_key(|entry| (entry.sent_at, entry.arrived_at))?;
        let duration = self.expected(self.batch_size);
        let deadline = most_urgent.sent_at + self.spec.slo;
        Some(Bid {
            latest_start: deadline.saturating_sub(duration + self.outlook.ahead),
            since: most_urgent.arrived_at,
            duration,
        })
    }
}

/// Items in a batch.
fn count(parts: &[Part]) -> u32 {
    parts.iter().map(|part| part.count).sum()
}
