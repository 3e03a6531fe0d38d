//! The state machine of one instance.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{DropReason, InstanceId, SequenceId, Span, Timestamp};

use super::api::{InstanceEffect, InstanceEvent, InstanceSpec, InstanceSpecError, Step, StepPart};
use super::blocks::BlockPool;
use super::monitor::{InstanceState, Monitor};
use super::sequence::{Leaving, Sequence};
use crate::measure::correction::Correction;

/// What an instance did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InstanceStats {
    /// Steps that ran.
    pub steps: u64,
    /// Tokens of all steps.
    pub tokens: u64,
    /// Tokens that were generated.
    pub generated: u64,
    /// Sequences that joined, again after an eviction included.
    pub joined: u64,
    /// Sequences that ended with their last token.
    pub finished: u64,
    /// Sequences that went back for want of blocks, or lost their cache.
    pub evicted: u64,
    /// Sequences that came from another instance with tokens.
    pub moved_in: u64,
    /// Sequences that went to another.
    pub moved_out: u64,
    /// Sequences that the cache could never hold.
    pub dropped: u64,
    /// Sequences that were on it when it was lost.
    #[serde(default)]
    pub lost: u64,
    /// Time in steps.
    pub busy: Span,
}

/// The step that runs.
#[derive(Debug, Clone, Copy)]
struct Running {
    tokens: u32,
    prompt_tokens: u32,
    has_prompt: bool,
}

/// One instance.
#[derive(Debug, Clone)]
pub struct Instance {
    spec: InstanceSpec,
    pool: BlockPool,
    /// In the order in which they joined.
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    step: Option<Running>,
    correction: Correction,
    monitor: Monitor,
    stats: InstanceStats,
}

impl Instance {
    /// An idle instance.
    ///
    /// # Errors
    /// [`InstanceSpecError`] where its bounds do not fit each other.
    pub fn new(spec: InstanceSpec) -> Result<Self, InstanceSpecError> {
        spec.check()?;
        Ok(Self {
            pool: BlockPool::new(spec.blocks),
            running: Vec::new(),
            waiting: VecDeque::new(),
            step: None,
            correction: Correction::default(),
            monitor: Monitor::new(&spec.steps, spec.max_step_tokens),
            stats: InstanceStats::default(),
            spec,
        })
    }

    /// It is lost with all that is on it, and empty when it is back; what it did stays counted.
    pub fn lose(&mut self) {
        let lost = self.running.len() + self.waiting.len();
        self.stats.lost += lost as u64;
        self.pool = BlockPool::new(self.spec.blocks);
        self.running.clear();
        self.waiting.clear();
        self.step = None;
        self.correction = Correction::default();
        self.monitor = Monitor::new(&self.spec.steps, self.spec.max_step_tokens);
    }

    /// Its step times and bounds.
    #[must_use]
    pub fn spec(&self) -> &InstanceSpec {
        &self.spec
    }

    /// What it did so far.
    #[must_use]
    pub fn stats(&self) -> InstanceStats {
        self.stats
    }

    /// What it says of itself.
    #[must_use]
    pub fn state(&self) -> InstanceState {
        InstanceState {
            running: self.running.len() as u32,
            waiting: self.waiting.len() as u32,
            free_blocks: self.pool.free(),
            wait_s: self.monitor.wait_s,
            prompt_token_s: self.monitor.prompt_token_s,
            token_s: self.monitor.token_s,
            correction: self.correction.ratio(),
        }
    }

    /// Sequences on it, running ones first, with the tokens that each has generated.
    pub fn sequences(&self) -> impl Iterator<Item = (SequenceId, u32)> {
        let all = self.running.iter().chain(&self.waiting);
        all.map(|sequence| (sequence.id, sequence.generated))
    }

    /// Tokens of prompts that are to be computed before a sequence which arrives now.
    #[must_use]
    pub fn pending_prompt_tokens(&self) -> u32 {
        let running = self.running.iter();
        let running = running.map(|sequence| {
            sequence
                .target
                .saturating_sub(sequence.computed + sequence.in_step)
        });
        let waiting = self.waiting.iter();
        let waiting = waiting.map(|sequence| sequence.tokens().saturating_sub(sequence.cached));
        running.chain(waiting).fold(0, u32::saturating_add)
    }

