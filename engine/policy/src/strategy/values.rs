//! Choices among a few values: words of `[policy]`.

use serde::{Deserialize, Serialize};

/// Order in which requests of a mailbox are considered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// High budget first under overload, low budget first otherwise, with a delayed transition (PARD 4.3).
    /// With `slack`, requests that have slack are served low budget first also under overload.
    #[default]
    Adaptive,
    /// First come, first served: by arrival at the module.
    Fcfs,
    /// Always the request with the most remaining budget.
    Hbf,
    /// Always the request with the least remaining budget.
    Lbf,
    /// As adaptive, without the delayed transition.
    Instant,
}

/// Rule that chooses batch sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sizing {
    /// Each module separately: the largest size that fits its share of the SLO by execution time (the paper).
    Fair,
    /// All modules together, raising the one with the least capacity first.
    Together,
    /// The smallest size that the model supports, for any load.
    One,
}

/// Mailboxes of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mailboxes {
    /// One mailbox for all workers.
    #[default]
    Pool,
    /// One mailbox for each worker, filled in turn as requests arrive (the paper). Only for pools that belong
    /// to one module.
    Worker,
}

/// Time at which requests are bound to a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchBinding {
    /// As soon as the batch before it starts executing (the paper).
    #[serde(rename = "eager")]
    Early,
    /// When the slot is free.
    #[default]
    Late,
}

/// Rule for the next work on a slot whose device does not hold all models, instead of arbitration and turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlotQueues {
    /// The work that has waited longest, whether or not its model is open.
    Fcfs,
    /// The work with the earliest latest start, whether or not its model is open.
    Edf,
    /// A plan that takes durations as certain and openings as free.
    Shepherd,
    /// The open model until none of its work waits; then the work with the earliest latest start whose model
    /// is open nowhere else.
    Sticky,
    /// A plan of groups on slots, made when work is expected to be late (QLM).
    Virtual,
}

impl SlotQueues {
    /// Rule used if none is configured and cameras share a device with work that can wait. Turns by the
    /// arbiter cost cameras a fifth of their frames there (docs/explain/memory.md).
    pub const BESIDE_CAMERAS: Self = Self::Sticky;

    /// Whether the rule plans an order of work; bids then include the module's backlog.
    #[must_use]
    pub const fn plans(self) -> bool {
        matches!(self, Self::Shepherd | Self::Virtual)
    }
}

/// Operations of a planned order of work (QLM, section 5), for batches and sequences of models that are opened and
/// closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueOperation {
    /// A slot takes the first work of its order; always on.
    Pull,
    /// Running sequences return to their queue for more urgent requests and for the next model, and are
    /// computed again later. Batches are never sent back.
    Evict,
    /// The same with their caches, which are kept in host memory, if that takes less than computing them again.
    Swap,
    /// Groups go to the slot that finishes them first. Otherwise slots get groups in turn.
    Balance,
    /// Models are opened from host memory if they are there.
    WarmStart,
    /// The order is planned again if more work would be late. Otherwise each group stays where it was put.
    Reorder,
}

/// Operations that are switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<QueueOperation>", into = "Vec<QueueOperation>")]
pub struct QueueOperations {
    /// Whether [`QueueOperation::Evict`] is on.
    pub evict: bool,
    /// Whether [`QueueOperation::Swap`] is on.
    pub swap: bool,
    /// Whether [`QueueOperation::Balance`] is on.
    pub balance: bool,
    /// Whether [`QueueOperation::WarmStart`] is on.
    pub warm_start: bool,
    /// Whether [`QueueOperation::Reorder`] is on.
    pub reorder: bool,
}

impl Default for QueueOperations {
    fn default() -> Self {
        Self {
            evict: true,
            swap: true,
            balance: true,
            warm_start: true,
            reorder: true,
        }
    }
}

impl From<Vec<QueueOperation>> for QueueOperations {
    fn from(operations: Vec<QueueOperation>) -> Self {
        let has = |wanted| operations.contains(&wanted);
        Self {
            evict: has(QueueOperation::Evict),
            swap: has(QueueOperation::Swap),
            balance: has(QueueOperation::Balance),
            warm_start: has(QueueOperation::WarmStart),
            reorder: has(QueueOperation::Reorder),
        }
    }
}

impl From<QueueOperations> for Vec<QueueOperation> {
    fn from(operations: QueueOperations) -> Self {
        let all = [
            (QueueOperation::Pull, true),
            (QueueOperation::Evict, operations.evict),
            (QueueOperation::Swap, operations.swap),
            (QueueOperation::Balance, operations.balance),
            (QueueOperation::WarmStart, operations.warm_start),
            (QueueOperation::Reorder, operations.reorder),
        ];
        let used = all.into_iter().filter(|(_, is_used)| *is_used);
        used.map(|(operation, _)| operation).collect()
    }
}

/// Parameters of planning the order of work on slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotPlanning {
    /// Maximum number of batches in a group.
    pub delta: u32,
    /// Operations that the planner may use.
    pub operations: QueueOperations,
}

impl SlotPlanning {
    /// Default number of batches in a group.
    pub const DELTA: u32 = 4;
    /// Upper bound of `delta`.
    pub const MAX_DELTA: u32 = 64;

    /// Whether all parameters have their defaults.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for SlotPlanning {
    fn default() -> Self {
        Self {
            delta: Self::DELTA,
            operations: QueueOperations::default(),
        }
    }
}

/// Rule that decides which module's batch runs next on a shared slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// The batch with the earliest latest start.
    LeastSlack,
    /// The module nearest to the end of the graph: work that was begun is finished first.
    #[default]
    DownstreamFirst,
    /// The batch whose most urgent request has waited longest.
    Fifo,
    /// The module with the least slot time so far, relative to its weight.
    Weighted,
}
