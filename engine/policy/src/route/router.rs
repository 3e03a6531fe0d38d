//! The router as a state machine: tracks where sequences are, and applies the rule.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{DropReason, InstanceId, SequenceId, Span, Timestamp};

use super::api::{RouteEffect, RouteEvent};
use super::book::Booked;
use super::rule::RouteRule;
use super::transfer::MoveCost;
use super::view::{Cluster, Demand, View};
use super::weir::{Bookings, Finish, Verdict};
use crate::generate::{InstanceSpec, InstanceSpecError, InstanceState, Prefix};

/// A router and its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RouterSpec {
    /// Rule that picks instances.
    pub rule: RouteRule,
    /// Number of tokens that a sequence generates between two checks: the paper's `tau`.
    pub check_tokens: u32,
    /// Time between two reports of an instance.
    pub report_interval: Span,
    /// Weight of the latest reported wait in `q`, above 0 and up to 1.
    pub wait_gain: f64,
    /// Seed for rules that draw random instances.
    pub seed: u64,
    /// Cost of moves over a link. `None`: token ids arrive at once, and all tokens are computed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<MoveCost>,
}

impl RouterSpec {
    /// The paper's parameters; values that it does not give are those of its authors' code.
    #[must_use]
    pub const fn new(rule: RouteRule) -> Self {
        Self {
            rule,
            check_tokens: 50,
            report_interval: Span::from_millis(500),
            wait_gain: 0.8,
            seed: 1,
            transfer: None,
        }
    }
}

/// Reason for which a router's specification is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum RouterSpecError {
    /// There is no instance to route to.
    #[error("a router needs at least one instance")]
    NoInstances,
    /// The specification of an instance is invalid.
    #[error("instance {index}: {source}")]
    Instance {
        /// Index of the instance, from 0.
        index: usize,
        /// Reason for which it is invalid.
        source: InstanceSpecError,
    },
    /// A count or interval is zero: sequences would never be checked, or instances never report.
    #[error("{0} must be more than 0")]
    Zero(&'static str),
    /// The weight of a reported wait is out of range.
    #[error("the weight of a reported wait is {0}: give one above 0, up to 1")]
    Gain(f64),
}

/// A sequence that has not ended.
#[derive(Debug, Clone, Copy)]
struct Routed {
    instance: InstanceId,
    prompt: u32,
    prefix: Option<Prefix>,
    generated: u32,
    expected: u32,
    /// Tokens that it is predicted to have in all: when it arrived, or from its text so far.
    predicted: u32,
    /// Number of the sequence in `Bookings`, in order of arrival.
    number: u64,
    deadline: Timestamp,
    /// Time at which it was routed, and its estimated times; `None` if it has moved, or its instance was lost.
    finish: Option<(Timestamp, Finish)>,
    moves: u32,
    is_moving: bool,
}

/// Routes sequences over instances.
#[derive(Debug, Clone)]
pub struct Router {
    spec: RouterSpec,
    cluster: Cluster,
    sequences: BTreeMap<SequenceId, Routed>,
    picked: u64,
    /// Booked work, under rule `weir` alone.
    bookings: Option<Bookings>,
}

impl Router {
    /// Creates a router over idle instances.
    ///
    /// # Errors
    /// [`RouterSpecError`] if there is no instance, or parameters are out of bounds.
    pub fn new(spec: RouterSpec, instances: Vec<InstanceSpec>) -> Result<Self, RouterSpecError> {
        if instances.is_empty() {
            return Err(RouterSpecError::NoInstances);
        }
        if spec.check_tokens == 0 {
            return Err(RouterSpecError::Zero("check_tokens"));
        }
        if spec.report_interval == Span::ZERO {
            return Err(RouterSpecError::Zero("report_interval"));
        }
        if !(spec.wait_gain > 0.0 && spec.wait_gain <= 1.0) {
            return Err(RouterSpecError::Gain(spec.wait_gain));
        }
        for (index, instance) in instances.iter().enumerate() {
            instance
                .check()
                .map_err(|source| RouterSpecError::Instance { index, source })?;
        }
        let cluster = Cluster {
            instances: instances.into_iter().map(View::new).collect(),
            seed: spec.seed,
        };
        let bookings = match spec.rule {
            RouteRule::Weir(rule) => Some(Bookings::new(rule, &cluster)),
            _ => None,
        };
        Ok(Self {
            cluster,
            spec,
            sequences: BTreeMap::new(),
            picked: 0,
            bookings,
        })
    }

