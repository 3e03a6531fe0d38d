//! Sequences of a module whose model generates: what its policy asks of instances is collected until the next step of each,
//! and the tokens that come back are kept with the sequences, so that one can go on elsewhere.

use std::sync::Arc;

use crossbeam_channel::TrySendError;
use weir_control::{Message, ModuleMessage};
use weir_flow::{Generated, GeneratedToken, SequenceEnd, SequenceStep};
use weir_policy::generate::Step;
use weir_policy::{BreakerEvent, ModuleEvent, SlotEvent};
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{ModuleId, RequestId, SequenceId, SlotId, Span};

use super::instances::LiveSequence;
use super::module_site::ModuleSite;
use super::site::{Shared, Site};
use crate::instance::{InstanceJob, StepFailure, StepJob, StepResult};
use crate::telemetry;
use crate::timeline::Lane;

impl Site {
    /// A step came back, well or not.
    pub(super) fn on_step_done(&mut self, done: StepResult) -> Vec<Message> {
        let messages = self.with(done.module, |site, shared| site.on_step_done(done, shared));
        messages.unwrap_or_default()
    }

    /// An instance that was gone is there again, and empty.
    pub(super) fn on_instance_back(&mut self, module: ModuleId, slot: SlotId) -> Vec<Message> {
        let message = self.with(module, |site, _| site.on_instance_back(slot));
        message.into_iter().collect()
    }
}

impl ModuleSite {
    /// Puts a sequence onto a slot: the item of a request that is here, with what it has generated, and with the cache of so
    /// many of its tokens.
    pub(super) fn place(
        &mut self,
        slot: SlotId,
        (sequence, cached): (SequenceId, u32),
        request: RequestId,
        item: u32,
    ) {
        let known = self.instances.sequences.get_mut(&sequence);
        let (spec, generated) = match known {
            Some(live) => {
                live.slot = Some(slot);
                (live.spec.clone(), live.generated.clone())
            }
            None => {
                let pending = self.pending.get(&request);
                let spec = pending.and_then(|pending| pending.sequences.get(item as usize));
                let Some(spec) = spec.cloned() else { return };
                let live = LiveSequence {
                    request,
                    item,
                    slot: Some(slot),
                    spec: spec.clone(),
                    generated: Vec::new(),
                    log_probability: 0.0,
                };
                self.instances.sequences.insert(sequence, live);
                (spec, Vec::new())
            }
        };
        self.instances.put(slot, (sequence, cached), (spec, generated));
    }

    /// Sends a step to its instance; gives its result where it cannot be sent.
    pub(super) fn run_step(&mut self, slot: SlotId, step: &Step) -> Option<StepResult> {
        let steps = step.parts.iter().map(|part| SequenceStep {
            sequence: part.sequence,
            tokens: part.tokens,
        });
        let number = self
            .instances
            .begin_step(slot, [step.parts.len() as u32, step.tokens]);
        let job = InstanceJob::Step(StepJob {
            module: self.setup.id,
            number,
            commands: self.instances.commands.remove(&slot).unwrap_or_default(),
            steps: steps.collect(),
            reused: step.reused.clone(),
            kept: step.kept.clone(),
        });
        // There is a place for it: an instance runs one step at a time.
        let sent = self.instances.jobs.get(&slot).map(|jobs| jobs.try_send(job));
        let is_sent = matches!(sent, Some(Ok(())));
        invariant!(
            is_sent || matches!(sent, Some(Err(TrySendError::Disconnected(_)))),
            Kind::Slots,
            "a step is sent to slot {}, which runs one or is of another module",
            slot.0
        );
        (!is_sent).then(|| StepResult {
            module: self.setup.id,
            slot,
            number,
            took: Span::ZERO,
            result: Err(StepFailure {
                reason: "the thread of the slot is gone".to_owned(),
                is_gone: true,
            }),
        })
    }

