//! What a module whose model generates knows: its requests, their sequences, and the instances that these are on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{InstanceId, RequestId, SequenceId, Span, StreamId, Timestamp};

use crate::generate::length::{Lengths, MeanLength};
use crate::generate::{
    Expectation, FinishEstimate, Instance, InstanceEvent, InstanceSpec, InstanceStats, LengthSource,
    SequenceStats, Step,
};
use crate::route::{RouteEvent, Router, RouterSpec};

/// How a module generates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateSpec {
    /// By slot of the module.
    pub instances: Vec<InstanceSpec>,
    /// Which instance a sequence goes to.
    pub router: RouterSpec,
    /// Most tokens that a sequence generates.
    pub max_tokens: u32,
    /// What a request is answered by.
    #[serde(default)]
    pub answer: Answer,
    /// How many tokens a sequence is expected to have, where no prediction comes with its request.
    #[serde(default)]
    pub length: LengthSource,
}

/// What a request is answered by, and its latency objective is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// All tokens of its sequences.
    #[default]
    Whole,
    /// The first token of each: the others follow, and nothing waits for them.
    FirstToken,
}

/// The prompts of a request, by their tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prompts<'a> {
    pub(super) tokens: &'a [u32],
    /// Tokens that each is predicted to generate; empty where nothing predicts them.
    pub(super) predicted: &'a [u32],
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
    pub(super) generated: u32,
    /// Tokens that it is predicted to generate; `None`: as others before it.
    pub(super) predicted: Option<u32>,
    pub(super) instance: InstanceId,
    /// Whether it was put there.
    pub(super) is_placed: bool,
    /// Whether a step had it.
    pub(super) has_run: bool,
    /// What was thought of it at first.
    pub(super) expectation: Expectation,
}

/// A sequence on a link between two instances.
#[derive(Debug, Clone, Copy)]
pub(super) struct InTransit {
    /// When it is there.
    pub(super) at: Timestamp,
    pub(super) to: InstanceId,
    /// Tokens whose cache comes with it.
    pub(super) cached: u32,
}

/// Requests, sequences and instances of a module that generates.
#[derive(Debug, Clone)]
pub(super) struct Generative {
    pub(super) max_tokens: u32,
    pub(super) answer: Answer,
    pub(super) router: Router,
    pub(super) instances: Vec<Instance>,
    /// By instance: what it was not asked about yet.
    pub(super) events: Vec<Vec<InstanceEvent>>,
    /// By instance: the step that runs.
    pub(super) steps: Vec<Option<Step>>,
    /// By instance: whether it is there.
    pub(super) is_up: Vec<bool>,
    pub(super) requests: BTreeMap<RequestId, Prompted>,
    pub(super) sequences: BTreeMap<SequenceId, Generating>,
    /// Those of them that are on a link between two instances.
    pub(super) in_transit: BTreeMap<SequenceId, InTransit>,
    pub(super) next: u64,
    pub(super) counted: SequenceStats,
    pub(super) lengths: Lengths,
    /// Tokens of prompts.
    pub(super) prompts: MeanLength,
    /// When instances reported to the router last.
    pub(super) reported_at: Timestamp,
}

impl Generative {
    /// `None` where instances cannot be, which whoever makes the spec checks.
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
        })
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn stats(&self) -> Vec<InstanceStats> {
        self.instances.iter().map(Instance::stats).collect()
    }

    /// Tokens that a sequence is expected to generate yet.
    pub(super) fn remaining(&self, sequence: SequenceId) -> u32 {
        let sequence = self.sequences.get(&sequence);
        let generated = sequence.map_or(0, |sequence| sequence.generated);
        let predicted = sequence.and_then(|sequence| sequence.predicted);
        self.expected(predicted, generated)
    }

    /// The same of one that is predicted to generate so many, and has generated some of them.
    pub(super) fn expected(&self, predicted: Option<u32>, generated: u32) -> u32 {
        match predicted {
            Some(predicted) => predicted.min(self.max_tokens).saturating_sub(generated).max(1),
            None => self.lengths.remaining(generated),
        }
    }

    /// Tokens of those that a request waits for.
    pub(super) fn awaited(&self, tokens: u32) -> u32 {
        match self.answer {
            Answer::Whole => tokens,
            Answer::FirstToken => 1,
        }
    }

    /// What a sequence with so many tokens to compute, and so many to generate, would meet on the best instance until its
    /// request is answered: wait and duration.
    pub(super) fn best_estimate(&self, prompt: u32, tokens: u32) -> (Span, Span) {
        let awaited = self.awaited(tokens);
        let up = self
            .instances
            .iter()
            .zip(&self.is_up)
            .filter(|(_, is_up)| **is_up);
        let estimates = up.map(|(instance, _)| {
            instance.finish_estimate(prompt, awaited, |sequence| self.remaining(sequence))
        });
        let best = estimates.min_by_key(FinishEstimate::total);
        best.map_or((Span::ZERO, Span::ZERO), |best| (best.wait, best.duration))
    }

    /// As those before were, on the best instance.
    pub(super) fn usual_duration(&self) -> Span {
        let prompt = self.prompts.remaining(0, u32::MAX);
        self.best_estimate(prompt, self.expected(None, 0)).1
    }

    /// Whether a sequence is on an instance that it is about to leave.
    pub(super) fn is_leaving(&self, sequence: SequenceId) -> bool {
        let known = self.sequences.get(&sequence);
        known.is_some_and(|known| known.is_placed && self.is_up[known.instance.index()])
    }

    /// One that is on a link goes elsewhere from there; says whether it is on one.
    pub(super) fn redirect(&mut self, sequence: SequenceId, to: InstanceId) -> bool {
        let in_transit = self.in_transit.get_mut(&sequence);
        in_transit.map(|in_transit| in_transit.to = to).is_some()
    }

    /// Sequences that are on an instance and go elsewhere, and where.
    pub(super) fn left_behind(&self, instance: InstanceId) -> Vec<(SequenceId, InstanceId)> {
        let there = self
            .sequences
            .iter()
            .filter(|(id, sequence)| sequence.instance == instance && !self.in_transit.contains_key(id));
        let going = there.filter_map(|(id, _)| Some((*id, self.router.instance_of(*id)?)));
        going.filter(|(_, to)| *to != instance).collect()
    }

    /// An instance is lost, with all that was on it, or begins anew.
    pub(super) fn set_up(&mut self, instance: InstanceId, is_up: bool) {
        let place = instance.index();
        if let Some(instance) = self.instances.get_mut(place) {
            instance.lose();
            self.events[place].clear();
            self.steps[place] = None;
            self.is_up[place] = is_up;
        }
    }

    /// A sequence leaves for good.
    pub(super) fn end_sequence(&mut self, id: SequenceId, now: Timestamp) -> Option<Generating> {
        let sequence = self.sequences.remove(&id)?;
        self.in_transit.remove(&id);
        let mut effects = Vec::new();
        let ended = RouteEvent::Ended {
            sequence: id,
            generated: sequence.generated,
        };
        self.router.step(ended, now, &mut effects);
        Some(sequence)
    }
}
