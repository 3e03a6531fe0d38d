//! A module with a generative model: each prompt of a request is a sequence on one of the module's instances,
//! which are its slots.
//!
//! ```text
//! Prompted ──> drop, or route ──> Place ──> [instance] ──RunStep──> Stepped ──> Forward
//!                                              └── EvictSequence, Remove and Place elsewhere, Drop
//! ```
//!
//! The admission rule judges a request as one that joins a batch, by the estimated wait and duration of its
//! sequences on the best instance: on arrival, while it waits, and after every `check_tokens` generated
//! tokens. A request that no instance can finish in time is dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{DropReason, InstanceId, RequestId, SequenceId, Shortfall, SlotId, Span, Timestamp};

use super::Module;
use super::api::{ModuleEffect, QueueFact};
use super::instances::{Answer, Generating, Generative, Prompted, Prompts};
use super::queued::queue;
use crate::admission::{BatchView, Candidate};
use crate::baselines::shares::of_objective;
use crate::generate::{Expectation, Instance, InstanceEffect, InstanceEvent, Step};
use crate::pard::batch_wait::BatchWaitSamples;
use crate::pard::state::ModuleState;
use crate::pard::state_planner::is_publish_due;
use crate::route::{RouteEffect, RouteEvent};

/// Reason for a drop, and the comparison of time needed and time left.
type Why = (DropReason, Option<Shortfall>);

impl Module {
    pub(super) fn slot_of(&self, instance: InstanceId) -> SlotId {
        self.spec
            .slots
            .get(instance.index())
            .copied()
            .unwrap_or(SlotId(instance.0))
    }

    pub(super) fn instance_of(&self, slot: SlotId) -> Option<InstanceId> {
        let place = self.spec.slots.iter().position(|own| *own == slot)?;
        Some(InstanceId(place as u32))
    }

    /// A request arrived with prompts, by their tokens.
    pub(super) fn on_prompted(
        &mut self,
        generative: &mut Generative,
        request: RequestId,
        prompted: Prompted,
        prompts: Prompts<'_>,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let items = prompts.tokens.len() as u32;
        self.metrics.on_items(prompted.stream, items);
        self.peers.on_arrived(prompted.stream, now);
        if items == 0 {
            effects.push(ModuleEffect::Forward { request });
            return;
        }
        self.metrics.on_arrived(items, now);
        // Sequences of one request generate side by side, after all their prompts.
        let (first, stream) = (generative.next, prompted.stream);
        let predict = |(item, prompt): (usize, &u32)| {
            let sequence = SequenceId(first + item as u64);
            let given = prompts.predicted.get(item).copied();
            given.or_else(|| generative.lengths.predict(sequence, stream, *prompt))
        };
        let predicted: Vec<Option<u32>> = prompts.tokens.iter().enumerate().map(predict).collect();
        let longest = predicted
            .iter()
            .map(|predicted| generative.expected(*predicted, 0));
        let longest = longest.max().unwrap_or(1);
        let (wait, duration) =
            generative.best_estimate(|instance| prompts.uncached_tokens(instance), longest);
        let (slo, deadline) = (prompted.slo, prompted.sent_at + prompted.slo);
        if let Some((reason, shortfall)) = self.verdict(&prompted, now, (wait, duration)) {
            effects.push(self.drop_or_accept(request, reason, shortfall));
            return;
        }
        let is_new = generative.requests.insert(request, prompted).is_none();
        invariant!(is_new, Kind::Sequences, "request {} arrives twice", request.0);
        for ((item, prompt), predicted) in (0_u32..).zip(prompts.tokens).zip(predicted) {
            if !generative.requests.contains_key(&request) {
                // One of its sequences fits nowhere.
                return;
            }
            let expected = generative.expected(predicted, 0);
            generative.prompts.on_ended(*prompt);
            let id = SequenceId(generative.next);
            // The prefixes of a model that takes turns with others go with its session.
            let prefix = prompts.prefix(item as usize).filter(|_| !generative.is_queued());
            generative.next += 1;
            let sequence = Generating {
                request,
                stream,
                item,
                prompt: *prompt,
                prefix,
                generated: 0,
                predicted,
                instance: InstanceId(0),
                is_placed: false,
                has_run: false,
                expectation: Expectation {
                    at: now,
                    estimate: Span::ZERO,
                    tokens: expected,
                },
            };
            generative.sequences.insert(id, sequence);
            if let Some(prompted) = generative.requests.get_mut(&request) {
                prompted.open.push(id);
            }
            if generative.is_queued() {
                effects.push(queue(QueueFact::Arrived {
                    sequence: id,
                    prompt: *prompt,
                    slo,
                    deadline,
                }));
                continue;
            }
            let arrived = RouteEvent::Arrived {
                sequence: id,
                prompt: *prompt,
                expected,
                deadline,
                prefix,
            };
            self.route(generative, arrived, now, effects);
        }
    }

