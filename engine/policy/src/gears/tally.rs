//! Time for which gears were in force, for reports.

use weir_types::Span;

use crate::accounting::report::GearReport;
use crate::gears::Gears;

/// Counts of the gears of a graph.
#[derive(Debug, Clone, Default)]
pub struct GearTally {
    /// Report so far; `None` before any plan.
    report: Option<GearReport>,
    /// Accuracy that the plan in force expects of each gear.
    accuracies: Vec<Option<f64>>,
    /// Seconds with a known accuracy, and the sum of accuracies weighted by seconds.
    expected: (f64, f64),
}

impl GearTally {
    /// Another plan is in force, or none. Seconds by gear are those of the last plan; shifts are counted over
    /// all plans.
    pub fn on_plan(&mut self, gears: Option<&Gears>) {
        let Some(gears) = gears else {
            self.accuracies.clear();
            return;
        };
        let report = self.report.get_or_insert_default();
        report.plan = gears.number;
        report.seconds_by_gear = vec![0.0; gears.gears.len()];
        self.accuracies = gears.gears.iter().map(|gear| gear.accuracy).collect();
    }

    /// Adds time for which a gear was in force.
    pub fn on_time(&mut self, gear: usize, time: Span) {
        let seconds = time.as_secs_f64();
        let report = self.report.as_mut();
        let spent = report.and_then(|report| report.seconds_by_gear.get_mut(gear));
        if let (Some(spent), Some(accuracy)) = (spent, self.accuracies.get(gear)) {
            *spent += seconds;
            if let Some(accuracy) = accuracy {
                self.expected.0 += seconds;
                self.expected.1 += seconds * accuracy;
            }
        }
    }

    /// Counts a change to another gear.
    pub fn on_shift(&mut self) {
        if let Some(report) = &mut self.report {
            report.shifts += 1;
        }
    }

    /// Adds the counts of a graph that this one has taken the place of.
    pub fn add_earlier(&mut self, earlier: &Self) {
        match (&mut self.report, &earlier.report) {
            (Some(report), Some(before)) => report.shifts += before.shifts,
            (report @ None, Some(_)) => report.clone_from(&earlier.report),
            (_, None) => {}
        }
        self.expected.0 += earlier.expected.0;
        self.expected.1 += earlier.expected.1;
    }

    /// Counts so far; `None` if no plan was ever in force.
    #[must_use]
    pub fn report(&self) -> Option<GearReport> {
        let (seconds, sum) = self.expected;
        self.report.clone().map(|report| GearReport {
            accuracy_expected: (seconds > 0.0).then(|| sum / seconds),
            ..report
        })
    }
}
