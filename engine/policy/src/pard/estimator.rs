//! How the latency downstream of a module is estimated (PARD 4.2, Eq. 3b): `max over paths of [sum q_i + sum d_i + W]`,
//! term by term, so that each can be left out.

use serde::{Deserialize, Serialize};
use weir_types::Span;

use crate::baselines::overload_control::OverloadControl;
use crate::baselines::shares::{ShareWeight, SplitScope};

/// The terms of the estimate and what they are measured over.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Estimator {
    /// Counts the queueing delays `q_i`.
    pub queueing: bool,
    /// Counts the executions `d_i`.
    pub execution: bool,
    /// How batch waits are counted, `W`.
    pub wait: WaitTerm,
    /// Which quantile of the summed batch waits is expected (PARD's lambda, 0.1).
    pub quantile: f64,
    /// How far back queueing delays are averaged, linearly weighted.
    pub window: Span,
    /// How many recent waits are kept for the quantile (PARD's M).
    pub samples: usize,
    /// Which queueing delay a module reports.
    pub reported: Queueing,
    /// What counts as the wait of a request.
    pub measured: WaitMeasure,
    /// Whether streams that differ in their items are estimated each by itself; how often a module publishes what streams
    /// ask of it.
    pub per_stream: Option<Span>,
}

impl Default for Estimator {
    /// PARD's.
    fn default() -> Self {
        Self {
            queueing: true,
            execution: true,
            wait: WaitTerm::Quantile,
            quantile: 0.1,
            window: Span::from_secs(5),
            samples: 10_000,
            reported: Queueing::Present,
            measured: WaitMeasure::Bound,
            per_stream: None,
        }
    }
}

impl Estimator {
    /// Nothing is expected downstream.
    #[must_use]
    pub fn none() -> Self {
        Self {
            queueing: false,
            execution: false,
            wait: WaitTerm::None,
            ..Self::default()
        }
    }
}

/// All that a [`StatePlanner`](super::state_planner::StatePlanner) derives from what modules publish, and by what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimation {
    /// The latency downstream.
    pub estimator: Estimator,
    /// What a module's share of the SLO follows.
    pub share_weight: ShareWeight,
    /// Among which modules the SLO is split.
    pub split_over: SplitScope,
    /// Which share of the input is shed on arrival.
    pub overload_control: Option<OverloadControl>,
    /// Which quantile of the summed batch waits is expected where durations are disturbed; `None`: the estimator's own.
    pub disturbed_quantile: Option<f64>,
}

/// How batch waits downstream are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitTerm {
    /// As none.
    None,
    /// A quantile of their sum along the path (the paper).
    #[default]
    Quantile,
    /// As whole executions.
    Execution,
}

/// Which queueing delay a module reports, `q_i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queueing {
    /// The recent mean as far as what waits now bears it out, reported at once when it moves.
    #[default]
    Present,
    /// The recent mean, reported once a second (the paper).
    Recent,
}

/// What counts as the wait of a request in a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitMeasure {
    /// From being bound to a batch until it runs (the paper).
    #[default]
    Bound,
    /// All of it, from its arrival until its batch runs: with late binding no batch wait is left.
    Whole,
}
