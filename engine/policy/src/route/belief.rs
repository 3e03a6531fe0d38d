//! What a predicted length is worth: how long sequences came to be beside what was predicted.
//!
//! ```text
//! x = ln predicted    y = ln actual    y ~ a + b x + e          least squares over the latest that ended
//! S(e) = product over e' <= e of (1 - ended at e' / still there at e')       Kaplan and Meier, over the latest that arrived
//! P(L <= g + t | L > g) = 1 - S(ln (g + t) - a - b x) / S(ln g - a - b x)
//! ```
//!
//! A prediction that says nothing has `b = 0`: then lengths are distributed as those of others were. An exact one has
//! `b = 1` and no residuals, and a chance is 0 or 1. Those that still run, or were dropped, count up to the tokens that
//! they have: without them the first that end, which are the shortest, would speak for all. Before anything ended,
//! predictions are believed: some that were exact stand in, and count less the more have ended.

use std::collections::VecDeque;

use super::survival::{HAIR, Survival};

/// Sequences that are remembered: the latest that arrived.
const MAX_SEEN: usize = 512;
/// Stand in until this many ended: `(ln(predicted / mean), ln(actual / predicted))`. They are off by a half either way, so
/// that nothing is built on predictions before they have proved right.
const ASSUMED: [(f64, f64); 4] = [(-0.6, 0.4), (-0.2, -0.4), (0.2, 0.4), (0.6, -0.4)];
const ASSUMED_UNTIL: f64 = 12.0;
/// Sequences that end between two fits, at first and when many were seen.
const REFIT: [u32; 2] = [4, 32];
/// Beyond the longest that ended, the part that is still there falls by `e` with each such part of the residuals' deviation.
const TAIL: f64 = 0.5;
/// So many steps beyond the longest that ended, next to nothing is still there: less than the last bit of a chance, where at least
/// [`SURELY_THERE`] was before.
const NOTHING: f64 = 46.0;
const SURELY_THERE: f64 = 1e-3;

/// How far off a product is that is made in place of a quotient.
const ROUNDING: f64 = 1e-9;

/// A sequence that arrived.
#[derive(Debug, Clone, Copy)]
struct Seen {
    x: f64,
    tokens: u32,
    is_ended: bool,
}

/// The error of predicted lengths.
#[derive(Debug, Clone)]
pub(super) struct Beliefs {
    seen: VecDeque<Seen>,
    /// Number of the first of these.
    first: u64,
    since_fit: u32,
    intercept: f64,
    slope: f64,
    /// By residual at which sequences ended, the part that is still there after it.
    survival: Survival,
    /// Beyond all that were seen.
    tail: Tail,
    certain: Certain,
}

/// Ratios that say a chance without looking it up.
#[derive(Debug, Clone, Copy)]
struct Certain {
    /// Below it nothing has ended.
    none: f64,
    /// Below it at least [`SURELY_THERE`] is left.
    there: f64,
}

impl Certain {
    fn new(survival: &Survival) -> Self {
        Self {
            none: survival.first() * (1.0 - ROUNDING),
            there: survival.ratio_with(SURELY_THERE) * (1.0 - ROUNDING),
        }
    }
}

/// What is longer than all that were seen.
#[derive(Debug, Clone, Copy)]
struct Tail {
    /// The longest residual, also of those that still run.
    from: f64,
    /// The part that is taken to be longer, at least.
    part: f64,
    /// How fast it ends: by `e` with each such step.
    step: f64,
    /// Ratio from which on nothing is there.
    over: f64,
}

impl Tail {
    fn new(from: f64, part: f64, step: f64) -> Self {
        Self {
            from,
            part,
            step,
            over: (from - HAIR + NOTHING * step).exp(),
        }
    }
}

/// What is believed of one length but for the residual: one over it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Belief {
    per_token: f64,
}

impl Beliefs {
    pub(super) fn new() -> Self {
        let survival = Survival::new(&[(-0.4, 0.75), (0.0, 0.25), (0.4, 0.0)]);
        Self {
            certain: Certain::new(&survival),
            seen: VecDeque::new(),
            first: 0,
            since_fit: 0,
            intercept: 0.0,
            slope: 1.0,
            survival,
            tail: Tail::new(0.4, 0.2, 0.2),
        }
    }

