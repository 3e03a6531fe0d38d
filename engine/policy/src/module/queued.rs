//! A module whose model takes turns with others on its slots (QLM): its sequences wait in queues beside the
//! module, which start them and take them back. The module runs the steps and reports what becomes of them.
//!
//! ```text
//! Prompted ──> Arrived ──> [queues] ──SequenceStarted──> Place ──> [instance] ──> Finished
//!                              ^────── Returned <── SequenceRecalled ────┘
//! ```

use weir_types::{DropReason, InstanceId, SequenceId, SlotId, Timestamp};

use super::Module;
use super::api::{ModuleEffect, QueueFact};
use super::instances::{Generating, Generative, QueuedSequences};
use crate::generate::{Instance, InstanceEvent, Step};

pub(super) const fn queue(fact: QueueFact) -> ModuleEffect {
    ModuleEffect::Queue { fact }
}

/// Number of sequences and of tokens that an instance can take beside those that it has.
fn room(instance: &Instance) -> [u32; 2] {
    let (state, spec) = (instance.state(), instance.spec());
    // A sequence that waits on the instance goes first.
    if state.waiting > 0 {
        return [0, 0];
    }
    let blocks = state.free_blocks.saturating_sub(spec.reserve_blocks);
    [
        spec.max_sequences.saturating_sub(state.running),
        blocks.saturating_mul(spec.block_tokens),
    ]
}

impl Generative {
    /// Whether queues of several models start the module's sequences, instead of its router.
    pub(super) fn is_queued(&self) -> bool {
        self.queued.is_some()
    }

    /// The room of an instance may have changed; while a step of it runs, that is reported after the step.
    pub(super) fn note_decision(&mut self, instance: InstanceId) {
        if self.steps[instance.index()].is_none()
            && let Some(queued) = &mut self.queued
        {
            queued.changed.insert(instance);
        }
    }

    /// No step of an instance runs any more: the queues learn of sequences that were dropped during it.
    pub(super) fn report_left(&mut self, instance: InstanceId, effects: &mut Vec<ModuleEffect>) {
        let Some(queued) = &mut self.queued else { return };
        queued.leaving.retain(|&(at, sequence)| {
            if at == instance {
                effects.push(queue(QueueFact::Cancelled { sequence }));
            }
            at != instance
        });
    }

    /// A sequence has its last token.
    pub(super) fn report_finished(
        &mut self,
        sequence: SequenceId,
        generated: u32,
        effects: &mut Vec<ModuleEffect>,
    ) {
        if let Some(queued) = &mut self.queued {
            queued.kept.remove(&sequence);
            effects.push(queue(QueueFact::Finished { sequence, generated }));
        }
    }

    /// A recalled sequence has left its instance, where so many of its tokens are cached.
    pub(super) fn return_to_queue(
        &mut self,
        slot: SlotId,
        (sequence, cached): (SequenceId, u32),
        effects: &mut Vec<ModuleEffect>,
    ) {
        let (Some(queued), Some(known)) = (&mut self.queued, self.sequences.get_mut(&sequence)) else {
            return;
        };
        known.is_placed = false;
        let cached = if queued.kept.remove(&sequence) { cached } else { 0 };
        let generated = known.generated;
        effects.push(ModuleEffect::Remove {
            slot,
            sequence,
            keeps_cache: cached > 0,
        });
        effects.push(queue(QueueFact::Returned {
            sequence,
            generated,
            cached,
        }));
    }

    /// A sequence was dropped: the queues learn of it once no step has it. Returns whether it is on its
    /// instance.
    pub(super) fn report_cancelled(
        &mut self,
        (id, sequence): (SequenceId, &Generating),
        effects: &mut Vec<ModuleEffect>,
    ) -> bool {
        let Some(queued) = &mut self.queued else {
            return true;
        };
        queued.kept.remove(&id);
        let step = self.steps[sequence.instance.index()].as_ref();
        let has_it = |step: &Step| step.parts.iter().any(|part| part.sequence == id);
        if sequence.is_placed && step.is_some_and(has_it) {
            queued.leaving.push((sequence.instance, id));
        } else {
            effects.push(queue(QueueFact::Cancelled { sequence: id }));
        }
        sequence.is_placed
    }
}

impl Module {
    /// From now on, queues of several models start the sequences of a module whose model generates.
    pub fn use_queues(&mut self) {
        if let Some(generative) = &mut self.generative {
            generative.queued = Some(QueuedSequences::default());
        }
    }

    /// The queues start a sequence on a slot, with the cache of so many of its tokens.
    pub(super) fn on_sequence_started(
        &self,
        generative: &mut Generative,
        (slot, cached): (SlotId, u32),
        id: SequenceId,
        effects: &mut Vec<ModuleEffect>,
    ) {
        // The instance may have been lost since the queues decided.
        let instance = self.instance_of(slot);
        let Some(instance) = instance.filter(|instance| generative.is_up[instance.index()]) else {
            return;
        };
        match generative.sequences.get(&id) {
            Some(sequence) if !sequence.is_placed => {
                self.place(generative, id, (instance, cached), effects);
            }
            // The request has ended since: the queues learn that its place is free.
            _ => generative.note_decision(instance),
        }
    }

    /// The queues take a sequence back from a slot, with or without its cache.
    pub(super) fn on_sequence_recalled(
        &self,
        generative: &mut Generative,
        (slot, keeps_cache): (SlotId, bool),
        id: SequenceId,
    ) {
        let Some(instance) = self.instance_of(slot) else {
            return;
        };
        let sequence = generative.sequences.get(&id);
        if sequence.is_some_and(|sequence| sequence.is_placed && sequence.instance == instance) {
            if let Some(queued) = generative.queued.as_mut().filter(|_| keeps_cache) {
                queued.kept.insert(id);
            }
            generative.events[instance.index()].push(InstanceEvent::Reassigned {
                sequence: id,
                to: instance,
            });
        }
    }

    pub(super) fn on_sequence_refused(
        &mut self,
        generative: &mut Generative,
        id: SequenceId,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        self.drop_sequence(generative, id, (DropReason::Failed, None), now, effects);
        Self::end_answered(generative, id, now, effects);
    }

    /// An instance is lost: its sequences wait again, and continue from their tokens.
    pub(super) fn lose_queued(
        generative: &mut Generative,
        (slot, instance): (SlotId, InstanceId),
        effects: &mut Vec<ModuleEffect>,
    ) {
        for (id, sequence) in &mut generative.sequences {
            if sequence.is_placed && sequence.instance == instance {
                sequence.is_placed = false;
                if let Some(queued) = &mut generative.queued {
                    queued.kept.remove(id);
                }
            }
        }
        generative.report_left(instance, effects);
        effects.push(queue(QueueFact::Down { slot }));
    }

    /// A sequence was dropped whose request may have been answered before: it occupies no place any more.
    pub(super) fn end_answered(
        generative: &mut Generative,
        id: SequenceId,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        if generative.is_queued()
            && let Some(sequence) = generative.end_sequence(id, false, now)
        {
            generative.report_cancelled((id, &sequence), effects);
        }
    }

    /// Reports the room of instances to the queues.
    pub(super) fn report_rooms(&self, generative: &mut Generative, effects: &mut Vec<ModuleEffect>) {
        let Some(queued) = &mut generative.queued else {
            return;
        };
        for instance in std::mem::take(&mut queued.changed) {
            if generative.is_up[instance.index()] {
                let [sequences, tokens] = room(&generative.instances[instance.index()]);
                effects.push(queue(QueueFact::Room {
                    slot: self.slot_of(instance),
                    sequences,
                    tokens,
                }));
            }
        }
    }
}
