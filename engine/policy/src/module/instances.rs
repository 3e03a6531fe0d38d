//! What a module whose model generates knows: its requests, their sequences, and the instances that these are on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{InstanceId, RequestId, SequenceId, Span, StreamId, Timestamp};

use crate::generate::length::MeanLength;
use crate::generate::{FinishEstimate, Instance, InstanceEvent, InstanceSpec, InstanceStats, Step};
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
    pub(super) item: u32,
    pub(super) prompt: u32,
    pub(super) generated: u32,
    pub(super) instance: InstanceId,
    /// Whether a step had it.
    pub(super) has_run: bool,
}

/// Requests, sequences and instances of a module that generates.
#[derive(Debug, Clone)]
pub(super) struct Generative {
    pub(super) max_tokens: u32,
    pub(super) router: Router,
    pub(super) instances: Vec<Instance>,
    /// By instance: what it was not asked about yet.
    pub(super) events: Vec<Vec<InstanceEvent>>,
    /// By instance: the step that runs.
    pub(super) steps: Vec<Option<Step>>,
    pub(super) requests: BTreeMap<RequestId, Prompted>,
    pub(super) sequences: BTreeMap<SequenceId, Generating>,
    pub(super) next: u64,
    pub(super) lengths: MeanLength,
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
            router: Router::new(spec.router, spec.instances.clone()).ok()?,
            events: vec![Vec::new(); instances.len()],
            steps: vec![None; instances.len()],
            instances,
            requests: BTreeMap::new(),
            sequences: BTreeMap::new(),
            next: 0,
            lengths: MeanLength::new(spec.max_tokens),
            reported_at: Timestamp::ZERO,
        })
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn stats(&self) -> Vec<InstanceStats> {
        self.instances.iter().map(Instance::stats).collect()
    }

    pub(super) fn remaining(&self, sequence: SequenceId) -> u32 {
        let generated = self
            .sequences
            .get(&sequence)
            .map_or(0, |sequence| sequence.generated);
        self.lengths.remaining(generated, self.max_tokens)
    }

    /// What a sequence with so many tokens to compute would meet on the best instance: wait and duration.
    pub(super) fn best_estimate(&self, prompt: u32) -> (Span, Span) {
        let expected = self.lengths.remaining(0, self.max_tokens);
        let estimates = self
            .instances
            .iter()
            .map(|instance| instance.finish_estimate(prompt, expected, |sequence| self.remaining(sequence)));
        let best = estimates.min_by_key(FinishEstimate::total);
        best.map_or((Span::ZERO, Span::ZERO), |best| (best.wait, best.duration))
    }

    /// A sequence leaves for good.
    pub(super) fn end_sequence(&mut self, id: SequenceId, now: Timestamp) -> Option<Generating> {
        let sequence = self.sequences.remove(&id)?;
        let mut effects = Vec::new();
        let ended = RouteEvent::Ended {
            sequence: id,
            generated: sequence.generated,
        };
        self.router.step(ended, now, &mut effects);
        Some(sequence)
    }
}