    /// Reason for dropping a request whose work begins after `wait` and takes `duration`; `None` if it
    /// continues.
    fn verdict(&self, prompted: &Prompted, now: Timestamp, (wait, duration): (Span, Span)) -> Option<Why> {
        if !prompted.droppable {
            return None;
        }
        let rule = self.strategies.admission.rule();
        // A rule that uses past time alone drops a request once that time has passed, and ignores expected
        // waits.
        let wait = if rule.looks_ahead() { wait } else { Span::ZERO };
        let estimate = self.peers.estimate();
        let candidate = Candidate {
            sent_at: prompted.sent_at,
            arrived_at: prompted.arrived_at,
            stream: prompted.stream,
        };
        let batch = BatchView {
            slo: prompted.slo,
            start: now + wait,
            duration,
            downstream: estimate.downstream_of(prompted.stream, prompted.slo),
            own_share: of_objective(estimate.own_budget, self.spec.slo, prompted.slo),
            share_up_to_here: of_objective(estimate.budget_up_to_here, self.spec.slo, prompted.slo),
            waiting_items: 1,
        };
        let reason = rule.verdict(&candidate, &batch)?;
        let shortfall = Shortfall {
            wait,
            execution: duration,
            downstream: batch.downstream,
            remaining: (prompted.sent_at + prompted.slo).since(now),
        };
        Some((reason, Some(shortfall)))
    }

    /// Sends an event to the router and carries out its effects.
    pub(super) fn route(
        &mut self,
        generative: &mut Generative,
        event: RouteEvent,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let mut routes = Vec::new();
        generative.router.step(event, now, &mut routes);
        for route in routes {
            match route {
                // A sequence that is leaving another instance, or is on a link, is placed when it arrives.
                RouteEffect::Route { sequence, .. } if generative.is_leaving(sequence) => {}
                RouteEffect::Route { sequence, to, .. } if generative.redirect(sequence, to) => {}
                RouteEffect::Route {
                    sequence,
                    to,
                    estimate,
                    ..
                } => {
                    if let Some(known) = generative.sequences.get_mut(&sequence)
                        && !known.is_placed
                    {
                        known.expectation.estimate = estimate;
                    }
                    self.place(generative, sequence, (to, 0), effects);
                }
                RouteEffect::Move {
                    sequence, from, to, ..
                } => {
                    generative.events[from.index()].push(InstanceEvent::Reassigned { sequence, to });
                }
                RouteEffect::Drop { sequence, reason, .. } => {
                    self.drop_sequence(generative, sequence, (reason, None), now, effects);
                }
            }
        }
    }

