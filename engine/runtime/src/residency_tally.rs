//! Openings and closings of models over a run, also of graphs that another one has taken the place of.

use std::sync::{Mutex, PoisonError};

use weir_policy::{QueuesReport, ResidencyReport, SlotEvent};
use weir_types::Span;

/// Counts for the report.
#[derive(Debug, Default)]
pub(crate) struct ResidencyTally {
    residency: Mutex<Option<ResidencyReport>>,
    queues: Mutex<QueueTally>,
}

/// Plans of the order of work.
#[derive(Debug, Default)]
struct QueueTally {
    /// Of the graph that planned last.
    report: Option<QueuesReport>,
    plans: u64,
    plan_time: Span,
}

impl ResidencyTally {
    fn with<T>(&self, work: impl FnOnce(&mut Option<ResidencyReport>) -> T) -> T {
        work(&mut self.residency.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Some device has limited memory: there is something to report, if only that nothing was opened.
    pub(crate) fn begin(&self) {
        self.with(|report| {
            report.get_or_insert_default();
        });
    }

    /// Takes in what happened to a model, by the names of the graph.
    pub(crate) fn on_event(&self, event: &SlotEvent, names: &[String]) {
        let is_of_session = matches!(
            event,
            SlotEvent::Opened { .. } | SlotEvent::OpenFailed { .. } | SlotEvent::Closed { .. }
        );
        if !is_of_session {
            return;
        }
        let name = |model: weir_types::ModelId| names.get(model.index()).map_or("?", String::as_str);
        self.with(|report| report.get_or_insert_default().on_event(event, name));
    }

    /// A plan was made in a step that took so long.
    pub(crate) fn on_planned(&self, took: Span) {
        let mut tally = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        tally.plans += 1;
        tally.plan_time += took;
    }

    /// Replaces the report of queue planning with a newer one.
    pub(crate) fn set_queues(&self, report: QueuesReport) {
        let mut tally = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        tally.report = Some(report);
    }

    pub(crate) fn queues_report(&self) -> Option<QueuesReport> {
        let tally = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let mean_us = tally.plan_time.micros() as f64 / tally.plans.max(1) as f64;
        tally.report.map(|report| QueuesReport {
            plan_us: (tally.plans > 0).then_some(mean_us),
            ..report
        })
    }

    pub(crate) fn report(&self) -> Option<ResidencyReport> {
        self.with(|report| report.clone())
    }
}
