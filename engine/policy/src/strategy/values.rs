//! Choices among a few values: words of `[policy]`.

use serde::{Deserialize, Serialize};

/// Which request of a mailbox is looked at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// High budget first under overload, low budget first otherwise, with delayed transition (PARD 4.3). With `slack`, of
    /// the requests that have slack the low budget first under overload, too.
    #[default]
    Adaptive,
    /// First come, first served.
    Fcfs,
    /// Always the most remaining budget.
    Hbf,
    /// Always the least remaining budget.
    Lbf,
    /// As adaptive, without the delay.
    Instant,
}

/// How batch sizes are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sizing {
    /// Each module has its share of the SLO by its execution (the paper).
    Fair,
    /// For all modules together, the slowest first.
    Together,
    /// The smallest that the model takes, whatever waits.
    One,
}

/// Where requests of a module wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mailboxes {
    /// In one mailbox before all its workers.
    #[default]
    Pool,
    /// In a mailbox of each worker, dealt out in turn as they come (the paper). For pools of a module's own.
    Worker,
}

/// When requests are bound to a batch.
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

/// Which module's work is served next on a slot whose device does not hold all models, where that is not left to the
/// arbitration and to turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlotQueues {
    /// What has waited longest, whatever is open.
    Fcfs,
    /// What must start soonest, whatever is open.
    Edf,
    /// By a plan that takes durations for known and openings for nothing.
    Shepherd,
    /// What is open until nothing waits for it; then what must start soonest and is open nowhere else.
    Sticky,
    /// By a plan of groups on slots, made when work is expected to be late (QLM).
    Virtual,
}

impl SlotQueues {
    /// Where none is named and cameras share a device with work that can wait. Turns by the arbiter cost cameras a fifth of their
    /// frames there (docs/memory.md).
    pub const BESIDE_CAMERAS: Self = Self::Sticky;

    /// Whether it plans, for which bids say how much waits.
    #[must_use]
    pub const fn plans(self) -> bool {
        matches!(self, Self::Shepherd | Self::Virtual)
    }
}

/// What a planned order of work may do (QLM, section 5), for batches of models that are opened and closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueOperation {
    /// A slot takes the first of its order: always.
    Pull,
    /// Groups go to the slot where they are done first. Without it they go to one after the other.
    Balance,
    /// Models open from host memory where they are there.
    WarmStart,
    /// The order is planned again where more would be late. Without it, each group stays where it came.
    Reorder,
}

/// Those that it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<QueueOperation>", into = "Vec<QueueOperation>")]
pub struct QueueOperations {
    /// [`QueueOperation::Balance`].
    pub balance: bool,
    /// [`QueueOperation::WarmStart`].
    pub warm_start: bool,
    /// [`QueueOperation::Reorder`].
    pub reorder: bool,
}

impl Default for QueueOperations {
    fn default() -> Self {
        Self {
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
            (QueueOperation::Balance, operations.balance),
            (QueueOperation::WarmStart, operations.warm_start),
            (QueueOperation::Reorder, operations.reorder),
        ];
        let used = all.into_iter().filter(|(_, is_used)| *is_used);
        used.map(|(operation, _)| operation).collect()
    }
}

/// How an order of work is planned on slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotPlanning {
    /// Batches that a group has at most.
    pub delta: u32,
    /// What may be done.
    pub operations: QueueOperations,
}

impl SlotPlanning {
    /// Batches of a group where nothing is said.
    pub const DELTA: u32 = 4;
    /// The most batches of a group.
    pub const MAX_DELTA: u32 = 64;

    /// Whether nothing is said.
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

/// Which module's batch runs next on a slot that several share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// The one that must start soonest.
    LeastSlack,
    /// The one deepest in the graph: what was begun is finished first.
    #[default]
    DownstreamFirst,
    /// The one that has waited longest.
    Fifo,
    /// The one that has had the least time so far.
    Weighted,
}
