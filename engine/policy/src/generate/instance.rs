//! One instance as a state machine.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{DropReason, InstanceId, SequenceId, Span, Timestamp};

use super::api::{InstanceEffect, InstanceEvent, InstanceSpec, InstanceSpecError, Step, StepPart};
use super::blocks::BlockPool;
use super::monitor::{InstanceState, Monitor};
use super::prefixes::{Prefix, PrefixCache, PrefixUse};
use super::sequence::{Leaving, Sequence};
use crate::measure::correction::Correction;

/// Counters of an instance since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InstanceStats {
    /// Number of steps that ran.
    pub steps: u64,
    /// Number of tokens in all steps.
    pub tokens: u64,
    /// Number of generated tokens.
    pub generated: u64,
    /// Number of sequences that joined; a sequence that joins again after an eviction counts again.
    pub joined: u64,
    /// Number of sequences that ended with their last token.
    pub finished: u64,
    /// Number of times that a sequence was evicted because blocks ran out, or lost its cache.
    pub evicted: u64,
    /// Number of sequences that arrived from another instance with tokens.
    pub moved_in: u64,
    /// Number of sequences that moved to another instance.
    pub moved_out: u64,
    /// Number of sequences that were dropped because the cache can never hold them.
    pub dropped: u64,
    /// Number of prompt tokens that were taken from the cache of prefixes.
    #[serde(default)]
    pub reused: u64,
    /// Number of sequences on the instance at times when it was lost.
    #[serde(default)]
    pub lost: u64,
    /// Total time of steps.
    pub busy: Span,
}

/// The step that runs.
#[derive(Debug, Clone, Copy)]
struct Running {
    tokens: u32,
    prompt_tokens: u32,
    has_prompt: bool,
}

/// One instance with its sequences.
#[derive(Debug, Clone)]
pub struct Instance {
    spec: InstanceSpec,
    pool: BlockPool,
    /// Running sequences, in the order in which they joined.
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    step: Option<Running>,
    prefixes: PrefixCache,
    correction: Correction,
    monitor: Monitor,
    stats: InstanceStats,
}

impl Instance {
    /// Creates an idle instance.
    ///
    /// # Errors
    /// [`InstanceSpecError`] if its limits do not fit together.
    pub fn new(spec: InstanceSpec) -> Result<Self, InstanceSpecError> {
        spec.check()?;
        Ok(Self {
            pool: BlockPool::new(spec.blocks),
            running: Vec::new(),
            waiting: VecDeque::new(),
            step: None,
            prefixes: PrefixCache::new(spec.prefix_tokens),
            correction: Correction::default(),
            monitor: Monitor::new(&spec.steps, spec.max_step_tokens),
            stats: InstanceStats::default(),
            spec,
        })
    }

    /// Removes all sequences and measurements, because the instance was lost; its counters are kept.
    pub fn lose(&mut self) {
        let lost = self.running.len() + self.waiting.len();
        self.stats.lost += lost as u64;
        self.pool = BlockPool::new(self.spec.blocks);
        self.running.clear();
        self.waiting.clear();
        self.step = None;
        self.prefixes.clear();
        self.correction = Correction::default();
        self.monitor = Monitor::new(&self.spec.steps, self.spec.max_step_tokens);
    }

    /// Number of tokens of a prompt's beginning that are in the cache of prefixes.
    #[must_use]
    pub fn cached_tokens(&self, prefix: Option<Prefix>) -> u32 {
        self.prefixes.tokens_of(prefix)
    }

