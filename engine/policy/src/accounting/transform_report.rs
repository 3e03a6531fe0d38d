//! Counts of transforms that programs of users compute.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counts of a transform that a program of the user computes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TransformReport {
    /// Number of deliveries that the program answered.
    pub answered: u64,
    /// Number of incidents that it reported, each event of them.
    pub incidents: u64,
    /// Number of deliveries that passed unchanged, by the reason: `late`, `failed`, `ended`, `restarting`, `waited`,
    /// `queue-full`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unchanged: BTreeMap<String, u64>,
    /// Reason of the last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
}

impl TransformReport {
    /// Counts a delivery that the program answered.
    pub fn on_answer(&mut self, incidents: usize) {
        self.answered += 1;
        self.incidents += incidents as u64;
    }

    /// Counts a delivery that passed unchanged.
    pub fn on_unchanged(&mut self, name: &str, reason: Option<String>) {
        *self.unchanged.entry(name.to_owned()).or_default() += 1;
        if reason.is_some() {
            self.last_failure = reason;
        }
    }

    /// Adds the counts of another program of that name, which an earlier or later graph had.
    pub fn merge(&mut self, other: Self) {
        self.answered += other.answered;
        self.incidents += other.incidents;
        for (name, count) in other.unchanged {
            *self.unchanged.entry(name).or_default() += count;
        }
        self.last_failure = other.last_failure.or(self.last_failure.take());
    }
}
