//! Reliability of length predictions: the distribution of actual lengths around predicted ones.
//!
//! ```text
//! x = ln predicted    y = ln actual    y ~ a + b x + e          least squares over recent sequences that
//! ended
//! S(e) = product over e' <= e of (1 - ended at e' / at risk at e')        Kaplan-Meier over recent arrivals
//! P(L <= g + t | L > g) = 1 - S(ln (g + t) - a - b x) / S(ln g - a - b x)
//! ```
//!
//! A prediction without information has `b = 0`: lengths then have the distribution of earlier sequences. An
//! exact one has `b = 1` and no residuals, so probabilities are 0 or 1. Running and dropped sequences count
//! up to the tokens that they have: without them the first to end, which are the shortest, would dominate.
//! Before any sequence has ended, predictions are trusted: some assumed exact ones stand in, and lose weight
//! as sequences end.
//!
//! If more sequences run at once than are remembered, no remembered sequence would ever have ended, and the
//! fit would never update. So only every `stride`-th arrival is remembered. The stride doubles if the oldest
//! remembered sequence would be evicted while it and more than half of all still run, and halves if fewer
//! than a quarter run.

use std::collections::VecDeque;

use super::survival::{FallTable, HAIR, Survival};

/// Maximum number of remembered sequences: the latest arrivals, or every `stride`-th of them.
const MAX_SEEN: usize = 512;
/// Upper bound of the stride.
const MAX_STRIDE: u64 = 1 << 20;
/// Pairs that stand in until [`ASSUMED_UNTIL`] sequences have ended:
/// `(ln(predicted / mean), ln(actual / predicted))`. Their error is about a half in either direction, so that
/// predictions are not relied on before they prove right.
const ASSUMED: [(f64, f64); 4] = [(-0.6, 0.4), (-0.2, -0.4), (0.2, 0.4), (0.6, -0.4)];
const ASSUMED_UNTIL: f64 = 12.0;
/// Number of ended sequences between two fits: at first, and once [`MAX_SEEN`] are remembered.
const REFIT: [u32; 2] = [4, 32];
/// Scale of the tail beyond the longest sequence seen, as a fraction of the residuals' deviation: the
/// survival falls by a factor of `e` for each.
const TAIL: f64 = 0.5;
/// Number of such scales after which the survival is zero to floating-point precision, for sequences whose
/// survival was at least [`SURELY_THERE`] before.
const NOTHING: f64 = 46.0;
const SURELY_THERE: f64 = 1e-3;

/// Smallest scale of the tail that is looked up in a table; a shorter tail is within one bucket.
const MIN_TABLE_STEP: f64 = 0.02;
/// Maximum number of buckets of that table; beyond them the survival is zero.
const MAX_TAIL_BUCKETS: usize = 4_096;

/// Probability below which a loss does not count.
pub(super) const LITTLE: f64 = 1e-6;
/// Relative error of a product that replaces a quotient.
const ROUNDING: f64 = 1e-9;

/// A remembered sequence.
#[derive(Debug, Clone, Copy)]
struct Seen {
    number: u64,
    x: f64,
    tokens: u32,
    is_ended: bool,
    /// Whether it was dropped, so that its full length stays unknown.
    is_dropped: bool,
}

impl Seen {
    fn runs(&self) -> bool {
        !self.is_ended && !self.is_dropped
    }
}

/// The error of predicted lengths.
#[derive(Debug, Clone)]
pub(super) struct Beliefs {
    /// Remembered sequences, ascending by number.
    seen: VecDeque<Seen>,
    /// Number of sequences that have arrived.
    arrived: u64,
    stride: u64,
    since_fit: u32,
    intercept: f64,
    slope: f64,
    /// Survival function of the residuals' exponentials.
    survival: Survival,
    /// Survival beyond the longest sequence seen.
    tail: Tail,
    certain: Certain,
}

/// Ratios at which a probability is known without a look-up.
#[derive(Debug, Clone, Copy)]
struct Certain {
    /// Below this ratio no sequence has ended.
    none: f64,
    /// Below this ratio at least half of the sequences survive.
    half: f64,
    /// From this ratio on, at most half of [`LITTLE`] survives.
    little: f64,
    /// From this ratio on, every ended sequence has ended.
    beyond: f64,
}

