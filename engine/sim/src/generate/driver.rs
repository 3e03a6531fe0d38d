//! One instance in virtual time: what its state machine asks for, carried out.

use std::collections::BTreeMap;

use weir_policy::generate::{Instance, InstanceEffect, InstanceEvent, InstanceSpec, InstanceSpecError, Step};
use weir_types::{DropReason, InstanceId, SequenceId, StepProfile, Timestamp};

/// What became of a sequence on an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceNews {
    /// It has generated so many tokens, one more than before.
    Generated {
        /// Which.
        sequence: SequenceId,
        /// On all instances together.
        tokens: u32,
    },
    /// It generated its last token.
    Finished(SequenceId),
    /// The instance cannot hold it.
    Dropped(SequenceId, DropReason),
    /// It left for another instance.
    Moved {
        /// Which.
        sequence: SequenceId,
        /// Where to.
        to: InstanceId,
        /// Tokens that it has generated.
        generated: u32,
        /// Tokens whose cache could come with it.
        cached: u32,
    },
}

/// A sequence to be put on an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Which.
    pub sequence: SequenceId,
    /// Tokens of its prompt.
    pub prompt: u32,
    /// Tokens that it has generated elsewhere.
    pub generated: u32,
    /// Tokens whose cache is here.
    pub cached: u32,
    /// Tokens that it generates in all.
    pub length: u32,
}

/// Tokens of one sequence: so far, and in all.
#[derive(Debug, Clone, Copy)]
struct Tokens {
    generated: u32,
    length: u32,
}

/// An instance, the step that it runs, and how long its sequences are.
#[derive(Debug, Clone)]
pub struct InstanceDriver {
    instance: Instance,
    /// How long steps truly take.
    steps: StepProfile,
    /// Since the instance was last asked.
    events: Vec<InstanceEvent>,
    running: Option<(Step, Timestamp, Timestamp)>,
    sequences: BTreeMap<SequenceId, Tokens>,
}

impl InstanceDriver {
    /// An idle instance whose steps take what its profile says.
    ///
    /// # Errors
    /// [`InstanceSpecError`] where its bounds do not fit each other.
    pub fn new(spec: InstanceSpec) -> Result<Self, InstanceSpecError> {
        let steps = spec.steps.clone();
        Self::with_steps(spec, steps)
    }

    /// An idle instance whose steps take something else than its profile says.
    ///
    /// # Errors
    /// [`InstanceSpecError`] where its bounds do not fit each other.
    pub fn with_steps(spec: InstanceSpec, steps: StepProfile) -> Result<Self, InstanceSpecError> {
        Ok(Self {
            instance: Instance::new(spec)?,
            steps,
            events: Vec::new(),
            running: None,
            sequences: BTreeMap::new(),
        })
    }

    /// The state machine.
    #[must_use]
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// When the step that runs is done.
    #[must_use]
    pub fn step_end(&self) -> Option<Timestamp> {
        self.running.as_ref().map(|(_, _, end)| *end)
    }

    /// A sequence arrives.
    pub fn place(&mut self, placed: Placed) {
        let tokens = Tokens {
            generated: placed.generated,
            length: placed.length.max(1),
        };
        self.sequences.insert(placed.sequence, tokens);
        self.events.push(InstanceEvent::Arrived {
            sequence: placed.sequence,
            prompt: placed.prompt,
            generated: placed.generated,
            cached: placed.cached,
        });
    }

    /// A sequence is to go on elsewhere.
    pub fn reassign(&mut self, sequence: SequenceId, to: InstanceId) {
        self.events.push(InstanceEvent::Reassigned { sequence, to });
    }

    /// A sequence is not wanted any more. It is forgotten even where the step that runs still has it.
    pub fn cancel(&mut self, sequence: SequenceId) {
        self.sequences.remove(&sequence);
        self.events.push(InstanceEvent::Cancelled { sequence });
    }

    /// The step that runs is done, where one is due at `now`.
    pub fn finish_step(&mut self, now: Timestamp, news: &mut Vec<SequenceNews>) {
        if self.step_end().is_none_or(|end| end > now) {
            return;
        }
        let Some((step, began, end)) = self.running.take() else {
            return;
        };
        let mut finished = Vec::new();
        for part in step.parts.iter().filter(|part| part.gives_token) {
            let Some(tokens) = self.sequences.get_mut(&part.sequence) else {
                continue;
            };
            tokens.generated += 1;
            news.push(SequenceNews::Generated {
                sequence: part.sequence,
                tokens: tokens.generated,
            });
            if tokens.generated >= tokens.length {
                self.sequences.remove(&part.sequence);
                finished.push(part.sequence);
                news.push(SequenceNews::Finished(part.sequence));
            }
        }
        // First of all: those that came since wait for what it left.
        let stepped = InstanceEvent::Stepped {
            took: end - began,
            finished,
        };
        self.events.insert(0, stepped);
    }

    /// Asks the instance what to do with what happened since.
    pub fn decide(&mut self, now: Timestamp, news: &mut Vec<SequenceNews>) {
        let mut effects = Vec::new();
        self.instance.step(self.events.drain(..), now, &mut effects);
        for effect in effects {
            match effect {
                InstanceEffect::Step(step) => {
                    let took = self.steps.duration(step.tokens, step.prompt_tokens > 0);
                    self.running = Some((step, now, now + took));
                }
                InstanceEffect::Evict { .. } => {}
                InstanceEffect::Drop { sequence, reason } => {
                    if self.sequences.remove(&sequence).is_some() {
                        news.push(SequenceNews::Dropped(sequence, reason));
                    }
                }
                InstanceEffect::Move {
                    sequence,
                    to,
                    generated,
                    cached,
                } => {
                    if self.sequences.remove(&sequence).is_some() {
                        news.push(SequenceNews::Moved {
                            sequence,
                            to,
                            generated,
                            cached,
                        });
                    }
                }
            }
        }
    }
}
