//! Strategies: what `[policy]` of a graph may say, and what each decision is made by.
//!
//! A [`Policy`] is what a user writes: a drop rule, which is a preset, and whatever departs from it. It is resolved once,
//! when a module is made, into [`Strategies`]: one value for each decision, defined beside the code that it parametrises.
//! Nothing outside of this room asks for a rule by its name.

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
use crate::route::RouteRule;
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

/// The whole policy of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// When a request is dropped: the preset of everything below that is optional.
    pub drop: DropRule,
    /// Which request is looked at first.
    pub order: Order,
    /// When requests are bound to a batch.
    pub forming: BatchBinding,
    /// Which module's batch runs next on a slot that several share.
    pub arbitration: Arbitration,
    /// Which work is served next where the memory of a device does not hold all models; `None`: by the arbitration and turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<SlotQueues>,
    /// Batches of a group at most, where the order of work is planned.
    #[serde(skip_serializing_if = "is_default_delta")]
    pub delta: u32,
    /// What planning may do.
    #[serde(skip_serializing_if = "is_every_operation")]
    pub operations: QueueOperations,
    /// Where requests wait.
    pub mailbox: Mailboxes,
    /// Whether a request that is certainly late is dropped at once, rather than when its turn comes (the paper).
    pub sweep: bool,
    /// Whether requests that are about equally urgent go in random order, so that no stream is always the one that is
    /// dropped; if not, strictly by budget (the paper).
    pub fair: bool,
    /// How batch sizes are chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizing: Option<Sizing>,
    /// The parameters of batch sizes that are chosen together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joint_sizing: Option<JointSizingSpec>,
    /// Which requests join a batch.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "switch::word_or_table"
    )]
    pub admission: Option<BatchAdmission>,
    /// The terms of the latency that is estimated downstream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Under overload, which requests have slack and go first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slack: Option<Switch<SlackSpec>>,
    /// How batches of a pool are kept from ending together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stagger: Option<Switch<StaggerSpec>>,
    /// Which requests have too many items under overload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_limit: Option<Switch<CostLimitSpec>>,
    /// Which requests are too much for a branch downstream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_shedding: Option<Switch<BranchLoadSpec>>,
    /// How durations are forecast, and what is promised of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_spread: Option<Switch<DurationSpreadSpec>>,
    /// Whether streams of equal weight get equal parts under overload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_streams: Option<Switch<FairStreamsSpec>>,
    /// Which share of the input is shed on arrival while a module is overloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overload_control: Option<Switch<OverloadControl>>,
    /// On which of its instances a sequence runs, of models that generate.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "switch::word_or_table"
    )]
    pub route: Option<RouteRule>,
    /// How many tokens a sequence is expected to generate, of models that generate.
    #[serde(skip_serializing_if = "is_default")]
    pub length: LengthSource,
    /// What reservations remember of a resource (models with a plan).
    pub tables: BookingTable,
    /// Part of the planned batch that must be in time for a request at the head of the queue not to be given up (models
    /// with a plan): 0 lets batches shrink to one at once, as PPipe's text has it; its published results used 0.95.
    pub head_min_fraction: f64,
    /// Part of the SLO that is kept back when a path is requested (models with a plan): reservations may wait for a larger
    /// batch to the last moment that is safe by their tables. PPipe keeps nothing.
    pub booking_margin: f64,
}

/// What a policy without the key says, too.
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
    /// How an order of work is planned on slots.
    #[must_use]
    pub const fn slot_planning(&self) -> SlotPlanning {
        SlotPlanning {
            delta: self.delta,
            operations: self.operations,
        }
    }

    /// Keys by which `other` departs from this policy and which are fixed for as long as a graph runs: where requests wait
    /// decides who grants slots, and what reservations remember is kept from the beginning.
    #[must_use]
    pub fn fixed_differences(&self, other: &Self) -> Vec<&'static str> {
        let keys = [
            ("mailbox", self.mailbox == other.mailbox),
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

/// As PPipe's published results have it.
const HEAD_MIN_FRACTION: f64 = 0.95;

/// Of the SLO kept back when a path is requested.
const BOOKING_MARGIN: f64 = 0.02;

impl Default for Policy {
    fn default() -> Self {
        Self {
            drop: DropRule::default(),
            order: Order::default(),
            forming: BatchBinding::default(),
            arbitration: Arbitration::default(),
            queues: None,
            delta: SlotPlanning::DELTA,
            operations: QueueOperations::default(),
            mailbox: Mailboxes::default(),
            sweep: true,
            fair: true,
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
        }
    }
}
