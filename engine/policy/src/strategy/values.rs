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
    /// Whether it plans, for which bids say how much waits.
    #[must_use]
    pub const fn plans(self) -> bool {
        matches!(self, Self::Shepherd | Self::Virtual)
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