    /// Takes in what happened, then forms a step where none runs.
    pub fn step(
        &mut self,
        events: impl IntoIterator<Item = InstanceEvent>,
        now: Timestamp,
        effects: &mut Vec<InstanceEffect>,
    ) {
        for event in events {
            self.on_event(event, now, effects);
        }
        if self.step.is_none()
            && let Some(step) = self.form_step(now, effects)
        {
            effects.push(InstanceEffect::Step(step));
        }
    }

    fn on_event(&mut self, event: InstanceEvent, now: Timestamp, effects: &mut Vec<InstanceEffect>) {
        match event {
            InstanceEvent::Arrived {
                sequence,
                prompt,
                generated,
                cached,
            } => self.on_arrived(sequence, [prompt, generated, cached], now, effects),
            InstanceEvent::Stepped { took, finished } => self.on_stepped(took, &finished, now, effects),
            InstanceEvent::Cancelled { sequence } => self.leave(sequence, Leaving::Cancelled, now, effects),
            InstanceEvent::Evicted { sequence } => self.leave(sequence, Leaving::Evicted, now, effects),
            InstanceEvent::Reassigned { sequence, to } => {
                self.leave(sequence, Leaving::Moved(to), now, effects);
            }
        }
    }

    fn on_arrived(
        &mut self,
        id: SequenceId,
        [prompt, generated, cached]: [u32; 3],
        now: Timestamp,
        effects: &mut Vec<InstanceEffect>,
    ) {
        let is_new = !self.sequences().any(|(other, _)| other == id);
        if !invariant!(is_new, Kind::Sequences, "sequence {} arrives twice", id.0) {
            return;
        }
        self.stats.moved_in += u64::from(generated > 0);
        // What is there of an empty prompt is one token that begins it.
        let prompt = prompt.max(1);
        let sequence = Sequence {
            id,
            prompt,
            generated,
            cached: cached.min(prompt.saturating_add(generated)),
            computed: 0,
            target: 0,
            in_step: 0,
            blocks: Vec::new(),
            leaving: None,
            queued_at: now,
        };
        if self.is_too_long(prompt.saturating_add(generated)) {
            self.drop_too_long(id, effects);
        } else {
            self.waiting.push_back(sequence);
        }
    }

    /// Whether a sequence of so many tokens could not go on even if it were alone.
    fn is_too_long(&self, tokens: u32) -> bool {
        let blocks = self.spec.blocks.saturating_sub(self.spec.reserve_blocks);
        tokens >= self.spec.max_sequence_tokens || self.spec.blocks_of(tokens + 1) > blocks
    }

    fn on_stepped(
        &mut self,
        took: Span,
        finished: &[SequenceId],
        now: Timestamp,
        effects: &mut Vec<InstanceEffect>,
    ) {
        let ran = self.step.take();
        let Some(ran) = ran else {
            invariant!(false, Kind::Sequences, "a step is done that did not run");
            return;
        };
        let expected = self.spec.steps.duration(ran.tokens, ran.has_prompt);
        self.correction.on_measured(expected, took);
        let mut generated = 0;
        for sequence in &mut self.running {
            if sequence.in_step > 0 {
                let gives = sequence.gives_token(sequence.in_step, &self.spec);
                sequence.computed += sequence.in_step;
                sequence.generated += u32::from(gives);
                generated += u32::from(gives);
            }
        }
        self.monitor.on_step(took, ran.prompt_tokens, generated);
        self.stats.steps += 1;
        self.stats.tokens += u64::from(ran.tokens);
        self.stats.generated += u64::from(generated);
        self.stats.busy += took;
        self.remove_finished(finished);
        // From the last: those that go back stand in front of those that joined after them.
        for index in (0..self.running.len()).rev() {
            self.running[index].in_step = 0;
            if let Some(leaving) = self.running[index].leaving.take() {
                let sequence = self.running.remove(index);
                self.remove(sequence, leaving, now, effects);
            } else if self.running[index].tokens() >= self.spec.max_sequence_tokens {
                // It should have ended: there is no place for another token.
                let mut sequence = self.running.remove(index);
                self.pool.release(sequence.id, &mut sequence.blocks);
                self.drop_too_long(sequence.id, effects);
            }
        }
    }

