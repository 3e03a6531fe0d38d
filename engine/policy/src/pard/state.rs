//! The state that a module publishes, and the estimate that other modules derive from it (PARD 4.2).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_types::{ModuleId, Span, StreamId};

use crate::measure::fan_out::FanOut;
use crate::pard::batch_wait::QuantileSketch;

/// The state of a module, as published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModuleState {
    /// Module that published the state.
    pub module: ModuleId,
    /// Recent mean queueing delay, `q_i`.
    pub queueing_delay: Span,
    /// Execution time of one request's items at the present batch size, `d_i`.
    pub duration: Span,
    /// Recent batch waits, for `W_p`.
    pub waits: QuantileSketch,
    /// Worst recent latency of a request in the module.
    pub worst_latency: Span,
    /// Input rate in items a second.
    pub input_rate: f64,
    /// Throughput in items a second, `T_m`.
    pub throughput: f64,
    /// Number of slots, or the module's share of them; 0 if not published yet.
    pub workers: f64,
    /// Mean items of a request.
    pub items_per_request: f64,
    /// Mean ratio of measured to profiled durations.
    pub duration_ratio: f64,
    /// Degree to which durations deviate from their profiles, 0 to 1; 0 if it is not measured.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub disturbance: f64,
    /// Expected items of a request by stream; empty if every request has one item.
    pub fan_out: Arc<FanOut>,
    /// Number of items above which a request is deprioritized; `None`: no limit.
    pub cost_limit: Option<u32>,
    /// Delays of requests by objective; empty if all requests have the same objective.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<ObjectiveState>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

/// Delays of requests of one objective in a module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveState {
    /// The latency objective.
    pub slo: Span,
    /// Recent mean queueing delay of its requests.
    pub queueing_delay: Span,
    /// Recent batch waits of its requests.
    pub waits: QuantileSketch,
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
            disturbance: 0.0,
            fan_out: Arc::default(),
            cost_limit: None,
            objectives: Vec::new(),
        }
    }

    /// Queueing delay of requests with objective `slo`. The delay of all requests if `slo` is `None`, or that
    /// objective is not published separately.
    #[must_use]
    pub fn queueing_delay_of(&self, slo: Option<Span>) -> Span {
        self.objective(slo)
            .map_or(self.queueing_delay, |state| state.queueing_delay)
    }

    /// The batch waits of requests with objective `slo`, as [`queueing_delay_of`](Self::queueing_delay_of).
    #[must_use]
    pub fn waits_of(&self, slo: Option<Span>) -> &QuantileSketch {
        self.objective(slo).map_or(&self.waits, |state| &state.waits)
    }

    fn objective(&self, slo: Option<Span>) -> Option<&ObjectiveState> {
        self.objectives.iter().find(|state| Some(state.slo) == slo)
    }

    /// Size of the state in bytes when published.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<ModuleId>()
            + 3 * size_of::<Span>()
            + 5 * size_of::<f64>()
            + self.waits.bytes()
            + self.fan_out.bytes()
            + self
                .objectives
                .iter()
                .map(|state| 2 * size_of::<Span>() + state.waits.bytes())
                .sum::<usize>()
    }
}

/// Estimates that a module derives from the states: the latency downstream, and its budgets under rules that
/// split the SLO.
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
    /// The same for requests of one objective, if modules downstream publish objectives separately.
    pub per_objective: Vec<ObjectiveEstimate>,
}

/// Estimated latency downstream of requests of one objective.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ObjectiveEstimate {
    /// The latency objective.
    pub slo: Span,
    /// Estimated latency downstream, the maximum over paths.
    pub downstream: Span,
    /// The same by stream, if streams differ.
    pub per_stream: Vec<Span>,
}

impl DownstreamEstimate {
    /// Estimated latency downstream for a request of `stream` with objective `slo`.
    #[must_use]
    pub fn downstream_of(&self, stream: StreamId, slo: Span) -> Span {
        let (downstream, per_stream) = match self.objective(slo) {
            Some(estimate) => (estimate.downstream, &estimate.per_stream),
            None => (self.downstream, &self.per_stream),
        };
        per_stream.get(stream.index()).copied().unwrap_or(downstream)
    }

    /// Estimated latency downstream for requests with objective `slo`, over all streams.
    #[must_use]
    pub fn downstream_at(&self, slo: Span) -> Span {
        self.objective(slo)
            .map_or(self.downstream, |estimate| estimate.downstream)
    }

    fn objective(&self, slo: Span) -> Option<&ObjectiveEstimate> {
        self.per_objective.iter().find(|estimate| estimate.slo == slo)
    }
}