    /// Places a sequence that is on no instance; `cached` of its tokens have their cache there.
    pub(super) fn place(
        &self,
        generative: &mut Generative,
        id: SequenceId,
        (to, cached): (InstanceId, u32),
        effects: &mut Vec<ModuleEffect>,
    ) {
        let Some(sequence) = generative.sequences.get_mut(&id) else {
            return;
        };
        (sequence.instance, sequence.is_placed) = (to, true);
        let prompted = generative.requests.get(&sequence.request);
        let due = match prompted.filter(|_| generative.router.spec().rule.waits_by_deadline()) {
            Some(prompted) => prompted.sent_at + prompted.slo,
            None => Timestamp::ZERO,
        };
        effects.push(ModuleEffect::Place {
            slot: self.slot_of(to),
            sequence: id,
            request: sequence.request,
            item: sequence.item,
            cached,
        });
        generative.events[to.index()].push(InstanceEvent::Arrived {
            sequence: id,
            prompt: sequence.prompt,
            generated: sequence.generated,
            cached,
            due,
            prefix: sequence.prefix,
        });
    }

    /// The request of a sequence cannot be served.
    pub(super) fn drop_sequence(
        &mut self,
        generative: &mut Generative,
        sequence: SequenceId,
        (reason, shortfall): Why,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let request = generative
            .sequences
            .get(&sequence)
            .map(|sequence| sequence.request);
        if let Some(request) = request
            && self.remove_request(generative, request, now, effects)
        {
            effects.push(self.drop_or_accept(request, reason, shortfall));
        }
    }

    /// Removes a request with all its sequences; returns whether it was here.
    pub(super) fn remove_request(
        &mut self,
        generative: &mut Generative,
        request: RequestId,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) -> bool {
        let Some(prompted) = generative.requests.remove(&request) else {
            return false;
        };
        for id in prompted.open {
            let Some(sequence) = generative.end_sequence(id, false, now) else {
                continue;
            };
            if !generative.report_cancelled((id, &sequence), effects) {
                continue;
            }
            let at = sequence.instance;
            generative.events[at.index()].push(InstanceEvent::Cancelled { sequence: id });
            effects.push(ModuleEffect::Remove {
                slot: self.slot_of(at),
                sequence: id,
                keeps_cache: false,
            });
        }
        true
    }

    /// An instance is lost: its sequences continue on other instances from their tokens, or are dropped.
    pub(super) fn on_instance_down(
        &mut self,
        generative: &mut Generative,
        slot: SlotId,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        if let Some(instance) = self.instance_of(slot) {
            generative.set_up(instance, false);
            let on_it = generative.sequences.values();
            let lost = on_it.filter(|sequence| sequence.is_placed && sequence.instance == instance);
            for _ in 0..lost.count() {
                generative.counted.on_lost();
            }
            if generative.is_queued() {
                return Self::lose_queued(generative, (slot, instance), effects);
            }
            self.route(generative, RouteEvent::Down { instance }, now, effects);
            // Sequences that were leaving this instance are placed at their destinations.
            for left in generative.left_behind(instance) {
                let trip = generative.trip(left, 0);
                self.hand_on(generative, left, trip, now, effects);
            }
        }
    }

    /// An instance is back, and empty.
    pub(super) fn on_instance_up(
        &mut self,
        generative: &mut Generative,
        slot: SlotId,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        if let Some(instance) = self.instance_of(slot)
            && !generative.is_up[instance.index()]
        {
            generative.set_up(instance, true);
            if generative.is_queued() {
                effects.push(queue(QueueFact::Up { slot }));
            }
            self.route(generative, RouteEvent::Up { instance }, now, effects);
        }
    }

