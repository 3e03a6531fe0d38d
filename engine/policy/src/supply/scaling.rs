//! Resource scaling (PARD 5.1): how many workers a module should have, by its request rate and what a worker can do.

use serde::{Deserialize, Serialize};
use weir_types::{Span, Timestamp};

/// When how many workers are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalingRule {
    /// The fewest.
    pub least: u32,
    /// The most.
    pub most: u32,
    /// Capacity over present rate that is aimed at, at least 1.
    pub headroom: f64,
    /// How long fewer must have done before one is given up.
    pub patience: Span,
}

/// Decides how many workers a module should have.
#[derive(Debug, Clone)]
pub struct Scaler {
    rule: ScalingRule,
    /// The most that was wanted since when: before `patience` is over nothing less is.
    held: Option<(u32, Timestamp)>,
}

impl Scaler {
    /// A scaler that has seen nothing yet.
    #[must_use]
    pub fn new(rule: ScalingRule) -> Self {
        Self { rule, held: None }
    }

    /// How many workers there should be: `rate` items a second come in, a worker does `each`.
    pub fn wanted(&mut self, rate: f64, each: f64, now: Timestamp) -> u32 {
        let most = self.rule.most.max(self.rule.least);
        let wanted = if each > 0.0 {
            (rate * self.rule.headroom / each).ceil().min(f64::from(most)) as u32
        } else {
            most
        };
        let wanted = wanted.clamp(self.rule.least, most);
        match self.held {
            Some((held, since)) if wanted < held => {
                if now.since(since) < self.rule.patience {
                    return held;
                }
                self.held = Some((wanted, now));
            }
            Some((held, _)) if wanted == held => self.held = Some((held, now)),
            _ => self.held = Some((wanted, now)),
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Timestamp {
        Timestamp::ZERO + Span::from_secs(s)
    }

    #[test]
    fn it_grows_at_once_and_shrinks_with_patience() {
        let mut scaler = Scaler::new(ScalingRule {
            least: 1,
            most: 10,
            headroom: 1.2,
            patience: Span::from_secs(30),
        });
        let mut check =
            |rate, s, expected| assert_eq!(scaler.wanted(rate, 50.0, at(s)), expected, "at {s} s");
        check(100.0, 0, 3);
        check(400.0, 1, 10);
        check(10_000.0, 2, 10);
        check(100.0, 20, 10);
        check(100.0, 31, 10);
        check(100.0, 32, 3);
        check(0.0, 100, 1);
    }
}