impl Certain {
    fn new(survival: &Survival, tail: &Tail) -> Self {
        let part = tail.part.max(survival.last_part());
        let steps = (2.0 * part / LITTLE).max(1.0).ln();
        Self {
            none: survival.first() * (1.0 - ROUNDING),
            half: survival.ratio_with(0.5) * (1.0 - ROUNDING),
            // The table's interpolation has a small error between its values.
            little: (tail.from + (steps + 0.1) * tail.step).exp() * (1.0 + ROUNDING),
            beyond: survival.last() * (1.0 + ROUNDING),
        }
    }
}

/// Survival beyond the longest sequence seen.
#[derive(Debug, Clone)]
struct Tail {
    /// Largest residual, including those of running sequences.
    from: f64,
    /// Least fraction of sequences assumed to be longer.
    part: f64,
    /// Scale of the tail: the survival falls by a factor of `e` with each such step of the residual.
    step: f64,
    /// Ratio from which on the survival is zero.
    over: f64,
    /// Table of the tail's fall, unless the tail is within a few buckets.
    table: Option<FallTable>,
}

impl Tail {
    fn new(from: f64, part: f64, step: f64) -> Self {
        Self {
            from,
            part,
            step,
            over: (from - HAIR + NOTHING * step).exp(),
            table: (step >= MIN_TABLE_STEP).then(|| {
                FallTable::new((from - HAIR).exp(), MAX_TAIL_BUCKETS, |ratio| {
                    Self::fall(ratio, from, step)
                })
            }),
        }
    }

    fn fall(ratio: f64, from: f64, step: f64) -> f64 {
        (-(ratio.ln() + HAIR - from).max(0.0) / step).exp()
    }

    /// Fraction of the tail that survives beyond that ratio.
    #[inline]
    fn after(&self, ratio: f64) -> f64 {
        match &self.table {
            Some(table) => table.at(ratio),
            None => Self::fall(ratio, self.from, self.step),
        }
    }
}

/// Expected length of one sequence without its residual, stored as its reciprocal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Belief {
    per_token: f64,
}

impl Beliefs {
    pub(super) fn new() -> Self {
        let survival = Survival::new(&[(-0.4, 0.75), (0.0, 0.25), (0.4, 0.0)]);
        let tail = Tail::new(0.4, 0.2, 0.2);
        Self {
            certain: Certain::new(&survival, &tail),
            seen: VecDeque::new(),
            arrived: 0,
            stride: 1,
            since_fit: 0,
            intercept: 0.0,
            slope: 1.0,
            survival,
            tail,
        }
    }

    /// Belief for a sequence with so many predicted tokens.
    pub(super) fn belief(&self, predicted: u32) -> Belief {
        Belief {
            per_token: (-self.intercept - self.slope * log(predicted)).exp(),
        }
    }

    /// A sequence arrived; returns its number in order of arrival.
    pub(super) fn on_arrived(&mut self, predicted: u32) -> u64 {
        let number = self.arrived;
        self.arrived += 1;
        if number.is_multiple_of(self.stride) && self.seen.len() >= MAX_SEEN {
            self.forget_some();
        }
        if number.is_multiple_of(self.stride) {
            self.seen.push_back(Seen {
                number,
                x: log(predicted),
                tokens: 0,
                is_ended: false,
                is_dropped: false,
            });
        }
        number
    }

    /// Makes room for one more remembered sequence.
    fn forget_some(&mut self) {
        let running = self.seen.iter().filter(|seen| seen.runs()).count();
        let first_runs = self.seen.front().is_some_and(Seen::runs);
        if first_runs && running > MAX_SEEN / 2 && self.stride < MAX_STRIDE {
            self.stride *= 2;
            self.seen.retain(|seen| seen.number.is_multiple_of(self.stride));
            return;
        }
        if running < MAX_SEEN / 4 && self.stride > 1 {
            self.stride /= 2;
        }
        self.seen.pop_front();
    }

