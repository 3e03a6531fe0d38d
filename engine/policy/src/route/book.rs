//! What was put on one instance and has not ended: booked work, from which its steps are predicted.

use std::sync::Arc;

use weir_types::{SequenceId, Span, Timestamp};

use super::belief::{Belief, Beliefs};
use super::step_times::StepTimes;
use crate::generate::InstanceState;

/// Weight of a reported step time.
const PACE_GAIN: f64 = 0.3;

/// One sequence on an instance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Booked {
    pub(super) id: SequenceId,
    pub(super) deadline: Timestamp,
    pub(super) belief: Belief,
    /// At `at`.
    pub(super) generated: u32,
    /// When that was; before, its prompt is computed.
    pub(super) at: Timestamp,
}

/// One instance. What every decision reads of each is in its first line of the processor's cache: [`Next`] and the step times.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Book {
    next: Next,
    steps: Arc<StepTimes>,
    sequences: Vec<Booked>,
    /// Measured over profiled step times: what prompts between take, and a busy device.
    pace: f64,
    /// What one more was found to cost those that are there, until something changes here.
    found: Option<FoundLoss>,
}

/// What one more sequence would find.
#[derive(Debug, Clone, Copy)]
struct Next {
    /// Prompts that are computed together: since when, until when, and how many tokens.
    prompts_since: Timestamp,
    prompts_until: Timestamp,
    prompt_tokens: u32,
    /// Sequences that are there, as far as a step has places.
    others: u32,
    /// Tokens of prompts in a step with those.
    room: u32,
    /// Seconds of a step with those.
    step_s: f64,
    /// Seconds until each of those that are there and one more has a further token.
    token_s: f64,
}

/// What one more costs those that are there: chances lost.
#[derive(Debug, Clone, Copy)]
struct FoundLoss {
    /// For a prompt of so many tokens.
    tokens: u32,
    loss: f64,
    /// It is more than that: no more was asked for.
    is_partial: bool,
    /// When it is looked at again.
    until: Timestamp,
}

impl Book {
    pub(super) fn new(steps: Arc<StepTimes>) -> Self {
        let mut book = Self {
            next: Next {
                prompts_since: Timestamp::ZERO,
                prompts_until: Timestamp::ZERO,
                prompt_tokens: 0,
                others: 0,
                room: 1,
                step_s: 0.0,
                token_s: 0.0,
            },
            sequences: Vec::new(),
            steps,
            pace: 1.0,
            found: None,
        };
        book.on_change();
        book
    }

    /// What is there, in no order.
    pub(super) fn sequences(&self) -> &[Booked] {
        &self.sequences
    }

    /// Something came or went, or is quicker or slower than it was.
    fn on_change(&mut self) {
        let count = self.sequences.len();
        let others = count.min(self.steps.places()) as u32;
        self.next = Next {
            others,
            room: self.steps.max_step_tokens.saturating_sub(others).max(1),
            step_s: self.steps.token_s(count.max(1)),
            token_s: self.token_s(count + 1),
            ..self.next
        };
        self.found = None;
    }

    /// Chances that those that are there lose by one more with a prompt of so many tokens, as far as they are less than `bearable`;
    /// chances below `min_chance` count as none. While nothing comes or goes here, that is looked at again after a step: before,
    /// none of them has another token.
    pub(super) fn loss(
        &mut self,
        beliefs: &Beliefs,
        (tokens, bearable, min_chance): (u32, f64, f64),
        now: Timestamp,
    ) -> f64 {
        let known = |found: &FoundLoss| {
            found.tokens == tokens && now <= found.until && (!found.is_partial || found.loss > bearable)
        };
        if let Some(found) = self.found.filter(known) {
            return found.loss;
        }
        let count = self.sequences.len();
        let (_, stall_s) = self.prompt_s(tokens, now);
        let (before, after) = (self.token_s(count), self.next.token_s);
        let tokens_per_s = [1.0 / before, 1.0 / after];
        let mut loss = 0.0;
        let mut is_partial = false;
        for booked in &self.sequences {
            if Self::surely_loses_nothing(beliefs, booked, (tokens_per_s, stall_s), now) {
                continue;
            }
            let [is, then] = Self::chances(beliefs, booked, ([before, after], stall_s), now);
            if is < min_chance {
                continue;
            }
            loss += (is - then).max(0.0);
            // A part of the whole is more already.
            if loss > bearable {
                is_partial = true;
                break;
            }
        }
        self.found = Some(FoundLoss {
            tokens,
            loss,
            is_partial,
            until: now + Span::from_secs_f64(before),
        });
        loss
    }

    /// Nothing is there any more.
    pub(super) fn clear(&mut self) {
        *self = Self::new(Arc::clone(&self.steps));
    }

    /// Seconds until each of so many sequences has a further token.
    #[inline]
    pub(super) fn token_s(&self, sequences: usize) -> f64 {
        self.pace * self.steps.token_s(sequences)
    }

    /// Seconds until each of those that are there and one more has a further token.
    #[inline]
    pub(super) fn next_token_s(&self) -> f64 {
        self.next.token_s
    }

