//! Who is served next, as a value.

use serde::{Deserialize, Serialize};

use super::plan::PlanObjective;

/// When and how groups are planned.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Planning {
    /// What a plan is for.
    pub objective: PlanObjective,
    /// The probability with which a group has to be in time.
    pub quantile: f64,
    /// Most groups that are planned exactly.
    pub exact_groups: usize,
    /// Groups that the search for a plan of more looks at, at most.
    pub max_visits: usize,
    /// Least seconds between two plans.
    pub interval_s: f64,
    /// Whether an instance that has nothing to do is planned for as well, rather than after a predicted violation alone.
    pub when_idle: bool,
    /// Whether a new group goes behind those of its model where it is done first there, rather than to the end of a queue.
    pub beside_own: bool,
}

impl Planning {
    /// As in the paper.
    pub const PAPER: Self = Self {
        objective: PlanObjective::Penalty,
        quantile: 0.9,
        exact_groups: 5,
        max_visits: 200_000,
        interval_s: 0.5,
        when_idle: false,
        beside_own: false,
    };
    /// By expected late requests, which also plans for idle instances and puts new groups beside their model: `README.md`
    /// beside this file.
    pub const LATE: Self = Self {
        objective: PlanObjective::Late,
        when_idle: true,
        beside_own: true,
        ..Self::PAPER
    };
}

impl Default for Planning {
    fn default() -> Self {
        Self::LATE
    }
}

/// How the next request of an instance is picked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum QueueRule {
    /// A queue for each instance in the order of arrival (vLLM). Requests go where the fewest wait.
    Fcfs,
    /// A queue for each instance in the order of deadlines.
    Edf,
    /// Fixed batches with durations that are taken for known, planned without openings of models (SHEPHERD): a batch runs
    /// until all of it is done.
    Shepherd,
    /// An instance serves its model until nothing of it waits, the earliest deadline first; then the one with the most
    /// urgent request that no other instance serves.
    Sticky,
    /// Virtual queues of groups, planned (QLM).
    Virtual(Planning),
}

impl QueueRule {
    /// Virtual queues as in the paper.
    pub const PAPER: Self = Self::Virtual(Planning::PAPER);
    /// Virtual queues by expected late requests.
    pub const WEIR: Self = Self::Virtual(Planning::LATE);

    /// As it is written in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::Edf => "edf",
            Self::Shepherd => "shepherd",
            Self::Sticky => "sticky",
            Self::Virtual(_) => "virtual",
        }
    }

    /// What it plans by, if it plans.
    pub(super) const fn planning(self) -> Option<Planning> {
        match self {
            Self::Virtual(planning) => Some(planning),
            // Durations are taken for known, so that what is met is met by the mean.
            Self::Shepherd => Some(Planning {
                quantile: 0.5,
                when_idle: true,
                ..Planning::PAPER
            }),
            Self::Fcfs | Self::Edf | Self::Sticky => None,
        }
    }

    /// Whether batches are fixed: none joins one that runs.
    pub(super) const fn has_fixed_batches(self) -> bool {
        matches!(self, Self::Shepherd)
    }
}

impl Default for QueueRule {
    fn default() -> Self {
        Self::WEIR
    }
}
