//! The routing rules by name.

use serde::{Deserialize, Serialize};
use weir_types::{InstanceId, Timestamp};

use super::just_enough::JustEnough;
use super::lowest_tokens::LowestTokens;
use super::most_free::MostFree;
use super::prefix::LongestPrefix;
use super::view::{Cluster, Demand, View};
use super::weir::Weir;
use super::{earliest, least_requests, random, round_robin};

/// Rule that picks the instance of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum RouteRule {
    /// Of two random instances, the one with fewer sequences.
    Random,
    /// Each instance in turn.
    RoundRobin,
    /// The instance with the fewest sequences.
    LeastRequests,
    /// The instance with the fewest tokens in the last minute.
    LowestTokens(LowestTokens),
    /// The instance with most of the prompt in its cache, or else the one with the least work.
    Prefix(LongestPrefix),
    /// The instance with the most free memory for each of its sequences; moves sequences.
    MostFree(MostFree),
    /// The instance with the earliest estimated finish.
    Earliest,
    /// The slowest instance that is in time; moves sequences.
    JustEnough(JustEnough),
    /// Booked work and probabilities of being in time; moves and drops sequences.
    Weir(Weir),
}

impl RouteRule {
    /// All rules with their default parameters.
    #[must_use]
    pub fn all() -> [Self; 9] {
        [
            Self::Random,
            Self::RoundRobin,
            Self::LeastRequests,
            Self::LowestTokens(LowestTokens::default()),
            Self::Prefix(LongestPrefix::default()),
            Self::MostFree(MostFree::default()),
            Self::Earliest,
            Self::JustEnough(JustEnough::default()),
            Self::Weir(Weir::default()),
        ]
    }

    /// Name of the rule in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "round-robin",
            Self::LeastRequests => "least-requests",
            Self::LowestTokens(_) => "lowest-tokens",
            Self::Prefix(_) => "prefix",
            Self::MostFree(_) => "most-free",
            Self::Earliest => "earliest",
            Self::JustEnough(_) => "just-enough",
            Self::Weir(_) => "weir",
        }
    }

    /// Whether sequences that wait on an instance begin in the order of deadlines. Otherwise they begin in the
    /// order of arrival, as with the paper's rules.
    #[must_use]
    pub const fn waits_by_deadline(self) -> bool {
        matches!(self, Self::Weir(_))
    }

    /// Expected seconds until a sequence's last token on an instance, by the estimate that the rule picks by.
    pub(super) fn estimate_s(self, view: &View, demand: &Demand) -> f64 {
        match self {
            Self::Earliest => view.estimate_with_routed_s(demand),
            _ => view.estimate_s(demand),
        }
    }

    /// Picks the instance of a new sequence; `None` if none can be used.
    pub(super) fn pick(self, cluster: &Cluster, demand: &Demand, now: Timestamp) -> Option<InstanceId> {
        match self {
            Self::Random => random::pick(cluster, demand),
            Self::RoundRobin => round_robin::pick(cluster, demand),
            Self::LeastRequests => least_requests::pick(cluster, demand),
            Self::LowestTokens(rule) => rule.pick(cluster, demand, now),
            Self::Prefix(rule) => rule.pick(cluster, demand, now),
            Self::MostFree(rule) => rule.pick(cluster, demand),
            Self::Earliest => earliest::pick(cluster, demand),
            Self::JustEnough(rule) => rule.pick(cluster, demand),
            // With this rule `Bookings::place` picks, not this function.
            Self::Weir(_) => earliest::pick(cluster, demand),
        }
    }
}
