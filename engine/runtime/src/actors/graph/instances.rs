//! The sequences of a module whose model generates, with their tokens, and what its instances are asked for next.

use std::collections::BTreeMap;

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_flow::{SequenceCommand, SequenceSpec, SequenceState};
use weir_types::{RequestId, SequenceId, SlotId, Span};

use super::overdue::SlotWatch;
use crate::instance::{Handover, InstanceCommand, InstanceJob, MAX_JOBS};

/// Time of a step as the watch of its slot expects it: a long one, since its prompts are of any length.
const EXPECTED_STEP: Span = Span::from_secs(3);

/// A sequence that has not ended.
pub(super) struct LiveSequence {
    pub(super) request: RequestId,
    pub(super) item: u32,
    /// `None` between two slots.
    pub(super) slot: Option<SlotId>,
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
    watch: SlotWatch,
}

/// The instances of a module, and the sequences on them.
#[derive(Default)]
pub(super) struct Instances {
    pub(super) jobs: BTreeMap<SlotId, Sender<InstanceJob>>,
    /// Commands that each instance carries out before its next step; bounded by the number of sequences in
    /// flight.
    pub(super) commands: BTreeMap<SlotId, Vec<InstanceCommand>>,
    pub(super) sequences: BTreeMap<SequenceId, LiveSequence>,
    /// Caches of those that are between two slots.
    caches: BTreeMap<SequenceId, Receiver<SequenceState>>,
    /// The steps that run.
    in_step: BTreeMap<SlotId, RunningStep>,
    /// The number of the next step.
    next_step: u64,
}

impl Instances {
    pub(super) fn new(jobs: BTreeMap<SlotId, Sender<InstanceJob>>) -> Self {
        Self {
            jobs,
            ..Self::default()
        }
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
            watch: SlotWatch::new(slot, EXPECTED_STEP),
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

    /// The steps that run, as they are watched.
    pub(super) fn watches(&mut self) -> impl Iterator<Item = &mut SlotWatch> {
        self.in_step.values_mut().map(|step| &mut step.watch)
    }

    /// An instance is lost, with all that it held.
    pub(super) fn lose(&mut self, slot: SlotId) {
        self.in_step.remove(&slot);
        self.commands.remove(&slot);
        let here = self.sequences.values_mut().filter(|live| live.slot == Some(slot));
        here.for_each(|live| live.slot = None);
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

    /// A sequence is put onto a slot, with the cache of so many of its tokens where that was kept.
    pub(super) fn put(
        &mut self,
        slot: SlotId,
        (sequence, cached): (SequenceId, u32),
        (spec, generated): (SequenceSpec, Vec<u32>),
    ) {
        let from = self.caches.remove(&sequence);
        if cached == 0 {
            let put = SequenceCommand::Put {
                sequence,
                spec,
                generated,
            };
            return self.command(slot, put);
        }
        let handover = Handover {
            sequence,
            spec,
            generated,
            cached,
            // Of one that could not be kept nothing comes.
            from: from.unwrap_or_else(|| bounded(1).1),
        };
        let commands = self.commands.entry(slot).or_default();
        commands.push(InstanceCommand::TakeOver(handover));
    }

    /// A sequence leaves a slot, for another one or for good.
    pub(super) fn remove(&mut self, slot: SlotId, sequence: SequenceId) {
        self.leave(sequence);
        self.command(slot, SequenceCommand::Remove(sequence));
    }

    /// A sequence leaves a slot for another one, with its cache. No step waits for that; the place of the next step stays free.
    pub(super) fn hand_over(&mut self, slot: SlotId, sequence: SequenceId) {
        let (to, cache) = bounded(1);
        let jobs = self.jobs.get(&slot).filter(|jobs| jobs.len() + 1 < MAX_JOBS);
        let sent = jobs.map(|jobs| jobs.try_send(InstanceJob::HandOver { sequence, to }));
        match sent {
            Some(Ok(())) => {
                self.leave(sequence);
                self.caches.insert(sequence, cache);
            }
            _ => self.remove(slot, sequence),
        }
    }

    fn leave(&mut self, sequence: SequenceId) {
        self.caches.remove(&sequence);
        if let Some(live) = self.sequences.get_mut(&sequence) {
            live.slot = None;
        }
    }

    /// A request has ended: what its sequences give yet is of no use.
    pub(super) fn end_request(&mut self, request: RequestId) {
        self.sequences.retain(|_, sequence| sequence.request != request);
        self.caches
            .retain(|sequence, _| self.sequences.contains_key(sequence));
    }

    /// The session of a slot is lost: its sequences are put into the next one as far as they have come.
    pub(super) fn restore(&mut self, slot: SlotId) {
        let here = self
            .sequences
            .iter()
            .filter(|(_, sequence)| sequence.slot == Some(slot));
        let puts = here.map(|(id, sequence)| SequenceCommand::Put {
            sequence: *id,
            spec: sequence.spec.clone(),
            generated: sequence.generated.clone(),
        });
        let puts = puts.map(InstanceCommand::Sequence).collect();
        self.commands.insert(slot, puts);
    }
}
