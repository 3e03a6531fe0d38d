//! Rule `weir`: booked work, probabilities in place of means, and drops decided together with routes.
//!
//! ```text
//! n    sequences that were routed to the instance and have not ended, including this one
//! d    step time of n, or of as many as have a place, by profile x measured over profiled step time
//! w    time until one of the running sequences has ended, if none of n has a place; by deadlines (`book.rs`)
//! m    margin of estimated finishes on the instance, learned from actual ones (`margin.rs`)
//! t    (time left / m - w - wait for prompts before it - its own prompt) / d     tokens that it can have in time
//! P    probability that it has at most t tokens, from past errors of predictions (`belief.rs`)
//! loss sum over its sequences of the probability that they lose by step time d(n) and this prompt
//! ```
//!
//! Among instances whose `P` is near the best, the slowest without loss takes the sequence; if each has a
//! loss, the one with the largest `P - loss`. If no score is positive, or `P` is almost zero everywhere, the
//! sequence is dropped: it would be late, or make another late. Sequences are not dropped for the margin: if
//! none has a chance with it, `m` is 1. Waiting sequences without a chance are dropped with the next report. At
//! each check it moves if its probability is
//! larger elsewhere by `move_gain`, and is dropped if it has almost none.

use serde::{Deserialize, Serialize};
use weir_types::{InstanceId, SequenceId, Span, Timestamp};

use super::belief::{Belief, Beliefs};
use super::book::{Book, Booked, seconds_until};
use super::margin::Margin;
use super::step_times::shared_step_times;
use super::view::{Cluster, Demand};
use crate::generate::InstanceState;

/// Parameters of rule `weir`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "snake_case")]
pub struct Weir {
    /// Probability of being in time below which a sequence is dropped.
    pub min_chance: f64,
    /// Difference below which probabilities count as equal.
    pub near: f64,
    /// Weight of probability that other sequences lose, against probability that this one gains.
    pub loss_weight: f64,
    /// Safety margin of step times when a sequence is placed, as a fraction.
    pub margin: f64,
    /// Whether estimated finishes have a margin that is learned from actual ones, for each instance.
    pub learn_margin: bool,
    /// Number of mean deviations in that margin, beside the mean.
    pub deviations: f64,
    /// Reduction of step times when a running sequence is checked for dropping, as a fraction.
    pub grace: f64,
    /// Least gain in probability for a move.
    pub move_gain: f64,
    /// Maximum number of moves of a sequence.
    pub max_moves: u32,
    /// Whether step times are corrected by measurements.
    pub follow_pace: bool,
    /// Growth of `near` with the fraction of sequences that were lost recently.
    pub near_gain: f64,
}

impl Default for Weir {
    fn default() -> Self {
        Self {
            min_chance: 0.05,
            near: 0.0005,
            loss_weight: 0.3,
            margin: 0.0,
            learn_margin: true,
            deviations: 2.0,
            grace: 0.1,
            move_gain: 0.2,
            max_moves: 10,
            follow_pace: true,
            near_gain: 0.1,
        }
    }
}

/// Maximum number of instances whose loss is computed in one decision: the slowest of the good ones.
const MAX_LOSSES: usize = 8;
/// Weight of the latest sequence in the fraction of lost ones.
const LOST_GAIN: f64 = 0.02;

/// Decision on a running sequence at a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Stay,
    Move(InstanceId),
    Drop,
}

/// An instance that could take a sequence, with the number of tokens that can be generated there in time.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    instance: InstanceId,
    further: f64,
    /// The same without a learned margin.
    without_margin: f64,
    token_s: f64,
}

/// Estimated times of a sequence on an instance, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Finish {
    /// Time until its prompt is computed.
    ready_s: f64,
    /// Time of each token after that.
    token_s: f64,
}

impl Finish {
    /// Time until it has so many tokens, in seconds.
    pub(super) fn after_s(&self, tokens: u32) -> f64 {
        self.ready_s + self.token_s * f64::from(tokens)
    }
}

/// Finds the token counts with a probability of at least `least`. Probabilities rise with tokens, so each
/// evaluation also decides most other counts.
struct Threshold<F> {
    chance: F,
    least: f64,
    /// Largest token count known to be below `least`, and smallest known to reach it.
    known: [f64; 2],
}

impl<F: Fn(f64) -> f64> Threshold<F> {
    fn has(&mut self, further: f64) -> bool {
        let [without, with] = self.known;
        if further >= with || further <= without {
            return further >= with;
        }
        let has = (self.chance)(further) >= self.least;
        self.known[usize::from(has)] = further;
        has
    }
}

/// Work booked on each instance, and the measured error of predictions.
#[derive(Debug, Clone)]
pub(super) struct Bookings {
    rule: Weir,
    books: Vec<Book>,
    beliefs: Beliefs,
    /// Margins of finishes, by instance.
    margins: Vec<Margin>,
    /// Smoothed fraction of recent sequences that were dropped or late.
    lost: f64,
}

