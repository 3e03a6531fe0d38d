//! The state that a module publishes, and the estimate that others derive from it (PARD 4.2).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_types::{ModuleId, Span, StreamId};

use crate::measure::fan_out::FanOut;
use crate::pard::batch_wait::QuantileSketch;

/// The state of a module, as published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModuleState {
    /// The module.
    pub module: ModuleId,
    /// Recent mean queueing delay, `q_i`.
    pub queueing_delay: Span,
    /// Execution of one request's items at the present batch size, `d_i`.
    pub duration: Span,
    /// Recent batch waits, for `W_p`.
    pub waits: QuantileSketch,
    /// Worst recent latency of a request in the module.
    pub worst_latency: Span,
    /// Input rate in items a second.
    pub input_rate: f64,
    /// Throughput in items a second, `T_m`.
    pub throughput: f64,
    /// Slots, or the share of them; 0: not published yet.
    pub workers: f64,
    /// Mean items of a request.
    pub items_per_request: f64,
    /// Mean ratio of measured to profiled durations.
    pub duration_ratio: f64,
    /// Expected items of a request by stream; empty if all have one.
    pub fan_out: Arc<FanOut>,
    /// Items above which a request is deprioritized; `None`: no limit.
    pub cost_limit: Option<u32>,
}

impl ModuleState {
    /// The state before any batch ran: the profiled duration.
    #[must_use]
    pub fn initial(module: ModuleId, duration: Span) -> Self {
        Self {
            module,
            queueing_delay: Span::ZERO,
            duration,
            waits: QuantileSketch::default(),
            worst_latency: duration,
            input_rate: 0.0,
            throughput: 0.0,
            workers: 0.0,
            items_per_request: 1.0,
            duration_ratio: 1.0,
            fan_out: Arc::default(),
            cost_limit: None,
        }
    }

    /// Bytes that it takes when published.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<ModuleId>()
            + 3 * size_of::<Span>()
            + 5 * size_of::<f64>()
            + self.waits.bytes()
            + self.fan_out.bytes()
    }
}

/// What a module derives from the states: the latency downstream of it, and its budgets under rules that split the SLO.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DownstreamEstimate {
    /// Estimated latency downstream, the maximum over paths.
    pub downstream: Span,
    /// This module's own share of the SLO.
    pub own_budget: Span,
    /// The shares of all modules up to this one along its longest path.
    pub budget_up_to_here: Span,
    /// Share of the input to shed because this module or one downstream is overloaded (`oc`).
    pub shed_share: f64,
    /// Estimated latency downstream by stream, if streams differ (`weir`).
    pub per_stream: Vec<Span>,
}

impl DownstreamEstimate {
    /// Estimated latency downstream for a request of `stream`.
    #[must_use]
    pub fn downstream_of(&self, stream: StreamId) -> Span {
        self.per_stream
            .get(stream.index())
            .copied()
            .unwrap_or(self.downstream)
    }
}