    /// A step ended: the sequences in `finished` have their last token, and others are `predicted` to generate
    /// so many tokens more. If it `failed`, it generated nothing, and all caches of its instance are lost.
    pub(super) fn on_stepped(
        &mut self,
        generative: &mut Generative,
        slot: SlotId,
        (took, failed): (Span, bool),
        (finished, predicted): (&[SequenceId], &[(SequenceId, u32)]),
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let instance = self.instance_of(slot);
        let step = instance.and_then(|instance| generative.steps.get_mut(instance.index())?.take());
        if instance.is_some_and(|instance| !generative.is_up[instance.index()]) {
            // It was lost with its instance.
            return;
        }
        invariant!(
            step.is_some(),
            Kind::Sequences,
            "a step of slot {} is done that did not run",
            slot.0
        );
        let (Some(instance), Some(step)) = (instance, step) else {
            return;
        };
        self.spend_step(generative, &step, took, effects);
        generative.report_left(instance, effects);
        if failed {
            let lost: Vec<SequenceId> = step.parts.iter().map(|part| part.sequence).collect();
            for sequence in &lost {
                self.drop_sequence(generative, *sequence, (DropReason::Failed, None), now, effects);
            }
            let here = generative.instances[instance.index()].sequences();
            let others = here.map(|(id, _)| id).filter(|id| !lost.contains(id));
            let evicted: Vec<InstanceEvent> = others
                .map(|sequence| InstanceEvent::Evicted { sequence })
                .collect();
            let events = &mut generative.events[instance.index()];
            events.extend(evicted);
            events.push(InstanceEvent::Stepped {
                took,
                finished: Vec::new(),
            });
            events.push(InstanceEvent::PrefixesLost);
            self.route(generative, RouteEvent::PrefixesLost { instance }, now, effects);
            return;
        }
        // Inserted first: events that arrived since are to be applied to the state after the step.
        let known = finished.iter().filter(|id| generative.sequences.contains_key(id));
        let known: Vec<SequenceId> = known.copied().collect();
        generative.events[instance.index()].insert(
            0,
            InstanceEvent::Stepped {
                took,
                finished: known.clone(),
            },
        );
        for part in step.parts.iter().filter(|part| part.gives_token) {
            let Some(sequence) = generative.sequences.get_mut(&part.sequence) else {
                continue;
            };
            sequence.generated += 1;
            let (request, generated) = (sequence.request, sequence.generated);
            let (stream, prompt, expectation) = (sequence.stream, sequence.prompt, sequence.expectation);
            if generated == 1 {
                generative.counted.on_first_token(expectation, now);
            }
            if known.contains(&part.sequence) {
                generative.lengths.on_ended(stream, prompt, generated);
                generative.counted.on_finished(expectation, generated, now);
                generative.end_sequence(part.sequence, true, now);
                generative.report_finished(part.sequence, generated, effects);
                self.on_sequence_ended(generative, request, part.sequence, now, effects);
                continue;
            }
            if generated == 1 && generative.answer == Answer::FirstToken {
                // Tokens after the first one delay no request.
                self.on_sequence_ended(generative, request, part.sequence, now, effects);
            }
            if let Some((_, remaining)) = predicted.iter().find(|(id, _)| *id == part.sequence) {
                let total = generated.saturating_add(*remaining);
                let predicted = generative.set_predicted(part.sequence, total);
                self.route(generative, predicted, now, effects);
            }
            if generated.is_multiple_of(generative.router.spec().check_tokens.max(1)) {
                self.check_sequence(generative, part.sequence, now, effects);
            }
        }
    }

    /// The time of a step belongs to its requests by their tokens.
    fn spend_step(&self, generative: &Generative, step: &Step, took: Span, effects: &mut Vec<ModuleEffect>) {
        let mut tokens: BTreeMap<RequestId, u32> = BTreeMap::new();
        for part in &step.parts {
            // Tokens after the answer are not charged to the request any more.
            if let Some(sequence) = generative.sequences.get(&part.sequence)
                && generative.requests.contains_key(&sequence.request)
            {
                *tokens.entry(sequence.request).or_default() += part.tokens;
            }
        }
        let all = f64::from(step.tokens.max(1));
        effects.extend(tokens.into_iter().map(|(request, tokens)| ModuleEffect::Spent {
            request,
            span: took.scale(f64::from(tokens) / all),
        }));
    }

