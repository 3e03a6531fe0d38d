//! Modules with generative models in a world: lengths of sequences, and the results of steps.

use weir_control::{Entry, Message, ModuleMessage, RequestInfo};
use weir_policy::generate::{Step, emulated_prediction, seed_after};
use weir_policy::{GOLDEN_GAMMA, ModuleEvent};
use weir_types::{ModuleId, RequestId, SequenceId, SlotId, Span, Timestamp};

use super::build::generating;
use super::cluster_run::actual_span;
use super::sequences::Progress;
use super::{Event, Site};
use crate::spec::Tokens;

/// Salts that make the draws for different quantities independent of each other.
const PROMPT: u64 = 0x7072_6f6d;
const OUTPUT: u64 = 0x6f75_7470;
const PREDICTED: u64 = 0x7072_6564;

impl Site<'_> {
    fn token_seed(&self, what: u64, module: ModuleId, (request, item): (RequestId, u32)) -> u64 {
        let of = (request.0 << 16) ^ (u64::from(item) << 8) ^ u64::from(module.0);
        (self.spec.seed ^ what).wrapping_mul(GOLDEN_GAMMA) ^ of
    }

    /// Prompts that a request brings to a generating module; `None` if the module does not generate.
    pub(super) fn prompts(&self, module: ModuleId, request: &RequestInfo, items: u8) -> Option<Entry> {
        let generate = generating(&self.spec.modules[module.index()])?;
        let request = request.id;
        let draw = |tokens: &Tokens, what: u64| -> Vec<u32> {
            let items = 0..u32::from(items);
            items
                .map(|item| tokens.of(request.index(), self.token_seed(what, module, (request, item))))
                .collect()
        };
        let predicted = |error: f64| -> Vec<u32> {
            let off = |(item, length): (u32, u32)| {
                emulated_prediction(length, self.token_seed(PREDICTED, module, (request, item)), error)
            };
            (0..).zip(draw(&generate.output, OUTPUT)).map(off).collect()
        };
        let prompts = draw(&generate.prompt, PROMPT);
        Some(Entry::Prompts {
            prefixes: match generate.prefix {
                Some(prefix) => vec![Some(prefix); prompts.len()],
                None => Vec::new(),
            },
            prompts,
            predicted: match generate.length_error {
                Some(error) => predicted(error),
                None => Vec::new(),
            },
        })
    }

    /// A sequence is put somewhere, for the first time or again.
    pub(super) fn on_placed(
        &mut self,
        module: ModuleId,
        sequence: SequenceId,
        request: RequestId,
        item: u32,
    ) {
        let Some(generate) = generating(&self.spec.modules[module.index()]) else {
            return;
        };
        let length = generate
            .output
            .of(request.index(), self.token_seed(OUTPUT, module, (request, item)));
        let length = length.min(generate.spec.max_tokens);
        let new = Progress { generated: 0, length };
        self.generated[module.index()]
            .sequences
            .entry(sequence)
            .or_insert(new);
    }

    pub(super) fn run_step(&mut self, module: ModuleId, slot: SlotId, step: Step) {
        let Some(generate) = generating(&self.spec.modules[module.index()]) else {
            return;
        };
        let Some(instance) = generate.spec.instances.get(slot.index()) else {
            return;
        };
        let profiled = instance.steps.duration(step.tokens, step.prompt_tokens > 0);
        let took = actual_span(profiled, self.spec.noise, &mut self.random);
        let end = self.now + took + self.spec.handover;
        self.generated[module.index()].steps.insert(slot, (step, end));
        self.event_queue.push(end, Event::Stepped(module, slot, took));
    }

    /// An instance is lost with the step that it runs, or is back.
    pub(super) fn on_instance_failure(&mut self, module: ModuleId, slot: SlotId, begins: bool) -> Message {
        let event = if begins {
            self.generated[module.index()].steps.remove(&slot);
            ModuleEvent::SlotDown { slot }
        } else {
            ModuleEvent::SlotUp { slot }
        };
        Message::fact(module, event)
    }

    /// A step is done, unless it was lost with its instance.
    pub(super) fn on_stepped(&mut self, module: ModuleId, slot: SlotId, took: Span) -> Option<ModuleMessage> {
        let generate = generating(&self.spec.modules[module.index()])?;
        let check_tokens = generate.spec.router.check_tokens.max(1);
        let seed = (self.spec.seed ^ PREDICTED).wrapping_mul(GOLDEN_GAMMA);
        let generated = &mut self.generated[module.index()];
        let is_due = |(_, end): &(Step, Timestamp)| *end == self.now;
        if !generated.steps.get(&slot).is_some_and(is_due) {
            return None;
        }
        let (step, _) = generated.steps.remove(&slot)?;
        let (mut finished, mut predicted) = (Vec::new(), Vec::new());
        for part in step.parts.iter().filter(|part| part.gives_token) {
            let Some(progress) = generated.sequences.get_mut(&part.sequence) else {
                continue;
            };
            progress.generated += 1;
            if progress.generated >= progress.length {
                generated.sequences.remove(&part.sequence);
                finished.push(part.sequence);
            } else if let Some(error) = generate.length_error
                && progress.generated.is_multiple_of(check_tokens)
            {
                // As a predictor beside the policy that reads the text so far.
                let seed = seed_after(seed ^ part.sequence.0, progress.generated);
                let remaining = progress.length - progress.generated;
                predicted.push((part.sequence, emulated_prediction(remaining, seed, error)));
            }
        }
        Some(ModuleMessage::Stepped {
            slot,
            took,
            finished,
            failed: false,
            predicted,
        })
    }
}
