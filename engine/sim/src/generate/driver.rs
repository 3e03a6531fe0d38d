//! Driver of an instance in virtual time, which executes what its state machine requests.

use std::collections::BTreeMap;

use weir_policy::generate::{Instance, InstanceEffect, InstanceEvent, InstanceSpec, InstanceSpecError, Step};
use weir_policy::route::Prefix;
use weir_types::{DropReason, InstanceId, SequenceId, StepProfile, Timestamp};

/// Change of a sequence on an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceNews {
    /// It generated one more token.
    Generated {
        /// Sequence that generated it.
        sequence: SequenceId,
        /// Number of its tokens, on all instances together.
        tokens: u32,
    },
    /// The sequence generated its last token.
    Finished(SequenceId),
    /// It was dropped, since the instance cannot hold it.
    Dropped(SequenceId, DropReason),
    /// It migrated to another instance.
    Moved {
        /// Sequence that migrated.
        sequence: SequenceId,
        /// Instance to which it migrated.
        to: InstanceId,
        /// Number of tokens that it has generated.
        generated: u32,
        /// Number of tokens whose cache could migrate with it.
        cached: u32,
    },
}

/// A sequence to be put on an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Sequence that is placed.
    pub sequence: SequenceId,
    /// Number of prompt tokens.
    pub prompt: u32,
    /// Number of tokens that it generated on other instances.
    pub generated: u32,
    /// Number of tokens whose cache moved with it to this instance.
    pub cached: u32,
    /// Number of tokens that it generates in total.
    pub length: u32,
    /// Time by which waiting sequences are ordered, as in [`InstanceEvent::Arrived`].
    pub due: Timestamp,
    /// Beginning that its prompt shares with others, which the instance may hold.
    pub prefix: Option<Prefix>,
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
    /// Actual step durations, which may differ from those that the instance expects.
    steps: StepProfile,
    /// Events since the last call of the instance.
    events: Vec<InstanceEvent>,
    running: Option<(Step, Timestamp, Timestamp)>,
    sequences: BTreeMap<SequenceId, Tokens>,
}

impl InstanceDriver {
    /// Creates an idle instance whose steps take the time of its profile.
    ///
    /// # Errors
    /// [`InstanceSpecError`] where its bounds do not fit each other.
    pub fn new(spec: InstanceSpec) -> Result<Self, InstanceSpecError> {
        let steps = spec.steps.clone();
        Self::with_steps(spec, steps)
    }

    /// Creates an idle instance whose steps take other times than its profile states.
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

    /// Time at which the running step ends; `None` if the instance is idle.
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
            due: placed.due,
            prefix: placed.prefix,
        });
    }

    /// Migrates a sequence to another instance.
    pub fn reassign(&mut self, sequence: SequenceId, to: InstanceId) {
        self.events.push(InstanceEvent::Reassigned { sequence, to });
    }

    /// Cancels a sequence. It is forgotten even if the running step still contains it.
    pub fn cancel(&mut self, sequence: SequenceId) {
        self.sequences.remove(&sequence);
        self.events.push(InstanceEvent::Cancelled { sequence });
    }

    /// Completes the running step, if it is due at `now`.
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