    fn on_sequence_ended(
        &mut self,
        generative: &mut Generative,
        request: RequestId,
        sequence: SequenceId,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let Some(prompted) = generative.requests.get_mut(&request) else {
            return;
        };
        prompted.open.retain(|open| *open != sequence);
        if prompted.open.is_empty() {
            self.metrics.on_completed(now.since(prompted.arrived_at), now);
            generative.requests.remove(&request);
            effects.push(ModuleEffect::Forward { request });
        }
    }

    /// Checks whether a sequence that progressed can still be in time, on its instance or another one.
    fn check_sequence(
        &mut self,
        generative: &mut Generative,
        id: SequenceId,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let Some(sequence) = generative.sequences.get(&id).copied() else {
            return;
        };
        let expected = generative.remaining(id);
        let progressed = RouteEvent::Progressed {
            sequence: id,
            generated: sequence.generated,
            expected,
        };
        self.route(generative, progressed, now, effects);
        let rule = self.strategies.admission.rule();
        if (rule.is_predictive() || !rule.looks_ahead())
            && let Some(prompted) = generative.requests.get(&sequence.request)
        {
            let awaited = generative.awaited(expected);
            let left = generative.instances[sequence.instance.index()].remaining_time(awaited);
            if let Some(why) = self.verdict(prompted, now, (Span::ZERO, left)) {
                self.drop_sequence(generative, id, why, now, effects);
            }
        }
    }

    /// Drops requests that have not run at all and are certainly late.
    fn drop_waiting(&mut self, generative: &mut Generative, now: Timestamp, effects: &mut Vec<ModuleEffect>) {
        let waiting = generative
            .sequences
            .iter()
            .filter(|(_, sequence)| !sequence.has_run);
        let late = waiting.filter_map(|(id, sequence)| {
            let prompted = generative.requests.get(&sequence.request)?;
            let tokens = generative.expected(sequence.predicted, 0);
            let prompt = |instance: &Instance| {
                let cached = instance.cached_tokens(sequence.prefix);
                sequence.prompt.saturating_sub(cached)
            };
            let (_, duration) = generative.best_estimate(prompt, tokens);
            Some((*id, self.verdict(prompted, now, (Span::ZERO, duration))?))
        });
        let late: Vec<(SequenceId, Why)> = late.collect();
        for (sequence, why) in late {
            self.drop_sequence(generative, sequence, why, now, effects);
        }
    }

    /// Handles a tick: instances report, waiting requests are checked, and the state is published.
    pub(super) fn on_generative_tick(
        &mut self,
        generative: &mut Generative,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        if now.since(generative.reported_at) >= generative.router.spec().report_interval {
            generative.reported_at = now;
            let states: Vec<_> = generative.instances.iter().map(Instance::state).collect();
            for (instance, state) in (0..).map(InstanceId).zip(states) {
                self.route(generative, RouteEvent::Reported { instance, state }, now, effects);
            }
        }
        self.drop_waiting(generative, now, effects);
        if is_publish_due(self.metrics.published, now) {
            let state = Arc::new(self.generative_state(generative, now));
            self.metrics.published = Some(now);
            self.peers.on_state(Arc::clone(&state));
            effects.push(ModuleEffect::Publish(state));
        }
        self.peers
            .update(&self.spec, &self.strategies, 1.0, self.spec.slo);
    }