    /// Seconds until a prompt of so many tokens that is put there now is computed, and by how much of it the sequences that
    /// are there stand longer than they would without it.
    #[inline]
    pub(super) fn prompt_s(&self, tokens: u32, now: Timestamp) -> (f64, f64) {
        let (steps, next) = (&*self.steps, &self.next);
        let is_busy = next.prompts_until > now;
        let before = if is_busy { next.prompt_tokens } else { 0 };
        let total = before.saturating_add(tokens.max(1));
        // Most fit into one step: they need no quotient.
        let (full_s, rest) = if total <= next.room {
            (0.0, total)
        } else {
            let full = (total - 1) / next.room;
            (
                f64::from(full) * steps.prompt_s(steps.max_step_tokens),
                total - full * next.room,
            )
        };
        let last_s = steps.prompt_s(rest + next.others);
        if is_busy {
            let begin = now.since(next.prompts_since).as_secs_f64();
            let ready_s = (full_s + last_s - begin).max(0.0);
            let known_s = (next.prompts_until - now).as_secs_f64();
            (ready_s.max(known_s), (ready_s - known_s).max(0.0))
        } else {
            // It waits for the step that runs.
            let rest_s = if next.others > 0 { 0.5 * next.step_s } else { 0.0 };
            (rest_s + full_s + last_s, (full_s + last_s - next.step_s).max(0.0))
        }
    }

    /// It measured step times: `gain` says how far they count.
    pub(super) fn on_reported(&mut self, state: &InstanceState, follows: bool) {
        if follows && state.running > 0 {
            let measured = state.token_s / self.steps.token_s(state.running as usize);
            // What it measured may be of another load: bounded.
            self.pace += PACE_GAIN * (measured.clamp(0.5, 4.0) - self.pace);
        }
        if state.waiting == 0 && state.running as usize >= self.sequences.len() {
            self.next.prompts_until = Timestamp::ZERO;
        }
        self.on_change();
    }

    /// A sequence is put there, with so many tokens to compute first.
    pub(super) fn add(&mut self, booked: Booked, tokens: u32, now: Timestamp) {
        let (ready_s, _) = self.prompt_s(tokens, now);
        let next = &mut self.next;
        if next.prompts_until <= now {
            (next.prompts_since, next.prompt_tokens) = (now, 0);
        }
        next.prompt_tokens = next.prompt_tokens.saturating_add(tokens);
        let ready = now + Span::from_secs_f64(ready_s);
        next.prompts_until = ready;
        self.sequences.push(Booked { at: ready, ..booked });
        self.on_change();
    }

    /// A sequence has gone on.
    pub(super) fn on_progressed(&mut self, id: SequenceId, generated: u32, now: Timestamp) {
        if let Some(booked) = self.sequences.iter_mut().find(|booked| booked.id == id) {
            (booked.generated, booked.at) = (generated, now);
            self.found = None;
        }
    }

    /// A sequence left.
    pub(super) fn remove(&mut self, id: SequenceId) {
        if let Some(index) = self.sequences.iter().position(|booked| booked.id == id) {
            self.sequences.swap_remove(index);
            self.on_change();
        }
    }

    /// Whether a sequence which is there certainly loses no chance that counts to one more, by so many tokens a second before and
    /// after that, which it stands for `stall_s` first: it is in time all the same, or never was. Most are, and need neither quotients
    /// nor look-ups.
    #[inline]
    pub(super) fn surely_loses_nothing(
        beliefs: &Beliefs,
        booked: &Booked,
        ([before, after], stall_s): ([f64; 2], f64),
        now: Timestamp,
    ) -> bool {
        let since_s = now.since(booked.at).as_secs_f64();
        let left_s = seconds_until(booked.deadline, booked.at.max(now));
        let generated = f64::from(booked.generated);
        // Tokens are whole numbers: up to one less.
        let has = generated + since_s * before;
        let further = (left_s - stall_s) * after;
        beliefs.surely_ends(booked.belief, has + 1.0, has - 1.0 + further)
            || beliefs.surely_ends_soon(booked.belief, has - 1.0, further)
            || beliefs.surely_goes_on(booked.belief, has + left_s * before + 1.0)
    }

    /// Chances that a sequence which is there has its last token in time: at the first of two times of a token, which it has had until
    /// now, and at the second after it has stood for `stall_s`.
    #[inline]
    pub(super) fn chances(
        beliefs: &Beliefs,
        booked: &Booked,
        ([before, after], stall_s): ([f64; 2], f64),
        now: Timestamp,
    ) -> [f64; 2] {
        let left_s = seconds_until(booked.deadline, booked.at.max(now));
        let since = now.since(booked.at).as_secs_f64() / before;
        let generated = booked.generated + since as u32;
        beliefs.chances(
            booked.belief,
            generated,
            [left_s / before, (left_s - stall_s) / after],
        )
    }

    /// Chance that a sequence which is there has its last token in time, at `token_s`.
    pub(super) fn chance(beliefs: &Beliefs, booked: &Booked, token_s: f64, now: Timestamp) -> f64 {
        let [chance, _] = Self::chances(beliefs, booked, ([token_s; 2], 0.0), now);
        chance
    }
}

/// Seconds until a deadline; negative after it.
pub(super) fn seconds_until(deadline: Timestamp, now: Timestamp) -> f64 {
    if deadline >= now {
        (deadline - now).as_secs_f64()
    } else {
        -(now - deadline).as_secs_f64()
    }
}
