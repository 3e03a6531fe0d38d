//! Rules that pick the next request of an instance, as values of a configuration.

use serde::{Deserialize, Serialize};

use super::plan::PlanObjective;

/// Parameters of planning groups.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Planning {
    /// Objective that a plan minimises.
    pub objective: PlanObjective,
    /// Probability with which a group must be in time.
    pub quantile: f64,
    /// Maximum number of groups that are planned exactly.
    pub exact_groups: usize,
    /// Maximum number of groups that the search for a plan of more groups visits.
    pub max_visits: usize,
    /// Minimum number of seconds between two plans.
    pub interval_s: f64,
    /// Whether a plan is also made for an idle instance, not only after a predicted violation.
    pub when_idle: bool,
    /// Whether a new group may go behind groups of its model if it is done sooner there, not only to the end
    /// of a queue.
    pub beside_own: bool,
    /// Whether an instance switches to the model of an urgent request that no instance serves, if fewer
    /// requests are late then: the instance with the least loss.
    pub switch_for_urgent: bool,
}

impl Planning {
    /// Parameters of the paper.
    pub const PAPER: Self = Self {
        objective: PlanObjective::Penalty,
        quantile: 0.9,
        exact_groups: 5,
        max_visits: 200_000,
        interval_s: 0.5,
        when_idle: false,
        beside_own: false,
        switch_for_urgent: false,
    };
    /// Plans by expected late requests, also for idle instances, with new groups beside groups of their
    /// model, and with switches for urgent requests. The reasons are in `README.md` beside this file.
    pub const LATE: Self = Self {
        objective: PlanObjective::Late,
        when_idle: true,
        beside_own: true,
        switch_for_urgent: true,
        ..Self::PAPER
    };
}

impl Default for Planning {
    fn default() -> Self {
        Self::LATE
    }
}

/// Rule that picks the next request of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum QueueRule {
    /// A queue for each instance in the order of arrival (vLLM). A request goes to the instance with the
    /// shortest queue.
    Fcfs,
    /// A queue for each instance in the order of deadlines.
    Edf,
    /// Fixed batches, planned as if durations were certain and models were open (SHEPHERD). A batch runs
    /// until all of its requests are done.
    Shepherd,
    /// An instance serves its model until no request for it waits, the earliest deadline first. Then it
    /// serves the model with the most urgent request among those that no other instance serves.
    Sticky,
    /// Planned virtual queues of groups (QLM).
    Virtual(Planning),
}

impl QueueRule {
    /// Virtual queues with the paper's parameters.
    pub const PAPER: Self = Self::Virtual(Planning::PAPER);
    /// Virtual queues that minimise expected late requests.
    pub const WEIR: Self = Self::Virtual(Planning::LATE);

    /// Name of the rule in configurations.
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

    /// Planning parameters of the rule; `None` if it does not plan.
    pub(super) const fn planning(self) -> Option<Planning> {
        match self {
            Self::Virtual(planning) => Some(planning),
            // Durations count as certain, so a group is met if its mean completion is in time.
            Self::Shepherd => Some(Planning {
                quantile: 0.5,
                when_idle: true,
                ..Planning::PAPER
            }),
            Self::Fcfs | Self::Edf | Self::Sticky => None,
        }
    }

    /// Whether batches are fixed: no request joins a running batch.
    pub(super) const fn has_fixed_batches(self) -> bool {
        matches!(self, Self::Shepherd)
    }
}

impl Default for QueueRule {
    fn default() -> Self {
        Self::WEIR
    }
}
