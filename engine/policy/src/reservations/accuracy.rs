//! Accuracy of reservations: booked against actual ends of batches, outcomes of bookings, and changes of plans.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{Span, Timestamp};

use crate::measure::histogram::{Histogram, Quantiles};

/// Counts outcomes of bookings and the errors of their booked ends.
#[derive(Debug, Clone, Default)]
pub struct Accuracy {
    finished: u64,
    failed: u64,
    lost: u64,
    unused: u64,
    abs_errors: Histogram,
    sum_signed: i128,
    sum_abs: u128,
    plans: Vec<PlanReport>,
}

impl Accuracy {
    /// A batch ended at `actual` that was booked to end at `booked`.
    pub fn on_finished(&mut self, booked: Timestamp, actual: Timestamp) {
        self.finished += 1;
        let error = i128::from(actual.micros()) - i128::from(booked.micros());
        self.sum_signed += error;
        self.sum_abs += error.unsigned_abs();
        self.abs_errors
            .observe(Span::from_micros(error.unsigned_abs() as u64));
    }

    /// Counts a batch that failed while it ran.
    pub fn on_failed(&mut self) {
        self.failed += 1;
    }

    /// Counts a batch that was lost with a worker.
    pub fn on_lost(&mut self) {
        self.lost += 1;
    }

    /// A booking was declined.
    pub fn on_unused(&mut self) {
        self.unused += 1;
    }

    /// Another plan became active.
    pub fn on_plan_switched(&mut self, plan: PlanReport) {
        self.plans.push(plan);
    }

    /// Adds the counts of reservations that began later.
    pub fn merge(&mut self, other: &Self) {
        self.finished += other.finished;
        self.failed += other.failed;
        self.lost += other.lost;
        self.unused += other.unused;
        self.abs_errors.merge(&other.abs_errors);
        self.sum_signed += other.sum_signed;
        self.sum_abs += other.sum_abs;
        self.plans.extend_from_slice(&other.plans);
    }

    /// Counts and errors so far, in the form of a report.
    #[must_use]
    pub fn report(&self) -> ReserveReport {
        ReserveReport {
            finished: self.finished,
            failed: self.failed,
            lost: self.lost,
            unused: self.unused,
            error_mean_ms: self.sum_signed as f64 / 1e3 / self.finished.max(1) as f64,
            apart_mean_ms: self.sum_abs as f64 / 1e3 / self.finished.max(1) as f64,
            apart_ms: self.abs_errors.quantiles(),
            plans: self.plans.clone(),
            ..ReserveReport::default()
        }
    }
}

/// Reservations in a report.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ReserveReport {
    /// Batches that finished.
    pub finished: u64,
    /// Number of batches that failed while they ran.
    pub failed: u64,
    /// Number of batches lost with a worker; their requests ran again if time was left.
    pub lost: u64,
    /// Number of bookings that were declined.
    pub unused: u64,
    /// Mean of actual minus booked ends, in milliseconds; positive if batches end later than booked.
    pub error_mean_ms: f64,
    /// Mean absolute error of booked ends in milliseconds.
    pub apart_mean_ms: f64,
    /// Quantiles of the absolute error in milliseconds.
    pub apart_ms: Quantiles,
    /// Results by name of the worker.
    #[serde(default)]
    pub workers: BTreeMap<String, WorkerReport>,
    /// Plans that became active after the first.
    #[serde(default)]
    pub plans: Vec<PlanReport>,
}

/// Results of a partition worker.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WorkerReport {
    /// The class of device that it is or emulates.
    pub class: String,
    /// Whether it emulates a device.
    pub emulated: bool,
    /// Batches that ran on it.
    pub runs: u64,
    /// Busy time of its shares in seconds.
    pub busy_s: f64,
    /// Number of times it was lost.
    pub downs: u64,
}

/// A change of plans.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PlanReport {
    /// Seconds from the start of the run until it was active.
    pub at_s: f64,
    /// Milliseconds of loading its partitions, while the previous plan was active.
    pub preload_ms: f64,
    /// Milliseconds without bookings, until all batches of the previous plan had ended.
    pub pause_ms: f64,
}
