//! How well reservations foretold what happened.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{Span, Timestamp};

use crate::measure::histogram::{Histogram, Quantiles};

/// Booked against actual ends of batches, and what became of bookings.
#[derive(Debug, Clone, Default)]
pub struct Accuracy {
    finished: u64,
    failed: u64,
    lost: u64,
    unused: u64,
    abs_errors: Histogram,
    sum_signed: i128,
    sum_abs: u128,
}

impl Accuracy {
    /// A batch is through that was booked to be then.
    pub fn on_finished(&mut self, booked: Timestamp, actual: Timestamp) {
        self.finished += 1;
        let error = i128::from(actual.micros()) - i128::from(booked.micros());
        self.sum_signed += error;
        self.sum_abs += error.unsigned_abs();
        self.abs_errors
            .observe(Span::from_micros(error.unsigned_abs() as u64));
    }

    /// A batch failed where it ran.
    pub fn on_failed(&mut self) {
        self.failed += 1;
    }

    /// A batch was lost with a worker.
    pub fn on_lost(&mut self) {
        self.lost += 1;
    }

    /// A booking was given back.
    pub fn on_unused(&mut self) {
        self.unused += 1;
    }

    /// What a report says of it.
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
            ..ReserveReport::default()
        }
    }
}

/// Reservations as a report has them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ReserveReport {
    /// Batches that came through.
    pub finished: u64,
    /// Batches that failed where they ran.
    pub failed: u64,
    /// Batches that were lost with a worker; what still had time ran again.
    pub lost: u64,
    /// Bookings that were given back.
    pub unused: u64,
    /// Actual less booked ends of batches, in the mean: above zero where they come late.
    pub error_mean_ms: f64,
    /// How far apart they are, in the mean.
    pub apart_mean_ms: f64,
    /// The same by quantiles.
    pub apart_ms: Quantiles,
    /// By worker.
    #[serde(default)]
    pub workers: BTreeMap<String, WorkerReport>,
    /// Plans that came into force after the first.
    #[serde(default)]
    pub plans: Vec<PlanReport>,
}

/// A partition worker.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WorkerReport {
    /// The class of device that it is or stands for.
    pub class: String,
    /// Whether it stands for a device that it is not.
    pub emulated: bool,
    /// Batches that ran on it.
    pub runs: u64,
    /// Time of its shares in use.
    pub busy_s: f64,
    /// How often it was lost.
    pub downs: u64,
}

/// A change of plans.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PlanReport {
    /// When it was in force, since the run began.
    pub at_s: f64,
    /// How long its partitions took to load, while the plan before went on.
    pub preload_ms: f64,
    /// How long nothing was booked: until the batches of the plan before were through.
    pub pause_ms: f64,
}