    fn seen(&mut self, number: u64) -> Option<&mut Seen> {
        let index = self.seen.binary_search_by_key(&number, |seen| seen.number).ok()?;
        self.seen.get_mut(index)
    }

    /// A sequence was dropped.
    pub(super) fn on_dropped(&mut self, number: u64) {
        if let Some(seen) = self.seen(number) {
            seen.is_dropped = true;
        }
    }

    /// Records that a sequence has so many tokens, or ended with them.
    pub(super) fn on_tokens(&mut self, number: u64, tokens: u32, is_ended: bool) {
        let Some(seen) = self.seen(number) else {
            return;
        };
        (seen.tokens, seen.is_ended) = (tokens, is_ended);
        if is_ended {
            self.since_fit += 1;
            let is_full = self.seen.len() >= MAX_SEEN;
            if self.since_fit >= REFIT[usize::from(is_full)] {
                self.fit();
            }
        }
    }

    fn fit(&mut self) {
        self.since_fit = 0;
        let ended = || self.seen.iter().filter(|seen| seen.is_ended);
        let count = ended().count() as f64;
        if count == 0.0 {
            return;
        }
        let mean_x = ended().map(|seen| seen.x).sum::<f64>() / count;
        let assumed = ASSUMED.map(|(offset, error)| (mean_x + offset, mean_x + offset + error));
        let assumed = if count < ASSUMED_UNTIL { &assumed[..] } else { &[] };
        let pairs = || {
            ended()
                .map(|seen| (seen.x, log(seen.tokens)))
                .chain(assumed.iter().copied())
        };
        let total = count + assumed.len() as f64;
        let (sum_x, sum_y) = pairs().fold((0.0, 0.0), |(x, y), (dx, dy)| (x + dx, y + dy));
        let (mean_x, mean_y) = (sum_x / total, sum_y / total);
        let (xx, xy) = pairs().fold((0.0, 0.0), |(xx, xy), (x, y)| {
            (xx + (x - mean_x).powi(2), xy + (x - mean_x) * (y - mean_y))
        });
        // The slope is bounded: a longer prediction never means a shorter sequence.
        self.slope = (xy / xx.max(1e-9)).clamp(0.0, 1.0);
        self.intercept = mean_y - self.slope * mean_x;
        self.fit_survival(assumed);
    }

    fn fit_survival(&mut self, assumed: &[(f64, f64)]) {
        let residual = |x: f64, y: f64| {
            let residual = y - self.intercept - self.slope * x;
            // Lengths are integers: residuals within rounding count as zero.
            if residual.abs() < 1e-6 { 0.0 } else { residual }
        };
        let of = |seen: &Seen| (residual(seen.x, log(seen.tokens)), seen.is_ended);
        let known = self.seen.iter().filter(|seen| seen.is_ended || seen.tokens > 0);
        let stand_in = assumed.iter().map(|(x, y)| (residual(*x, *y), true));
        let mut all: Vec<(f64, bool)> = known.map(of).chain(stand_in).collect();
        // Among equal residuals, ended sequences come first: the others survived that point.
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let mut survival: Vec<(f64, f64)> = Vec::with_capacity(all.len());
        let mut there = 1.0;
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for (index, (residual, is_ended)) in all.iter().enumerate() {
            if *is_ended {
                let at_risk = (all.len() - index) as f64;
                there *= 1.0 - 1.0 / at_risk;
                match survival.last_mut() {
                    Some(last) if last.0 >= *residual => last.1 = there,
                    _ => survival.push((*residual, there)),
                }
                count += 1.0;
                sum += residual;
                squares += residual * residual;
            }
        }
        self.survival = Survival::new(&survival);
        let deviation = (squares / count - (sum / count).powi(2)).max(0.0).sqrt();
        self.tail = Tail::new(
            all.last().map_or(0.0, |(residual, _)| *residual),
            // The next sequence is the longest of all with the same probability as any other.
            1.0 / (count + 1.0),
            TAIL * deviation + 1e-12,
        );
        self.certain = Certain::new(&self.survival, &self.tail);
    }