    fn drop_too_long(&mut self, sequence: SequenceId, effects: &mut Vec<InstanceEffect>) {
        self.stats.dropped += 1;
        effects.push(InstanceEffect::Drop {
            sequence,
            reason: DropReason::MemoryFull,
        });
    }

    fn remove_finished(&mut self, finished: &[SequenceId]) {
        for id in finished {
            let found = (self.running.iter()).position(|sequence| sequence.id == *id && sequence.in_step > 0);
            if invariant!(
                found.is_some(),
                Kind::Sequences,
                "sequence {} ends in a step without it",
                id.0
            ) && let Some(index) = found
            {
                let mut sequence = self.running.remove(index);
                self.pool.release(sequence.id, &mut sequence.blocks);
                self.stats.finished += 1;
            }
        }
    }

    /// A sequence is to leave: at once, or with the end of the step that has it. One that is not here has ended before.
    fn leave(&mut self, id: SequenceId, leaving: Leaving, now: Timestamp, effects: &mut Vec<InstanceEffect>) {
        if let Some(index) = self.waiting.iter().position(|sequence| sequence.id == id) {
            // It has no cache to lose.
            if leaving != Leaving::Evicted
                && let Some(sequence) = self.waiting.remove(index)
            {
                self.remove(sequence, leaving, now, effects);
            }
        } else if let Some(index) = self.running.iter().position(|sequence| sequence.id == id) {
            if self.running[index].in_step > 0 {
                // What ends it goes first, then what takes it elsewhere.
                let before = self.running[index].leaving;
                self.running[index].leaving = match (before, leaving) {
                    (Some(Leaving::Cancelled), _) => before,
                    (Some(Leaving::Moved(_)), Leaving::Evicted) => before,
                    _ => Some(leaving),
                };
            } else {
                let sequence = self.running.remove(index);
                self.remove(sequence, leaving, now, effects);
            }
        }
    }

    /// A sequence that no step has any more leaves those that run or wait.
    fn remove(
        &mut self,
        mut sequence: Sequence,
        leaving: Leaving,
        now: Timestamp,
        effects: &mut Vec<InstanceEffect>,
    ) {
        self.pool.release(sequence.id, &mut sequence.blocks);
        match leaving {
            Leaving::Cancelled => {}
            Leaving::Evicted => {
                effects.push(InstanceEffect::Evict {
                    sequence: sequence.id,
                });
                self.go_back(sequence, now, effects);
            }
            Leaving::Moved(to) => {
                self.stats.moved_out += 1;
                effects.push(Self::movement(&sequence, to));
            }
        }
    }

    fn movement(sequence: &Sequence, to: InstanceId) -> InstanceEffect {
        InstanceEffect::Move {
            sequence: sequence.id,
            to,
            generated: sequence.generated,
            cached: sequence.computed.max(sequence.cached),
        }
    }

    /// To the front of those that wait, without its cache.
    fn go_back(&mut self, mut sequence: Sequence, now: Timestamp, effects: &mut Vec<InstanceEffect>) {
        self.stats.evicted += 1;
        sequence.reset();
        sequence.queued_at = now;
        if self.is_too_long(sequence.tokens()) {
            self.drop_too_long(sequence.id, effects);
        } else {
            self.waiting.push_front(sequence);
        }
    }

