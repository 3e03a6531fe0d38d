//! Tokens and their price: what was used, and what a day may cost. Days are those of UTC. A program that is started again begins
//! anew.

/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// Tokens of one request at most; servers that report more are not believed.
const MAX_TOKENS: u64 = 10_000_000;

/// Tokens of requests and answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Tokens of requests, with those of pictures.
    pub(super) input: u64,
    /// Tokens of answers.
    pub(super) output: u64,
}

impl Usage {
    pub(super) fn new(input: u64, output: u64) -> Self {
        Self {
            input: input.min(MAX_TOKENS),
            output: output.min(MAX_TOKENS),
        }
    }

    fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    fn add(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
    }
}

/// Prices of a million tokens, in any currency.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Prices {
    pub(super) input: f64,
    pub(super) output: f64,
}

impl Prices {
    /// Price of tokens, in millionths of the unit.
    fn millionths(self, usage: Usage) -> f64 {
        self.input * usage.input as f64 + self.output * usage.output as f64
    }
}

/// Limits of a day; `None`: none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct DayLimits {
    pub(super) tokens: Option<u64>,
    /// In the unit of the prices.
    pub(super) price: Option<f64>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Budget {
    limits: DayLimits,
    prices: Prices,
    /// Usage since the start.
    all: Usage,
    day: u64,
    /// Usage of that day.
    today: Usage,
    /// Tokens of the most expensive request so far.
    largest: Usage,
}

impl Budget {
    /// `max_output`: tokens that an answer may have.
    pub(super) fn new(limits: DayLimits, prices: Prices, max_output: u64) -> Self {
        Self {
            limits,
            prices,
            all: Usage::default(),
            day: 0,
            today: Usage::default(),
            largest: Usage::new(0, max_output),
        }
    }

    /// Whether another request may begin beside those in flight.
    pub(super) fn allows(&mut self, in_flight: usize, utc_ms: u64) -> bool {
        self.turn_to(utc_ms);
        !self.is_spent(in_flight, utc_ms)
    }

    /// True if the day has too few tokens left for another request beside those in flight. Each of these requests is expected to
    /// be as expensive as the largest one so far.
    pub(super) fn is_spent(&self, in_flight: usize, utc_ms: u64) -> bool {
        let is_today = utc_ms / DAY_MS <= self.day;
        let spent = if is_today { self.today } else { Usage::default() };
        let requests = (in_flight as u64).saturating_add(1);
        let over_tokens = self.limits.tokens.is_some_and(|max| {
            let expected = self.largest.total().saturating_mul(requests);
            spent.total().saturating_add(expected) > max
        });
        let over_price = self.limits.price.is_some_and(|max| {
            let expected = self.prices.millionths(self.largest) * requests as f64;
            self.prices.millionths(spent) + expected > max * 1e6
        });
        over_tokens || over_price
    }

    /// A request ended.
    pub(super) fn settle(&mut self, usage: Usage, utc_ms: u64) {
        self.turn_to(utc_ms);
        self.all.add(usage);
        self.today.add(usage);
        self.largest.input = self.largest.input.max(usage.input);
        self.largest.output = self.largest.output.max(usage.output);
    }

    fn turn_to(&mut self, utc_ms: u64) {
        // A clock that was set back does not give the budget of a day again.
        let day = utc_ms / DAY_MS;
        if day > self.day {
            self.day = day;
            self.today = Usage::default();
        }
    }

    pub(super) fn usage(&self) -> Usage {
        self.all
    }

    /// Cost since the start, in millionths of the unit of the prices.
    pub(super) fn cost_millionths(&self) -> u64 {
        self.prices.millionths(self.all).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_of_a_day_is_never_exceeded_and_begins_anew() {
        let limits = DayLimits {
            tokens: Some(1_000),
            price: None,
        };
        let mut budget = Budget::new(limits, Prices::default(), 100);
        let mut used = 0;
        while budget.allows(0, 5) {
            budget.settle(Usage::new(150, 50), 6);
            used += 200;
            assert!(used <= 1_000);
        }
        // Another one may need 150 and 100 tokens.
        assert_eq!(used, 800);
        assert!(budget.is_spent(0, DAY_MS - 1) && !budget.is_spent(0, DAY_MS));
        assert!(budget.allows(0, DAY_MS));
        // A clock that goes back.
        budget.settle(Usage::new(900, 50), DAY_MS - 9);
        assert!(!budget.allows(0, DAY_MS - 8));
    }

    #[test]
    fn requests_in_flight_count_for_the_price() {
        let limits = DayLimits {
            tokens: None,
            price: Some(0.003),
        };
        let prices = Prices {
            input: 1.0,
            output: 10.0,
        };
        let mut budget = Budget::new(limits, prices, 100);
        assert!(budget.allows(0, 0));
        assert!(budget.allows(1, 0));
        assert!(budget.allows(2, 0));
        assert!(!budget.allows(3, 0));
        for _ in 0..3 {
            budget.settle(Usage::new(500, 20), 0);
        }
        assert_eq!(budget.cost_millionths(), 3 * 700);
        assert_eq!(
            budget.usage(),
            Usage {
                input: 1_500,
                output: 60
            }
        );
        assert!(!budget.allows(0, 0), "the next one may cost 1,500 millionths");
    }

    #[test]
    fn requests_in_flight_are_expected_to_be_as_large_as_a_later_one() {
        let limits = DayLimits {
            tokens: Some(4_000),
            price: Some(4.0),
        };
        let prices = Prices {
            input: 1_000.0,
            output: 1_000.0,
        };
        for limits in [
            DayLimits {
                price: None,
                ..limits
            },
            DayLimits {
                tokens: None,
                ..limits
            },
        ] {
            let mut budget = Budget::new(limits, prices, 100);
            assert!(budget.allows(2, 0));
            budget.settle(Usage::new(900, 100), 0);
            // 1,000 tokens are used, and each of the two in flight and of the next one may take as many.
            assert!(budget.allows(2, 0) && !budget.allows(3, 0));
        }
    }

    #[test]
    fn counts_of_a_server_that_lies_are_bounded() {
        let mut budget = Budget::new(DayLimits::default(), Prices::default(), 100);
        for _ in 0..3 {
            assert!(budget.allows(0, 0), "no limit");
            budget.settle(Usage::new(u64::MAX, u64::MAX), 0);
        }
        assert_eq!(budget.usage().input, 3 * MAX_TOKENS);
    }
}