    /// `S`: the fraction of sequences with more than so many tokens.
    #[inline]
    fn there_after(&self, belief: Belief, tokens: f64) -> f64 {
        let ratio = tokens * belief.per_token;
        let (there, is_beyond) = self.survival.after(ratio);
        if !is_beyond {
            return there;
        }
        // Longer than any that ended: some are.
        there.max(self.tail.part) * self.tail.after(ratio)
    }

    /// Whether a sequence with at most `has` tokens certainly ends within `in_time` tokens in all.
    /// [`Self::chance`] is then 1, except for at most [`LITTLE`].
    #[inline]
    pub(super) fn surely_ends(&self, belief: Belief, has: f64, in_time: f64) -> bool {
        has * belief.per_token < self.certain.half && in_time * belief.per_token >= self.certain.little
    }

    /// Whether a sequence with at least `has` tokens, more than any ended one, certainly ends within
    /// `further` tokens. [`Self::chance`] is then 1.
    ///
    /// Its chance is `1 - (has / (has + further))^(1 / step)`, and `ln ((has + further) / has) >= further / (has + further)`.
    #[inline]
    pub(super) fn surely_ends_soon(&self, belief: Belief, has: f64, further: f64) -> bool {
        has * belief.per_token >= self.certain.beyond
            && further * (1.0 - ROUNDING) >= 1.0
            && further * (1.0 - ROUNDING) >= NOTHING * self.tail.step * (has + 1.0 + further)
    }

    /// Whether a sequence certainly ends beyond `in_time` tokens in all. [`Self::chance`] is then 0.
    #[inline]
    pub(super) fn surely_goes_on(&self, belief: Belief, in_time: f64) -> bool {
        in_time * belief.per_token < self.certain.none
    }

    /// Probability that a sequence with `generated` tokens ends within `further` more.
    pub(super) fn chance(&self, belief: Belief, generated: u32, further: f64) -> f64 {
        self.chance_after(belief, generated, further, self.there_with(belief, generated))
    }

    /// The same for two numbers of further tokens.
    #[inline]
    pub(super) fn chances(&self, belief: Belief, generated: u32, further: [f64; 2]) -> [f64; 2] {
        let there = self.there_with(belief, generated);
        further.map(|further| self.chance_after(belief, generated, further, there))
    }

    /// Fraction of sequences with at least so many tokens.
    #[inline]
    fn there_with(&self, belief: Belief, generated: u32) -> f64 {
        match generated {
            0 => 1.0,
            generated => self.there_after(belief, f64::from(generated)),
        }
    }

    #[inline]
    fn chance_after(&self, belief: Belief, generated: u32, further: f64, there: f64) -> f64 {
        if further < 1.0 {
            return 0.0;
        }
        let tokens = f64::from(generated) + further;
        // Most have more than enough time: they need no logarithm.
        if tokens * belief.per_token >= self.tail.over && there >= SURELY_THERE {
            return 1.0;
        }
        1.0 - self.there_after(belief, tokens) / there.max(f64::MIN_POSITIVE)
    }
}