    /// Specification that the router was created with.
    #[must_use]
    pub fn spec(&self) -> &RouterSpec {
        &self.spec
    }

    /// Sequences that have not ended, with the instance of each or that it moves to.
    pub fn sequences(&self) -> impl Iterator<Item = (SequenceId, InstanceId)> {
        self.sequences.iter().map(|(id, routed)| (*id, routed.instance))
    }

    /// Instance of a sequence, or that it moves to; `None` if it has ended.
    #[must_use]
    pub fn instance_of(&self, sequence: SequenceId) -> Option<InstanceId> {
        self.sequences.get(&sequence).map(|routed| routed.instance)
    }

    /// Number of sequences that are on an instance or move to it.
    #[must_use]
    pub fn sequences_on(&self, instance: InstanceId) -> u32 {
        let view = self.cluster.instances.get(instance.index());
        view.map_or(0, |view| view.sequences)
    }

    /// Takes in one event and appends the resulting effects.
    pub fn step(&mut self, event: RouteEvent, now: Timestamp, effects: &mut Vec<RouteEffect>) {
        match event {
            RouteEvent::Arrived {
                sequence,
                prompt,
                expected,
                deadline,
                prefix,
            } => {
                let routed = Routed {
                    instance: InstanceId(0),
                    prompt,
                    prefix,
                    generated: 0,
                    expected,
                    predicted: expected,
                    number: self
                        .bookings
                        .as_mut()
                        .map_or(0, |bookings| bookings.on_arrived(expected)),
                    deadline,
                    finish: None,
                    moves: 0,
                    is_moving: false,
                };
                let is_new = !self.sequences.contains_key(&sequence);
                if invariant!(is_new, Kind::Sequences, "sequence {} is routed twice", sequence.0) {
                    self.route(sequence, routed, now, effects);
                }
            }
            RouteEvent::Progressed {
                sequence,
                generated,
                expected,
            } => self.on_progressed(sequence, generated, expected, now, effects),
            RouteEvent::Predicted { sequence, total } => {
                if let Some(routed) = self.sequences.get_mut(&sequence) {
                    routed.predicted = total;
                    routed.expected = total.saturating_sub(routed.generated).max(1);
                    if let Some(bookings) = &mut self.bookings {
                        bookings.on_predicted(sequence, routed.instance, total);
                    }
                }
            }
            RouteEvent::Moved { sequence } => {
                if let Some(routed) = self.sequences.get_mut(&sequence) {
                    routed.is_moving = false;
                }
            }
            RouteEvent::Ended { sequence, generated } => self.on_ended(sequence, generated, now),
            RouteEvent::Dropped { sequence, generated } => self.on_dropped(sequence, generated, now),
            RouteEvent::Reported { instance, state } => self.on_reported(instance, state, now, effects),
            RouteEvent::PrefixesLost { instance } => {
                if let Some(view) = self.cluster.instances.get_mut(instance.index()) {
                    view.prefixes.clear();
                }
            }
            RouteEvent::Down { instance } => self.on_down(instance, now, effects),
            RouteEvent::Up { instance } => {
                if let Some(view) = self.cluster.instances.get_mut(instance.index())
                    && !view.is_up
                {
                    *view = View::new(view.spec.clone());
                    if let Some(bookings) = &mut self.bookings {
                        bookings.on_lost(instance);
                    }
                }
            }
        }
    }

    /// Puts a sequence that is on no instance onto one.
    fn route(
        &mut self,
        sequence: SequenceId,
        routed: Routed,
        now: Timestamp,
        effects: &mut Vec<RouteEffect>,
    ) {
        let demand = self.demand(&routed, None, now);
        self.picked += 1;
        let picked = match &mut self.bookings {
            Some(bookings) => {
                let belief = bookings.belief(routed.predicted);
                let place = bookings.place(&self.cluster, &demand, (belief, routed.generated), now);
                place.map(|(to, _)| to)
            }
            None => self.spec.rule.pick(&self.cluster, &demand, now),
        };
        let Some(to) = picked else {
            if let Some(bookings) = &mut self.bookings {
                bookings.on_dropped(routed.number);
                bookings.on_outcome(true);
            }
            let is_any_up = self.cluster.instances.iter().any(|view| view.is_up);
            effects.push(RouteEffect::Drop {
                sequence,
                from: None,
                reason: if is_any_up {
                    DropReason::Infeasible
                } else {
                    DropReason::Failed
                },
            });
            return;
        };
        let finish = self
            .bookings
            .as_ref()
            .map(|bookings| bookings.finish(&self.cluster, to, &demand, routed.deadline, now));
        let estimate_s = match (&self.bookings, &finish) {
            (Some(bookings), Some(finish)) => bookings.ratio(to) * finish.after_s(demand.expected),
            _ => self
                .spec
                .rule
                .estimate_s(&self.cluster.instances[to.index()], &demand),
        };
        self.book(sequence, &routed, (to, &demand), now);
        let view = &mut self.cluster.instances[to.index()];
        effects.push(RouteEffect::Route {
            sequence,
            to,
            reused: view.reused(routed.prefix),
            estimate: Span::from_secs_f64(estimate_s),
        });
        view.on_routed(&demand, now);
        self.sequences.insert(
            sequence,
            Routed {
                instance: to,
                finish: finish
                    .filter(|_| routed.generated == 0)
                    .map(|finish| (now, finish)),
                ..routed
            },
        );
    }

