//! Rule for shifting gears: measure, scope and window of the load, and the condition for a lower gear.

use serde::{Deserialize, Serialize};
use weir_types::Span;

/// Scope over which the load is measured, and that has one gear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShiftScope {
    /// All requests of the graph together, as in the paper.
    #[default]
    Graph,
    /// Requests of each stream separately.
    Stream,
}

/// Condition for a lower gear.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShiftDown {
    /// At most as many items wait that `factor` times their number is within the rate.
    Waiting {
        /// Factor; 8 in the code of KEN's authors.
        factor: f64,
    },
    /// No shift has happened for this time.
    Dwell(Span),
}

/// Measure of the load by which gears are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShiftBy {
    /// Requests a second that arrived within the window (KEN 4.1).
    #[default]
    Rate,
    /// Requests that wait or run, which is the load of models that generate (KEN 4.1).
    InFlight,
    /// Queued work and lost requests, by the measured durations and the slots that are left. Beyond the paper.
    Backlog(BacklogRule),
}

impl ShiftBy {
    fn is_rate(&self) -> bool {
        *self == Self::Rate
    }
}

/// Parameters of [`ShiftBy::Backlog`]. Backlogs are parts of the time that requests can wait: the latency objective
/// without the bare execution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BacklogRule {
    /// Backlog at which the second gear comes into force.
    pub first: f64,
    /// Backlog at which the last gear comes into force, at least `first`; those between are spread evenly.
    pub full: f64,
    /// A gear is left for a lower one below so much of the backlog at which it came into force, 0 to 1.
    pub release: f64,
    /// Part of the requests of the window that is dropped for lack of time at which the last gear comes into force.
    pub losses: f64,
}

impl Default for BacklogRule {
    /// Gears change where between 40 and 70 % of the time that requests can wait is taken, and back at half of that.
    fn default() -> Self {
        Self {
            first: 0.4,
            full: 0.7,
            release: 0.5,
            losses: 0.02,
        }
    }
}

impl BacklogRule {
    /// Backlog at which a gear comes into force, of so many gears; 0 for the lowest gear.
    #[must_use]
    pub fn enters_at(&self, gear: usize, gears: usize) -> f64 {
        if gear == 0 {
            return 0.0;
        }
        let part = (gear - 1) as f64 / gears.saturating_sub(2).max(1) as f64;
        // In this form the last gear has exactly `full`, which losses reach and do not exceed.
        self.first * (1.0 - part) + self.full * part
    }

    /// The gear for a backlog where `gear` is in force.
    #[must_use]
    pub fn gear_for(&self, gear: usize, backlog: f64, gears: usize) -> usize {
        let reached = |scale: f64| {
            let of_gear = |gear: &usize| self.enters_at(*gear, gears) * scale <= backlog;
            (1..gears).take_while(of_gear).count()
        };
        let lowest = reached(1.0);
        gear.clamp(lowest, reached(self.release).max(lowest))
    }
}

/// Rule for shifting gears.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ShiftRule {
    /// Window over which arrivals are counted.
    pub window: Span,
    /// Condition for a lower gear.
    pub down: ShiftDown,
    /// Scope over which the load is measured.
    #[serde(default)]
    pub scope: ShiftScope,
    /// Measure of the load.
    #[serde(default, skip_serializing_if = "ShiftBy::is_rate")]
    pub by: ShiftBy,
}

impl Default for ShiftRule {
    /// Window of one second, the authors' factor, and all requests together.
    fn default() -> Self {
        Self {
            window: Span::from_secs(1),
            down: ShiftDown::Waiting { factor: 8.0 },
            scope: ShiftScope::Graph,
            by: ShiftBy::Rate,
        }
    }
}

/// Shift rule and load ranges of a plan.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ShiftSpec {
    /// Rule for shifting gears.
    pub rule: ShiftRule,
    /// Upper ends of the gears' load ranges, ascending; empty if no plan is in force.
    pub bounds: Vec<f64>,
}