fn log(tokens: u32) -> f64 {
    f64::from(tokens.max(1)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(beliefs: &mut Beliefs, predicted: u32, actual: u32) {
        let number = beliefs.on_arrived(predicted);
        beliefs.on_tokens(number, actual, true);
    }

    #[test]
    fn exact_predictions_are_believed_once_they_proved_right() {
        let mut beliefs = Beliefs::new();
        for length in 0..300 {
            let belief = beliefs.belief(200);
            let within = [(0, 199.0), (0, 200.0), (150, 49.0), (150, 50.0)]
                .map(|(generated, further)| beliefs.chance(belief, generated, further));
            if length == 0 {
                assert!(within[0] > 0.1 && within[1] < 0.9, "{within:?}");
            } else if length > 20 {
                assert_eq!(
                    within.map(|chance| (1e3 * chance).round() as u32),
                    [0, 1_000, 0, 1_000]
                );
            }
            end(&mut beliefs, 100 + length, 100 + length);
        }
    }

    #[test]
    fn what_is_predicted_at_random_says_nothing() {
        let mut beliefs = Beliefs::new();
        for number in 0..400_u32 {
            // Both are uniform from 100 to 499 and independent of each other.
            end(&mut beliefs, 100 + number * 37 % 400, 100 + number * 151 % 400);
        }
        let (low, high) = (beliefs.belief(110), beliefs.belief(480));
        for (further, chance) in [(200.0, 0.25), (300.0, 0.5), (400.0, 0.75)] {
            for belief in [low, high] {
                let is = beliefs.chance(belief, 0, further);
                assert!(
                    (is - chance).abs() < 0.1,
                    "{is} within {further}, {chance} wanted"
                );
            }
        }
        let rest = beliefs.chance(low, 300, 100.0);
        assert!(
            (rest - 0.5).abs() < 0.15,
            "half of those with 300 have 400 at most: {rest}"
        );
    }

    #[test]
    fn the_first_that_end_do_not_speak_for_those_that_run() {
        let mut beliefs = Beliefs::new();
        let numbers: Vec<u64> = (0..100).map(|_| beliefs.on_arrived(300)).collect();
        for (index, number) in numbers.iter().enumerate() {
            // A fifth has ended; all others are longer.
            let is_ended = index % 5 == 0;
            beliefs.on_tokens(*number, if is_ended { 100 } else { 120 }, is_ended);
        }
        let within = beliefs.chance(beliefs.belief(300), 0, 110.0);
        assert!((within - 0.2).abs() < 0.05, "{within}");
    }

    #[test]
    fn what_predictions_are_worth_is_learned_where_thousands_run_at_once() {
        let mut beliefs = Beliefs::new();
        let run = |beliefs: &mut Beliefs, present: u64, count: u64| {
            let mut numbers = VecDeque::new();
            for index in 0..count {
                let predicted = 100 + (index * 37 % 400) as u32;
                numbers.push_back((beliefs.on_arrived(predicted), predicted));
                if numbers.len() as u64 > present {
                    let (number, tokens) = numbers.pop_front().unwrap_or_default();
                    beliefs.on_tokens(number, tokens, true);
                }
            }
            // The remaining sequences are dropped.
            for (number, _) in numbers {
                beliefs.on_dropped(number);
            }
        };
        run(&mut beliefs, 20_000, 60_000);
        let within = |beliefs: &Beliefs, further| beliefs.chance(beliefs.belief(200), 0, further);
        assert!(within(&beliefs, 199.0) < 1e-3 && within(&beliefs, 200.0) > 0.999);
        assert!(beliefs.seen.len() <= MAX_SEEN && beliefs.stride > 20_000 / MAX_SEEN as u64);
        // As many as are remembered at a time follow: all of them are remembered again.
        run(&mut beliefs, 10, 200_000);
        assert_eq!(beliefs.stride, 1);
        assert!(beliefs.seen.len() == MAX_SEEN && within(&beliefs, 199.0) < 1e-3);
    }

    #[test]
    fn what_has_more_than_enough_time_is_as_sure_as_by_its_logarithm() {
        let mut beliefs = Beliefs::new();
        for number in 0..600_u32 {
            end(&mut beliefs, 100 + number * 37 % 400, 80 + number * 151 % 400);
            let belief = beliefs.belief(100 + number % 300);
            for (generated, further) in [
                (0, 50.0),
                (0, 400.0),
                (90, 900.0),
                (90, 5e4),
                (2_000, 1e6),
                (9_000, 1e9),
            ] {
                let there = match generated {
                    0 => 1.0,
                    generated => beliefs.there_after(belief, f64::from(generated)),
                };
                let left = beliefs.there_after(belief, f64::from(generated) + further);
                let plain = 1.0 - left / there.max(f64::MIN_POSITIVE);
                assert_eq!(
                    beliefs.chance(belief, generated, further).to_bits(),
                    plain.to_bits()
                );
            }
        }
    }

    #[test]
    fn what_is_longer_than_any_was_goes_on_a_little() {
        let mut beliefs = Beliefs::new();
        end(&mut beliefs, 100, 100);
        let belief = beliefs.belief(100);
        let soon = beliefs.chance(belief, 200, 5.0);
        assert!(soon > 0.1 && soon < beliefs.chance(belief, 200, 50.0));
    }
}
