//! What gears are shifted by: of what the load is measured, over which time, and when a lower gear may follow.

use serde::{Deserialize, Serialize};
use weir_types::Span;

/// Of what the load is measured, and what has a gear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShiftScope {
    /// All requests of the graph together, as in the paper.
    #[default]
    Graph,
    /// Those of each stream.
    Stream,
}

/// When a lower gear may follow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShiftDown {
    /// Where `factor` times the waiting items are at most the rate.
    Waiting {
        /// 8 in the code of KEN's authors.
        factor: f64,
    },
    /// After this time without a shift.
    Dwell(Span),
}

/// How gears are shifted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ShiftRule {
    /// Time over which arrivals are counted.
    pub window: Span,
    /// When a lower gear may follow.
    pub down: ShiftDown,
    /// Of what the load is measured.
    #[serde(default)]
    pub scope: ShiftScope,
}

impl Default for ShiftRule {
    /// One second, the authors' factor, and all requests together.
    fn default() -> Self {
        Self {
            window: Span::from_secs(1),
            down: ShiftDown::Waiting { factor: 8.0 },
            scope: ShiftScope::Graph,
        }
    }
}

/// What gears are shifted by.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ShiftSpec {
    /// How they are shifted.
    pub rule: ShiftRule,
    /// Up to which load each gear is meant, ascending; none where no plan is in force.
    pub bounds: Vec<f64>,
}