    fn on_step_done(&mut self, done: StepResult, shared: &mut Shared) -> Vec<Message> {
        let StepResult {
            slot,
            number,
            took,
            result,
            ..
        } = done;
        let module = self.setup.id;
        let mut messages = Vec::new();
        let is_gone = result.as_ref().is_err_and(|failure| failure.is_gone);
        if !is_gone && shared.overdue.contains(slot) && self.on_overdue_returned(slot, shared) {
            messages.push(Message::Slots(SlotEvent::Up { slot }));
        }
        telemetry::record_batch(&self.setup.name, took, &crate::batch::StepTimes::default());
        let now = shared.clock.now();
        let time = (now.saturating_sub(took), now);
        let current = self.instances.end_step(slot, number);
        let sequences = current.map_or(0, |step| step.sequences);
        self.count_on_slot(slot, current.map_or(0, |step| u64::from(step.tokens)), took);
        let timeline = &self.setup.timeline;
        timeline.record(Lane::Slot(slot), &self.shown_name, time, sequences);
        let failed = result.is_err();
        if current.is_none() {
            self.stats.on_batch_done(took, failed);
            // The slot was taken out of use meanwhile: its sequences have gone on elsewhere from the tokens before.
            return messages;
        }
        if let Err(StepFailure {
            reason,
            is_gone: true,
        }) = &result
        {
            tracing::warn!(module = %self.setup.name, slot = slot.0, "an instance is gone: {reason}");
            self.instances.lose(slot);
            self.stats.on_batch_done(took, failed);
            messages.push(Message::fact(module, ModuleEvent::SlotDown { slot }));
            return messages;
        }
        let (finished, predicted) = match result {
            Ok(tokens) => {
                let finished = self.store_tokens(slot, &tokens);
                (finished, self.predict_again(slot, &tokens))
            }
            Err(StepFailure { reason, .. }) => {
                self.instances.restore(slot);
                shared.losses.on_batch_lost(&self.setup.name, slot, &reason);
                messages.push(Message::Breaker(BreakerEvent::BatchLost { slot }));
                (Vec::new(), Vec::new())
            }
        };
        let stepped = ModuleMessage::Stepped {
            slot,
            took,
            finished,
            failed,
            predicted,
        };
        messages.push(Message::Module(module, stepped));
        messages
    }

    fn on_instance_back(&mut self, slot: SlotId) -> Message {
        tracing::info!(module = %self.setup.name, slot = slot.0, "the instance is back");
        // Commands that were meant for it before it was gone.
        self.instances.lose(slot);
        Message::fact(self.setup.id, ModuleEvent::SlotUp { slot })
    }

    /// Predicts the lengths of sequences again that go on with new tokens: how many each still generates.
    fn predict_again(&self, slot: SlotId, tokens: &[GeneratedToken]) -> Vec<(SequenceId, u32)> {
        let Some(lengths) = &self.setup.lengths else {
            return Vec::new();
        };
        let each = tokens.iter().filter_map(|token| {
            let live = self.instances.sequences.get(&token.sequence);
            let live = live.filter(|live| live.slot == Some(slot))?;
            let remaining = lengths.predict_again(&live.spec, &live.generated)?;
            Some((token.sequence, remaining))
        });
        each.collect()
    }

    /// Keeps tokens with their sequences; gives those that have their last.
    fn store_tokens(&mut self, slot: SlotId, tokens: &[GeneratedToken]) -> Vec<SequenceId> {
        let mut finished = Vec::new();
        for token in tokens {
            let Some(live) = self.instances.sequences.get_mut(&token.sequence) else {
                // It was dropped meanwhile.
                continue;
            };
            if live.slot != Some(slot) {
                continue;
            }
            live.generated.push(token.token);
            live.log_probability += f64::from(token.probability.max(f32::MIN_POSITIVE)).ln();
            // A session that goes on beyond the most tokens, which it should not, is not waited for.
            let is_full = live.generated.len() >= live.spec.max_tokens as usize;
            let cut = is_full.then_some(SequenceEnd::MaxTokens);
            let Some(end) = token.end.or(cut) else { continue };
            finished.push(token.sequence);
            let Some(live) = self.instances.sequences.remove(&token.sequence) else {
                continue;
            };
            self.instances.remove(slot, token.sequence);
            let count = live.generated.len().max(1) as f64;
            let generated = Generated {
                score: (live.log_probability / count).exp() as f32,
                tokens: live.generated,
                end,
            };
            let operator = Arc::clone(&self.setup.operator);
            let inference = operator.inference(&generated);
            if let Some(pending) = self.pending.get_mut(&live.request)
                && let Some(place) = pending.inferences.get_mut(live.item as usize)
            {
                *place = Some(inference);
            }
        }
        finished
    }
}