impl Bookings {
    pub(super) fn new(rule: Weir, cluster: &Cluster) -> Self {
        Self {
            rule,
            books: shared_step_times(cluster.instances.iter().map(|view| &view.spec))
                .into_iter()
                .map(Book::new)
                .collect(),
            beliefs: Beliefs::new(),
            margins: vec![Margin::new(); cluster.instances.len()],
            lost: 0.0,
        }
    }

    pub(super) fn belief(&self, predicted: u32) -> Belief {
        self.beliefs.belief(predicted)
    }

    /// Counts a sequence that ended: in time, or dropped or late.
    pub(super) fn on_outcome(&mut self, is_lost: bool) {
        self.lost += LOST_GAIN * (f64::from(u8::from(is_lost)) - self.lost);
    }

    /// Returns the instance for a sequence with the score of that choice. `None`: the sequence is to be
    /// dropped.
    pub(super) fn place(
        &mut self,
        cluster: &Cluster,
        demand: &Demand,
        (belief, generated): (Belief, u32),
        now: Timestamp,
    ) -> Option<(InstanceId, f64)> {
        let mut candidates: Vec<Candidate> = Vec::with_capacity(cluster.instances.len());
        let [mut most, mut most_without] = [f64::NEG_INFINITY; 2];
        let deadline = now + Span::from_secs_f64(demand.left_s.max(0.0));
        for (instance, view) in cluster.candidates(demand) {
            let book = &self.books[instance.index()];
            let token_s = book.next_token_s() * (1.0 + self.rule.margin);
            let arriving = view.arriving(demand);
            let ready_s = book.ready_s(arriving.tokens, deadline, now);
            let left_s = demand.left_s - arriving.delay_s;
            let without_margin = (left_s - ready_s) / token_s;
            let further = if self.rule.learn_margin {
                (left_s / self.margins[instance.index()].factor(self.rule.deviations) - ready_s) / token_s
            } else {
                without_margin
            };
            most = most.max(further);
            most_without = most_without.max(without_margin);
            candidates.push(Candidate {
                instance,
                further,
                without_margin,
                token_s,
            });
        }
        let beliefs = &self.beliefs;
        let chance = |further: f64| beliefs.chance(belief, generated, further);
        let mut best = chance(most);
        if best < self.rule.min_chance {
            (best, most) = (chance(most_without), most_without);
            for candidate in &mut candidates {
                candidate.further = candidate.without_margin;
            }
        }
        if best < self.rule.min_chance {
            return None;
        }
        let near = self.rule.near + self.rule.near_gain * self.lost;
        let threshold = Threshold {
            chance,
            least: best - near,
            known: [f64::NEG_INFINITY, most],
        };
        let mut chosen: Option<(InstanceId, f64)> = None;
        for candidate in slowest(&candidates, threshold) {
            let view = &cluster.instances[candidate.instance.index()];
            let tokens = view.arriving(demand).tokens;
            let chance = chance(candidate.further);
            // With a larger loss this candidate could not beat the chosen one.
            let bearable = chosen.map_or(f64::INFINITY, |(_, score)| {
                (chance - score) / self.rule.loss_weight.max(f64::MIN_POSITIVE)
            });
            let book = &mut self.books[candidate.instance.index()];
            let loss = book.loss(beliefs, (tokens, bearable.max(near), self.rule.min_chance), now);
            let score = chance - self.rule.loss_weight * loss;
            if loss <= near {
                return Some((candidate.instance, score));
            }
            if chosen.is_none_or(|(_, best)| score > best) {
                chosen = Some((candidate.instance, score));
            }
        }
        chosen.filter(|(_, score)| *score > 0.0)
    }

    /// Expected times of a sequence on an instance, from the work booked there, without a margin.
    pub(super) fn finish(
        &self,
        cluster: &Cluster,
        to: InstanceId,
        demand: &Demand,
        deadline: Timestamp,
        now: Timestamp,
    ) -> Finish {
        let book = &self.books[to.index()];
        let arriving = cluster.instances[to.index()].arriving(demand);
        Finish {
            ready_s: arriving.delay_s + book.ready_s(arriving.tokens, deadline, now),
            token_s: book.next_token_s(),
        }
    }

    /// Mean ratio of actual to estimated times on an instance.
    pub(super) fn ratio(&self, instance: InstanceId) -> f64 {
        self.margins[instance.index()].mean()
    }

    /// A sequence ended on an instance after `actual_s` seconds, or was late before its last token.
    pub(super) fn on_finish(
        &mut self,
        instance: InstanceId,
        [actual_s, estimated_s]: [f64; 2],
        is_late: bool,
    ) {
        let margin = &mut self.margins[instance.index()];
        if is_late {
            margin.on_late(actual_s, estimated_s);
        } else {
            margin.on_ended(actual_s, estimated_s);
        }
    }