    fn book(&mut self, id: SequenceId, routed: &Routed, (to, demand): (InstanceId, &Demand), now: Timestamp) {
        if let Some(bookings) = &mut self.bookings {
            let booked = Booked {
                id,
                deadline: routed.deadline,
                belief: bookings.belief(routed.predicted),
                generated: routed.generated,
                expected: routed.expected,
                at: now,
                runs: false,
            };
            bookings.on_placed(&self.cluster, (booked, to), demand, now);
        }
    }

    fn demand(&self, routed: &Routed, excluded: Option<InstanceId>, now: Timestamp) -> Demand {
        let left_s = if routed.deadline >= now {
            (routed.deadline - now).as_secs_f64()
        } else {
            -(now - routed.deadline).as_secs_f64()
        };
        Demand {
            number: self.picked,
            prompt: routed.prompt.saturating_add(routed.generated),
            prefix: routed.prefix,
            expected: routed.expected,
            left_s,
            excluded,
            transfer: self.spec.transfer.filter(|_| excluded.is_some()),
        }
    }

    fn on_progressed(
        &mut self,
        sequence: SequenceId,
        generated: u32,
        expected: u32,
        now: Timestamp,
        effects: &mut Vec<RouteEffect>,
    ) {
        let Some(routed) = self.sequences.get_mut(&sequence) else {
            return;
        };
        let further = generated.saturating_sub(routed.generated);
        (routed.generated, routed.expected) = (routed.generated.max(generated), expected);
        let routed = *routed;
        let from = routed.instance;
        self.cluster.instances[from.index()]
            .tokens
            .add(f64::from(further), now);
        if let Some(bookings) = &mut self.bookings {
            let tokens = [generated, routed.expected];
            bookings.on_progressed((sequence, routed.number), from, tokens, now);
        }
        if routed.is_moving {
            return;
        }
        let demand = self.demand(&routed, Some(from), now);
        if let Some(bookings) = &mut self.bookings {
            match bookings.reconsider(&self.cluster, (sequence, from), &demand, routed.moves, now) {
                Verdict::Stay => {}
                Verdict::Move(to) => self.move_sequence(sequence, &demand, to, now, effects),
                Verdict::Drop => self.drop_late(sequence, now, effects),
            }
        }
        if let RouteRule::JustEnough(rule) = self.spec.rule {
            let view = &self.cluster.instances[from.index()];
            if let Some(to) = rule.reconsider(&self.cluster, view, &demand, routed.moves) {
                self.move_sequence(sequence, &demand, to, now, effects);
            }
        }
    }

    /// Drops a sequence that cannot be in time.
    fn drop_late(&mut self, sequence: SequenceId, now: Timestamp, effects: &mut Vec<RouteEffect>) {
        let Some(routed) = self.sequences.remove(&sequence) else {
            return;
        };
        let from = routed.instance;
        self.cluster.instances[from.index()].sequences -= 1;
        if let Some(bookings) = &mut self.bookings {
            if let Some((at, finish)) = routed.finish {
                // It may have generated as many tokens more, less one, as there are between two checks.
                let tokens = routed.generated.saturating_add(self.spec.check_tokens);
                let spans = [now.since(at).as_secs_f64(), finish.after_s(tokens)];
                bookings.on_finish(from, spans, true);
            }
            bookings.on_left(sequence, from, now);
            bookings.on_dropped(routed.number);
            bookings.on_outcome(true);
        }
        effects.push(RouteEffect::Drop {
            sequence,
            from: Some(from),
            reason: DropReason::Infeasible,
        });
    }

