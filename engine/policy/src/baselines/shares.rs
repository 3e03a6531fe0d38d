//! Shares of the SLO: each module may use its part, `SLO_k = SLO * d_k / sum d_i`.
//!
//! Clipper++ (PARD 5.1) drops requests that have used up the shares of the modules up to here before they
//! run. PARD's ablation `split` also counts the execution, and `wcl` splits by the worst recent latency.

use serde::{Deserialize, Serialize};
use weir_types::{DropReason, Span};

use crate::admission::{AdmissionRule, BatchView, Candidate};

/// Parameters of splitting an SLO over modules.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Split {
    /// Whether a request may use time that earlier modules did not use.
    pub budget: Budget,
    /// Modules among which the SLO is split, if the graph is not a chain.
    pub over: SplitScope,
}

/// Rule `shares`: drops requests that have used up their share of the SLO.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shares {
    /// Whether a request may use time that earlier modules did not use.
    pub budget: Budget,
    /// Modules among which the SLO is split, if the graph is not a chain.
    pub over: SplitScope,
    /// Quantity that a module's share is proportional to.
    pub by: ShareWeight,
    /// Whether the execution of the batch must fit into the share too.
    pub execution: bool,
}

/// Modules among which an SLO is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SplitScope {
    /// Modules of the longest path through the module, since branches run at the same time.
    #[default]
    Path,
    /// All modules, as in PARD's formula: `SLO_k = SLO * d_k / sum over all N`.
    Modules,
}

/// Whether shares add up along the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Budget {
    /// The sum of the shares up to here bounds the time since sending.
    #[default]
    Cumulative,
    /// The module's own share bounds the time since the request arrived there.
    Local,
}

/// Quantity that a module's share of the SLO is proportional to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareWeight {
    /// Execution time of the module.
    #[default]
    Execution,
    /// Worst recent latency of a request in the module.
    WorstLatency,
}

impl AdmissionRule for Shares {
    fn verdict(&self, request: &Candidate, batch: &BatchView) -> Option<DropReason> {
        let (spent, allowed) = match self.budget {
            Budget::Cumulative => (batch.start.since(request.sent_at), batch.share_up_to_here),
            Budget::Local => (batch.start.since(request.arrived_at), batch.own_share),
        };
        let needed = if self.execution {
            spent + batch.duration
        } else {
            spent
        };
        (needed > allowed).then_some(DropReason::OverBudget)
    }

    // `wcl` is PARD with another estimate: as there, certainly late requests leave the mailbox early.
    fn is_predictive(&self) -> bool {
        self.by == ShareWeight::WorstLatency
    }
}

/// A part of the graph's objective as the same part of a request's own.
pub(crate) fn of_objective(part: Span, graph: Span, own: Span) -> Span {
    if own == graph {
        return part;
    }
    part.scale(own.as_secs_f64() / graph.as_secs_f64().max(1e-6))
}
