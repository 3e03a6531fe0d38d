//! Shares of the SLO: each module may take its part, `SLO_k = SLO * d_k / sum d_i`.
//!
//! Clipper++ (PARD 5.1) drops what has used up the shares of the modules up to here before it runs; PARD's ablation `split`
//! counts the execution as well, and `wcl` splits by the worst latency seen recently.

use serde::{Deserialize, Serialize};
use weir_types::{DropReason, Span};

use crate::admission::{AdmissionRule, BatchView, Candidate};

/// How an SLO is split over modules.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Split {
    /// Whether a request may use what earlier modules left over.
    pub budget: Budget,
    /// Among which modules the SLO is split, where the graph is no chain.
    pub over: SplitScope,
}

/// Drops what has used up its share of the SLO.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shares {
    /// Whether a request may use what earlier modules left over.
    pub budget: Budget,
    /// Among which modules the SLO is split, where the graph is no chain.
    pub over: SplitScope,
    /// What a module's part follows.
    pub by: ShareWeight,
    /// Whether the execution of the batch must fit the share, too.
    pub execution: bool,
}

/// Among which modules an SLO is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SplitScope {
    /// Those of the longest path through the module: branches run at the same time.
    #[default]
    Path,
    /// All modules, as PARD writes it: `SLO_k = SLO * d_k / sum over all N`.
    Modules,
}

/// Whether shares add up along the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Budget {
    /// The sum of the shares up to here bounds the time since sending.
    #[default]
    Cumulative,
    /// The module's own share bounds the time since it got the request.
    Local,
}

/// What a module's share of the SLO follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareWeight {
    /// Its execution time.
    #[default]
    Execution,
    /// The worst latency of a request in it, recently.
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

    // `wcl` is PARD but for its estimate: what is certainly late leaves the mailbox early, as there.
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