    fn generative_state(&mut self, generative: &Generative, now: Timestamp) -> ModuleState {
        let queueing = self.metrics.queueing.weighted_mean(now).unwrap_or(0.0);
        let duration = generative.usual_duration();
        let at_once = |instance: &Instance| {
            let known = instance.spec().steps.decode.known_tokens();
            f64::from(instance.spec().max_sequences.min(known.max(1)))
        };
        let places: f64 = generative.instances.iter().map(at_once).sum();
        let worst = self
            .metrics
            .latency
            .as_ref()
            .map_or(0.0, |latency| latency.max(now));
        let ratios = generative
            .instances
            .iter()
            .map(|instance| instance.state().correction);
        ModuleState {
            queueing_delay: Span::from_micros(queueing as u64),
            worst_latency: Span::from_micros(worst as u64).max(duration),
            waits: self
                .metrics
                .waits
                .as_mut()
                .map(BatchWaitSamples::sketch)
                .unwrap_or_default(),
            input_rate: self
                .metrics
                .first_arrival_at
                .map_or(0.0, |first| self.metrics.present.rate(now, first)),
            throughput: places / duration.as_secs_f64().max(1e-6),
            workers: generative.instances.len() as f64,
            items_per_request: self.metrics.demand,
            duration_ratio: ratios.sum::<f64>() / generative.instances.len().max(1) as f64,
            fan_out: Arc::new(self.metrics.fan_out.summary()),
            ..ModuleState::initial(self.spec.id, duration)
        }
    }

    /// Processes the instances' events until none are left.
    pub(super) fn ask_instances(
        &mut self,
        generative: &mut Generative,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        while let Some(index) = generative.events.iter().position(|events| !events.is_empty()) {
            let events = std::mem::take(&mut generative.events[index]);
            let mut asked = Vec::new();
            let instance = InstanceId(index as u32);
            generative.note_decision(instance);
            generative.instances[index].step(events, now, &mut asked);
            for effect in asked {
                self.apply_instance(generative, instance, effect, now, effects);
            }
        }
    }

    fn apply_instance(
        &mut self,
        generative: &mut Generative,
        instance: InstanceId,
        effect: InstanceEffect,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let slot = self.slot_of(instance);
        match effect {
            InstanceEffect::Step(mut step) => {
                // An earlier effect of the instance may have dropped a request with all its sequences.
                step.parts
                    .retain(|part| generative.sequences.contains_key(&part.sequence));
                step.tokens = step.parts.iter().map(|part| part.tokens).sum();
                for uses in [&mut step.reused, &mut step.kept] {
                    uses.retain(|prefix| generative.sequences.contains_key(&prefix.sequence));
                }
                if step.parts.is_empty() {
                    generative.events[instance.index()].push(InstanceEvent::Stepped {
                        took: step.expected,
                        finished: Vec::new(),
                    });
                    return;
                }
                for part in &step.parts {
                    let Some(sequence) = generative.sequences.get_mut(&part.sequence) else {
                        continue;
                    };
                    if !std::mem::replace(&mut sequence.has_run, true)
                        && let Some(prompted) = generative.requests.get(&sequence.request)
                    {
                        let waited = now.since(prompted.arrived_at);
                        self.metrics.on_queued(prompted.slo, waited, now);
                        self.metrics.on_batch_wait(prompted.slo, Span::ZERO);
                    }
                }
                generative.steps[instance.index()] = Some(step.clone());
                effects.push(ModuleEffect::RunStep { slot, step });
            }
            InstanceEffect::Evict { sequence } => {
                effects.push(ModuleEffect::EvictSequence { slot, sequence });
            }
            InstanceEffect::Drop { sequence, reason } => {
                self.drop_sequence(generative, sequence, (reason, None), now, effects);
                Self::end_answered(generative, sequence, now, effects);
            }
            InstanceEffect::Move { sequence, cached, .. } if generative.is_queued() => {
                generative.return_to_queue(slot, (sequence, cached), effects);
            }
            InstanceEffect::Move {
                sequence, to, cached, ..
            } => {
                // The destination may have been lost meanwhile.
                let to = generative.router.instance_of(sequence).unwrap_or(to);
                if generative.sequences.contains_key(&sequence) {
                    let trip = generative.trip((sequence, to), cached);
                    effects.push(ModuleEffect::Remove {
                        slot,
                        sequence,
                        keeps_cache: trip.is_some_and(|trip| trip.cached > 0),
                    });
                    generative.counted.on_moved();
                    self.hand_on(generative, (sequence, to), trip, now, effects);
                }
            }
        }
    }
}
