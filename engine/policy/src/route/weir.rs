//! Rule `weir`: booked work, probabilities in place of means, and drops decided together with routes.
//!
//! ```text
//! n    sequences that were routed to the instance and have not ended, including this one
//! d    step time of n by profile x measured over profiled step time
//! t    (time left - wait for prompts before it - its own prompt) / d     tokens that it can have in time
//! P    probability that it has at most t tokens, from past errors of predictions (`belief.rs`)
//! loss sum over its sequences of the probability that they lose by step time d(n) and this prompt
//! ```
//!
//! Among instances whose `P` is near the best, the slowest without loss takes the sequence; if each has a
//! loss, the one with the largest `P - loss`. If no score is positive, or `P` is almost zero everywhere, the
//! sequence is dropped: it would be late, or make another late. At each check it moves if its probability is
//! larger elsewhere by `move_gain`, and is dropped if it has almost none.

use serde::{Deserialize, Serialize};
use weir_types::{InstanceId, SequenceId, Timestamp};

use super::belief::{Belief, Beliefs};
use super::book::{Book, Booked, seconds_until};
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
    token_s: f64,
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
        let mut most = f64::NEG_INFINITY;
        for (instance, view) in cluster.candidates(demand) {
            let book = &self.books[instance.index()];
            let token_s = book.next_token_s() * (1.0 + self.rule.margin);
            let arriving = view.arriving(demand);
            let (ready_s, _) = book.prompt_s(arriving.tokens, now);
            let further = (demand.left_s - arriving.delay_s - ready_s) / token_s;
            most = most.max(further);
            candidates.push(Candidate {
                instance,
                further,
                token_s,
            });
        }
        let beliefs = &self.beliefs;
        let chance = |further: f64| beliefs.chance(belief, generated, further);
        let best = chance(most);
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

    /// Expected seconds until a sequence's last token on an instance, from the work booked there.
    pub(super) fn estimate_s(
        &self,
        cluster: &Cluster,
        to: InstanceId,
        demand: &Demand,
        now: Timestamp,
    ) -> f64 {
        let book = &self.books[to.index()];
        let view = &cluster.instances[to.index()];
        let arriving = view.arriving(demand);
        let (ready_s, _) = book.prompt_s(arriving.tokens, now);
        arriving.delay_s + ready_s + book.next_token_s() * f64::from(demand.expected)
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

    /// Sequences of an instance whose deadline has passed.
    pub(super) fn late(&self, instance: InstanceId, now: Timestamp) -> Vec<SequenceId> {
        let late = |booked: &&Booked| seconds_until(booked.deadline, now) <= 0.0;
        let book = &self.books[instance.index()];
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
        generated: u32,
        now: Timestamp,
    ) {
        self.books[on.index()].on_progressed(id, generated, now);
        self.beliefs.on_tokens(number, generated, false);
    }

    pub(super) fn on_left(&mut self, id: SequenceId, from: InstanceId) {
        self.books[from.index()].remove(id);
    }

    pub(super) fn on_ended(&mut self, number: u64, tokens: u32) {
        self.beliefs.on_tokens(number, tokens, true);
    }

    pub(super) fn on_dropped(&mut self, number: u64) {
        self.beliefs.on_dropped(number);
    }

    pub(super) fn on_reported(&mut self, instance: InstanceId, state: &InstanceState) {
        self.books[instance.index()].on_reported(state, self.rule.follow_pace);
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
