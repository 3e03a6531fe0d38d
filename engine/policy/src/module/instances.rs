//! State of a module whose model generates tokens: requests, their sequences, and the instances that run
//! them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use weir_types::{InstanceId, RequestId, SequenceId, Span, StreamId, Timestamp};

use crate::generate::length::{Lengths, MeanLength};
use crate::generate::{
    Expectation, FinishEstimate, Instance, InstanceEvent, InstanceSpec, InstanceStats, LengthSource, Prefix,
    SequenceStats, Step,
};
use crate::route::{RouteEvent, Router, RouterSpec};

/// Specification of token generation in a module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateSpec {
    /// Instances, in the order of the module's slots.
    pub instances: Vec<InstanceSpec>,
    /// Router that assigns sequences to instances.
    pub router: RouterSpec,
    /// Maximum number of tokens that a sequence generates.
    pub max_tokens: u32,
    /// Part of the output that answers a request.
    #[serde(default)]
    pub answer: Answer,
    /// Source of expected sequence lengths for requests that bring no prediction.
    #[serde(default)]
    pub length: LengthSource,
}

/// Part of the output that answers a request; its latency objective ends there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// All tokens of all sequences of the request.
    #[default]
    Whole,
    /// The first token of each sequence; the other tokens follow without a deadline.
    FirstToken,
}

/// The prompts of a request, as numbers of tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prompts<'a> {
    pub(super) tokens: &'a [u32],
    /// Tokens that each sequence is predicted to generate; empty if there are no predictions.
    pub(super) predicted: &'a [u32],
    /// Beginning that each prompt shares with earlier ones; empty if none does.
    pub(super) prefixes: &'a [Option<Prefix>],
}

impl Prompts<'_> {
    pub(super) fn prefix(&self, item: usize) -> Option<Prefix> {
        self.prefixes.get(item).copied().flatten()
    }

    /// Number of tokens that an instance computes of all prompts.
    pub(super) fn uncached_tokens(&self, instance: &Instance) -> u32 {
        let each = self.tokens.iter().enumerate();
        each.map(|(item, tokens)| tokens.saturating_sub(instance.cached_tokens(self.prefix(item))))
            .sum()
    }
}

/// A request with sequences that have not ended.
#[derive(Debug, Clone)]
pub(super) struct Prompted {
    pub(super) stream: StreamId,
    pub(super) sent_at: Timestamp,
    pub(super) arrived_at: Timestamp,
    pub(super) slo: Span,
    pub(super) droppable: bool,
    pub(super) open: Vec<SequenceId>,
}

impl Prompted {
    pub(super) fn new(
        (stream, sent_at, arrived_at): (StreamId, Timestamp, Timestamp),
        slo: Span,
        droppable: bool,
    ) -> Self {
        Self {
            stream,
            sent_at,
            arrived_at,
            slo,
            droppable,
            open: Vec::new(),
        }
    }
}

/// A sequence that has not ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Generating {
    pub(super) request: RequestId,
    pub(super) stream: StreamId,
    pub(super) item: u32,
    pub(super) prompt: u32,
    /// Beginning that its prompt shares with others.
    pub(super) prefix: Option<Prefix>,
    pub(super) generated: u32,
    /// Tokens that the sequence is predicted to generate, by the latest prediction; `None`: estimated from
    /// earlier sequences.
    pub(super) predicted: Option<u32>,
    pub(super) instance: InstanceId,
    /// Whether the sequence was placed on that instance.
    pub(super) is_placed: bool,
    /// Whether a step has included the sequence.
    pub(super) has_run: bool,
    /// Estimates made when the sequence arrived, to be compared with its end.
    pub(super) expectation: Expectation,
}

/// A sequence on a link between two instances.
#[derive(Debug, Clone, Copy)]
pub(super) struct InTransit {
    /// Time of arrival at `to`.
    pub(super) at: Timestamp,
    pub(super) to: InstanceId,
    /// Number of tokens whose cache arrives with the sequence.
    pub(super) cached: u32,
}

/// Facts that a module owes the queues that start its sequences.
#[derive(Debug, Clone, Default)]
pub(super) struct QueuedSequences {
    /// Instances that decided while no step ran, so that their room may have changed.
    pub(super) changed: BTreeSet<InstanceId>,
    /// Sequences that were dropped while a step of their instance had them.
    pub(super) leaving: Vec<(InstanceId, SequenceId)>,
    /// Recalled sequences whose caches are kept once they leave their instance.
    pub(super) kept: BTreeSet<SequenceId>,
}

/// Requests, sequences and instances of a module that generates.
#[derive(Debug, Clone)]
pub(super) struct Generative {
    pub(super) max_tokens: u32,
    pub(super) answer: Answer,
    pub(super) router: Router,
    pub(super) instances: Vec<Instance>,
    /// By instance: events that the instance has not processed yet.
    pub(super) events: Vec<Vec<InstanceEvent>>,
    /// By instance: the running step.
    pub(super) steps: Vec<Option<Step>>,
    /// By instance: whether it can be used.
    pub(super) is_up: Vec<bool>,
    pub(super) requests: BTreeMap<RequestId, Prompted>,
    pub(super) sequences: BTreeMap<SequenceId, Generating>,
    /// Sequences that are on a link between two instances.
    pub(super) in_transit: BTreeMap<SequenceId, InTransit>,
    pub(super) next: u64,
    pub(super) counted: SequenceStats,
    pub(super) lengths: Lengths,
    /// Mean number of tokens of prompts.
    pub(super) prompts: MeanLength,
    /// Time of the instances' last report to the router.
    pub(super) reported_at: Timestamp,
    /// Set if queues of several models start the sequences, instead of the router.
    pub(super) queued: Option<QueuedSequences>,
}