    /// Of a sequence that is predicted to have so many tokens.
    pub(super) fn belief(&self, predicted: u32) -> Belief {
        Belief {
            per_token: (-self.intercept - self.slope * log(predicted)).exp(),
        }
    }

    /// A sequence arrived; gives its number.
    pub(super) fn on_arrived(&mut self, predicted: u32) -> u64 {
        if self.seen.len() >= MAX_SEEN {
            self.seen.pop_front();
            self.first += 1;
        }
        self.seen.push_back(Seen {
            x: log(predicted),
            tokens: 0,
            is_ended: false,
        });
        self.first + self.seen.len() as u64 - 1
    }

    /// A sequence has so many tokens, or ended with them.
    pub(super) fn on_tokens(&mut self, number: u64, tokens: u32, is_ended: bool) {
        let index = number.checked_sub(self.first);
        let seen = index.and_then(|index| self.seen.get_mut(usize::try_from(index).ok()?));
        if let Some(seen) = seen {
            (seen.tokens, seen.is_ended) = (tokens, is_ended);
        }
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
        // What is predicted longer is not shorter.
        self.slope = (xy / xx.max(1e-9)).clamp(0.0, 1.0);
        self.intercept = mean_y - self.slope * mean_x;
        self.fit_survival(assumed);
    }

    fn fit_survival(&mut self, assumed: &[(f64, f64)]) {
        let residual = |x: f64, y: f64| {
            let residual = y - self.intercept - self.slope * x;
            // Lengths are whole numbers: what rounding leaves is no error.
            if residual.abs() < 1e-6 { 0.0 } else { residual }
        };
        let of = |seen: &Seen| (residual(seen.x, log(seen.tokens)), seen.is_ended);
        let known = self.seen.iter().filter(|seen| seen.is_ended || seen.tokens > 0);
        let stand_in = assumed.iter().map(|(x, y)| (residual(*x, *y), true));
        let mut all: Vec<(f64, bool)> = known.map(of).chain(stand_in).collect();
        // Of equal ones those that ended come first: the others were still there.
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
        self.certain = Certain::new(&self.survival);
        let deviation = (squares / count - (sum / count).powi(2)).max(0.0).sqrt();
        self.tail = Tail::new(
            all.last().map_or(0.0, |(residual, _)| *residual),
            // The next is the longest of all as often as any other.
            1.0 / (count + 1.0),
            TAIL * deviation + 1e-12,
        );
    }

    /// `S`: the part that has more than so many tokens.
    #[inline]
    fn there_after(&self, belief: Belief, tokens: f64) -> f64 {
        let ratio = tokens * belief.per_token;
        let (there, is_beyond) = self.survival.after(ratio);
        if !is_beyond {
            return there;
        }
        // Longer than any that ended: some are.
        let beyond = (ratio.ln() + HAIR - self.tail.from).max(0.0);
        there.max(self.tail.part) * (-beyond / self.tail.step).exp()
    }

    /// Whether it is certain that a sequence which has at most `has` tokens ends within `in_time` in all: then [`Self::chance`] is 1.
    #[inline]
    pub(super) fn surely_ends(&self, belief: Belief, has: f64, in_time: f64) -> bool {
        has * belief.per_token < self.certain.there
            && in_time * belief.per_token * (1.0 - ROUNDING) >= self.tail.over
    }

    /// Whether it is certain that a sequence ends beyond `in_time` tokens in all: then [`Self::chance`] is 0.
    #[inline]
    pub(super) fn surely_goes_on(&self, belief: Belief, in_time: f64) -> bool {
        in_time * belief.per_token < self.certain.none
    }

    /// Chance that a sequence which has `generated` tokens ends within `further` ones.
    pub(super) fn chance(&self, belief: Belief, generated: u32, further: f64) -> f64 {
        if further < 1.0 {
            return 0.0;
        }
        let has = f64::from(generated);
        let there = if generated == 0 {
            1.0
        } else {
            self.there_after(belief, has)
        };
        let tokens = has + further;
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
            // Both even from 100 to 499, independent of each other.
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
            // A fifth has ended, all others have gone on beyond that.
            let is_ended = index % 5 == 0;
            beliefs.on_tokens(*number, if is_ended { 100 } else { 120 }, is_ended);
        }
        let within = beliefs.chance(beliefs.belief(300), 0, 110.0);
        assert!((within - 0.2).abs() < 0.05, "{within}");
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
