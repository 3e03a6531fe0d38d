//! The time that the control thread spends on its events by their kinds, and that the thread of the egress does on deliveries.

use std::collections::BTreeMap;

use weir_policy::{ControlReport, Histogram};
use weir_types::Span;

/// A kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ControlEvent {
    /// A frame was admitted: its items are made.
    Arrival,
    /// A batch or a step came back, or began.
    Result,
    /// All machines decide on what came in.
    Decision,
    /// On the thread of the egress. Requests end there: they are entered in the books, tracked, and given to sinks.
    Delivery,
    /// A timer of a machine, or a tick.
    Timer,
    /// All others: sessions, workers, plans, gears and commands.
    Other,
}

impl ControlEvent {
    const fn name(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Result => "result",
            Self::Decision => "decision",
            Self::Delivery => "delivery",
            Self::Timer => "timer",
            Self::Other => "other",
        }
    }
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct ControlTimes(BTreeMap<ControlEvent, Histogram>);

impl ControlTimes {
    /// An event took so long by the clock, whatever else the processor did meanwhile.
    pub(crate) fn observe(&mut self, kind: ControlEvent, took: Span) {
        self.0.entry(kind).or_default().observe(took);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (kind, times) in &other.0 {
            self.0.entry(*kind).or_default().merge(times);
        }
    }

    pub(crate) fn report(&self) -> BTreeMap<String, ControlReport> {
        let report = |(kind, times): (&ControlEvent, &Histogram)| {
            let report = ControlReport {
                events: times.count(),
                total_s: times.sum().as_secs_f64(),
                took_ms: times.quantiles(),
            };
            (kind.name().to_owned(), report)
        };
        self.0.iter().map(report).collect()
    }
}
