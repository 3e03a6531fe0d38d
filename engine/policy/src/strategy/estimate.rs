//! `estimate` of `[policy]`: terms of the estimator that differ from those of the drop rule.

use serde::{Deserialize, Serialize};
use weir_types::Span;

use crate::pard::estimator::{Estimator, Queueing, WaitMeasure, WaitTerm};

/// Terms of an [`Estimator`]; a term that is not given is that of the drop rule.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Estimate {
    /// Whether queueing delays are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queueing: Option<bool>,
    /// Whether executions are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<bool>,
    /// Way of counting batch waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitTerm>,
    /// Quantile of summed batch waits that is expected, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantile: Option<f64>,
    /// Window over which queueing delays are averaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Span>,
    /// Number of recent waits that are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<usize>,
    /// Queueing delay that a module reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<Queueing>,
    /// Part of a request's wait that is measured as batch wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<WaitMeasure>,
    /// Whether streams are estimated separately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_stream: Option<bool>,
    /// Interval at which a module publishes the expected items of streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_stream_interval: Option<Span>,
}

impl Estimate {
    /// Returns `preset` with the terms that are given here.
    pub(super) fn over(self, preset: Estimator) -> Estimator {
        let interval = self.per_stream_interval.or(preset.per_stream);
        Estimator {
            queueing: self.queueing.unwrap_or(preset.queueing),
            execution: self.execution.unwrap_or(preset.execution),
            wait: self.wait.unwrap_or(preset.wait),
            quantile: self.quantile.unwrap_or(preset.quantile),
            window: self.window.unwrap_or(preset.window),
            samples: self.samples.unwrap_or(preset.samples),
            reported: self.reported.unwrap_or(preset.reported),
            measured: self.measured.unwrap_or(preset.measured),
            per_stream: match self.per_stream {
                Some(false) => None,
                Some(true) => Some(interval.unwrap_or(Span::from_millis(50))),
                None => interval.filter(|_| preset.per_stream.is_some()),
            },
        }
    }
}

impl From<Estimator> for Estimate {
    /// Every term of the estimator, given explicitly.
    fn from(estimator: Estimator) -> Self {
        Self {
            queueing: Some(estimator.queueing),
            execution: Some(estimator.execution),
            wait: Some(estimator.wait),
            quantile: Some(estimator.quantile),
            window: Some(estimator.window),
            samples: Some(estimator.samples),
            reported: Some(estimator.reported),
            measured: Some(estimator.measured),
            per_stream: Some(estimator.per_stream.is_some()),
            per_stream_interval: estimator.per_stream,
        }
    }
}
