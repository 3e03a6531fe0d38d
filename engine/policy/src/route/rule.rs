//! The rules by name.

use serde::{Deserialize, Serialize};
use weir_types::{InstanceId, Timestamp};

use super::just_enough::JustEnough;
use super::lowest_tokens::LowestTokens;
use super::most_free::MostFree;
use super::prefix::LongestPrefix;
use super::view::{Cluster, Demand};
use super::weir::Weir;
use super::{earliest, least_requests, random, round_robin};

/// How the instance of a sequence is picked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum RouteRule {
    /// The better of two.
    Random,
    /// One after the other.
    RoundRobin,
    /// The fewest sequences.
    LeastRequests,
    /// The fewest tokens of the last minute.
    LowestTokens(LowestTokens),
    /// What has the prompt's beginning in its cache, or least work.
    Prefix(LongestPrefix),
    /// The most free memory for each sequence; moves.
    MostFree(MostFree),
    /// The least estimated finish.
    Earliest,
    /// The slowest that is in time; moves.
    JustEnough(JustEnough),
    /// By booked work and chances; moves and drops.
    Weir(Weir),
}

impl RouteRule {
    /// All of them with their default parameters.
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

    /// As it is written in configurations.
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

    /// The instance of a new sequence; `None` where there is none.
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
            // It books: `Bookings::place` picks.
            Self::Weir(_) => earliest::pick(cluster, demand),
        }
    }
}
