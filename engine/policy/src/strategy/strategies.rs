//! A policy resolved into the rules that a module uses.

use super::admissions::BatchAdmission;
use super::values::{BatchBinding, Mailboxes, Order, Sizing};
use crate::baselines::overload_control::OverloadControl;
use crate::baselines::shares::{ShareWeight, Shares, SplitScope};
use crate::pard::estimator::{Estimation, Estimator};
use crate::pard::predictive::Predictive;
use crate::queue::tie_break::{DEADLINE_JITTER_DIV, MARGIN_JITTER_DIV};
use crate::weir::branch_load::BranchLoadSpec;
use crate::weir::cost_limit::CostLimitSpec;
use crate::weir::duration_spread::DurationSpreadSpec;
use crate::weir::fair_streams::FairStreamsSpec;
use crate::weir::joint_batching::JointSizingSpec;
use crate::weir::slack::SlackSpec;
use crate::weir::stagger::StaggerSpec;

/// Rules of a module, one for each decision. Resolved once, when the module is made; no other code compares
/// rules by name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Strategies {
    /// Rule that admits requests to a batch.
    pub(crate) admission: BatchAdmission,
    /// Estimator of the latency downstream.
    pub(crate) estimator: Estimator,
    /// Control of the share of the input that is shed on arrival.
    pub(crate) overload_control: Option<OverloadControl>,
    /// Whether a new request replaces the waiting one of its stream.
    pub(crate) newest: bool,
    /// Order in which requests of a mailbox are considered.
    pub(crate) order: Order,
    /// Slack that requests need to be served first under overload.
    pub(crate) slack: Option<SlackSpec>,
    /// Whether requests of about equal urgency are served in random order.
    pub(crate) tie_break: bool,
    /// Time at which requests are bound to a batch.
    pub(crate) binding: BatchBinding,
    /// Number of mailboxes: one for the pool, or one for each worker.
    pub(crate) mailbox: Mailboxes,
    /// Rule that chooses batch sizes.
    pub(crate) sizing: Sizing,
    /// Parameters of [`Sizing::Together`].
    pub(crate) joint_sizing: JointSizingSpec,
    /// Staggering of batches in a pool.
    pub(crate) stagger: Option<StaggerSpec>,
    /// Limit on the items of a request under overload.
    pub(crate) cost_limit: Option<CostLimitSpec>,
    /// Shedding of requests for a branch downstream that is overloaded.
    pub(crate) branch_shedding: Option<BranchLoadSpec>,
    /// Forecast of durations, and the quantile that is promised.
    pub(crate) duration_spread: Option<DurationSpreadSpec>,
    /// Whether streams of equal weight get equal shares under overload.
    pub(crate) fair_streams: Option<FairStreamsSpec>,
    /// Whether a request that certainly misses its deadline is dropped before its turn, if admission is
    /// predictive.
    pub(crate) early_drop: bool,
    /// Fraction of the SLO that is reserved when a path is requested.
    pub(crate) booking_margin: f64,
}

impl Default for Strategies {
    fn default() -> Self {
        Self {
            admission: BatchAdmission::Predictive(Predictive::default()),
            estimator: Estimator::default(),
            overload_control: None,
            newest: false,
            order: Order::default(),
            slack: None,
            tie_break: true,
            binding: BatchBinding::default(),
            mailbox: Mailboxes::default(),
            sizing: Sizing::Fair,
            joint_sizing: JointSizingSpec::default(),
            stagger: None,
            cost_limit: None,
            branch_shedding: None,
            duration_spread: None,
            fair_streams: None,
            early_drop: true,
            booking_margin: 0.0,
        }
    }
}

impl Strategies {
    /// Whether a request that certainly misses its deadline is dropped before its turn.
    pub(crate) fn drops_early(&self) -> bool {
        self.early_drop && self.admission.rule().is_predictive()
    }

    /// Slack parameters, unless the order is fixed and slack has no effect.
    pub(crate) fn slack(&self) -> Option<SlackSpec> {
        self.slack.filter(|_| !self.has_fixed_order())
    }

    /// Whether the order is the same under overload as below it.
    pub(crate) fn has_fixed_order(&self) -> bool {
        !matches!(self.order, Order::Adaptive | Order::Instant)
    }

    /// Divisor of the SLO: deadlines that differ by less than the quotient count as equal. With slack, the
    /// margin is randomized too.
    pub(crate) fn jitter_divisor(&self) -> u64 {
        if self.slack().is_some() {
            MARGIN_JITTER_DIV
        } else {
            DEADLINE_JITTER_DIV
        }
    }

    /// Rules of the state planner.
    pub(crate) fn estimation(&self) -> Estimation {
        let (share_weight, split_over) = match self.admission {
            BatchAdmission::Shares(Shares { by, over, .. }) => (by, over),
            _ => (ShareWeight::default(), SplitScope::default()),
        };
        Estimation {
            estimator: self.estimator,
            share_weight,
            split_over,
            overload_control: self.overload_control,
            disturbed_quantile: self.duration_spread.map(|spec| spec.busy_quantile),
        }
    }

    /// Whether a batch counts with the duration of its planned size, as in the papers. A size chosen for the
    /// worst overload would make every request infeasible.
    pub(crate) fn assumes_planned_batch(&self) -> bool {
        let early = self.binding == BatchBinding::Early && self.sizing == Sizing::Fair;
        early || self.admission.rule().assumes_planned_batch()
    }
}
