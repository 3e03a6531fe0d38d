//! The sequences of a module whose model generates, with their tokens, and what its instances are asked for next.

use std::collections::BTreeMap;

use crossbeam_channel::Sender;
use weir_flow::{SequenceCommand, SequenceSpec};
use weir_types::{RequestId, SequenceId, SlotId};

use crate::instance::{InstanceCommand, InstanceJob};

/// A sequence that has not ended.
pub(super) struct LiveSequence {
    pub(super) request: RequestId,
    pub(super) item: u32,
    pub(super) slot: SlotId,
    pub(super) spec: SequenceSpec,
    pub(super) generated: Vec<u32>,
    /// Sum of the logarithms of its tokens' probabilities.
    pub(super) log_probability: f64,
}

/// A step that runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunningStep {
    number: u64,
    pub(super) sequences: u32,
    pub(super) tokens: u32,
}

/// The instances of a module, and the sequences on them.
#[derive(Default)]
pub(super) struct Instances {
    pub(super) jobs: BTreeMap<SlotId, Sender<InstanceJob>>,
    /// What goes before the next step of each: as much as there are sequences in flight.
    pub(super) commands: BTreeMap<SlotId, Vec<InstanceCommand>>,
    pub(super) sequences: BTreeMap<SequenceId, LiveSequence>,
    /// Most tokens of a sequence with its prompt.
    pub(super) max_sequence_tokens: u32,
    /// The steps that run.
    in_step: BTreeMap<SlotId, RunningStep>,
    /// The number of the next step.
    next_step: u64,
}

impl Instances {
    pub(super) fn new(jobs: BTreeMap<SlotId, Sender<InstanceJob>>, max_sequence_tokens: u32) -> Self {
        Self {
            jobs,
            max_sequence_tokens,
            ..Self::default()
        }
    }

    /// Whether the model does not generate.
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether no step runs.
    pub(super) fn is_idle(&self) -> bool {
        self.in_step.is_empty()
    }

    /// A step begins with so many sequences and tokens; gives its number.
    pub(super) fn begin_step(&mut self, slot: SlotId, [sequences, tokens]: [u32; 2]) -> u64 {
        let number = self.next_step;
        self.next_step += 1;
        let step = RunningStep {
            number,
            sequences,
            tokens,
        };
        self.in_step.insert(slot, step);
        number
    }

    /// A step has ended; gives it where its instance was not lost since.
    pub(super) fn end_step(&mut self, slot: SlotId, number: u64) -> Option<RunningStep> {
        let step = *self.in_step.get(&slot).filter(|step| step.number == number)?;
        self.in_step.remove(&slot);
        Some(step)
    }

    /// An instance is lost, with all that it held.
    pub(super) fn lose(&mut self, slot: SlotId) {
        self.in_step.remove(&slot);
        self.commands.remove(&slot);
    }

    /// A sequence that ends with the last token that there is a place for.
    pub(super) fn bounded(&self, spec: SequenceSpec) -> SequenceSpec {
        let places = self.max_sequence_tokens.saturating_sub(spec.prompt.len() as u32);
        SequenceSpec {
            max_tokens: spec.max_tokens.min(places).max(1),
            ..spec
        }
    }

    pub(super) fn command(&mut self, slot: SlotId, command: SequenceCommand) {
        let command = InstanceCommand::Sequence(command);
        self.commands.entry(slot).or_default().push(command);
    }

    /// The session of a slot is opened anew before its next step.
    pub(super) fn reopen(&mut self, slot: SlotId) {
        self.commands
            .entry(slot)
            .or_default()
            .push(InstanceCommand::Reopen);
    }

    pub(super) fn evict(&mut self, slot: SlotId, sequence: SequenceId) {
        self.command(slot, SequenceCommand::Evict(sequence));
    }

    /// A sequence leaves a slot, for another one or for good.
    pub(super) fn remove(&mut self, slot: SlotId, sequence: SequenceId) {
        self.command(slot, SequenceCommand::Remove(sequence));
    }

    /// A request has ended: what its sequences give yet is of no use.
    pub(super) fn end_request(&mut self, request: RequestId) {
        self.sequences.retain(|_, sequence| sequence.request != request);
    }

    /// The session of a slot is lost: its sequences are put into the next one as far as they have come.
    pub(super) fn restore(&mut self, slot: SlotId) {
        let here = self
            .sequences
            .iter()
            .filter(|(_, sequence)| sequence.slot == slot);
        let puts = here.map(|(id, sequence)| SequenceCommand::Put {
            sequence: *id,
            spec: sequence.spec.clone(),
            generated: sequence.generated.clone(),
        });
        let puts = puts.map(InstanceCommand::Sequence).collect();
        self.commands.insert(slot, puts);
    }
}