impl Generative {
    /// Returns `None` if an instance or the router is invalid; the maker of the spec checks that before.
    pub(super) fn new(spec: &GenerateSpec) -> Option<Self> {
        let made = spec.instances.iter().map(|spec| Instance::new(spec.clone()).ok());
        let instances: Option<Vec<Instance>> = made.collect();
        let instances = instances?;
        Some(Self {
            max_tokens: spec.max_tokens,
            answer: spec.answer,
            router: Router::new(spec.router, spec.instances.clone()).ok()?,
            events: vec![Vec::new(); instances.len()],
            steps: vec![None; instances.len()],
            is_up: vec![true; instances.len()],
            instances,
            requests: BTreeMap::new(),
            sequences: BTreeMap::new(),
            in_transit: BTreeMap::new(),
            next: 0,
            counted: SequenceStats::default(),
            lengths: Lengths::new(spec.length, spec.max_tokens),
            prompts: MeanLength::new(2),
            reported_at: Timestamp::ZERO,
            queued: None,
        })
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn stats(&self) -> Vec<InstanceStats> {
        self.instances.iter().map(Instance::stats).collect()
    }

    /// Number of tokens that a sequence is still expected to generate.
    pub(super) fn remaining(&self, sequence: SequenceId) -> u32 {
        let sequence = self.sequences.get(&sequence);
        let generated = sequence.map_or(0, |sequence| sequence.generated);
        let predicted = sequence.and_then(|sequence| sequence.predicted);
        self.expected(predicted, generated)
    }

    /// Tokens still expected from a sequence that has `generated` of the `predicted` ones; at least 1 with a
    /// prediction.
    pub(super) fn expected(&self, predicted: Option<u32>, generated: u32) -> u32 {
        match predicted {
            Some(predicted) => predicted.min(self.max_tokens).saturating_sub(generated).max(1),
            None => self.lengths.remaining(generated),
        }
    }

    /// A sequence is predicted to have so many tokens in all, or the maximum; returns that for the router.
    pub(super) fn set_predicted(&mut self, sequence: SequenceId, total: u32) -> RouteEvent {
        let total = total.min(self.max_tokens);
        if let Some(known) = self.sequences.get_mut(&sequence) {
            known.predicted = Some(total);
        }
        RouteEvent::Predicted { sequence, total }
    }

    /// Number of tokens, out of `tokens`, that must be generated before the request is answered.
    pub(super) fn awaited(&self, tokens: u32) -> u32 {
        match self.answer {
            Answer::Whole => tokens,
            Answer::FirstToken => 1,
        }
    }

    /// Wait and duration that a new sequence, which generates `tokens`, would have on the best instance until
    /// its request is answered. `prompt` returns the number of prompt tokens that an instance computes.
    pub(super) fn best_estimate(&self, prompt: impl Fn(&Instance) -> u32, tokens: u32) -> (Span, Span) {
        let awaited = self.awaited(tokens);
        let up = self
            .instances
            .iter()
            .zip(&self.is_up)
            .filter(|(_, is_up)| **is_up);
        let estimates = up.map(|(instance, _)| {
            instance.finish_estimate(prompt(instance), awaited, |sequence| self.remaining(sequence))
        });
        let best = estimates.min_by_key(FinishEstimate::total);
        best.map_or((Span::ZERO, Span::ZERO), |best| (best.wait, best.duration))
    }

    /// Expected duration of a sequence of mean length on the best instance.
    pub(super) fn usual_duration(&self) -> Span {
        let prompt = self.prompts.remaining(0, u32::MAX);
        self.best_estimate(|_| prompt, self.expected(None, 0)).1
    }

    /// Whether a sequence is still placed on a usable instance.
    pub(super) fn is_leaving(&self, sequence: SequenceId) -> bool {
        let known = self.sequences.get(&sequence);
        known.is_some_and(|known| known.is_placed && self.is_up[known.instance.index()])
    }

    /// Changes the destination of a sequence that is on a link; returns whether it is on one.
    pub(super) fn redirect(&mut self, sequence: SequenceId, to: InstanceId) -> bool {
        let in_transit = self.in_transit.get_mut(&sequence);
        in_transit.map(|in_transit| in_transit.to = to).is_some()
    }

    /// Sequences on an instance that the router has assigned to another one, with that one.
    pub(super) fn left_behind(&self, instance: InstanceId) -> Vec<(SequenceId, InstanceId)> {
        let there = self
            .sequences
            .iter()
            .filter(|(id, sequence)| sequence.instance == instance && !self.in_transit.contains_key(id));
        let going = there.filter_map(|(id, _)| Some((*id, self.router.instance_of(*id)?)));
        going.filter(|(_, to)| *to != instance).collect()
    }

    /// Marks an instance as lost, or as usable again; either way everything on it is gone.
    pub(super) fn set_up(&mut self, instance: InstanceId, is_up: bool) {
        let place = instance.index();
        if let Some(instance) = self.instances.get_mut(place) {
            instance.lose();
            self.events[place].clear();
            self.steps[place] = None;
            self.is_up[place] = is_up;
        }
    }

    /// Removes a sequence that has its last token, or was dropped before.
    pub(super) fn end_sequence(
        &mut self,
        id: SequenceId,
        is_finished: bool,
        now: Timestamp,
    ) -> Option<Generating> {
        let sequence = self.sequences.remove(&id)?;
        let generated = sequence.generated;
        self.in_transit.remove(&id);
        let mut effects = Vec::new();
        let ended = match is_finished {
            true => RouteEvent::Ended {
                sequence: id,
                generated,
            },
            false => RouteEvent::Dropped {
                sequence: id,
                generated,
            },
        };
        self.router.step(ended, now, &mut effects);
        Some(sequence)
    }
}
