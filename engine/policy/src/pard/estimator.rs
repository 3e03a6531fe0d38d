//! Parameters of the estimated latency downstream of a module (PARD 4.2, Eq. 3b):
//! `max over paths of [sum q_i + sum d_i + W]`. Each term can be left out.

use serde::{Deserialize, Serialize};
use weir_types::Span;

use crate::baselines::overload_control::OverloadControl;
use crate::baselines::shares::{ShareWeight, SplitScope};

/// Terms of the estimate, and the windows and samples that they are measured over.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Estimator {
    /// Whether queueing delays `q_i` are counted.
    pub queueing: bool,
    /// Whether executions `d_i` are counted.
    pub execution: bool,
    /// Way of counting batch waits, `W`.
    pub wait: WaitTerm,
    /// Quantile of the summed batch waits that is expected (PARD's lambda, 0.1).
    pub quantile: f64,
    /// Window over which queueing delays are averaged, linearly weighted.
    pub window: Span,
    /// Number of recent waits kept for the quantile (PARD's M).
    pub samples: usize,
    /// Queueing delay that a module reports.
    pub reported: Queueing,
    /// Part of a request's wait that is measured as batch wait.
    pub measured: WaitMeasure,
    /// Set if streams that differ in their items are estimated separately: the interval at which a module
    /// publishes the expected items of streams.
    pub per_stream: Option<Span>,
}

impl Default for Estimator {
    /// Parameters of PARD.
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
    /// Estimator without any term: the latency downstream is taken as zero.
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

/// Rules of a [`StatePlanner`](super::state_planner::StatePlanner), by which it derives estimates from
/// published states.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimation {
    /// Estimator of the latency downstream.
    pub estimator: Estimator,
    /// Quantity that a module's share of the SLO is proportional to.
    pub share_weight: ShareWeight,
    /// Modules among which the SLO is split.
    pub split_over: SplitScope,
    /// Control of the share of the input that is shed on arrival.
    pub overload_control: Option<OverloadControl>,
    /// Quantile of the summed batch waits that is expected if durations are disturbed; `None`: the
    /// estimator's own.
    pub disturbed_quantile: Option<f64>,
}

/// Way of counting batch waits downstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitTerm {
    /// Batch waits count as zero.
    None,
    /// A quantile of the sum along the path (the paper).
    #[default]
    Quantile,
    /// Batch waits count as whole executions.
    Execution,
}

/// Queueing delay that a module reports, `q_i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queueing {
    /// The recent mean, limited by the present queue, and reported at once if it changes much.
    #[default]
    Present,
    /// The recent mean, reported once a second (the paper).
    Recent,
}

/// Part of a request's wait in a module that is measured as batch wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitMeasure {
    /// The time from binding to a batch until that runs (the paper).
    #[default]
    Bound,
    /// The whole time from arrival until the batch runs: late binding leaves no batch wait.
    Whole,
}
