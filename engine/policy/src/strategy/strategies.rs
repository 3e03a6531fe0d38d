//! A policy, resolved: what each decision of a module is made by.

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

/// What each decision of a module is made by. Made once, when the module is; nothing else asks for a rule by its name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Strategies {
    /// Which requests join a batch.
    pub(crate) admission: BatchAdmission,
    /// What is expected of the modules downstream.
    pub(crate) estimator: Estimator,
    /// Which share of the input is shed on arrival.
    pub(crate) overload_control: Option<OverloadControl>,
    /// Whether a request takes the place of the one of its stream that waits.
    pub(crate) newest: bool,
    /// Which request of a mailbox is looked at first.
    pub(crate) order: Order,
    /// Under overload, which requests have slack and go before the others.
    pub(crate) slack: Option<SlackSpec>,
    /// Whether requests that are about equally urgent go in random order.
    pub(crate) tie_break: bool,
    /// When requests are bound to a batch.
    pub(crate) binding: BatchBinding,
    /// Where requests wait.
    pub(crate) mailbox: Mailboxes,
    /// How batch sizes are chosen.
    pub(crate) sizing: Sizing,
    /// The parameters of sizes chosen together.
    pub(crate) joint_sizing: JointSizingSpec,
    /// How batches of a pool are kept from ending together.
    pub(crate) stagger: Option<StaggerSpec>,
    /// Which requests have too many items under overload.
    pub(crate) cost_limit: Option<CostLimitSpec>,
    /// Which requests are too much for a branch downstream.
    pub(crate) branch_shedding: Option<BranchLoadSpec>,
    /// How durations are forecast, and what is promised of them.
    pub(crate) duration_spread: Option<DurationSpreadSpec>,
    /// Whether streams of equal weight get equal parts under overload.
    pub(crate) fair_streams: Option<FairStreamsSpec>,
    /// Whether what certainly misses its deadline is dropped before its turn, where admission is predictive.
    pub(crate) early_drop: bool,
    /// Part of the SLO that is kept back when a path is requested.
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
    /// Whether what certainly misses its deadline is dropped before its turn.
    pub(crate) fn drops_early(&self) -> bool {
        self.early_drop && self.admission.rule().is_predictive()
    }

    /// The slack, where the order leaves it a say: a fixed order does not.
    pub(crate) fn slack(&self) -> Option<SlackSpec> {
        self.slack.filter(|_| !self.has_fixed_order())
    }

    /// Whether the order is the same under overload as below it.
    pub(crate) fn has_fixed_order(&self) -> bool {
        !matches!(self.order, Order::Adaptive | Order::Instant)
    }

    /// Deadlines within the SLO over this count as about equal. The margin of slack is spread at random, too.
    pub(crate) fn jitter_divisor(&self) -> u64 {
        if self.slack().is_some() {
            MARGIN_JITTER_DIV
        } else {
            DEADLINE_JITTER_DIV
        }
    }

    /// What the state planner goes by.
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

    /// Whether a batch counts with the duration of its planned size. The papers do so; a size that is chosen for the worst of
    /// overload would make everything infeasible.
    pub(crate) fn assumes_planned_batch(&self) -> bool {
        let early = self.binding == BatchBinding::Early && self.sizing == Sizing::Fair;
        early || self.admission.rule().assumes_planned_batch()
    }
}