    /// Step times and limits of the instance.
    #[must_use]
    pub fn spec(&self) -> &InstanceSpec {
        &self.spec
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> InstanceStats {
        self.stats
    }

    /// State that is reported to the router.
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

    /// Sequences on the instance, running ones first, with the number of tokens that each has generated.
    pub fn sequences(&self) -> impl Iterator<Item = (SequenceId, u32)> {
        let all = self.running.iter().chain(&self.waiting);
        all.map(|sequence| (sequence.id, sequence.generated))
    }

    /// Number of prompt tokens that would be computed before a sequence that arrives now.
    #[must_use]
    pub fn pending_prompt_tokens(&self) -> u32 {
        let running = self.running.iter();
        let running = running.map(|sequence| {
            sequence
                .target
                .saturating_sub(sequence.computed + sequence.in_step)
        });
        let waiting = self.waiting.iter();
        let waiting = waiting.map(|sequence| {
            let cached = sequence.cached.max(self.prefixes.tokens_of(sequence.prefix));
            sequence.tokens().saturating_sub(cached)
        });
        running.chain(waiting).fold(0, u32::saturating_add)
    }

    /// Takes in one event, then forms a step if none runs.
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
                due,
                prefix,
            } => self.on_arrived(
                (sequence, prefix),
                [prompt, generated, cached],
                [now, due],
                effects,
            ),
            InstanceEvent::Stepped { took, finished } => self.on_stepped(took, &finished, now, effects),
            InstanceEvent::Cancelled { sequence } => self.leave(sequence, Leaving::Cancelled, now, effects),
            InstanceEvent::Evicted { sequence } => self.leave(sequence, Leaving::Evicted, now, effects),
            InstanceEvent::Reassigned { sequence, to } => {
                self.leave(sequence, Leaving::Moved(to), now, effects);
            }
            InstanceEvent::PrefixesLost => self.prefixes.clear(),
        }
    }

    fn on_arrived(
        &mut self,
        (id, prefix): (SequenceId, Option<Prefix>),
        [prompt, generated, cached]: [u32; 3],
        [now, due]: [Timestamp; 2],
        effects: &mut Vec<InstanceEffect>,
    ) {
        let is_new = !self.sequences().any(|(other, _)| other == id);
        if !invariant!(is_new, Kind::Sequences, "sequence {} arrives twice", id.0) {
            return;
        }
        self.stats.moved_in += u64::from(generated > 0);
        // An empty prompt counts as one token, with which generation begins.
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
            due,
            prefix: prefix.filter(|prefix| prefix.tokens <= prompt),
        };
        if self.is_too_long(prompt.saturating_add(generated)) {
            self.drop_too_long(id, effects);
        } else {
            let before = self.waiting.iter().rposition(|other| other.due <= due);
            self.waiting
                .insert(before.map_or(0, |before| before + 1), sequence);
        }
    }

    /// Whether a sequence of so many tokens could not continue even if it ran alone.
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
                // The driver may have left a cancelled sequence out of the step.
                if sequence.leaving != Some(Leaving::Cancelled)
                    && let Some(prefix) = sequence.completed_prefix(sequence.in_step)
                {
                    self.prefixes.insert(prefix);
                }
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
        // From the last to the first: evicted sequences are put in front of those that joined after them.
        for index in (0..self.running.len()).rev() {
            self.running[index].in_step = 0;
            if let Some(leaving) = self.running[index].leaving.take() {
                let sequence = self.running.remove(index);
                self.remove(sequence, leaving, now, effects);
            } else if self.running[index].tokens() >= self.spec.max_sequence_tokens {
                // The sequence has reached the maximum length: there is no room for another token.
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

    /// Removes a sequence, at once or at the end of the step that uses it. An unknown one has ended before.
    fn leave(&mut self, id: SequenceId, leaving: Leaving, now: Timestamp, effects: &mut Vec<InstanceEffect>) {
        if let Some(index) = self.waiting.iter().position(|sequence| sequence.id == id) {
            // A waiting sequence has no cache to lose.
            if leaving != Leaving::Evicted
                && let Some(sequence) = self.waiting.remove(index)
            {
                self.remove(sequence, leaving, now, effects);
            }
        } else if let Some(index) = self.running.iter().position(|sequence| sequence.id == id) {
            if self.running[index].in_step > 0 {
                // A cancellation has priority over a move, and a move over an eviction.
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

    /// Removes a sequence that no step uses from the running or waiting ones.
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

    /// Puts a sequence at the front of the queue, without its cache.
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
            reused: Vec::new(),
            kept: Vec::new(),
        };
        let mut has_prompt = false;
        let evicted = self.take_running(&mut step, &mut has_prompt, now, effects);
        // After an eviction none joins: it would take the blocks that running sequences lacked.
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

    /// Adds running sequences to the step, in the order in which they joined; returns whether one was
    /// evicted.
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
                // The latest one is not in the step yet, since earlier ones come first.
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

    /// Adds waiting sequences in order, while tokens and blocks are left.
    fn take_waiting(&mut self, step: &mut Step, has_prompt: &mut bool, now: Timestamp) {
        while step.tokens < self.spec.max_step_tokens
            && self.running.len() < self.spec.max_sequences as usize
            && let Some(first) = self.waiting.front()
        {
            // The last token is computed here even if all are cached: that gives the next token.
            let target = first.tokens();
            let held = self.prefixes.tokens_of(first.prefix);
            let most = target - u32::from(self.spec.prompt_gives_token);
            let computed = first.cached.max(held).min(most);
            let reused = if held > first.cached { computed } else { 0 };
            let pending = (target - computed).max(1);
            let tokens = pending.min(self.spec.max_step_tokens - step.tokens);
            // Enough blocks for all its tokens, so that it is not evicted before it generates.
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
            if reused > 0 {
                self.reuse_prefix(&sequence, reused, step);
            }
            self.running.push(sequence);
            self.add_part(self.running.len() - 1, tokens, blocks, step, has_prompt);
        }
    }

    /// A sequence that joins takes so many tokens of its prompt from the cache of prefixes.
    fn reuse_prefix(&mut self, sequence: &Sequence, tokens: u32, step: &mut Step) {
        self.stats.reused += u64::from(tokens);
        step.reused.push(PrefixUse {
            sequence: sequence.id,
            tokens,
        });
        if let Some(prefix) = sequence.prefix {
            self.prefixes.touch(prefix);
        }
    }

    /// Adds a sequence to the step, with so many new blocks.
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
        if let Some(prefix) = sequence.completed_prefix(tokens)
            && self.prefixes.wants(prefix)
        {
            step.kept.push(PrefixUse {
                sequence: sequence.id,
                tokens: prefix.tokens,
            });
        }
    }
}