    fn form_step(&mut self, now: Timestamp, effects: &mut Vec<InstanceEffect>) -> Option<Step> {
        let mut step = Step {
            parts: Vec::with_capacity(self.running.len() + self.waiting.len().min(4)),
            tokens: 0,
            prompt_tokens: 0,
            expected: Span::ZERO,
        };
        let mut has_prompt = false;
        let evicted = self.take_running(&mut step, &mut has_prompt, now, effects);
        // Who joined now would take the blocks that those lacked who run.
        if !evicted {
            self.take_waiting(&mut step, &mut has_prompt, now);
        }
        if step.tokens == 0 {
            return None;
        }
        invariant!(
            step.tokens <= self.spec.max_step_tokens,
            Kind::Sequences,
            "a step has {} tokens, {} at most",
            step.tokens,
            self.spec.max_step_tokens
        );
        let duration = self.spec.steps.duration(step.tokens, has_prompt);
        step.expected = self.correction.expected_duration(duration);
        self.step = Some(Running {
            tokens: step.tokens,
            prompt_tokens: step.prompt_tokens,
            has_prompt,
        });
        Some(step)
    }

    /// Running sequences, in the order in which they joined; says whether one had to go back.
    fn take_running(
        &mut self,
        step: &mut Step,
        has_prompt: &mut bool,
        now: Timestamp,
        effects: &mut Vec<InstanceEffect>,
    ) -> bool {
        let mut evicted = false;
        let mut index = 0;
        while index < self.running.len() && step.tokens < self.spec.max_step_tokens {
            let pending = self.running[index].pending();
            let tokens = pending.min(self.spec.max_step_tokens - step.tokens);
            let blocks = self.spec.blocks_of(self.running[index].computed + tokens);
            let missing = blocks.saturating_sub(self.running[index].blocks.len() as u32);
            while self.pool.free() < missing && self.running.len() > index {
                // The latest that joined is not in the step yet: those before it come first.
                if let Some(mut latest) = self.running.pop() {
                    self.pool.release(latest.id, &mut latest.blocks);
                    effects.push(InstanceEffect::Evict { sequence: latest.id });
                    self.go_back(latest, now, effects);
                    evicted = true;
                }
            }
            if index >= self.running.len() {
                break;
            }
            self.add_part(index, tokens, missing, step, has_prompt);
            index += 1;
        }
        evicted
    }

    /// Waiting sequences in order, while there are tokens and blocks.
    fn take_waiting(&mut self, step: &mut Step, has_prompt: &mut bool, now: Timestamp) {
        while step.tokens < self.spec.max_step_tokens
            && self.running.len() < self.spec.max_sequences as usize
            && let Some(first) = self.waiting.front()
        {
            // The last token is computed here even if all are cached: what it gives is what comes next.
            let target = first.tokens();
            let computed = first.cached.min(target - u32::from(self.spec.prompt_gives_token));
            let pending = (target - computed).max(1);
            let tokens = pending.min(self.spec.max_step_tokens - step.tokens);
            // Blocks for all that it has, so that it need not go back before it generates.
            let blocks = self.spec.blocks_of(target.max(computed + tokens));
            if self.pool.free() < blocks + self.spec.reserve_blocks {
                break;
            }
            let Some(mut sequence) = self.waiting.pop_front() else {
                break;
            };
            (sequence.target, sequence.computed) = (target, computed);
            self.monitor.on_joined(now.since(sequence.queued_at));
            self.stats.joined += 1;
            self.running.push(sequence);
            self.add_part(self.running.len() - 1, tokens, blocks, step, has_prompt);
        }
    }

    /// A sequence goes into the step, with so many further blocks.
    fn add_part(&mut self, index: usize, tokens: u32, blocks: u32, step: &mut Step, has_prompt: &mut bool) {
        let sequence = &mut self.running[index];
        let has_blocks = self.pool.take(blocks, sequence.id, &mut sequence.blocks);
        invariant!(
            has_blocks,
            Kind::CacheBlocks,
            "sequence {} lacks {blocks} blocks",
            sequence.id.0
        );
        let is_prompt = sequence.is_prompt(&self.spec);
        *has_prompt |= is_prompt;
        step.tokens += tokens;
        step.prompt_tokens += if is_prompt { tokens } else { 0 };
        step.parts.push(StepPart {
            sequence: sequence.id,
            tokens,
            gives_token: sequence.gives_token(tokens, &self.spec),
        });
        sequence.in_step = tokens;
    }
}