    fn move_sequence(
        &mut self,
        sequence: SequenceId,
        demand: &Demand,
        to: InstanceId,
        now: Timestamp,
        effects: &mut Vec<RouteEffect>,
    ) {
        let Some(routed) = self.sequences.get_mut(&sequence) else {
            return;
        };
        let from = routed.instance;
        (routed.instance, routed.is_moving) = (to, true);
        routed.finish = None;
        routed.moves += 1;
        let routed = *routed;
        self.picked += 1;
        self.cluster.instances[from.index()].sequences -= 1;
        if let Some(bookings) = &mut self.bookings {
            bookings.on_left(sequence, from, now);
        }
        self.book(sequence, &routed, (to, demand), now);
        let view = &mut self.cluster.instances[to.index()];
        let by = view.arriving(demand).by;
        view.on_routed(demand, now);
        effects.push(RouteEffect::Move {
            sequence,
            from,
            to,
            by,
        });
    }

    /// Removes a sequence that has left its instance.
    fn leave(&mut self, sequence: SequenceId, generated: u32, now: Timestamp) -> Option<Routed> {
        let routed = self.sequences.remove(&sequence)?;
        let view = &mut self.cluster.instances[routed.instance.index()];
        view.sequences -= 1;
        let further = generated.saturating_sub(routed.generated);
        view.tokens.add(f64::from(further), now);
        if let Some(bookings) = &mut self.bookings {
            bookings.on_left(sequence, routed.instance, now);
        }
        Some(routed)
    }

    fn on_ended(&mut self, sequence: SequenceId, generated: u32, now: Timestamp) {
        let routed = self.leave(sequence, generated, now);
        if let (Some(routed), Some(bookings)) = (routed, &mut self.bookings) {
            if let Some((at, finish)) = routed.finish {
                let spans = [now.since(at).as_secs_f64(), finish.after_s(generated)];
                bookings.on_finish(routed.instance, spans, false);
            }
            bookings.on_ended(routed.number, generated);
            bookings.on_outcome(now > routed.deadline);
        }
    }

    fn on_dropped(&mut self, sequence: SequenceId, generated: u32, now: Timestamp) {
        let routed = self.leave(sequence, generated, now);
        if let (Some(routed), Some(bookings)) = (routed, &mut self.bookings) {
            bookings.on_dropped(routed.number);
            bookings.on_outcome(true);
        }
    }

    fn on_reported(
        &mut self,
        instance: InstanceId,
        state: InstanceState,
        now: Timestamp,
        effects: &mut Vec<RouteEffect>,
    ) {
        let gain = self.spec.wait_gain;
        let Some(view) = self.cluster.instances.get_mut(instance.index()) else {
            return;
        };
        view.wait_s += gain * (state.wait_s - view.wait_s);
        view.state = state;
        view.blocks_since = 0;
        view.prompts_since = 0;
        if let Some(bookings) = &mut self.bookings {
            bookings.on_reported(instance, &state, now);
            for sequence in bookings.late(instance, now) {
                self.drop_late(sequence, now, effects);
            }
        }
        if let RouteRule::MostFree(rule) = self.spec.rule
            && let Some(to) = rule.relief(&self.cluster, instance)
        {
            // The sequence with the fewest tokens is the cheapest to move.
            let on_it = self.sequences.iter();
            let on_it = on_it.filter(|(_, routed)| routed.instance == instance && !routed.is_moving);
            let shortest = on_it.min_by_key(|(_, routed)| routed.prompt.saturating_add(routed.generated));
            if let Some((sequence, routed)) = shortest.map(|(id, routed)| (*id, *routed)) {
                let demand = self.demand(&routed, Some(instance), now);
                self.move_sequence(sequence, &demand, to, now, effects);
            }
        }
    }

    fn on_down(&mut self, instance: InstanceId, now: Timestamp, effects: &mut Vec<RouteEffect>) {
        let Some(view) = self.cluster.instances.get_mut(instance.index()) else {
            return;
        };
        view.is_up = false;
        view.sequences = 0;
        if let Some(bookings) = &mut self.bookings {
            bookings.on_lost(instance);
        }
        let on_it = self.sequences.iter();
        let on_it = on_it.filter(|(_, routed)| routed.instance == instance);
        let lost: Vec<(SequenceId, Routed)> = on_it.map(|(id, routed)| (*id, *routed)).collect();
        for (sequence, routed) in lost {
            self.sequences.remove(&sequence);
            let routed = Routed {
                is_moving: false,
                ..routed
            };
            self.route(sequence, routed, now, effects);
        }
    }
}