    /// Decides on a sequence that runs on `from`; `demand` excludes that instance.
    pub(super) fn reconsider(
        &mut self,
        cluster: &Cluster,
        (sequence, from): (SequenceId, InstanceId),
        demand: &Demand,
        moves: u32,
        now: Timestamp,
    ) -> Verdict {
        let book = &self.books[from.index()];
        let Some(&booked) = book.sequences().iter().find(|booked| booked.id == sequence) else {
            return Verdict::Stay;
        };
        let token_s = book.token_s(book.sequences().len());
        let chance = Book::chance(&self.beliefs, &booked, token_s, now);
        if chance + self.rule.move_gain > 1.0 {
            return Verdict::Stay;
        }
        if moves < self.rule.max_moves
            && let Some((to, score)) = self.place(cluster, demand, (booked.belief, booked.generated), now)
            && score >= chance + self.rule.move_gain
        {
            return Verdict::Move(to);
        }
        if chance >= self.rule.min_chance {
            return Verdict::Stay;
        }
        let at_best = token_s * (1.0 - self.rule.grace);
        if Book::chance(&self.beliefs, &booked, at_best, now) < self.rule.min_chance {
            Verdict::Drop
        } else {
            Verdict::Stay
        }
    }

    /// Sequences of an instance whose deadline has passed, or that wait and have no chance any more.
    pub(super) fn late(&self, instance: InstanceId, now: Timestamp) -> Vec<SequenceId> {
        let book = &self.books[instance.index()];
        let at_best = book.token_s(book.sequences().len()) * (1.0 - self.rule.grace);
        let late = |booked: &&Booked| {
            let is_hopeless = || Book::chance(&self.beliefs, booked, at_best, now) < self.rule.min_chance;
            seconds_until(booked.deadline, now) <= 0.0 || (!booked.runs && is_hopeless())
        };
        book.sequences()
            .iter()
            .filter(late)
            .map(|booked| booked.id)
            .collect()
    }

    /// Books a sequence on an instance.
    pub(super) fn on_placed(
        &mut self,
        cluster: &Cluster,
        (booked, to): (Booked, InstanceId),
        demand: &Demand,
        now: Timestamp,
    ) {
        let view = &cluster.instances[to.index()];
        let tokens = view.arriving(demand).tokens;
        self.books[to.index()].add(booked, tokens, now);
    }

    /// A sequence arrived; returns its number in order of arrival.
    pub(super) fn on_arrived(&mut self, predicted: u32) -> u64 {
        self.beliefs.on_arrived(predicted)
    }

    pub(super) fn on_progressed(
        &mut self,
        (id, number): (SequenceId, u64),
        on: InstanceId,
        [generated, expected]: [u32; 2],
        now: Timestamp,
    ) {
        self.books[on.index()].on_progressed(id, [generated, expected], now);
        self.beliefs.on_tokens(number, generated, false);
    }

    /// A sequence on an instance is predicted to have so many tokens in all. Errors are learned from first
    /// predictions alone, so the chances of later ones, which are closer, are understated.
    pub(super) fn on_predicted(&mut self, id: SequenceId, on: InstanceId, total: u32) {
        let belief = self.beliefs.belief(total);
        self.books[on.index()].on_predicted(id, belief);
    }

    pub(super) fn on_left(&mut self, id: SequenceId, from: InstanceId, now: Timestamp) {
        self.books[from.index()].remove(id, now);
    }

    pub(super) fn on_ended(&mut self, number: u64, tokens: u32) {
        self.beliefs.on_tokens(number, tokens, true);
    }

    pub(super) fn on_dropped(&mut self, number: u64) {
        self.beliefs.on_dropped(number);
    }

    pub(super) fn on_reported(&mut self, instance: InstanceId, state: &InstanceState, now: Timestamp) {
        self.books[instance.index()].on_reported(state, self.rule.follow_pace, now);
    }

    pub(super) fn on_lost(&mut self, instance: InstanceId) {
        self.books[instance.index()].clear();
    }
}

/// Candidates that reach the threshold, the slowest first; among equally slow ones in their order.
fn slowest(
    candidates: &[Candidate],
    mut threshold: Threshold<impl Fn(f64) -> f64>,
) -> impl Iterator<Item = Candidate> {
    let mut slowest: Vec<Candidate> = Vec::with_capacity(MAX_LOSSES + 1);
    for candidate in candidates {
        let is_slower = |other: &Candidate| candidate.token_s > other.token_s;
        let is_full = slowest.len() == MAX_LOSSES;
        if (is_full && !slowest.last().is_some_and(is_slower)) || !threshold.has(candidate.further) {
            continue;
        }
        let at = slowest.iter().position(is_slower).unwrap_or(slowest.len());
        slowest.insert(at, *candidate);
        slowest.truncate(MAX_LOSSES);
    }
    slowest.into_iter()
}
