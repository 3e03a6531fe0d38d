//! Rule `weir`: booked work, chances in place of means, and dropping together with routing.
//!
//! ```text
//! n    sequences that were put on the instance and have not ended, with this one
//! d    step time of n by profile x measured over profiled step time
//! t    (time left - wait for prompts before it - its own prompt) / d        tokens that it can have in time
//! P    chance that it has no more than t, by how far lengths were off what was predicted (`belief.rs`)
//! loss sum over those that are there: chance now - chance with a step time of n and this prompt before them
//! ```
//!
//! Of the instances whose `P` is near the best, the slowest with no loss takes the sequence; else the one with the most
//! `P - loss`. Where that is nothing, or `P` next to nothing, the sequence is dropped: it would be late, or cost another
//! its deadline. At each check it goes on elsewhere if its chance is better there by `move_gain`, and is dropped if it has
//! none.

use serde::{Deserialize, Serialize};
use weir_types::{InstanceId, SequenceId, Timestamp};

use super::belief::{Belief, Beliefs};
use super::book::{Book, Booked, seconds_until};
use super::step_times::shared_step_times;
use super::view::{Cluster, Demand};
use crate::generate::InstanceState;

/// Its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "snake_case")]
pub struct Weir {
    /// Chance below which a sequence is dropped.
    pub min_chance: f64,
    /// Chances that are less than this apart count alike.
    pub near: f64,
    /// What a lost chance of another counts beside one that is gained.
    pub loss_weight: f64,
    /// Part by which step times are taken to be longer where a sequence is put somewhere.
    pub margin: f64,
    /// Part by which they are taken to be shorter where one that runs is dropped.
    pub grace: f64,
    /// By how much a chance must be better elsewhere for a move.
    pub move_gain: f64,
    /// Most moves of a sequence.
    pub max_moves: u32,
    /// Whether step times follow what is measured.
    pub follow_pace: bool,
    /// How much further apart chances may be for each part that is lost.
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

/// Instances whose loss is looked at in one decision: the slowest of the good ones.
const MAX_LOSSES: usize = 8;
/// Weight of the latest sequence in the part that is lost.
const LOST_GAIN: f64 = 0.02;

/// What becomes of a sequence that has gone on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Stay,
    Move(InstanceId),
    Drop,
}

/// An instance that could take a sequence: so many tokens could be had there in time.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    instance: InstanceId,
    further: f64,
    token_s: f64,
}

/// Which of many numbers of tokens have a chance of at least so much. Chances rise with tokens: what was asked of some says
/// it of most others.
struct Threshold<F> {
    chance: F,
    least: f64,
    /// Most tokens that are known not to have it, and fewest that are known to have it.
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

/// What was put where, and what predictions are worth.
#[derive(Debug, Clone)]
pub(super) struct Bookings {
    rule: Weir,
    books: Vec<Book>,
    beliefs: Beliefs,
    /// Part of the latest that were dropped or late.
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

    /// A sequence ended in time, or was dropped or late.
    pub(super) fn on_outcome(&mut self, is_lost: bool) {
        self.lost += LOST_GAIN * (f64::from(u8::from(is_lost)) - self.lost);
    }

    /// Where a sequence goes to, and what that is worth; `None`: it is dropped.
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
            // Beyond that it is not picked.
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

    /// How long a sequence should take on an instance, by what is booked there.
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

    /// What becomes of a sequence on `from`. `demand` excludes that.
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

    /// A sequence was put on an instance.
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

    /// A sequence arrived; gives its number among those that were seen.
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

/// Of those that have the chance, the slowest first; of equally slow ones the first.
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
