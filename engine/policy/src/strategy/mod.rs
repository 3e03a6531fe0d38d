//! Strategies: the keys of `[policy]` of a graph, and the rules that they resolve to.
//!
//! A [`Policy`] is what a user writes: a drop rule, which is a preset, and differences from it. It is
//! resolved once, when a module is made, into [`Strategies`]: one value for each decision, defined beside the
//! code that it parametrises. No code outside this folder compares rules by name.

mod admissions;
mod bounds;
mod departures;
mod drop_rule;
mod estimate;
mod preset;
mod strategies;
mod switch;
mod values;

use serde::{Deserialize, Serialize};

use crate::baselines::overload_control::OverloadControl;
use crate::generate::LengthSource;
use crate::reservations::BookingTable;
use crate::route::{MoveCost, RouteRule, RouterSpec};
use crate::weir::branch_load::BranchLoadSpec;
use crate::weir::cost_limit::CostLimitSpec;
use crate::weir::duration_spread::DurationSpreadSpec;
use crate::weir::fair_streams::FairStreamsSpec;
use crate::weir::joint_batching::JointSizingSpec;
use crate::weir::slack::SlackSpec;
use crate::weir::stagger::StaggerSpec;

pub use admissions::BatchAdmission;
pub(crate) use departures::summary;
pub use drop_rule::{DropRule, Lookahead};
pub use estimate::Estimate;
pub(crate) use strategies::Strategies;
pub use switch::Switch;
pub use values::{
    Arbitration, BatchBinding, Mailboxes, Order, QueueOperation, QueueOperations, Sizing, SlotPlanning,
    SlotQueues,
};

/// Policy of a graph, as written in `[policy]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Rule that drops requests; also the preset of all optional keys below.
    pub drop: DropRule,
    /// Order in which requests of a mailbox are considered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// Time at which requests are bound to a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forming: Option<BatchBinding>,
    /// Rule that decides which module's batch runs next on a shared slot.
    pub arbitration: Arbitration,
    /// Rule for the next work on a device whose memory does not hold all models. `None`: the arbitration
    /// decides on bids, and turns on models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<SlotQueues>,
    /// Maximum number of batches in a group, if the order of work is planned.
    #[serde(skip_serializing_if = "is_default_delta")]
    pub delta: u32,
    /// Operations that the planner may use.
    #[serde(skip_serializing_if = "is_every_operation")]
    pub operations: QueueOperations,
    /// Number of mailboxes: one for the pool, or one for each worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mailbox: Option<Mailboxes>,
    /// Whether a request that will certainly be late is dropped at once. Otherwise it is dropped when its
    /// turn comes (the paper).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<bool>,
    /// Whether requests of about equal urgency are served in random order, so that losses do not always hit
    /// the same stream. Otherwise strictly by budget (the paper).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair: Option<bool>,
    /// Rule that chooses batch sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizing: Option<Sizing>,
    /// Parameters of [`Sizing::Together`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joint_sizing: Option<JointSizingSpec>,
    /// Rule that admits requests to a batch.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "switch::word_or_table"
    )]
    pub admission: Option<BatchAdmission>,
    /// Terms of the estimated latency downstream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Slack that requests need to be served first under overload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slack: Option<Switch<SlackSpec>>,
    /// Staggering of batches in a pool, so that they do not end at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stagger: Option<Switch<StaggerSpec>>,
    /// Limit on the items of a request under overload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_limit: Option<Switch<CostLimitSpec>>,
    /// Shedding of requests for a branch downstream that is overloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_shedding: Option<Switch<BranchLoadSpec>>,
    /// Forecast of durations, and the quantile that is promised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_spread: Option<Switch<DurationSpreadSpec>>,
    /// Whether streams of equal weight get equal shares under overload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_streams: Option<Switch<FairStreamsSpec>>,
    /// Control of the share of the input that is shed on arrival while a module is overloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overload_control: Option<Switch<OverloadControl>>,
    /// Rule that assigns sequences of a generative model to instances.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "switch::word_or_table"
    )]
    pub route: Option<RouteRule>,
    /// Source of expected sequence lengths of generative models.
    #[serde(skip_serializing_if = "is_default")]
    pub length: LengthSource,
    /// Information that reservations store for a resource (models with a plan).
    pub tables: BookingTable,
    /// Minimum fraction of the planned batch that must be in time for a request at the head of the queue, or
    /// else it is dropped (models with a plan). With 0, batches may shrink to one at once, as in PPipe's
    /// text; its published results used 0.95.
    pub head_min_fraction: f64,
    /// Fraction of the SLO that is reserved as a margin when a path is requested (models with a plan):
    /// reservations may wait for a larger batch until the last safe moment by their tables. PPipe has no
    /// margin.
    pub booking_margin: f64,
    /// Whether a plan is solved again when measured arrivals, durations and links depart from it (models with a plan).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replan: bool,
}

/// Whether the value can be left out when the policy is written.
fn is_default(length: &LengthSource) -> bool {
    *length == LengthSource::default()
}

fn is_default_delta(delta: &u32) -> bool {
    *delta == SlotPlanning::DELTA
}

fn is_every_operation(operations: &QueueOperations) -> bool {
    *operations == QueueOperations::default()
}

impl Policy {
    /// Parameters of planning the order of work on slots.
    #[must_use]
    pub const fn slot_planning(&self) -> SlotPlanning {
        SlotPlanning {
            delta: self.delta,
            operations: self.operations,
        }
    }

    /// Router of a generative model, of which sequences move at this cost. Without a rule, the earliest
    /// finish decides.
    #[must_use]
    pub fn router(&self, seed: u64, transfer: Option<MoveCost>) -> RouterSpec {
        RouterSpec {
            seed,
            transfer,
            ..RouterSpec::new(self.route.unwrap_or(RouteRule::Earliest))
        }
    }

    /// Keys in which `other` differs and that cannot change while a graph runs. The number of mailboxes
    /// decides who grants slots, and the tables of reservations are kept from the start.
    #[must_use]
    pub fn fixed_differences(&self, other: &Self) -> Vec<&'static str> {
        let keys = [
            ("mailbox", self.mailboxes() == other.mailboxes()),
            ("queues", self.queues == other.queues),
            ("delta", self.delta == other.delta),
            ("operations", self.operations == other.operations),
            ("tables", self.tables == other.tables),
            (
                "head_min_fraction",
                self.head_min_fraction == other.head_min_fraction,
            ),
        ];
        let differ = keys.into_iter().filter(|(_, same)| !same);
        differ.map(|(key, _)| key).collect()
    }
}

/// Value of PPipe's published results.
const HEAD_MIN_FRACTION: f64 = 0.95;

/// Default fraction of the SLO that is reserved when a path is requested.
const BOOKING_MARGIN: f64 = 0.02;

impl Default for Policy {
    fn default() -> Self {
        Self {
            drop: DropRule::default(),
            order: None,
            forming: None,
            arbitration: Arbitration::default(),
            queues: None,
            delta: SlotPlanning::DELTA,
            operations: QueueOperations::default(),
            mailbox: None,
            sweep: None,
            fair: None,
            sizing: None,
            joint_sizing: None,
            admission: None,
            estimate: None,
            slack: None,
            stagger: None,
            cost_limit: None,
            branch_shedding: None,
            duration_spread: None,
            fair_streams: None,
            overload_control: None,
            route: None,
            length: LengthSource::default(),
            tables: BookingTable::default(),
            head_min_fraction: HEAD_MIN_FRACTION,
            booking_margin: BOOKING_MARGIN,
            replan: false,
        }
    }
}
