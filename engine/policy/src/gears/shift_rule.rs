//! Rule for shifting gears: scope and window of the measured load, and the condition for a lower gear.

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
}

impl Default for ShiftRule {
    /// Window of one second, the authors' factor, and all requests together.
    fn default() -> Self {
        Self {
            window: Span::from_secs(1),
            down: ShiftDown::Waiting { factor: 8.0 },
            scope: ShiftScope::Graph,
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
